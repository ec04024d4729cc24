"""The stream of server-sent events that keeps open pages up to date."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from quartzpy.dashboard import cookies, csrf
from quartzpy.dashboard.live import LiveHub, TooManyStreamsError, Watcher

RETRY_AFTER = 10
"""The time, in seconds, after which a page that got no stream asks again."""


async def live(request: Request) -> Response:
    hub: LiveHub = request.app.state.hub
    try:
        return _Stream(hub, hub.open(_reader(request)))
    except TooManyStreamsError as error:
        status = 429 if error.of_one else 503
        return PlainTextResponse(f"{error}; close some\n", status, {"Retry-After": str(RETRY_AFTER)})


def _reader(request: Request) -> object:
    """Whom a stream is counted for: a session that was checked, else a browser of an actor."""
    if (session := getattr(request.state, "session", None)) is not None:
        return session
    address = request.client.host if request.client else ""
    return request.state.actor.name, address, cookies.read(request, csrf.COOKIE)


class _Stream(StreamingResponse):
    def __init__(self, hub: LiveHub, watcher: Watcher) -> None:
        # Proxies such as nginx gather a response before they pass it on, unless a header forbids it.
        unbuffered = {"X-Accel-Buffering": "no"}
        super().__init__(hub.stream(watcher), media_type="text/event-stream", headers=unbuffered)
        self._hub = hub
        self._watcher = watcher

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            # The stream does not end by itself if it has not begun.
            self._hub.leave(self._watcher)


routes: list[BaseRoute] = [Route("/live", live)]
