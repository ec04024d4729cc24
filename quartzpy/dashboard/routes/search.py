"""The search by a part of a name, or by the id of an execution."""

from __future__ import annotations

from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from quartzpy.dashboard.visit import Visit, page


def search(visit: Visit) -> Response:
    text = visit.parameter("q")
    found = None if text is None else visit.operations.search(text, after=visit.parameter("after"))
    return visit.render("search.html", text=text, found=found)


routes: list[BaseRoute] = [Route("/search", page(search))]
