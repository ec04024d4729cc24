"""The nodes of the cluster."""

from __future__ import annotations

from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from quartzpy.dashboard.visit import Visit, page


def nodes(visit: Visit) -> Response:
    seen = visit.operations.cluster()
    return visit.at(seen.now).render("nodes.html", live="nodes schedule executions", seen=seen)


routes: list[BaseRoute] = [Route("/nodes", page(nodes))]
