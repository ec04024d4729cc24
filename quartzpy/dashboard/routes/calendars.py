"""The list of calendars, and a year of one calendar."""

from __future__ import annotations

from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from quartzpy.dashboard.drawing.year import draw_year
from quartzpy.dashboard.visit import Visit, page
from quartzpy.errors import InvalidValueError
from quartzpy.instants import zone


def calendar_list(visit: Visit) -> Response:
    return visit.render("calendars.html", live="schedule", found=visit.operations.calendars())


def one_calendar(visit: Visit) -> Response:
    name, year = visit.parameter("name"), visit.parameter("year")
    if name is None:
        raise InvalidValueError("name: the link must say which calendar, as ?name=NAME")
    if year is not None and not (year.isascii() and year.isdigit() and len(year) == 4):
        raise InvalidValueError(f"year: must be a year such as 2026 (got {year!r})")
    view = visit.operations.calendar(name, None if year is None else int(year))
    today = visit.times.now.astimezone(zone(view.calendar.zone or "UTC")).date()
    drawing = draw_year(view.year, view.excluded, view.partly_excluded, today)
    return visit.render("calendar.html", view=view, drawing=drawing)


routes: list[BaseRoute] = [Route("/calendars", page(calendar_list)), Route("/calendar", page(one_calendar))]
