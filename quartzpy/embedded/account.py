"""The account that PostgreSQL's programs run as, and what they receive from this process."""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from quartzpy.errors import SettingsError
from quartzpy.texts import quoted

VARIABLE = "QUARTZPY_PG_USER"
UNPRIVILEGED = "nobody"
_PASSED_ON = ("PATH", "LANG", "LD_LIBRARY_PATH")
"""The variables that the programs receive. All others may hold secrets, and other processes of the server's account can
read them."""


@dataclass(frozen=True)
class Account:
    """An account of this machine other than that of this process."""

    name: str
    uid: int
    gid: int
    is_default: bool = False
    """Whether nobody has chosen it."""


def server_account(run_as: str | None = None, data: Path | None = None) -> Account | None:
    """Return the account that the programs run as; None is that of this process.

    PostgreSQL refuses to run as root. Root's server runs as `run_as`, otherwise as the user that `QUARTZPY_PG_USER`
    names, otherwise as the owner of `data`, if that exists, otherwise as `nobody`.

    Raises:
        SettingsError: there is no such user, this process may not become another user, or `data` belongs to another.
    """
    name = run_as or os.environ.get(VARIABLE) or None
    if os.geteuid() != 0:
        own = user_name(os.geteuid())
        if run_as not in (None, own, str(os.geteuid())):
            raise SettingsError(f"run_as: only root can run PostgreSQL as {quoted(run_as)}; this process is {own}")
        return None
    owner = _owner(data)
    if name is None and owner is not None:
        return owner
    chosen = _entry(name or UNPRIVILEGED, run_as)
    if owner is not None and owner.uid != chosen.uid:
        raise SettingsError(
            f"{data} belongs to {owner.name}, and PostgreSQL is to run as {chosen.name}: while no server runs in it,"
            f" run chown -R {chosen.name} {data}, or leave run_as and {VARIABLE} out"
        )
    return chosen


def user_name(uid: int) -> str:
    """Return the name of a user, or its number where /etc/passwd has no entry for it."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _owner(data: Path | None) -> Account | None:
    try:
        status = None if data is None else os.stat(data, follow_symlinks=False)
    except OSError:
        return None
    if status is None or status.st_uid == 0:
        return None
    return Account(user_name(status.st_uid), status.st_uid, status.st_gid, user_name(status.st_uid) == UNPRIVILEGED)


def _entry(name: str, run_as: str | None) -> Account:
    what = "run_as" if run_as else VARIABLE if os.environ.get(VARIABLE) else "root's PostgreSQL"
    try:
        entry = pwd.getpwuid(int(name)) if name.isascii() and name.isdigit() else pwd.getpwnam(name)
    except (KeyError, OverflowError):
        raise SettingsError(
            f"{what}: this machine has no user {quoted(name)}; make one, such as by useradd --system quartzpy, and name"
            f" it by run_as or {VARIABLE}"
        ) from None
    if entry.pw_uid == 0:
        raise SettingsError(f"{what}: PostgreSQL refuses to run as {entry.pw_name}; name another user, such as nobody")
    is_default = run_as is None and VARIABLE not in os.environ
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid, is_default)


def environment() -> dict[str, str]:
    """Return the environment of PostgreSQL's programs."""
    passed_on = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return {"PATH": os.defpath, **passed_on, "LC_ALL": "C", "TZ": "UTC"}


def run(
    command: Sequence[str | Path],
    account: Account | None,
    *,
    cwd: str | Path = "/",
    output: int | IO[Any] = subprocess.PIPE,
    pass_fds: Sequence[int] = (),
) -> subprocess.CompletedProcess[str]:
    """Run a command as an account to its end. A failure of the command does not raise.

    Raises:
        OSError: the command could not be started.
        SettingsError: this process may not become that user.
    """
    try:
        return subprocess.run(
            [str(part) for part in command],
            cwd=cwd,
            check=False,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment(),
            pass_fds=pass_fds,
            user=None if account is None else account.uid,
            group=None if account is None else account.gid,
            extra_groups=None if account is None else [],
        )
    except OSError:
        if account is not None and not _may_become(account):
            raise SettingsError(
                f"PostgreSQL refuses to run as root, and this process may not become the user {account.name}: run it"
                " as another user than root, or with the capabilities SETUID and SETGID"
            ) from None
        raise


def _may_become(account: Account) -> bool:
    try:
        subprocess.run(
            ["/bin/sh", "-c", ":"], check=False, env={}, user=account.uid, group=account.gid, extra_groups=[]
        )
    except OSError:
        return False
    return True


def reaches(account: Account | None, directory: Path) -> bool:
    """Return whether an account can change into a directory by its path."""
    return account is None or run(["/bin/sh", "-c", 'cd -- "$1"', "sh", directory], account).returncode == 0
