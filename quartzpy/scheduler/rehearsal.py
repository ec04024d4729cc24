"""What is found out before anything is stored: what a schedule costs, and what the store would refuse."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from quartzpy.budget import MAX_STEPS, Budget
from quartzpy.calendars.calendar import Calendar
from quartzpy.errors import InvalidValueError, JobNotFoundError, ScheduleTooCostlyError
from quartzpy.jobs.job import JobDetail
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.scheduler.sync import SyncPlan
from quartzpy.states import TriggerState
from quartzpy.store.protocol import JobStore, StoredCalendar, TriggerMove
from quartzpy.store.queries import TriggerQuery
from quartzpy.store.records import TriggerRecord
from quartzpy.texts import quoted
from quartzpy.triggers.trigger import Trigger, TriggerProgress
from quartzpy.triggers.upcoming import PreparedTrigger, UpcomingFireTimes, moved_to, prepare

_STEPS_IN_ALL = 10 * MAX_STEPS
# A hundred thousand ordinary triggers take 150 each.
_STEPS_OF_DEPENDANTS = 50 * MAX_STEPS


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


class Dependants:
    """How the stored triggers that use calendars follow those that replace them.

    What was computed before a lock is taken is not computed again under it, unless the trigger has fired meanwhile.
    """

    def __init__(self, threshold: timedelta) -> None:
        self._threshold = threshold
        self._computed: dict[tuple[TriggerKey, int, TriggerProgress], tuple[Calendar, PreparedTrigger | None]] = {}

    def check(self, store: JobStore, calendars: Mapping[str, Calendar]) -> None:
        """Compute the next fire times before the calendars are stored.

        Raises:
            ScheduleTooCostlyError: they take too many steps, each by itself or all together.
        """
        with Budget(_STEPS_OF_DEPENDANTS) as in_all:
            for name, calendar in calendars.items():
                self._compute(store, name, StoredCalendar(calendar, 0), in_all, passes_over_unreadable=True)

    def moves(self, store: JobStore, name: str, stored: StoredCalendar) -> list[TriggerMove]:
        """Return the moves of all triggers that use a stored calendar. Errors as of `check`."""
        with Budget(_STEPS_OF_DEPENDANTS) as in_all:
            return self._compute(store, name, stored, in_all)

    def _compute(
        self,
        store: JobStore,
        name: str,
        stored: StoredCalendar,
        in_all: Budget,
        *,
        passes_over_unreadable: bool = False,
    ) -> list[TriggerMove]:
        nodes = store.list_nodes()
        threshold = nodes.setting("misfire_threshold", self._threshold)
        moves = []
        for record in store.find(TriggerQuery(calendar=name), None):
            if record.state is TriggerState.COMPLETE:
                continue
            at = (record.key, record.generation, record.progress)
            calendar, there = self._computed.get(at, (None, None))
            if calendar is None or calendar != stored.calendar:
                with Budget() as budget:
                    try:
                        there = _followed(record, stored.calendar, nodes.now, threshold)
                    except ScheduleTooCostlyError as error:
                        whose = "the triggers that use it" if budget is in_all else f"trigger {record.key}"
                        raise ScheduleTooCostlyError(
                            f"calendar {quoted(name)} is too costly for {whose}: {error}; it was not stored"
                        ) from None
                    except InvalidValueError:
                        if passes_over_unreadable:
                            continue
                        raise
                self._computed[at] = stored.calendar, there
            if there is not None:
                moves.append(TriggerMove(record, replace(there, calendar_revision=stored.revision)))
        return moves


def _followed(record: TriggerRecord, calendar: Calendar, now: datetime, threshold: timedelta) -> PreparedTrigger | None:
    """Return a trigger as it follows another calendar; None if its next fire time stays."""
    trigger = record.trigger
    late_after = trigger.misfire_threshold or threshold
    progress = trigger.with_new_calendar(record.progress, calendar, now=now, late_after=late_after)
    if progress == record.progress:
        return None
    return moved_to(PreparedTrigger(trigger, progress, UpcomingFireTimes()), progress, calendar)


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
