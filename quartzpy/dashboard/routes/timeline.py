"""The timeline: what ran, what runs and what is planned, in lanes by node or by job."""

from __future__ import annotations

from datetime import timedelta

from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from quartzpy.dashboard.drawing.timeline import draw_timeline
from quartzpy.dashboard.visit import Visit, page
from quartzpy.errors import InvalidValueError
from quartzpy.instants import zone as zone_of

_SPANS = {
    "5m": (timedelta(minutes=5), "5 minutes"),
    "": (timedelta(hours=1), "1 hour"),
    "6h": (timedelta(hours=6), "6 hours"),
    "1d": (timedelta(days=1), "1 day"),
    "3d": (timedelta(days=3), "3 days"),
}
_LANES = [("", "By job"), ("node", "By node")]


def timeline(visit: Visit) -> Response:
    chosen = visit.parameter("span") or ""
    if chosen not in _SPANS:
        raise InvalidValueError(f"span: must be one of {', '.join(filter(None, _SPANS))} (got {chosen!r})")
    span = _SPANS[chosen][0]
    seen = visit.operations.timeline(
        visit.times.now - span, visit.times.now + span, lanes=visit.parameter("lanes") or "job"
    )
    return visit.at(seen.now).render(
        "timeline.html",
        live="executions schedule nodes",
        seen=seen,
        drawing=draw_timeline(seen, zone_of(visit.times.zone_name)),
        spans=[(value, text) for value, (_, text) in _SPANS.items()],
        lanes=_LANES,
    )


routes: list[BaseRoute] = [Route("/timeline", page(timeline))]
