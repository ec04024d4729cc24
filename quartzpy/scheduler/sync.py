"""Compares declared jobs, triggers and calendars with stored ones, and plans the changes. Pure functions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, Self

from quartzpy.calendars.calendar import BaseCalendar, Calendar
from quartzpy.calendars.maintenance_window import MaintenanceWindow
from quartzpy.errors import InvalidTriggerError, InvalidValueError
from quartzpy.jobs.job import JobDetail
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.store.definition_differences import (
    ValueDifference,
    calendar_differences,
    job_differences,
    persists_data,
    trigger_differences,
)
from quartzpy.store.records import TriggerRecord
from quartzpy.texts import quoted
from quartzpy.triggers.trigger import Trigger
from quartzpy.triggers.upcoming import schedule_hash

Definitions = Sequence[tuple[JobDetail, Sequence[Trigger]]]
Calendars = Mapping[str, BaseCalendar]


@dataclass(frozen=True, slots=True)
class Declarations:
    """The jobs with their triggers, the calendars by name, and the maintenance windows, that a file declares."""

    jobs: Definitions
    calendars: Calendars = field(default_factory=dict)
    windows: Sequence[MaintenanceWindow] | None = None
    """None: it says nothing of windows, which stay as they are."""


class Existing(StrEnum):
    """The treatment of jobs, triggers and calendars that are stored already by `Scheduler.sync`."""

    UPDATE = "update"
    """They are changed to match the declaration."""
    KEEP = "keep"
    """They do not change: the first registration wins."""

    @classmethod
    def of(cls, value: str) -> Self:
        """Return the member of this name. Raises InvalidValueError if there is none."""
        try:
            return cls(value)
        except ValueError:
            raise InvalidValueError(f"existing: {' or '.join(cls)} (got {quoted(value)})") from None


Subject = JobKey | TriggerKey | str


@dataclass(frozen=True, slots=True)
class Change:
    """The change of one job, trigger or calendar: "+" stored, "~" replaced, "-" removed."""

    sign: str
    kind: str
    key: Subject
    """The name of a calendar or a maintenance window is its key."""
    differences: tuple[ValueDifference, ...] = field(default=(), compare=False)
    """The values that change if the sign is "~". Without any, only the owner changes."""
    declared: JobDetail | Trigger | Calendar | MaintenanceWindow | None = field(default=None, repr=False, compare=False)
    """The new definition; None if the sign is "-"."""

    def __str__(self) -> str:
        names = ", ".join(difference.name for difference in self.differences) or "owner"
        return f"{self.sign} {self.kind} {self.key}{f' ({names})' if self.sign == '~' else ''}"


@dataclass(frozen=True, slots=True)
class SyncPlan:
    """The changes that `Scheduler.sync` makes, or made. As text, it has one line for each change."""

    changes: tuple[Change, ...]
    unchanged: int
    store: Sequence[tuple[JobDetail | None, Sequence[Trigger]]] = field(repr=False)
    """Jobs and triggers to store; None instead of a job that does not change itself but has triggers that do."""
    keep_data: frozenset[JobKey] = field(default=frozenset(), repr=False)
    """Jobs that are replaced except for their data, which they persist themselves."""
    calendars: Mapping[str, Calendar] = field(default_factory=dict, repr=False)
    """Calendars to store."""
    windows: Mapping[str, MaintenanceWindow] = field(default_factory=dict, repr=False)
    """Maintenance windows to store."""
    outdated_by: str | None = None
    """The version that last declared the owner's jobs, if it is newer: then nothing is changed."""

    def keys(self, sign: str, kind: str) -> list[Any]:
        """Return the keys of the changes with this sign (`+`, `~`, `-`) and kind (`job`, `trigger`, ..., `window`)."""
        return [change.key for change in self.changes if (change.sign, change.kind) == (sign, kind)]

    def __bool__(self) -> bool:
        """Return True if the plan has any change."""
        return bool(self.changes)

    def __str__(self) -> str:
        if self.outdated_by is not None:
            return f"nothing: version {self.outdated_by} is newer"
        return "\n".join([*map(str, self.changes), f"{self.unchanged} unchanged"])


@dataclass(frozen=True, slots=True)
class Stored:
    """The stored state that a sync compares: what is declared, and what the owner declared before."""

    jobs: Mapping[JobKey, JobDetail]
    triggers: Mapping[TriggerKey, TriggerRecord]
    owned_jobs: frozenset[JobKey]
    owned_triggers: frozenset[TriggerKey]
    calendars: Mapping[str, Calendar | None] = field(default_factory=dict)
    """None stands for a calendar that cannot be read in this process."""
    owned_calendars: frozenset[str] = frozenset()
    windows: Mapping[str, MaintenanceWindow] = field(default_factory=dict)
    owned_windows: frozenset[str] = frozenset()
    """Those that the owner has changed last."""
    over: frozenset[str] = frozenset()
    """The declared windows that have no time left, which the store has forgotten, or will never have."""
    version: str | None = None


_NUMBER = 2
_VERSION_PART = re.compile(r"\d+|[^\d.+_-]+")


def version_text(version: object) -> str | None:
    """Return a version in its stored form; None for None.

    Raises:
        InvalidValueError: the version is neither a number nor a text with a digit or letter.
    """
    if version is None:
        return None
    if isinstance(version, int | float | str) and not isinstance(version, bool):
        text = str(version).strip()
        if _VERSION_PART.search(text):
            return text
    raise InvalidValueError(f'version: a number or a text such as "2.10.1" (got {quoted(version)})')


def outdated(version: str, than: str) -> bool:
    """Return True if a version is older than another. Numbers compare as numbers: "2.9" is older than "2.10"."""
    return _version_key(version) < _version_key(than)


def _version_key(version: str) -> list[tuple[int, int, str]]:
    # A word such as "rc" sorts before a number in its place and before the end: 2.0rc1 is older than 2.0.
    words = [
        (_NUMBER, int(part), "") if part.isdigit() else (0, 0, part) for part in _VERSION_PART.findall(version.lower())
    ]
    key: list[tuple[int, int, str]] = []
    for part in [*words, (1, 0, "")]:
        # 2.0 equals 2, also in front of a word.
        while part[0] != _NUMBER and key and key[-1] == (_NUMBER, 0, ""):
            key.pop()
        key.append(part)
    return key


def check_definitions(definitions: Definitions) -> None:
    """Validate the declared jobs and triggers as a whole.

    Raises:
        InvalidTriggerError: a key is declared twice, or a job has no trigger and is not durable.
        InvalidJobError: a job is only the continuation of others, and is expected to end by a wall time.
    """
    followers = {each.key for job, _ in definitions for each in job.continuations}
    for job, triggers in definitions:
        if not triggers and not job.durable:
            raise InvalidTriggerError(f"job {job.key} has no trigger and is not durable: it would be deleted at once")
        if not triggers and job.expect is not None and job.key in followers:
            job.expect.check_after_others(job.key)
    declared: list[tuple[str, list[JobKey | TriggerKey]]] = [
        ("job", [job.key for job, _ in definitions]),
        ("trigger", [trigger.key for _, triggers in definitions for trigger in triggers]),
    ]
    for kind, keys in declared:
        for key, times in Counter(keys).items():
            if times > 1:
                raise InvalidTriggerError(f"sync: {kind} {key} is declared twice")


def plan(
    declared: Definitions,
    stored: Stored,
    *,
    calendars: Mapping[str, Calendar] | None = None,
    windows: Sequence[MaintenanceWindow] | None = None,
    prune: bool,
    existing: Existing = Existing.UPDATE,
) -> SyncPlan:
    """Return the changes that make the store match the declaration."""
    named = calendars or {}
    changes = [
        change
        for name, calendar in sorted(named.items())
        if (change := _allowed(_calendar_change(name, calendar, stored), existing)) is not None
    ]
    changed_calendars = {str(change.key): named[str(change.key)] for change in changes}
    store: list[tuple[JobDetail | None, list[Trigger]]] = []
    keep_data: set[JobKey] = set()
    unchanged = len(named) - len(changes)
    for job, triggers in declared:
        change = _allowed(_job_change(job, stored), existing)
        of_triggers = [(trigger, _allowed(_trigger_change(trigger, stored), existing)) for trigger in triggers]
        changed = [(trigger, difference) for trigger, difference in of_triggers if difference is not None]
        unchanged += (change is None) + len(triggers) - len(changed)
        if change is not None or changed:
            store.append((job if change else None, [trigger for trigger, _ in changed]))
            if persists_data(job, stored.jobs.get(job.key)):
                keep_data.add(job.key)
            changes += [] if change is None else [change]
            changes += [difference for _, difference in changed]
    named_windows = windows or ()
    of_windows = [_allowed(_window_change(window, stored), existing) for window in named_windows]
    changed_windows = [change for change in of_windows if change is not None]
    changes += changed_windows
    unchanged += len(named_windows) - len(changed_windows)
    if prune:
        changes += _removals(declared, named, stored)
        if windows is not None:
            named_here = {window.name for window in windows}
            changes += [Change("-", "window", name) for name in sorted(stored.owned_windows - named_here)]
    changed_names = {change.key for change in changed_windows}
    to_store = {window.name: window for window in named_windows if window.name in changed_names - stored.over}
    return SyncPlan(tuple(changes), unchanged, store, frozenset(keep_data), changed_calendars, to_store)


def _allowed(change: Change | None, existing: Existing) -> Change | None:
    return None if change is not None and change.sign == "~" and existing is Existing.KEEP else change


def _calendar_change(name: str, calendar: Calendar, stored: Stored) -> Change | None:
    if name not in stored.calendars:
        return Change("+", "calendar", name, declared=calendar)
    different = calendar_differences(calendar, stored.calendars[name])
    return _change("calendar", name, different, name in stored.owned_calendars, calendar)


def _window_change(window: MaintenanceWindow, stored: Stored) -> Change | None:
    if window.name in stored.over:
        # A file need not be edited on the day after, so it cannot be wrong for that.
        return Change("-", "window", window.name) if window.name in stored.owned_windows else None
    present = stored.windows.get(window.name)
    if present is None:
        return Change("+", "window", window.name, declared=window)
    # Whoever changed it last may be an operator, who has then taken it over; without a difference that stays so.
    differences = [
        ValueDifference(name, getattr(present, name), getattr(window, name))
        for name in (field.name for field in fields(window))
        if getattr(present, name) != getattr(window, name)
    ]
    return Change("~", "window", window.name, tuple(differences), window) if differences else None


def _job_change(job: JobDetail, stored: Stored) -> Change | None:
    stored_job = stored.jobs.get(job.key)
    if stored_job is None:
        return Change("+", "job", job.key, declared=job)
    return _change("job", job.key, job_differences(job, stored_job), job.key in stored.owned_jobs, job)


def _trigger_change(trigger: Trigger, stored: Stored) -> Change | None:
    record = stored.triggers.get(trigger.key)
    if record is None:
        return Change("+", "trigger", trigger.key, declared=trigger)
    different = trigger_differences(trigger, record.trigger, schedule_hash(trigger), record.schedule_hash)
    return _change("trigger", trigger.key, different, trigger.key in stored.owned_triggers, trigger)


def _change(
    kind: str, key: Subject, different: list[ValueDifference], owned: bool, declared: JobDetail | Trigger | Calendar
) -> Change | None:
    return None if owned and not different else Change("~", kind, key, tuple(different), declared)


def _removals(declared: Definitions, calendars: Collection[str], stored: Stored) -> Iterator[Change]:
    jobs = {job.key for job, _ in declared}
    triggers = {trigger.key for _, triggers in declared for trigger in triggers}
    for trigger_key in sorted(stored.owned_triggers - triggers):
        yield Change("-", "trigger", trigger_key)
    for job_key in sorted(stored.owned_jobs - jobs):
        yield Change("-", "job", job_key)
    for name in sorted(stored.owned_calendars - set(calendars)):
        yield Change("-", "calendar", name)
