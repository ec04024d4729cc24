"""The overview: what is wrong and why, first; then what runs, what is late, what failed, and what comes next."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from quartzpy.dashboard.drawing.plots import lateness_plot, throughput_plot
from quartzpy.dashboard.visit import Visit, page
from quartzpy.operations import Count
from quartzpy.states import TriggerState


def overview(visit: Visit) -> Response:
    seen = visit.operations.overview()
    return visit.at(seen.now).render(
        "overview.html",
        live="executions nodes schedule",
        seen=seen,
        paused=_sum(seen.counts, TriggerState.PAUSED, TriggerState.PAUSED_BLOCKED),
        throughput=throughput_plot(seen.throughput),
        lateness=lateness_plot(seen.lateness),
    )


def _sum(counts: Mapping[str, Count], *names: str) -> Count:
    found = [counts[name] for name in names if name in counts]
    return Count(sum(one.number for one in found), any(one.has_more for one in found))


routes: list[BaseRoute] = [Route("/", page(overview))]
