"""The filters of queries as callers give them, checked and turned into the queries of the store."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from enum import StrEnum
from typing import TypeVar

from quartzpy.errors import InvalidValueError
from quartzpy.instants import as_instant
from quartzpy.keys import JobKey, TriggerKey, checked_key
from quartzpy.matchers import GroupMatcher, as_group_matcher
from quartzpy.states import ENDED, ExecutionState, JobMode, MisfireAction, execution_states, trigger_states
from quartzpy.store.queries import ExecutionQuery, JobQuery, MisfireQuery, TriggerOrder, TriggerQuery
from quartzpy.texts import check_storable, quoted

_Choice = TypeVar("_Choice", bound=StrEnum)


def job_query(
    *,
    group: str | GroupMatcher | None = None,
    contains: str | None = None,
    job_type: str | None = None,
    mode: str | None = None,
) -> JobQuery:
    """Return the query of the filters of `Scheduler.jobs`.

    Raises:
        InvalidValueError: a filter has a value that it cannot have.
    """
    return JobQuery(
        group=group_matcher(group),
        contains=checked_text(contains, "contains"),
        job_type=checked_text(job_type, "job_type"),
        mode=checked_choice(mode, JobMode, "mode"),
    )


def trigger_query(
    *,
    job: JobKey | None = None,
    group: str | GroupMatcher | None = None,
    contains: str | None = None,
    state: str | Collection[str] | None = None,
    calendar: str | None = None,
    job_type: str | None = None,
    kind: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    order_by: str = TriggerOrder.KEY,
) -> TriggerQuery:
    """Return the query of the filters of `Scheduler.triggers`.

    Raises:
        InvalidValueError: a filter has a value that it cannot have.
    """
    order = checked_choice(order_by, TriggerOrder, "order_by")
    assert order is not None
    return TriggerQuery(
        job_key=None if job is None else checked_key(job, JobKey),
        group=group_matcher(group),
        contains=checked_text(contains, "contains"),
        states=None if state is None else trigger_states(state),
        calendar=checked_text(calendar, "calendar"),
        job_type=checked_text(job_type, "job_type"),
        kind=checked_text(kind, "kind"),
        since=checked_instant(since, "since"),
        until=checked_instant(until, "until"),
        order=order,
    )


def execution_query(
    *,
    state: str | Collection[str] = ENDED,
    job: JobKey | None = None,
    trigger: TriggerKey | None = None,
    group: str | GroupMatcher | None = None,
    job_type: str | None = None,
    node: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    exhausted: bool = False,
) -> ExecutionQuery:
    """Return the query of the filters of `Scheduler.executions`.

    Raises:
        InvalidValueError: a filter has a value that it cannot have.
    """
    if not isinstance(exhausted, bool):
        raise InvalidValueError(f"exhausted: must be True or False (got {quoted(exhausted)})")
    states = execution_states(state)
    return ExecutionQuery(
        states=states & {ExecutionState.FAILED} if exhausted else states,
        job_key=None if job is None else checked_key(job, JobKey),
        trigger_key=None if trigger is None else checked_key(trigger, TriggerKey),
        job_group=group_matcher(group),
        job_type=checked_text(job_type, "job_type"),
        instance_id=checked_text(node, "node"),
        since=checked_instant(since, "since"),
        until=checked_instant(until, "until"),
        exhausted=exhausted,
    )


def misfire_query(
    *,
    trigger: TriggerKey | None = None,
    job: JobKey | None = None,
    action: str | None = None,
    node: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> MisfireQuery:
    """Return the query of the filters of `Scheduler.misfires`.

    Raises:
        InvalidValueError: a filter has a value that it cannot have.
    """
    return MisfireQuery(
        trigger_key=None if trigger is None else checked_key(trigger, TriggerKey),
        job_key=None if job is None else checked_key(job, JobKey),
        action=checked_choice(action, MisfireAction, "action"),
        instance_id=checked_text(node, "node"),
        since=checked_instant(since, "since"),
        until=checked_instant(until, "until"),
    )


def group_matcher(group: str | GroupMatcher | None) -> GroupMatcher | None:
    """Return the matcher of a group; None if no group is given."""
    return None if group is None else as_group_matcher(group)


def checked_instant(given: datetime | None, subject: str) -> datetime | None:
    """Return the value of a filter in UTC; None if it is not given.

    Raises:
        InvalidValueError: it is not an instant with a time zone.
    """
    return None if given is None else as_instant(given, subject, InvalidValueError)


def checked_text(given: str | None, subject: str) -> str | None:
    """Return the value of a filter; None if it is not given.

    Raises:
        InvalidValueError: it is not a text that can be stored, or empty.
    """
    if given is None:
        return None
    if not isinstance(given, str) or not given:
        raise InvalidValueError(f"{subject}: must be a text that is not empty (got {quoted(given)})")
    check_storable(given, subject, InvalidValueError)
    return given


def checked_choice(given: str | None, choices: type[_Choice], subject: str) -> _Choice | None:
    """Return the value of a filter; None if it is not given.

    Raises:
        InvalidValueError: it is not among the choices.
    """
    if given is None:
        return None
    try:
        return choices(given)
    except ValueError:
        known = ", ".join(choices)
        raise InvalidValueError(f"{subject}: must be one of {known} (got {quoted(given)})") from None
