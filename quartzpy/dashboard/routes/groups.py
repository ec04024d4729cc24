"""Groups with their pauses, and limits with their headroom."""

from __future__ import annotations

from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from quartzpy.dashboard.visit import Visit, page


def groups(visit: Visit) -> Response:
    return visit.render(
        "groups.html",
        live="schedule executions nodes",
        groups=visit.operations.groups(),
        limits=visit.operations.limits(),
    )


routes: list[BaseRoute] = [Route("/groups", page(groups))]
