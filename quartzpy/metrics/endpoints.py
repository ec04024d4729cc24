"""The probes and the metrics over HTTP: a server of their own, or an ASGI or WSGI application to mount."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from quartzpy.errors import PluginStartError
from quartzpy.metrics.collector import Collector, Watched
from quartzpy.metrics.families import negotiated, rendered
from quartzpy.node.health import HealthState
from quartzpy.node.workers.executors import STUCK_POOL

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer of a probe. `problems` has the reasons if it is negative."""

    ok: bool
    state: HealthState
    problems: tuple[str, ...] = ()


def liveness(scheduler: Watched) -> Verdict:
    """Return whether the threads of the node make progress. If not, only a new process helps.

    An outage of the database is no reason to restart a process, so it does not count. A scheduler that was not started
    yet, or that drains, is alive.
    """
    health = scheduler.health()
    problems = [f"thread {thread.name} has ended" for thread in health.threads if not thread.alive]
    problems += [f"thread {thread.name} is overdue" for thread in health.threads if thread.alive and thread.overdue]
    if health.state is HealthState.FAILED:
        problems = [*health.problems]
    return Verdict(not problems, health.state, tuple(problems))


def readiness(scheduler: Watched) -> Verdict:
    """Return whether the node runs jobs: it has started; its tables are those of this release; its last check-in
    was answered; it holds a lease; and it is not draining. A node in standby is ready.
    """
    health = scheduler.health()
    if scheduler.is_shut_down:
        return Verdict(False, health.state, ("the scheduler is shutting down, or has stopped",))
    if health.state is HealthState.STOPPED:
        return Verdict(False, health.state, ("the scheduler has not started",))
    if health.is_draining:
        return Verdict(False, health.state, ("the node drains, as somebody has asked: it takes no triggers",))
    # Long jobs are no reason to keep requests from the program that runs them.
    problems = tuple(row.what for row in health.details if row.stops_work and row.kind != STUCK_POOL)
    return Verdict(health.state is HealthState.HEALTHY or not problems, health.state, problems)


Asgi = Callable[
    [MutableMapping[str, Any], Callable[[], Awaitable[Any]], Callable[[MutableMapping[str, Any]], Awaitable[None]]],
    Awaitable[None],
]
Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class Response(NamedTuple):
    """An HTTP response."""

    status: HTTPStatus
    content_type: str
    body: bytes

    def headers(self) -> list[tuple[str, str]]:
        return [
            ("Content-Type", self.content_type),
            ("Content-Length", str(len(self.body))),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
        ]


class Responder:
    """Answers the requests for one scheduler."""

    def __init__(self, scheduler: Watched, collector: Collector) -> None:
        self._scheduler = scheduler
        self._collector = collector

    def respond(self, method: str, path: str, accept: str = "") -> Response:
        """Return the response to a request. It never raises an error of a probe or of a metric."""
        if method not in ("GET", "HEAD"):
            return _text(HTTPStatus.METHOD_NOT_ALLOWED, "use GET\n")
        try:
            match path.rstrip("/"):
                # The empty path too, for an application that is mounted at /metrics.
                case "" | "/metrics":
                    return self._metrics(accept)
                case "/healthz":
                    return _verdict(liveness(self._scheduler))
                case "/readyz":
                    return _verdict(readiness(self._scheduler))
        except Exception:
            logger.exception("a request for %s failed", path)
            return _text(HTTPStatus.INTERNAL_SERVER_ERROR, "the request failed; the log of the node has the error\n")
        return _text(HTTPStatus.NOT_FOUND, "there are /metrics, /healthz and /readyz\n")

    def _metrics(self, accept: str) -> Response:
        content_type = negotiated(accept)
        return Response(HTTPStatus.OK, content_type, rendered(self._collector.collect(), content_type).encode())


def _text(status: HTTPStatus, text: str) -> Response:
    return Response(status, "text/plain; charset=utf-8", text.encode())


def _verdict(verdict: Verdict) -> Response:
    status = HTTPStatus.OK if verdict.ok else HTTPStatus.SERVICE_UNAVAILABLE
    body = json.dumps({"ok": verdict.ok, "state": str(verdict.state), "problems": list(verdict.problems)})
    return Response(status, "application/json", f"{body}\n".encode())


def asgi_of(responder: Responder) -> Asgi:
    """Return an ASGI application, to mount into another one."""

    async def application(
        scope: MutableMapping[str, Any],
        receive: Callable[[], Awaitable[Any]],
        send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
    ) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"the application for metrics answers HTTP requests (got {scope['type']!r})")
        accept = b", ".join(value for name, value in scope["headers"] if name == b"accept").decode("latin-1")
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        # On a thread, because a scrape may read the load of the cluster.
        response = await asyncio.to_thread(responder.respond, scope["method"], path, accept)
        headers = [(name.lower().encode(), value.encode()) for name, value in response.headers()]
        await send({"type": "http.response.start", "status": int(response.status), "headers": headers})
        body = b"" if scope["method"] == "HEAD" else response.body
        await send({"type": "http.response.body", "body": body})

    return application


def wsgi_of(responder: Responder) -> Wsgi:
    """Return a WSGI application, to mount into another one."""

    def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        method = environ["REQUEST_METHOD"]
        response = responder.respond(method, environ.get("PATH_INFO", ""), environ.get("HTTP_ACCEPT", ""))
        start_response(f"{response.status.value} {response.status.phrase}", response.headers())
        return [b"" if method == "HEAD" else response.body]

    return application


REQUEST_TIMEOUT = 5.0
"""The time, in seconds, in which the whole of a request has to arrive, and in which its answer has to be taken."""
MAX_REQUESTS = 16
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
        self._slots = threading.BoundedSemaphore(MAX_REQUESTS)
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
        seconds = self._deadline - time.monotonic()
        if seconds <= 0:
            raise TimeoutError("the request did not arrive in time")
        self._connection.settimeout(seconds)
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
