"""Copies of PostgreSQL's programs, for an account that cannot reach the original, such as below /root.

Each copy has its own directory, in a directory that only root can write to. Its name is computed from the original: its
path, and the size and time of each file. A copy is used only while it is whole.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from quartzpy.embedded.account import Account
from quartzpy.embedded.own_files import make_directory_of_root, open_own, read_own, replace
from quartzpy.errors import SettingsError

PLACES = (Path("/var/lib/quartzpy-embedded"), Path("/var/tmp/quartzpy"))  # noqa: S108 - owner and mode are checked
"""The directories of root that may hold copies, and the servers of root's demos. The first that can be used is used."""
UNUSED_FOR = 30 * 86_400
"""The time, in seconds, after which a copy that nobody uses is removed."""
_ORIGIN = "origin"
_COPY = re.compile(r"postgres-[0-9a-f]{16}", re.ASCII)

Files = Mapping[str, tuple[int, int, int]]
"""Of each file, by its path below the base: its size, its time of change in ns, and its mode in a copy."""


def place_of_root() -> Path:
    """Return the first of the directories of root that is safe, and make it if it is missing.

    Raises:
        SettingsError: none is; the message says why.
    """
    return next(_places([]))


def _places(refusals: list[str]) -> Iterator[Path]:
    for place in PLACES:
        try:
            make_directory_of_root(place)
        except SettingsError as error:
            refusals.append(str(error))
        else:
            yield place
    raise SettingsError(f"no directory of root can be used for what PostgreSQL needs: {'; '.join(refusals)}")


def copied(programs: Path, account: Account) -> Iterator[Path]:
    """Yield the directory of the programs in a whole copy, in each place in turn that can hold one.

    Raises:
        SettingsError: there is no further place; the message says why.
    """
    base, trees = _trees(programs)
    files = _files(base, trees)
    text = "\n".join([str(base), *(f"{name} {values}" for name, values in sorted(files.items()))])
    name = f"postgres-{hashlib.sha256(text.encode(errors='surrogateescape')).hexdigest()[:16]}"
    _remove_all_old(name, programs)
    refusals: list[str] = []
    for place in _places(refusals):
        copy = place / name
        with _lock(place):
            if not _is_whole(copy, files):
                try:
                    _make(copy, base, files, programs)
                except OSError as error:
                    refusals.append(f"{place}: {error.strerror or error}")
                    continue
            os.utime(copy / _ORIGIN)
        refusals.append(f"the programs in {copy} do not run as {account.name}")
        yield copy / programs.relative_to(base)


def _trees(programs: Path) -> tuple[Path, list[Path]]:
    """Return what belongs to the programs: a base directory, and the trees below it.

    The libraries of a wheel are beside its package, in `PACKAGE.libs`, and found by a path relative to the program.
    """
    installation = programs.parent
    base, trees = installation.parent, [installation]
    for directory in (installation, *list(installation.parents)[:2]):
        libraries = directory.with_name(f"{directory.name}.libs") if directory.name else None
        if libraries is not None and libraries.is_dir():
            base = directory.parent
            trees.append(libraries)
    return base, trees


def _files(base: Path, trees: list[Path]) -> Files:
    """Return the files of an original. Links are followed: their targets may be where the account cannot reach them."""
    files = {}
    for tree in trees:
        visited = set()
        for directory, folders, names in os.walk(tree, followlinks=True):
            real = os.path.realpath(directory)
            if real in visited:
                folders.clear()
                continue
            visited.add(real)
            for name in names:
                path = Path(directory, name)
                try:
                    status = path.stat()
                except OSError:
                    continue  # a link without a target
                if stat.S_ISREG(status.st_mode):
                    mode = 0o755 if status.st_mode & 0o100 else 0o644
                    files[str(path.relative_to(base))] = status.st_size, status.st_mtime_ns, mode
    return files


def _is_whole(copy: Path, files: Files) -> bool:
    try:
        return all(_agrees((copy / name).lstat(), *values) for name, values in files.items()) and bool(
            read_own(copy / _ORIGIN, [0])
        )
    except (OSError, SettingsError):
        return False


def _agrees(status: os.stat_result, size: int, changed: int, mode: int) -> bool:
    return (
        stat.S_ISREG(status.st_mode)
        and status.st_uid == 0
        and (status.st_size, status.st_mtime_ns, stat.S_IMODE(status.st_mode)) == (size, changed, mode)
    )


def _make(copy: Path, base: Path, files: Files, programs: Path) -> None:
    """Make a copy anew. The caller holds the lock."""
    unfinished = copy.with_name(f".{copy.name}")
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        for name, (_, changed, mode) in files.items():
            target = unfinished / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(base / name, target)
            target.chmod(mode)
            os.utime(target, ns=(changed, changed))
        replace(unfinished / _ORIGIN, f"{programs}\n")
        for directory, _, _ in os.walk(unfinished):
            Path(directory).chmod(0o755)
        if copy.exists():
            shutil.rmtree(copy)
        unfinished.rename(copy)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


@contextmanager
def _lock(place: Path) -> Iterator[None]:
    """Let one process at a time make and remove copies."""
    descriptor = open_own(place / "copies.lock", os.O_RDWR | os.O_CREAT, [0])
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _remove_all_old(name: str, programs: Path) -> None:
    for place in PLACES:
        if place.is_dir():
            with suppress(SettingsError):
                make_directory_of_root(place)
                with _lock(place):
                    _remove_old(place, name, programs)


def _remove_old(place: Path, name: str, programs: Path) -> None:
    """Remove copies whose original has changed or is gone, or that nobody has used for long, and unfinished ones."""
    old = [
        directory
        for directory in place.iterdir()
        if _COPY.fullmatch(directory.name.removeprefix(".")) and _is_old(directory, name, programs)
    ]
    if not old:
        return
    used = _programs_that_run()
    for directory in old:
        if used is not None and not any(path.startswith(f"{directory}/") for path in used):
            shutil.rmtree(directory, ignore_errors=True)


def _is_old(directory: Path, name: str, programs: Path) -> bool:
    if directory.name == name:
        return False
    try:
        origin = Path(read_own(directory / _ORIGIN, [0]).rstrip("\n"))
        is_unused = time.time() - (directory / _ORIGIN).lstat().st_mtime > UNUSED_FOR
    except (OSError, SettingsError):
        return True
    return is_unused or origin == programs or not origin.is_dir()


def _programs_that_run() -> set[str] | None:
    """Return the paths of the programs that run on this machine; None if the system does not say it."""
    processes = Path("/proc")
    if not Path("/proc/self/exe").exists():
        return None
    paths = set()
    for process in processes.iterdir():
        if process.name.isdigit():
            try:
                paths.add(os.readlink(process / "exe"))
            except OSError:
                continue  # it has ended
    return paths
