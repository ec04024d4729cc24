"""The stream of server-sent events that keeps open pages up to date."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from quartzpy.dashboard.live import LiveHub


async def live(request: Request) -> Response:
    hub: LiveHub = request.app.state.hub
    # Proxies such as nginx gather a response before they pass it on, unless a header forbids it.
    return StreamingResponse(hub.stream(), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


routes: list[BaseRoute] = [Route("/live", live)]
