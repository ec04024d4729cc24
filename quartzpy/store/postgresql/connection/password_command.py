"""Passwords that expire: the output of a command, run again before a new connection needs another one.

Providers issue tokens in place of passwords (RDS for 15 minutes, Azure and Google Cloud for about an hour). A token is
needed to connect; a connection that exists outlives it.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

import psycopg

from quartzpy.config.setting_checks import words_of_command
from quartzpy.errors import StoreUnavailableError
from quartzpy.store.postgresql.connection.error_translation import is_login_refused
from quartzpy.store.postgresql.connection.urls import scrubbed
from quartzpy.texts import quoted

REUSED_FOR = timedelta(minutes=1)
"""The time for which a password is reused. A node opens several connections at once, and a command can take a second.
No provider's token lives for less than several minutes."""
LONGEST_RUN = timedelta(seconds=30)
_MAX_BYTES = 65_536
_T = TypeVar("_T")


class PasswordCommand:
    """The command that prints the password, and the password while it is young."""

    def __init__(self, command: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._words = words_of_command(command)
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._password: str | None = None
        self._made_at = 0.0

    def connect(self, connect: Callable[[str], _T]) -> _T:
        """Return what `connect` returns with the password, or with a new one if the server refuses one that was reused.

        Raises:
            StoreUnavailableError: the command failed, printed no password, or took longer than 30 seconds.
            psycopg.Error: that of `connect`.
        """
        password, is_new = self._current()
        try:
            return connect(password)
        except psycopg.OperationalError as error:
            if not is_login_refused(error):
                raise
            self._forget(password)
            if is_new:
                raise
        return connect(self._current()[0])

    def _current(self) -> tuple[str, bool]:
        """Return the password, and True if this call has made it."""
        # One run serves all threads that wait for it.
        with self._lock:
            if self._password is not None and self._monotonic() - self._made_at < REUSED_FOR.total_seconds():
                return self._password, False
            self._password, self._made_at = None, self._monotonic()
            self._password = self._run()
            return self._password, True

    def _forget(self, password: str) -> None:
        with self._lock:
            if self._password == password:
                self._password = None

    def _run(self) -> str:
        program = quoted(self._words[0])
        try:
            ended = subprocess.run(
                self._words,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=LONGEST_RUN.total_seconds(),
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise StoreUnavailableError(
                f"password_command: {program} has not ended within {LONGEST_RUN.total_seconds():.0f} seconds"
            ) from None
        except OSError as error:
            raise StoreUnavailableError(f"password_command: {program} cannot be run: {error.strerror}") from error
        if ended.returncode != 0 or not ended.stdout.strip():
            said = scrubbed(ended.stderr.decode(errors="replace").strip())[-500:]
            what = f"status {ended.returncode}{'' if ended.returncode else ' and printed nothing'}"
            raise StoreUnavailableError(f"password_command: {program} ended with {what}{f': {said}' if said else ''}")
        try:
            password = ended.stdout[: _MAX_BYTES + 1].decode().strip("\r\n")
        except UnicodeDecodeError:
            password = ""
        # The message shows nothing of the output, which may be a part of a secret.
        if not password or len(password) > _MAX_BYTES or "\n" in password or "\0" in password:
            raise StoreUnavailableError(f"password_command: {program} must print the password as one line of UTF-8")
        return password
