"""The system: the store, its tables and locks, and on request the findings of an examination."""

from __future__ import annotations

from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from quartzpy.dashboard.visit import Visit, page


def system(visit: Visit) -> Response:
    # The examination reads much more than the rest, so it happens once, at a click.
    examine = visit.parameter("examine") is not None
    seen = visit.operations.system(examine=examine)
    return visit.at(seen.now).render("system.html", live="" if examine else "schedule", seen=seen)


routes: list[BaseRoute] = [Route("/system", page(system))]
