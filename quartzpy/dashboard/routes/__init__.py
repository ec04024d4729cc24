"""The pages, one module each."""

from starlette.routing import BaseRoute

from quartzpy.dashboard.routes import (
    actions,
    executions,
    jobs,
    live,
    misfires,
    nodes,
    overview,
    triggers,
)


def all_routes() -> list[BaseRoute]:
    """Return the routes of all pages."""
    return [
        *overview.routes,
        *jobs.routes,
        *triggers.routes,
        *executions.routes,
        *misfires.routes,
        *nodes.routes,
        *actions.routes,
        *live.routes,
    ]
