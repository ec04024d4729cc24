"""What a release does beside building: `python -m tools.release check|sbom DIST` and `python -m tools.release pages`.

`check` reads the wheel and the sdist of a directory, and installs the wheel into an environment of its own with each
extra alone, under each Python that is here. It prints what it has checked and which Pythons are missing, and ends with
status 1 if something is wrong.

`sbom` writes the bill of materials of an installation with all extras of users beside the wheel, as CycloneDX.

`pages` sets `IS_RELEASED`, and rewrites the lines of the pages that install from a checkout.
"""

from __future__ import annotations

import argparse
import email
import json
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from tests.worlds.installed import python

ROOT = Path(__file__).resolve().parents[1]
VARIABLE = ROOT / "quartzpy" / "installing.py"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
LARGEST_WHEEL, LARGEST_SDIST = 1_800_000, 4_500_000
"""In bytes. Who needs more of it says in the commit what for."""
UNKNOWN_FORGE = "quartzpy.example"
"""The host of the addresses until a forge has the project; nobody can own a name below `.example`."""

EXTRAS = {
    "": "import quartzpy, quartzpy.testing; quartzpy.Scheduler('memory://').shutdown()",
    "all": "import psycopg, rich, quartzpy.dashboard, quartzpy.ext.celery, quartzpy.otel",
    "binary": "import psycopg; assert psycopg.pq.__impl__ == 'binary'",
    "celery": "import quartzpy.ext.celery.beat",
    "dask": "import quartzpy.node.engines.dask_cluster",
    "dashboard": "import quartzpy.dashboard.server; from quartzpy.dashboard import create_app",
    "django": (
        "from django.conf import settings; settings.configure(); import django; django.setup();"
        " import quartzpy.ext.django.management.commands.quartzpy, importlib.resources as r;"
        " from quartzpy.ext.django import QuartzBackend;"
        " assert (r.files('quartzpy.ext.django') / 'templates/quartzpy/list.html').is_file()"
    ),
    "embedded": "import rich.live; from quartzpy.embedded.binaries import find_programs; find_programs()",
    "exchanges": "from quartzpy import HolidayCalendar; assert HolidayCalendar.exchange('XNYS', years=2025)",
    "holidays": "from quartzpy import HolidayCalendar; assert HolidayCalendar.country('DE', years=2025)",
    "http": "import httpx, quartzpy.jobs.http",
    "import": "import javaobj.v2.main, quartzpy.migrate.java",
    "mcp": "import quartzpy.dashboard.mcp_server",
    "notify": "import apprise; assert apprise.Apprise().add('json://localhost')",
    "oidc": "import quartzpy.dashboard.oidc",
    "otel": "import quartzpy.otel",
    "rrule": "from quartzpy.triggers.recurrence_rule import _dateutil; _dateutil()",
    "terminal": "import rich.live, quartzpy.cli.top",
    "yaml": "import yaml, quartzpy.definitions.yaml_text",
}
"""What has to run where the wheel is installed with each extra alone, and nothing else."""


def project() -> dict[str, object]:
    settings: dict[str, object] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return settings


# --- what is in the files


def sources() -> dict[str, Path]:
    """Return the files that a wheel has, by their paths in it."""
    files = {}
    for folder, name in (("quartzpy", "quartzpy"), ("schema", "quartzpy/_schema")):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                files[f"{name}/{path.relative_to(ROOT / folder).as_posix()}"] = path
    return files


def wrong_in_wheel(wheel: Path) -> Iterator[str]:
    """Yield what is wrong with the contents, the metadata and the size of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        names = {info.filename for info in archive.infolist() if not info.is_dir()}
        about = next((name for name in names if name.endswith(".dist-info/METADATA")), None)
        if about is None:
            yield "it has no METADATA"
            return
        metadata = email.message_from_bytes(archive.read(about))
    described = {name for name in names if name.startswith(f"{about.split('/')[0]}/")}
    expected = set(sources())
    yield from (f"it lacks {name}" for name in sorted(expected - names))
    yield from (f"{name} does not belong into it" for name in sorted(names - described - expected))
    if f"{about.split('/')[0]}/licenses/LICENSE" not in described:
        yield "it lacks the license"
    if metadata["Version"] != project()["version"]:
        yield f"it is {metadata['Version']}, and pyproject.toml says {project()['version']}"
    if wheel.stat().st_size > LARGEST_WHEEL:
        yield f"it has {wheel.stat().st_size} bytes, more than {LARGEST_WHEEL}"
    readme = str(metadata.get_payload())
    yield from (
        f"its description has a link that an index cannot follow: {link}"
        for link in re.findall(r"\]\(((?!https?://|#)[^)]*)\)", readme)
    )


def wrong_in_sdist(sdist: Path) -> Iterator[str]:
    """Yield what is wrong with the contents and the size of an sdist."""
    with tarfile.open(sdist) as archive:
        files = {
            PurePosixPath(*PurePosixPath(member.name).parts[1:]) for member in archive.getmembers() if member.isfile()
        }
    expected = {PurePosixPath(path.relative_to(ROOT).as_posix()) for path in sources().values()}
    expected |= {PurePosixPath(name) for name in ("LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml", "PKG-INFO")}
    yield from (f"it lacks {path}" for path in sorted(expected - files))
    unwanted = {"__pycache__", "reference", "site", "node_modules"}
    for path in sorted(files):
        if unwanted.intersection(path.parts) or any(part.startswith(".") for part in path.parts[1:]):
            yield f"{path} does not belong into it"
    if sdist.stat().st_size > LARGEST_SDIST:
        yield f"it has {sdist.stat().st_size} bytes, more than {LARGEST_SDIST}"


def wrong_for_an_index() -> Iterator[str]:
    """Yield what nobody may publish yet."""
    if UNKNOWN_FORGE in (ROOT / "pyproject.toml").read_text(encoding="utf-8"):
        yield f"pyproject.toml has the addresses of {UNKNOWN_FORGE}: name the forge that has the project"
    if "IS_RELEASED = True" not in VARIABLE.read_text(encoding="utf-8"):
        yield "the pages install from a checkout: python -m tools.release pages"
    if "(unreleased)" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split("\n## ")[1]:
        yield "CHANGELOG.md calls the release unreleased: write its date"


# --- what an installation has


def _uv(*arguments: str | Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "uv", "--quiet", *map(str, arguments)], check=False, capture_output=True, text=True
    )
    if done.returncode:
        raise OSError(done.stderr.strip()[-500:])


def _install(wheel: Path, extra: str, environment: Path, interpreter: str) -> None:
    named = f"quartzpy[{extra}]" if extra else "quartzpy"
    _uv("venv", "--python", interpreter, environment)
    _uv("pip", "install", "--python", environment / "bin" / "python", f"{named} @ {wheel.resolve().as_uri()}")


def wrong_when_installed(wheel: Path, extra: str, interpreter: str) -> str | None:
    """Install a wheel with one extra, and return what fails in an empty directory; None if nothing does."""
    with tempfile.TemporaryDirectory() as place:
        environment, empty = Path(place, "environment"), Path(place, "empty")
        empty.mkdir()
        try:
            _install(wheel, extra, environment, interpreter)
        except OSError as error:
            return f"cannot be installed: {error}"
        command = [environment / "bin" / "python", "-I", "-c", EXTRAS[extra]]
        done = subprocess.run(list(map(str, command)), cwd=empty, check=False, capture_output=True, text=True)
    return done.stderr.strip()[-500:] if done.returncode else None


def check(directory: Path, *, for_index: bool) -> int:
    problems = list(wrong_for_an_index()) if for_index else []
    [wheel], [sdist] = directory.glob("*.whl"), directory.glob("*.tar.gz")
    for path, examined in ((wheel, wrong_in_wheel), (sdist, wrong_in_sdist)):
        problems += [f"{path.name}: {problem}" for problem in examined(path)]
        print(f"{path.name}: {path.stat().st_size} bytes")
    for version in PYTHONS:
        interpreter = python(version)
        if interpreter is None:
            print(f"Python {version}: not here, so nothing was installed under it")
            continue
        for extra in EXTRAS:
            wrong = wrong_when_installed(wheel, extra, interpreter)
            problems += [f"Python {version}, extra {extra or 'none'}: {wrong}"] if wrong else []
        print(f"Python {version}: installed alone and with each of {len(EXTRAS) - 1} extras")
    for problem in problems:
        print(f"wrong: {problem}", file=sys.stderr)
    return 1 if problems else 0


# --- the bill of materials


def bill_of_materials(environment: Path) -> str:
    """Return the bill of an environment in which quartzpy is installed, the same text for the same releases."""
    # Not by a pipe: a writer without a buffer (PYTHONUNBUFFERED) loses the rest of a write that a signal interrupts.
    file = environment / "bill.json"
    command = ["environment", "--pyproject", ROOT / "pyproject.toml", "--mc-type", "library", "--output-reproducible"]
    command += ["--output-file", file, environment / "bin" / "python"]
    subprocess.run([sys.executable, "-m", "cyclonedx_py", *map(str, command)], check=True, capture_output=True)
    bill = json.loads(file.read_bytes())
    for component in [*bill["components"], *bill["metadata"]["tools"]["components"]]:
        # A package URL names each component; its addresses change without a release.
        component.pop("externalReferences", None)
    return json.dumps(bill, indent=1, sort_keys=True) + "\n"


def sbom(directory: Path) -> None:
    [wheel] = directory.glob("*.whl")
    with tempfile.TemporaryDirectory() as place:
        environment = Path(place, "environment")
        _install(wheel, "all", environment, sys.executable)
        name = directory / f"quartzpy-{project()['version']}.cdx.json"
        name.write_text(bill_of_materials(environment), encoding="utf-8")
    print(name)


# --- the pages


def user_pages() -> Iterator[Path]:
    """Yield the pages whose readers have no checkout once there is a release."""
    yield ROOT / "README.md"
    for folder in ("docs", "examples"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".md", ".yaml") and not {"decisions", "reference"} & set(path.parts):
                yield path


def released(text: str) -> str:
    """Return a page as it is once quartzpy is on a package index."""
    text = re.sub(r"'[^'\s]*?(?:\.|/src)\[(?!dev|docs|bench|release)([a-z,]+)\]'", r"'quartzpy[\1]'", text)
    text = text.replace("quartzpy is not on PyPI yet: install it from a checkout. ", "")
    text = re.sub(r"In a checkout of (quartzpy, which is not on PyPI yet|the project):", "In an empty directory:", text)
    text = re.sub(r" +# [^\n]*in a checkout: quartzpy is not on PyPI yet$", "", text, flags=re.MULTILINE)
    text = text.replace("COPY . /src\nRUN pip install", "RUN pip install")
    return re.sub(r"(`pip install '[^`]*'`)\s+in\s+a\s+checkout", r"\1", text)


def pages() -> None:
    VARIABLE.write_text(VARIABLE.read_text(encoding="utf-8").replace("IS_RELEASED = False", "IS_RELEASED = True"))
    for path in user_pages():
        before = path.read_text(encoding="utf-8")
        if (after := released(before)) != before:
            path.write_text(after, encoding="utf-8")
            print(path.relative_to(ROOT))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.release", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    checking = commands.add_parser("check", help="check what was built")
    checking.add_argument("directory", type=Path)
    checking.add_argument("--for-index", action="store_true", help="check what a package index needs, too")
    listing = commands.add_parser("sbom", help="write the bill of materials")
    listing.add_argument("directory", type=Path)
    commands.add_parser("pages", help="let the pages install from the package index")
    arguments = parser.parse_args()
    if arguments.command == "check":
        return check(arguments.directory, for_index=arguments.for_index)
    if arguments.command == "sbom":
        sbom(arguments.directory)
    else:
        pages()
    return 0


if __name__ == "__main__":
    sys.exit(main())
