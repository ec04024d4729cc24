"""The audit log: what operators did, when, and why."""

from __future__ import annotations

from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from quartzpy.dashboard.filters import instant_filter, listed
from quartzpy.dashboard.visit import Visit, page
from quartzpy.states import ActionState

_STATES = [("", "All"), *((str(state), str(state).capitalize()) for state in ActionState)]


def audit_log(visit: Visit) -> Response:
    found = visit.operations.audit_log(
        **listed(visit),
        actor=visit.parameter("actor"),
        action=visit.parameter("action"),
        subject=visit.parameter("subject"),
        state=visit.parameter("state"),
        since=instant_filter(visit, "since"),
        until=instant_filter(visit, "until"),
    )
    return visit.render("audit.html", live="" if visit.parameter("after") else "schedule", page=found, states=_STATES)


routes: list[BaseRoute] = [Route("/audit", page(audit_log))]
