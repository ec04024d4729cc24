"""The list of executions, and the page of one execution."""

from __future__ import annotations

from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from quartzpy.dashboard.drawing.plots import split_bar
from quartzpy.dashboard.filters import EXHAUSTED, execution_filters, job_filter, listed, trigger_filter
from quartzpy.dashboard.visit import Visit, page

_STATES = [
    ("", "Ended"),
    ("RUNNING", "Running"),
    ("SUCCEEDED", "Succeeded"),
    ("FAILED", "Failed"),
    (EXHAUSTED, "Failed, no retry"),
    ("TERMINATED", "Terminated"),
    ("CANCELLED", "Cancelled"),
    ("SKIPPED", "Skipped"),
    ("SNOOZED", "Snoozed"),
    ("SCHEDULED", "Scheduled"),
]
_SINCE = [("", "Any time"), ("15m", "Last 15 minutes"), ("1h", "Last hour"), ("1d", "Last day"), ("7d", "Last week")]


def execution_list(visit: Visit) -> Response:
    found = visit.operations.executions(**listed(visit), **execution_filters(visit))
    return visit.render(
        "executions.html",
        # The first page is live; a later one shows what was there when its cursor was made.
        live="" if visit.parameter("after") else "executions",
        page=found,
        states=_STATES,
        spans=_SINCE,
        job=job_filter(visit),
        trigger=trigger_filter(visit),
    )


def one_execution(visit: Visit) -> Response:
    view = visit.operations.execution(visit.request.path_params["fire_id"])
    # No event announces the progress and the log lines of a running execution.
    live = "executions schedule" if view.execution.ended_at is None else "executions"
    return visit.render("execution.html", live=live, view=view, bar=split_bar(view.execution, view.elapsed))


routes: list[BaseRoute] = [
    Route("/executions", page(execution_list)),
    Route("/executions/{fire_id}", page(one_execution)),
]
