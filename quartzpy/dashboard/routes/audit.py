"""The audit log: what operators did, when, and why; and one entry of it, with its progress."""

from __future__ import annotations

from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from quartzpy.dashboard.actions.background import BackgroundActions
from quartzpy.dashboard.filters import instant_filter, listed
from quartzpy.dashboard.live import AUDIT
from quartzpy.dashboard.visit import Visit, page
from quartzpy.operations.undoing import undoing
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


def audit_entry(visit: Visit) -> Response:
    action_id = visit.request.path_params["action_id"]
    entry = visit.operations.audit_entry(action_id)
    background: BackgroundActions = visit.request.app.state.background
    back = visit.parameter("next") or ""
    return visit.render(
        "audit_entry.html",
        live=f"{AUDIT} schedule" if entry.state is ActionState.RUNNING else "",
        entry=entry,
        total=background.total_of(action_id),
        undo=undoing(entry),
        back=back if visit.links.is_ours(back) else None,
    )


routes: list[BaseRoute] = [Route("/audit", page(audit_log)), Route("/audit/{action_id:int}", page(audit_entry))]
