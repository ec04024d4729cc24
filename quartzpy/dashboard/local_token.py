"""The token of a page that may change things on its own machine, where nobody has set one."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from quartzpy.errors import SettingsError

LONGEST = 1_000


def new_token() -> str:
    """Return a random token."""
    return secrets.token_urlsafe(32)


def token_in(path: Path) -> tuple[str, bool]:
    """Return the token in a file that only its owner can read, and whether the file was made now.

    Raises:
        SettingsError: the file is a link, belongs to somebody else, may be read by others, or cannot be written.
    """
    token = new_token()
    try:
        # Nobody else may have made it, nor led it elsewhere.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        return _read(path), False
    except OSError as error:
        raise SettingsError(f"{path}: the token of the page cannot be written: {error.strerror}") from error
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(f"{token}\n")
    return token, True


def _read(path: Path) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError as error:
        raise SettingsError(f"{path}: the token of the page cannot be read: {error.strerror}") from error
    with os.fdopen(descriptor, encoding="utf-8", errors="replace") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
            raise SettingsError(f"{path}: others may know the token of the page; remove the file for a new one")
        token = file.read(LONGEST).strip()
    if not token:
        raise SettingsError(f"{path}: is empty; remove the file for a new token")
    return token
