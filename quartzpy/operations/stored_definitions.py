"""The jobs, triggers and calendars of which definitions are made, as they are stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from quartzpy.calendars.calendar import BaseCalendar, Calendar
from quartzpy.calendars.registry import calendar_to_json
from quartzpy.errors import CalendarNotFoundError, IllegalStateChangeError, InvalidValueError
from quartzpy.jobs.job import JobDetail
from quartzpy.keys import UNSCHEDULED_GROUPS, JobKey, TriggerKey
from quartzpy.operations.definition_records import Definition
from quartzpy.scheduler.transactions import OwnTransactionMethods
from quartzpy.store.protocol import NameKind
from quartzpy.store.queries import TriggerQuery
from quartzpy.store.records import TriggerRecord
from quartzpy.texts import did_you_mean, quoted, reason

_T = TypeVar("_T")


def _readable(read: Callable[[], _T], subject: str) -> _T:
    """Return what `read` returns.

    Raises:
        IllegalStateChangeError: the row cannot be decoded by this process.
    """
    try:
        return read()
    except InvalidValueError as error:
        raise IllegalStateChangeError(
            f"{subject} cannot be read by this process, so its definition cannot be compared: {reason(error)}"
        ) from error


def job_of(transaction: OwnTransactionMethods, key: JobKey) -> JobDetail | None:
    """Return a job; None if it is not stored. Raises IllegalStateChangeError if this process cannot read it."""
    return _readable(lambda: transaction.store.jobs([key]).get(key), f"job {key}")


def trigger_of(transaction: OwnTransactionMethods, key: TriggerKey) -> TriggerRecord | None:
    """Return a trigger, as `job_of` returns a job."""
    record = transaction.store.triggers([key]).get(key)
    if record is not None:
        _readable(lambda: record.trigger, f"trigger {key}")
    return record


def stored_job(transaction: OwnTransactionMethods, key: JobKey) -> JobDetail:
    """Return a job. Raises JobNotFoundError if it is not stored, and as `job_of`."""
    job = job_of(transaction, key)
    if job is None:
        raise transaction._no_job(key)
    return job


def stored_trigger(transaction: OwnTransactionMethods, key: TriggerKey) -> TriggerRecord:
    """Return a trigger of a schedule. Raises TriggerNotFoundError if it is not stored, and as `trigger_of`."""
    record = None if key.group in UNSCHEDULED_GROUPS else trigger_of(transaction, key)
    if record is None:
        raise transaction._no_trigger(key)
    return record


def stored_calendar(transaction: OwnTransactionMethods, name: str) -> Calendar:
    """Return a calendar. Raises CalendarNotFoundError if it is not stored."""
    stored = transaction.store.calendars([name]).get(name)
    if stored is None:
        names = transaction.store.names(NameKind.CALENDARS)
        hint = did_you_mean(name, names, "calendars") if names else "none is stored"
        raise CalendarNotFoundError(f"calendar {quoted(name)} is not stored; {hint}")
    return stored.calendar


def definition_of_calendar(calendar: Calendar) -> Definition:
    """Return a calendar as a document."""
    assert isinstance(calendar, BaseCalendar)
    return Definition.of(calendar_to_json(calendar))


def has_trigger(transaction: OwnTransactionMethods, key: JobKey) -> bool:
    """Return whether a job has a trigger."""
    return bool(transaction.store.find(TriggerQuery(job_key=key), 1))
