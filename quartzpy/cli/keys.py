"""Keys of jobs and triggers as they are typed: GROUP.NAME, or NAME for the group DEFAULT.

Groups and names may themselves contain dots, so the text may have several readings; the one that is stored decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from quartzpy.errors import (
    InvalidKeyError,
    InvalidValueError,
    JobNotFoundError,
    ObjectNotFoundError,
    SettingsError,
    TriggerNotFoundError,
)
from quartzpy.keys import DEFAULT_GROUP, JobKey, TriggerKey, nearest
from quartzpy.matchers import GroupMatcher
from quartzpy.scheduler.methods.queries import checked_fire_id
from quartzpy.texts import quoted

if TYPE_CHECKING:
    from quartzpy.scheduler.querying import Query
    from quartzpy.scheduler.scheduler import BaseScheduler

_COMPARED = 2_000
"""The number of keys that are compared with a key that is not stored, to suggest the nearest."""
_K = TypeVar("_K", JobKey, TriggerKey)


def job_key(scheduler: BaseScheduler, text: str, group: str | None = None) -> JobKey:
    """Return the key of the stored job that a text names. With `group`, the text is its name.

    Raises:
        JobNotFoundError: no such job is stored; the message suggests the nearest key.
        SettingsError: several jobs have keys that read like this.
    """
    return _stored(scheduler, text, group, JobKey, scheduler.jobs(), JobNotFoundError)


def trigger_key(scheduler: BaseScheduler, text: str, group: str | None = None) -> TriggerKey:
    """Return the key of the stored trigger that a text names. With `group`, the text is its name.

    Raises:
        TriggerNotFoundError: no such trigger is stored; the message suggests the nearest key.
        SettingsError: several triggers have keys that read like this.
    """
    return _stored(scheduler, text, group, TriggerKey, scheduler.triggers(), TriggerNotFoundError)


def likely_trigger_key(scheduler: BaseScheduler, text: str, group: str | None = None) -> TriggerKey:
    """Return the key of a trigger that may have ended: that of the stored one, else the first reading of the text."""
    try:
        return trigger_key(scheduler, text, group)
    except TriggerNotFoundError:
        readings = _readings(text, group, TriggerKey)
        if not readings:
            raise
        return readings[0]


def execution_id(text: str) -> int:
    """Return the id of an execution.

    Raises:
        SettingsError: no execution can have this id.
    """
    try:
        return checked_fire_id(text)
    except InvalidValueError:
        raise SettingsError(
            f"FIRE_ID: the number of an execution, as `quartzpy executions` lists it (got {quoted(text)})"
        ) from None


def group_matcher(text: str | None) -> GroupMatcher | None:
    """Return the matcher for the option `--group`: a group, or one with "*" in front, at the end, or both.

    Raises:
        SettingsError: "*" stands elsewhere.
    """
    if text is None:
        return None
    inner = text.strip("*")
    if "*" in inner:
        raise SettingsError(f"--group: * may stand in front and at the end only (got {quoted(text)})")
    if text in ("*", "**"):
        return GroupMatcher.anything()
    match text.startswith("*"), text.endswith("*"):
        case True, True:
            return GroupMatcher.contains(inner)
        case True, False:
            return GroupMatcher.ends_with(inner)
        case False, True:
            return GroupMatcher.starts_with(inner)
    return GroupMatcher.equals(text)


def _stored(
    scheduler: BaseScheduler,
    text: str,
    group: str | None,
    kind: type[_K],
    records: Query[Any],
    error: type[ObjectNotFoundError],
) -> _K:
    readings = _readings(text, group, kind)
    stored = [key for key in readings if scheduler.check_exists(key)]
    noun = "job" if kind is JobKey else "trigger"
    if not stored:
        candidates = [record.key for record in records[:_COMPARED]]
        raise error(f"there is no {noun} {quoted(text)}{_hint(readings, candidates)}")
    return _only(stored, text, noun)


def _hint(readings: list[_K], candidates: list[_K]) -> str:
    near = nearest(readings[0], candidates) if readings else None
    return "" if near is None else f"; did you mean {near}?"


def _readings(text: str, group: str | None, kind: type[_K]) -> list[_K]:
    """Return the keys that a text may mean, the likeliest first."""
    return [] if not text else list(dict.fromkeys(_candidates(text, group, kind)))


def _candidates(text: str, group: str | None, kind: type[_K]) -> Iterator[_K]:
    if group is not None:
        pairs = [(group, text)]
    else:
        dots = [n for n, character in enumerate(text) if character == "."]
        pairs = [(text[:n], text[n + 1 :]) for n in reversed(dots)] + [(DEFAULT_GROUP, text)]
    refused: InvalidKeyError | None = None
    valid = False
    for in_group, name in pairs:
        try:
            yield kind(name, in_group)
            valid = True
        except InvalidKeyError as error:
            refused = error
    if not valid and refused is not None:
        raise refused


def _only(stored: list[_K], text: str, kind: str) -> _K:
    if len(stored) > 1:
        ways = " or ".join(f"--group {key.group} {key.name}" for key in stored)
        raise SettingsError(f"several {kind}s are called {quoted(text)}: name one of them by its group: {ways}")
    return stored[0]
