"""The list of misfires."""

from __future__ import annotations

from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from quartzpy.dashboard.filters import instant_filter, job_filter, listed, trigger_filter
from quartzpy.dashboard.visit import Visit, page
from quartzpy.states import MisfireAction

_ACTIONS = [("", "All"), *((str(action), str(action).replace("_", " ").capitalize()) for action in MisfireAction)]


def misfire_list(visit: Visit) -> Response:
    found = visit.operations.misfires(
        **listed(visit),
        trigger=trigger_filter(visit),
        job=job_filter(visit),
        action=visit.parameter("action"),
        node=visit.parameter("node"),
        since=instant_filter(visit, "since"),
        until=instant_filter(visit, "until"),
    )
    live = "" if visit.parameter("after") else "schedule"
    return visit.render("misfires.html", live=live, page=found, actions=_ACTIONS)


routes: list[BaseRoute] = [Route("/misfires", page(misfire_list))]
