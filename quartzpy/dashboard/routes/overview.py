"""The overview: what is wrong and why, first; then what runs, what is late, what failed, and what comes next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from quartzpy.dashboard.drawing.plots import lateness_plot, throughput_plot
from quartzpy.dashboard.visit import Visit, page
from quartzpy.operations import Count, PlannedRun
from quartzpy.states import TriggerState


def overview(visit: Visit) -> Response:
    seen = visit.operations.overview()
    return visit.at(seen.now).render(
        "overview.html",
        live="executions nodes schedule",
        seen=seen,
        agenda=_by_trigger(seen.agenda),
        paused=_sum(seen.counts, TriggerState.PAUSED, TriggerState.PAUSED_BLOCKED),
        throughput=throughput_plot(seen.throughput),
        lateness=lateness_plot(seen.lateness),
    )


def _by_trigger(runs: Sequence[PlannedRun]) -> list[tuple[PlannedRun, int]]:
    """Return the first run of each trigger with the number of its runs, so that quick triggers do not fill the list."""
    counts = Counter(run.trigger for run in runs)
    first = {run.trigger: run for run in reversed(runs)}
    return sorted(((run, counts[key]) for key, run in first.items()), key=lambda found: found[0].at)


def _sum(counts: Mapping[str, Count], *names: str) -> Count:
    found = [counts[name] for name in names if name in counts]
    return Count(sum(one.number for one in found), any(one.has_more for one in found))


routes: list[BaseRoute] = [Route("/", page(overview))]
