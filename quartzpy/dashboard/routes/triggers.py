"""The list of triggers, and the page of one trigger."""

from __future__ import annotations

from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from quartzpy.dashboard.drawing.plots import run_bars
from quartzpy.dashboard.filters import LATE, job_filter, listed, trigger_filters
from quartzpy.dashboard.links import trigger_key
from quartzpy.dashboard.visit import Visit, page
from quartzpy.store.queries import TriggerOrder

_STATES = [
    ("", "All"),
    ("WAITING", "Waiting"),
    (LATE, "Late"),
    ("ACQUIRED", "Acquired"),
    ("BLOCKED", "Blocked"),
    ("PAUSED", "Paused"),
    ("ERROR", "Error"),
    ("COMPLETE", "Complete"),
]
_ORDERS = [(str(TriggerOrder.KEY), "Group and name"), (str(TriggerOrder.NEXT_FIRE_TIME), "Next fire time")]


def trigger_list(visit: Visit) -> Response:
    found = visit.operations.triggers(
        **listed(visit), **trigger_filters(visit), order_by=visit.parameter("order") or TriggerOrder.KEY
    )
    return visit.render(
        "triggers.html", live="schedule executions", page=found, states=_STATES, orders=_ORDERS, job=job_filter(visit)
    )


def one_trigger(visit: Visit) -> Response:
    view = visit.operations.trigger(trigger_key(visit.request.query_params))
    return visit.render("trigger.html", live="schedule executions", view=view, bars=run_bars(view.last_executions))


routes: list[BaseRoute] = [Route("/triggers", page(trigger_list)), Route("/trigger", page(one_trigger))]
