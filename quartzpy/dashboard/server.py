"""The server of `quartzpy dashboard`."""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

import h11
import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from quartzpy.dashboard.live import LiveHub
from quartzpy.errors import SettingsError

GRACE = 3
"""The time, in seconds, that open requests have to end after a signal."""
HEADER_TIMEOUT = 10.0
"""The time, in seconds, in which the line and the headers of a request have to arrive."""
MAX_HEADER_BYTES = 65_536
"""The largest size of the line and the headers of a request, in bytes; a longer one is answered with status 400."""


class DashboardServer(uvicorn.Server):
    """A server that ends the live streams at a signal. They never end by themselves, and would delay the exit."""

    def __init__(
        self,
        app: Starlette,
        root_path: str = "",
        *,
        trusted_proxies: Sequence[str] = (),
        header_timeout: float = HEADER_TIMEOUT,
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                root_path=root_path,
                log_level="warning",
                server_header=False,
                # The client's address decides who is admitted without authentication, so only the headers of a proxy
                # that the operator named may replace it.
                proxy_headers=bool(trusted_proxies),
                forwarded_allow_ips=list(trusted_proxies),
                http=_limited(header_timeout),
                h11_max_incomplete_event_size=MAX_HEADER_BYTES,
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

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the open requests, and close what is left of the connections after the grace, which uvicorn does not."""
        await super().shutdown(sockets)
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        # The event loop closes a socket in its next round.
        await asyncio.sleep(0)


def _limited(header_timeout: float) -> type[H11Protocol]:
    """Return uvicorn's protocol with a limit that it lacks: the time in which the headers of a request arrive."""

    class Limited(H11Protocol):
        _expiry: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._watch()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            if self._expiry is not None:
                self._expiry.cancel()
                self._expiry = None

        def _watch(self) -> None:
            # More of the same headers does not put the end off.
            waits = self.conn.their_state is h11.IDLE and not self.transport.is_closing()
            if waits and self._expiry is None:
                self._expiry = self.loop.call_later(header_timeout, self._expire)
            elif not waits and self._expiry is not None:
                self._expiry.cancel()
                self._expiry = None

        def _expire(self) -> None:
            self._expiry = None
            self.transport.close()

    return Limited


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
