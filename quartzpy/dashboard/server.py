"""The server of `quartzpy dashboard`."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import uvicorn
from starlette.applications import Starlette

from quartzpy.dashboard.live import LiveHub
from quartzpy.errors import SettingsError

GRACE = 3
"""The time, in seconds, that open requests have to end after a signal."""


class DashboardServer(uvicorn.Server):
    """A server that ends the live streams at a signal. They never end by themselves, and would delay the exit."""

    def __init__(self, app: Starlette, root_path: str = "") -> None:
        super().__init__(
            uvicorn.Config(
                app,
                root_path=root_path,
                log_level="warning",
                server_header=False,
                # The client's address decides who is admitted without authentication, so no header may replace it.
                proxy_headers=False,
                timeout_graceful_shutdown=GRACE,
            )
        )
        self._hub: LiveHub = app.state.hub

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals while the server runs. uvicorn sends them to the process once more at its end; this does not,
        because a server that ended as it was asked to has succeeded.
        """
        if threading.current_thread() is not threading.main_thread():
            # Only the main thread may handle signals; another one is ended by `handle_exit`.
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._hub.close()
        super().handle_exit(sig, frame)


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on an address. Port 0 is any free port.

    Raises:
        SettingsError: the address is not one of this machine, or another program listens there.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise SettingsError(
            f"cannot listen on {host}, port {port}: {error.strerror or error}; choose another one with --port"
        ) from error
