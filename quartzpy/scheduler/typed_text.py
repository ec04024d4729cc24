"""What people type, read alike by the command line, the JSON API and the web page: keys, groups and instants.

The Python API reads lengths of time (`quartzpy.instants.as_span`) and words (`quartzpy.states.Word`) as all of them do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Any, TypeVar

from quartzpy.errors import (
    InvalidValueError,
    JobNotFoundError,
    ObjectNotFoundError,
    SettingsError,
    TriggerNotFoundError,
)
from quartzpy.instants import as_span, asked_instant
from quartzpy.keys import JobKey, TriggerKey, key_readings, nearest
from quartzpy.matchers import GroupMatcher
from quartzpy.scheduler.methods.base import MAX_NEAR
from quartzpy.texts import quoted

if TYPE_CHECKING:
    from quartzpy.scheduler.scheduler import BaseScheduler
    from quartzpy.store.filters import Filter
    from quartzpy.store.protocol import JobStore

_K = TypeVar("_K", JobKey, TriggerKey)
_E = TypeVar("_E", bound=ObjectNotFoundError)

# --- keys: GROUP.NAME, or NAME in the group DEFAULT


def read_key(scheduler: BaseScheduler, text: str, kind: type[_K], group: str | None = None) -> _K:
    """Return the stored key that a text means. With `group`, the text is the name.

    Raises:
        InvalidKeyError: no key can have this text.
        JobNotFoundError, TriggerNotFoundError: none of its readings is stored; the message suggests the nearest key.
        SettingsError: several of its readings are stored.
    """
    readings = key_readings(text, kind, group)
    store = scheduler._usable_store()
    stored = _stored(store, readings)
    if not stored:
        likeliest = readings[0]
        near = nearest(likeliest, store.near_keys(likeliest, MAX_NEAR))
        if kind is JobKey:
            raise not_stored(JobNotFoundError, f"there is no job {quoted(text)}", near)
        raise not_stored(TriggerNotFoundError, f"there is no trigger {quoted(text)}", near)
    return _only(text, stored)


def read_subject(scheduler: BaseScheduler, text: str, group: str | None, ways: str) -> JobKey | TriggerKey:
    """Return the key of the stored job or trigger that a text means.

    If both are stored, and the trigger is the only one of the job, it does not matter which is meant. `ways` are two
    ways to say it else, with `{key}` in the place of the key.

    Raises:
        As `read_key`; SettingsError: a job and a trigger are stored.
    """
    jobs = _stored(scheduler._usable_store(), key_readings(text, JobKey, group))
    triggers = _stored(scheduler._usable_store(), key_readings(text, TriggerKey, group))
    if jobs and triggers:
        of_job = scheduler.triggers(job=_only(text, jobs)).page(2)
        if [record.key for record in of_job] == [_only(text, triggers)]:
            return triggers[0]
        raise SettingsError(f"a job and a trigger are called {quoted(text)}: write {ways.format(key=text)}")
    if jobs or triggers:
        return _only(text, jobs) if jobs else _only(text, triggers)
    raise no_subject(scheduler, text, group)


def no_subject(scheduler: BaseScheduler, text: str, group: str | None) -> TriggerNotFoundError:
    """Return the error about a text that is neither a job nor a trigger, with the one that was probably meant."""
    store = scheduler._usable_store()
    job, trigger = key_readings(text, JobKey, group)[0], key_readings(text, TriggerKey, group)[0]
    near: list[JobKey | TriggerKey] = [
        each
        for each in (nearest(trigger, store.near_keys(trigger, MAX_NEAR)), nearest(job, store.near_keys(job, MAX_NEAR)))
        if each is not None
    ]
    # Of a trigger and a job, the one whose name is right.
    near.sort(key=lambda each: each.name != trigger.name)
    what = f"there is no trigger and no job {quoted(text)}"
    return not_stored(TriggerNotFoundError, what, near[0] if near else None)


def likely_key(scheduler: BaseScheduler, text: str, kind: type[_K], group: str | None = None) -> _K:
    """Return the key that a text means: the stored one, else the likeliest, of which the history may know.

    Raises:
        InvalidKeyError: no key can have this text.
        SettingsError: several of its readings are stored.
    """
    readings = key_readings(text, kind, group)
    if len(readings) == 1:
        return readings[0]
    return _only(text, _stored(scheduler._usable_store(), readings) or readings[:1])


def _stored(store: JobStore, keys: list[_K]) -> list[_K]:
    stored: Iterable[object] = (
        store.job_headers([key for key in keys if isinstance(key, JobKey)])
        if isinstance(keys[0], JobKey)
        else store.triggers([key for key in keys if isinstance(key, TriggerKey)])
    )
    among = set(stored)
    return [key for key in keys if key in among]


def _only(text: str, keys: list[_K]) -> _K:
    if len(keys) > 1:
        noun = type(keys[0]).__name__.removesuffix("Key").lower()
        ways = " or ".join(f"--group {key.group} {key.name}" for key in keys)
        raise SettingsError(f"several {noun}s are called {quoted(text)}: name one of them by its group: {ways}")
    return keys[0]


def not_stored(error: type[_E], what: str, near: JobKey | TriggerKey | None) -> _E:
    """Return the error about a key that is not stored, with the key that was probably meant."""
    made = error(what if near is None else f"{what}; did you mean {near}?")
    made.nearest = near
    return made


# --- groups


def read_group(text: str, name: str = "group") -> GroupMatcher:
    """Return the matcher of a group, or of several: with "*" in front, at the end, or both.

    Raises:
        InvalidValueError: it is empty, or "*" stands elsewhere.
    """
    inner = text.strip("*")
    if not text or "*" in inner:
        raise InvalidValueError(f"{name}: must be a group, with * in front and at the end only (got {quoted(text)})")
    if not inner:
        return GroupMatcher.anything()
    match text.startswith("*"), text.endswith("*"):
        case True, True:
            return GroupMatcher.contains(inner)
        case True, False:
            return GroupMatcher.ends_with(inner)
        case False, True:
            return GroupMatcher.starts_with(inner)
    return GroupMatcher.equals(text)


# --- filters


def read_filter(
    declared: Filter,
    text: str,
    scheduler: BaseScheduler,
    now: Callable[[], datetime],
    local: tzinfo | None,
    *,
    name: str,
    group: str | None = None,
) -> Any:
    """Return the value of a filter that a reader typed, or that a link has; `name` is for the message of an error.

    The value of a flag, and a word, is returned as it is. With `group`, the text of a key is its name.

    Raises:
        InvalidValueError: the text is no key, no group or no instant.
        SettingsError: several stored keys read like it.
    """
    if declared.kind is JobKey:
        return likely_key(scheduler, text, JobKey, group)
    if declared.kind is TriggerKey:
        return likely_key(scheduler, text, TriggerKey, group)
    if declared.kind is GroupMatcher:
        return read_group(text, name)
    if declared.kind is datetime:
        return read_instant(text, name, now, local, direction=FUTURE if declared.is_ahead else PAST)
    return text


# --- instants

PAST, FUTURE = -1, 1
INSTANT_FORMS = (
    "an instant such as 2026-12-24T18:00, a time of today such as 18:00, or a length of time such as 2h or 1h30m"
)
OFFSET_FORMS = "an instant such as 2026-11-22T08:00:00Z, or a length of time such as 2h or 1h30m"
_DAYS = {"yesterday": -1, "today": 0, "tomorrow": 1}


def read_instant(
    text: str, name: str, now: Callable[[], datetime], local: tzinfo | None, *, direction: int = PAST
) -> datetime:
    """Return an instant in UTC.

    A date and a time without an offset are in the zone `local`; None refuses them, because nothing says whose clock
    they are of. A length of time counts from `now`: back, or forward if `direction` is FUTURE; a sign before it decides
    by itself.

    Raises:
        InvalidValueError: the text has none of these forms.
    """
    typed = text.strip()
    if typed == "now":
        return now()
    if typed in _DAYS and local is not None:
        day = now().astimezone(local) + timedelta(days=_DAYS[typed])
        return _aware(day.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None), local, name)
    sign = {"-": PAST, "+": FUTURE}.get(typed[:1])
    try:
        span = as_span(typed[1:] if sign else typed, name)
    except InvalidValueError:
        return _written_instant(text, name, now, local)
    try:
        return now() + span * (sign or direction)
    except OverflowError:
        raise InvalidValueError(f"{name}: {quoted(text)} is beyond the years 1 to 9999") from None


def _written_instant(text: str, name: str, now: Callable[[], datetime], local: tzinfo | None) -> datetime:
    # A "+" that was not encoded in a URL arrives as a space.
    for typed in (text.strip(), text.strip().replace(" ", "+")):
        if len(typed) <= len("18:00:00") and ":" in typed and local is not None:
            typed = f"{now().astimezone(local).date()}T{typed}"
        try:
            parsed = datetime.fromisoformat(typed)
        except ValueError:
            continue
        if parsed.tzinfo is not None or local is None:
            return asked_instant(parsed, name)
        return asked_instant(_aware(parsed, local, name), name)
    forms = INSTANT_FORMS if local is not None else OFFSET_FORMS
    raise InvalidValueError(f"{name}: must be {forms} (got {quoted(text)})")


def _aware(naive: datetime, local: tzinfo, name: str) -> datetime:
    try:
        return naive.replace(tzinfo=local).astimezone(UTC)
    except OverflowError:
        raise InvalidValueError(f"{name}: must be within the years 1 to 9999 in UTC (got {naive})") from None
