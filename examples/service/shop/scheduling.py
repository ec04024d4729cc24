"""The scheduler and the schedules that the shop declares."""

from __future__ import annotations

from quartzpy import CronTrigger, Scheduler, SchedulingMethods
from shop.jobs import nightly_report
from shop.models import URL


def new_scheduler() -> Scheduler:
    """A scheduler of the cluster "shop"; the web service and the nodes each make their own."""
    return Scheduler(URL, name="shop")


def declare(scheduler: SchedulingMethods) -> None:
    """Make the stored schedules those that are declared here. Every node calls it; what is there already stays."""
    report = nightly_report.detail("nightly-report", "reports")
    at_two = CronTrigger("0 0 2 * * ?", "nightly-report", "reports", time_zone="Europe/Berlin")
    scheduler.sync([(report, [at_two])], owner="shop", prune=True)
