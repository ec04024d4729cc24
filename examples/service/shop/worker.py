"""A node of the cluster: `quartzpy node --app shop.worker:main`."""

from __future__ import annotations

from quartzpy import Scheduler
from shop.scheduling import declare, new_scheduler


def main() -> Scheduler:
    """The node's scheduler, with the declared schedules stored."""
    scheduler = new_scheduler()
    declare(scheduler)
    return scheduler
