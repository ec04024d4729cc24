"""The web page of a node on its own machine, served by a thread of the node's process."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from quartzpy.dashboard.app import create_app
from quartzpy.dashboard.auth import LocalToken
from quartzpy.dashboard.local_token import token_in
from quartzpy.dashboard.server import DashboardServer, listen
from quartzpy.errors import SettingsError
from quartzpy.operations.actions.action import local_user
from quartzpy.scheduler.scheduler import BaseScheduler

HOST = "127.0.0.1"
TRY_EVERY = 5.0
"""The time, in seconds, after which a port that another program has is tried again."""


class LocalPage:
    """Serves the page on loopback until it is closed. A port that is taken is tried again, and the jobs run meanwhile.

    Without `token_file`, it is read-only. With it, whoever has the token in that file may change things; the token is
    made at the first start, and `report` is called with a link that contains it.

    Raises:
        SettingsError: others may know the token.
    """

    def __init__(
        self,
        scheduler: BaseScheduler,
        port: int,
        *,
        token_file: Path | None,
        title: str,
        report: Callable[[str], None],
        try_every: float = TRY_EVERY,
    ) -> None:
        self._port = port
        self._token_file = token_file
        self._report = report
        self._try_every = try_every
        self._token, self._is_new = ("", False) if token_file is None else token_in(token_file)
        auth = LocalToken(self._token, local_user()) if self._token else None
        self._server = DashboardServer(create_app(scheduler, auth=auth, read_only=auth is None, title=title))
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="quartzpy-page", daemon=True)
        self._socket: socket.socket | None = None

    def __enter__(self) -> Self:
        try:
            self._listen()
        except SettingsError as error:
            self._report(f"no page yet: {error}; the jobs run, and it is tried again every {self._try_every:g} s")
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._server.handle_exit(signal.SIGTERM, None)
        self._thread.join(10)
        if self._socket is not None:
            self._socket.close()

    def _listen(self) -> None:
        self._socket = listen(HOST, self._port)
        address = f"http://{HOST}:{self._socket.getsockname()[1]}"
        changes = "actions allowed with its token" if self._token else "read-only"
        self._report(f"the page is {address}/ ({changes})")
        if self._token_file is None:
            return
        if self._is_new:
            # Once: the output may end up in a log.
            self._report(f"log in by {address}/login?token={self._token}")
            self._is_new = False
        self._report(f"the token is in {os.fspath(self._token_file)}")

    def _run(self) -> None:
        while self._socket is None:
            if self._ended.wait(self._try_every):
                return
            try:
                self._listen()
            except SettingsError:
                continue
        if not self._ended.is_set():
            self._server.run(sockets=[self._socket])
