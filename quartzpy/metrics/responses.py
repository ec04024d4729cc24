"""The answers to HTTP requests for metrics and probes, and the applications that give them: ASGI and WSGI."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from http import HTTPStatus
from typing import Any, NamedTuple

from quartzpy.metrics.collector import Collector, Watched
from quartzpy.metrics.exposition import negotiated, rendered
from quartzpy.metrics.probes import Verdict, liveness, readiness

logger = logging.getLogger(__name__)

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
