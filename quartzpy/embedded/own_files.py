"""Files in directories that other users may write to: opened without following links, and only if they are ours."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Collection
from pathlib import Path

from quartzpy.embedded.account import user_name
from quartzpy.errors import SettingsError


def open_own(path: Path, flags: int, owners: Collection[int]) -> int:
    """Open a regular file that one of these users owns, and return its descriptor. One that is made has the mode 0600.

    Raises:
        FileNotFoundError: it is missing, and `flags` do not make it.
        SettingsError: it is a link, no regular file, has a second name, or belongs to another user.
    """
    try:
        # A named pipe must not make the call wait.
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK):
            raise SettingsError(f"{path} is a link, and is not followed: remove it, or use another directory") from None
        if error.errno == errno.ENXIO:
            raise SettingsError(f"{path} is no regular file: remove it, or use another directory") from None
        raise
    status = os.fstat(descriptor)
    wrong = (
        "is no regular file"
        if not stat.S_ISREG(status.st_mode)
        else f"belongs to {user_name(status.st_uid)}"
        if status.st_uid not in owners
        else "has a second name (a hard link)"
        if status.st_nlink > 1
        else None
    )
    if wrong is not None:
        os.close(descriptor)
        ours = " or ".join(user_name(uid) for uid in sorted(owners))
        raise SettingsError(f"{path} {wrong}; expected a file of {ours}: remove it, or use another directory")
    return descriptor


def read_own(path: Path, owners: Collection[int]) -> str:
    """Return the text of a file. Errors as for `open_own`."""
    with os.fdopen(open_own(path, os.O_RDONLY, owners), errors="replace") as file:
        return file.read()


def replace(path: Path, text: str, owner: tuple[int, int] | None = None) -> None:
    """Write a file anew, with the mode 0600, in one step for its readers. `owner` is its user and group, if not ours.

    What was at its path is removed, whatever it was; a link's target stays as it is.
    """
    unfinished = path.with_name(f".{path.name}-{os.getpid()}")
    unfinished.unlink(missing_ok=True)
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            if owner is not None:
                os.fchown(descriptor, *owner)
        os.replace(unfinished, path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def make_directory_of_root(path: Path) -> None:
    """Make a directory that everybody can read and only root can write to, or check that it is one.

    Raises:
        SettingsError: it cannot be made, or something else is there; the message says what.
    """
    made = False
    try:
        os.mkdir(path, 0o755)
        made = True
    except FileExistsError:
        pass
    except OSError as error:
        raise SettingsError(f"{path} cannot be made: {error.strerror}") from None
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        raise SettingsError(f"{path} is no directory, or a link") from None
    try:
        if made:
            os.fchmod(descriptor, 0o755)  # also with a umask of 077
        status = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    mode = stat.S_IMODE(status.st_mode)
    if status.st_uid != 0 or mode & 0o022 or mode & 0o055 != 0o055:
        raise SettingsError(
            f"{path} belongs to {user_name(status.st_uid)} and has the mode {mode:04o}; expected root and 0755"
        )
