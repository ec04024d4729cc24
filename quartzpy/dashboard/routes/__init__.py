"""The pages, one module each."""

from starlette.routing import BaseRoute

from quartzpy.dashboard.routes import (
    actions,
    audit,
    calendars,
    executions,
    groups,
    jobs,
    live,
    misfires,
    nodes,
    overview,
    search,
    system,
    timeline,
    triggers,
)

_PAGES = (
    *(overview, timeline),
    *(jobs, triggers, calendars, groups),
    *(executions, misfires, audit),
    *(nodes, system),
    *(actions, search, live),
)


def all_routes() -> list[BaseRoute]:
    """Return the routes of all pages."""
    return [route for page in _PAGES for route in page.routes]
