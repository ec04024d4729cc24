"""Compares declared jobs and triggers with stored ones, and plans the changes. Pure functions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self

from quartzpy.differences import Difference, job_differences, persists_data, trigger_differences
from quartzpy.errors import InvalidTriggerError, InvalidValueError
from quartzpy.job import JobDetail
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.store.records import TriggerRecord
from quartzpy.texts import quoted
from quartzpy.triggers.schedule_hash import schedule_hash
from quartzpy.triggers.trigger import Trigger

Definitions = Sequence[tuple[JobDetail, Sequence[Trigger]]]


class Existing(StrEnum):
    """The treatment of jobs and triggers that are stored already by `Scheduler.sync`."""

    UPDATE = "update"
    """Stored jobs and triggers are changed to match the declaration."""
    KEEP = "keep"
    """Stored jobs and triggers do not change: the first registration wins."""

    @classmethod
    def of(cls, given: str) -> Self:
        """Return the member of this name. Raises InvalidValueError if there is none."""
        try:
            return cls(given)
        except ValueError:
            raise InvalidValueError(f"existing: {' or '.join(cls)} (got {quoted(given)})") from None


@dataclass(frozen=True, slots=True)
class Change:
    """The change of one job or trigger: "+" stored, "~" replaced, "-" removed. `what` describes the differences."""

    sign: str
    kind: str
    key: JobKey | TriggerKey
    what: str = ""

    def __str__(self) -> str:
        return f"{self.sign} {self.kind} {self.key}{f' ({self.what})' if self.what else ''}"


@dataclass(frozen=True, slots=True)
class SyncPlan:
    """The changes that `Scheduler.sync` makes, or made. As text, it has one line for each change."""

    changes: tuple[Change, ...]
    unchanged: int
    store: Sequence[tuple[JobDetail | None, Sequence[Trigger]]] = field(repr=False)
    """Jobs and triggers to store; None instead of a job that does not change itself but has triggers that do."""
    keep_data: frozenset[JobKey] = field(default=frozenset(), repr=False)
    """Jobs that are replaced except for their data, which they persist themselves."""
    outdated_by: str | None = None
    """The version that last declared the owner's jobs, if it is newer: then nothing is changed."""

    def keys(self, sign: str, kind: str) -> list[JobKey | TriggerKey]:
        """Return the keys of the changes with this sign (`+`, `~`, `-`) and kind (`job`, `trigger`)."""
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
    """The stored state that a sync compares: the declared jobs and triggers, and those the owner declared before."""

    jobs: Mapping[JobKey, JobDetail]
    triggers: Mapping[TriggerKey, TriggerRecord]
    owned_jobs: frozenset[JobKey]
    owned_triggers: frozenset[TriggerKey]
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
    """
    for job, triggers in definitions:
        if not triggers and not job.durable:
            raise InvalidTriggerError(f"job {job.key} has no trigger and is not durable: it would be deleted at once")
    declared: list[tuple[str, list[JobKey | TriggerKey]]] = [
        ("job", [job.key for job, _ in definitions]),
        ("trigger", [trigger.key for _, triggers in definitions for trigger in triggers]),
    ]
    for kind, keys in declared:
        for key, times in Counter(keys).items():
            if times > 1:
                raise InvalidTriggerError(f"sync: {kind} {key} is declared twice")


def plan(declared: Definitions, stored: Stored, *, prune: bool, existing: Existing = Existing.UPDATE) -> SyncPlan:
    """Return the changes that make the store match the declaration."""
    changes: list[Change] = []
    store: list[tuple[JobDetail | None, list[Trigger]]] = []
    keep_data: set[JobKey] = set()
    unchanged = 0
    for job, triggers in declared:
        change = _allowed(_job_change(job, stored), existing)
        changed = [(trigger, _allowed(_trigger_change(trigger, stored), existing)) for trigger in triggers]
        found = [one for one in (change, *(one for _, one in changed)) if one is not None]
        unchanged += 1 + len(triggers) - len(found)
        if found:
            store.append((job if change else None, [trigger for trigger, one in changed if one is not None]))
            if persists_data(job, stored.jobs.get(job.key)):
                keep_data.add(job.key)
            changes += found
    if prune:
        changes += _removals(declared, stored)
    return SyncPlan(tuple(changes), unchanged, store, frozenset(keep_data))


def _allowed(change: Change | None, existing: Existing) -> Change | None:
    return None if change is not None and change.sign == "~" and existing is Existing.KEEP else change


def _job_change(job: JobDetail, stored: Stored) -> Change | None:
    known = stored.jobs.get(job.key)
    if known is None:
        return Change("+", "job", job.key)
    return _change("job", job.key, job_differences(job, known), job.key in stored.owned_jobs)


def _trigger_change(trigger: Trigger, stored: Stored) -> Change | None:
    known = stored.triggers.get(trigger.key)
    if known is None:
        return Change("+", "trigger", trigger.key)
    different = trigger_differences(trigger, known.trigger, schedule_hash(trigger), known.schedule_hash)
    return _change("trigger", trigger.key, different, trigger.key in stored.owned_triggers)


def _change(kind: str, key: JobKey | TriggerKey, different: list[Difference], owned: bool) -> Change | None:
    if different:
        return Change("~", kind, key, ", ".join(one.name for one in different))
    return None if owned else Change("~", kind, key, "owner")


def _removals(declared: Definitions, stored: Stored) -> Iterator[Change]:
    jobs = {job.key for job, _ in declared}
    triggers = {trigger.key for _, triggers in declared for trigger in triggers}
    for trigger_key in sorted(stored.owned_triggers - triggers):
        yield Change("-", "trigger", trigger_key)
    for job_key in sorted(stored.owned_jobs - jobs):
        yield Change("-", "job", job_key)
