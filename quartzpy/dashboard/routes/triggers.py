"""The list of triggers, and the page of one trigger."""

from __future__ import annotations

from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from quartzpy.dashboard.drawing.plots import run_bars
from quartzpy.dashboard.filters import LATE, job_filter, listed, trigger_filters
from quartzpy.dashboard.links import trigger_key
from quartzpy.dashboard.visit import Visit, page
from quartzpy.errors import TriggerNotFoundError
from quartzpy.keys import TriggerKey
from quartzpy.operations import possible
from quartzpy.states import TriggerState
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
        "triggers.html",
        live="schedule executions",
        page=found,
        states=_STATES,
        orders=_ORDERS,
        job=job_filter(visit),
        possible=possible.on_some_trigger(_shown(visit.parameter("state"))),
    )


def _shown(state: str | None) -> set[TriggerState]:
    """Return the states that a list with this filter can contain."""
    if state is None:
        return set(TriggerState)
    return {TriggerState.WAITING if state == LATE else TriggerState(state)}


def one_trigger(visit: Visit) -> Response:
    key = trigger_key(visit.request.query_params)
    try:
        view = visit.operations.trigger(key)
    except TriggerNotFoundError as missing:
        return _gone(visit, key, missing)
    return visit.render("trigger.html", live="schedule executions", view=view, bars=run_bars(view.last_executions))


def _gone(visit: Visit, key: TriggerKey, missing: TriggerNotFoundError) -> Response:
    """Return the page of a trigger that only the history knows, as that of each manual run and each retry.

    Raises:
        TriggerNotFoundError: the history does not know it either.
    """
    try:
        sentences = visit.operations.why(key)
    except TriggerNotFoundError:
        # That error suggests the nearest key.
        raise missing from None
    executions = visit.links.to("/executions", trigger=key.name, trigger_group=key.group)
    return visit.render("gone.html", status=404, key=key, place="/triggers", sentences=sentences, executions=executions)


routes: list[BaseRoute] = [Route("/triggers", page(trigger_list)), Route("/trigger", page(one_trigger))]
