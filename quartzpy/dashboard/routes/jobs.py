"""The list of jobs, and the page of one job."""

from __future__ import annotations

from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from quartzpy.dashboard.drawing.plots import run_bars
from quartzpy.dashboard.filters import job_filters, listed
from quartzpy.dashboard.links import job_key
from quartzpy.dashboard.visit import Visit, page
from quartzpy.errors import JobNotFoundError
from quartzpy.operations import possible
from quartzpy.states import JobMode

_MODES = [("", "All"), *((str(mode), str(mode).capitalize()) for mode in JobMode)]


def job_list(visit: Visit) -> Response:
    found = visit.operations.jobs(**listed(visit), **job_filters(visit))
    mode = visit.parameter("mode")
    offered = possible.on_some_job(set(JobMode) if mode is None else {JobMode(mode)})
    return visit.render("jobs.html", live="schedule executions", page=found, modes=_MODES, possible=offered)


def one_job(visit: Visit) -> Response:
    key = job_key(visit.request.query_params)
    try:
        view = visit.operations.job(key)
    except JobNotFoundError:
        if not visit.operations.has_run(key):
            raise
        # Links of the history lead here.
        return visit.render(
            "gone.html",
            status=404,
            key=key,
            place="/jobs",
            sentences=[f"Job {key} was deleted, or it went with its last trigger because it is not durable."],
            executions=visit.links.to("/executions", job=key.name, job_group=key.group),
        )
    return visit.render("job.html", live="schedule executions", view=view, bars=run_bars(view.last_runs))


routes: list[BaseRoute] = [Route("/jobs", page(job_list)), Route("/job", page(one_job))]
