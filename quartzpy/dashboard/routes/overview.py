"""The overview: what is wrong and why, first; then what runs, what is late, what failed, and what comes next."""

from __future__ import annotations

from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from quartzpy.dashboard.drawing.plots import lateness_plot, throughput_plot
from quartzpy.dashboard.visit import Visit, page


def overview(visit: Visit) -> Response:
    seen = visit.operations.overview()
    return visit.at(seen.now).render(
        "overview.html",
        live="executions nodes schedule",
        seen=seen,
        throughput=throughput_plot(seen.throughput),
        lateness=lateness_plot(seen.lateness),
    )


routes: list[BaseRoute] = [Route("/", page(overview))]
