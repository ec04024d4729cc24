"""The nodes of the cluster: all of them, or the one that a link names."""

from __future__ import annotations

from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from quartzpy.dashboard.visit import Visit, page


def nodes(visit: Visit) -> Response:
    seen, chosen = visit.operations.cluster(), visit.parameter("node")
    shown = [node for node in seen.nodes if chosen is None or node.node == chosen]
    return visit.at(seen.now).render(
        "nodes.html", live="nodes schedule executions", seen=seen, nodes=shown, chosen=chosen
    )


routes: list[BaseRoute] = [Route("/nodes", page(nodes))]
