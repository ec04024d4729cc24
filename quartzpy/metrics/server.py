"""A small HTTP server for metrics and probes, on threads of its own, so that a busy node still answers."""

from __future__ import annotations

import io
import socket
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from quartzpy.errors import PluginStartError
from quartzpy.metrics.responses import Responder

REQUEST_TIMEOUT = 5.0
"""The time, in seconds, in which the whole of a request has to arrive, and in which its answer has to be taken."""
MOST_REQUESTS = 16
"""The largest number of requests that are answered at the same time. Further connections are closed."""


class MetricsServer:
    """Serves a responder at an address. Port 0 takes any free port; `port` has the one that was taken."""

    def __init__(self, responder: Responder, host: str, port: int) -> None:
        """Listen at the address.

        Raises:
            PluginStartError: the address cannot be used, for example because another process listens there.
        """
        try:
            self._server = _Server((host, port), _handler_of(responder))
        except OSError as error:
            raise PluginStartError(f"metrics: cannot listen at {host}:{port}: {error}") from error
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._serve, name=f"quartzpy-metrics-{self.port}", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        self._server.serve_forever(poll_interval=0.1)

    def close(self) -> None:
        """Stop listening. Requests that are being answered end by themselves."""
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # Otherwise `server_close` would wait for clients that send nothing.
    block_on_close = False

    def __init__(self, address: tuple[str, int], handler: Callable[..., BaseHTTPRequestHandler]) -> None:
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        self._slots = threading.BoundedSemaphore(MOST_REQUESTS)
        super().__init__(address, handler)

    def server_bind(self) -> None:
        # The base class asks the DNS for the name of the address, which may block.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._slots.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            # The system refused another thread.
            self._slots.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._slots.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Do nothing: the client has gone, or sent no request."""


class _Arriving(io.RawIOBase):
    """The bytes of a request until its deadline, which those that arrive one by one do not put off."""

    def __init__(self, connection: socket.socket, timeout: float) -> None:
        self._connection = connection
        self._deadline = time.monotonic() + timeout

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the request did not arrive in time")
        self._connection.settimeout(left)
        return self._connection.recv_into(buffer)


def _handler_of(responder: Responder) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = REQUEST_TIMEOUT
        server_version = "quartzpy"
        sys_version = ""

        def setup(self) -> None:
            super().setup()
            self.rfile = io.BufferedReader(_Arriving(self.connection, REQUEST_TIMEOUT))

        def do_GET(self) -> None:
            self.connection.settimeout(REQUEST_TIMEOUT)
            response = responder.respond(self.command, urlsplit(self.path).path, self.headers.get("Accept", ""))
            self.send_response(response.status)
            for name, value in response.headers():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(response.body)

        do_HEAD = do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815 - the names are http.server's

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the same
            """Log nothing: a probe comes every few seconds."""

    return Handler
