"""What is found out before anything is stored: what a schedule costs, and what the store would refuse."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from quartzpy.budget import MOST_STEPS, Budget
from quartzpy.calendars.calendar import Calendar
from quartzpy.errors import InvalidValueError, JobNotFoundError, ScheduleTooCostlyError
from quartzpy.jobs.job import JobDetail
from quartzpy.keys import JobKey
from quartzpy.scheduler.sync import SyncPlan
from quartzpy.store.protocol import JobStore
from quartzpy.triggers.trigger import Trigger
from quartzpy.triggers.upcoming import prepare

_STEPS_IN_ALL = 10 * MOST_STEPS


class RehearsedError(Exception):
    """Undoes what a plan has stored, because it was only to be seen whether the store takes it."""

    def __init__(self, plan: SyncPlan) -> None:
        super().__init__("rehearsed")
        self.plan = plan


def check_cost(
    store: JobStore, triggers: Iterable[Trigger], now: datetime, calendars: Mapping[str, Calendar] | None = None
) -> None:
    """Compute the first fire times of triggers that are to be stored, before a lock is taken under which others wait.

    `calendars` are those that are stored together with the triggers.

    Raises:
        ScheduleTooCostlyError: they take too many steps, each by itself or all together.
    """
    there: dict[str, Calendar | None] = dict(calendars or {})
    spent = 0
    for trigger in triggers:
        name = trigger.calendar
        with Budget() as budget:
            try:
                if name is not None and name not in there:
                    stored = store.calendars([name]).get(name)
                    there[name] = None if stored is None else stored.calendar
                prepare(trigger, now, None if name is None else there[name])
            except ScheduleTooCostlyError:
                raise
            except InvalidValueError:
                pass  # The store tells what else is wrong, as it knows what is stored already.
        spent += budget.spent
        if spent > _STEPS_IN_ALL:
            raise ScheduleTooCostlyError(
                f"the schedules are too costly together: the first fire times up to those of trigger {trigger.label}"
                f" take more than {_STEPS_IN_ALL:,} steps; store fewer of them at a time, or use coarser rules"
            )


def check_continuations(store: JobStore, changes: SyncPlan, declared: Iterable[JobDetail]) -> None:
    """Check that the jobs with which the jobs of a plan continue are declared or stored, and stay.

    Raises:
        JobNotFoundError: one is neither.
    """
    declared_keys = {job.key for job in declared}
    removed = set(changes.keys("-", "job"))
    followers: dict[JobKey, JobKey] = {}
    for job, _ in changes.store:
        if job is not None:
            followers.update({each.key: job.key for each in job.continuations if each.key not in declared_keys})
    if not followers:
        return
    stored = store.job_headers(list(followers))
    for follower, key in followers.items():
        if follower not in stored or follower in removed:
            raise JobNotFoundError(
                f"job {key}: it continues with job {follower}, which is neither declared nor stored; declare that job"
                " too, or leave the continuation out"
            )
