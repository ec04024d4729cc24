"""From declared jobs and triggers, and those that are stored, to what has to be done: a plan. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

from quartzpy.errors import InvalidTriggerError
from quartzpy.job import JobDetail
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.triggers.trigger import Trigger

Definitions = Sequence[tuple[JobDetail, Sequence[Trigger]]]


@dataclass(frozen=True, slots=True)
class Change:
    """What is done with one job or trigger: "+" stored, "~" replaced, "-" removed. `what` names the differences."""

    sign: str
    kind: str
    key: JobKey | TriggerKey
    what: str = ""

    def __str__(self) -> str:
        return f"{self.sign} {self.kind} {self.key}{f' ({self.what})' if self.what else ''}"


@dataclass(frozen=True, slots=True)
class SyncPlan:
    """What `Scheduler.sync` does, or did. As text, one line for each change."""

    changes: tuple[Change, ...]
    unchanged: int
    store: Sequence[tuple[JobDetail | None, Sequence[Trigger]]] = field(repr=False)
    """Jobs and triggers to be stored; None where the job is unchanged, and has triggers that are not."""
    keep_data: frozenset[JobKey] = field(default=frozenset(), repr=False)
    """Jobs that are replaced all but their data, which they keep themselves."""

    def keys(self, sign: str, kind: str) -> list[JobKey | TriggerKey]:
        """Return the keys of the changes of one sign (`+`, `~`, `-`) and kind (`job`, `trigger`)."""
        return [change.key for change in self.changes if (change.sign, change.kind) == (sign, kind)]

    def __bool__(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.changes)

    def __str__(self) -> str:
        return "\n".join([*map(str, self.changes), f"{self.unchanged} unchanged"])


@dataclass(frozen=True, slots=True)
class Stored:
    """What is stored of the declared jobs and triggers, and what the owner has besides."""

    jobs: Mapping[JobKey, JobDetail]
    triggers: Mapping[TriggerKey, Trigger]
    owned_jobs: frozenset[JobKey]
    owned_triggers: frozenset[TriggerKey]


def checked(definitions: Iterable[tuple[JobDetail, Trigger | Iterable[Trigger]]]) -> Definitions:
    """The definitions, triggers bound to their jobs.

    Raises:
        InvalidTriggerError: a key is declared twice, or a job has no trigger and is not durable.
    """
    pairs = []
    for job, given in definitions:
        triggers = [given] if isinstance(given, Trigger) else list(given)
        if not triggers and not job.durable:
            raise InvalidTriggerError(f"job {job.key} has no trigger and is not durable: it would go at once")
        pairs.append((job, [trigger.bound_to(job.key) for trigger in triggers]))
    declared: list[tuple[str, list[JobKey | TriggerKey]]] = [
        ("job", [job.key for job, _ in pairs]),
        ("trigger", [trigger.key for _, triggers in pairs for trigger in triggers]),
    ]
    for kind, keys in declared:
        for key, times in Counter(keys).items():
            if times > 1:
                raise InvalidTriggerError(f"sync: {kind} {key} is declared twice")
    return pairs


def plan(wanted: Definitions, stored: Stored, *, prune: bool) -> SyncPlan:
    """What makes the store as it is declared."""
    changes: list[Change] = []
    store: list[tuple[JobDetail | None, list[Trigger]]] = []
    keep_data: set[JobKey] = set()
    unchanged = 0
    for job, triggers in wanted:
        change = _job_change(job, stored)
        changed = [(trigger, _trigger_change(trigger, stored)) for trigger in triggers]
        found = [one for one in (change, *(one for _, one in changed)) if one is not None]
        unchanged += 1 + len(triggers) - len(found)
        if found:
            store.append((job if change else None, [trigger for trigger, one in changed if one is not None]))
            if _keeps_data(job, stored):
                keep_data.add(job.key)
            changes += found
    if prune:
        changes += _gone(wanted, stored)
    return SyncPlan(tuple(changes), unchanged, store, frozenset(keep_data))


def _keeps_data(job: JobDetail, stored: Stored) -> bool:
    known = stored.jobs.get(job.key)
    return bool(known and known.persist_data and job.persist_data)


def _job_change(job: JobDetail, stored: Stored) -> Change | None:
    known = stored.jobs.get(job.key)
    if known is None:
        return Change("+", "job", job.key)
    # What the job itself keeps in its data is its own.
    left_out = {"job", "data"} if _keeps_data(job, stored) else {"job"}
    different = [one.name for one in fields(job) if one.name not in left_out and _differs(job, known, one.name)]
    if job.job_type != known.job_type:
        different.insert(0, "job")
    return _change("job", job.key, different, job.key in stored.owned_jobs)


def _trigger_change(trigger: Trigger, stored: Stored) -> Change | None:
    known = stored.triggers.get(trigger.key)
    if known is None:
        return Change("+", "trigger", trigger.key)
    owned = trigger.key in stored.owned_triggers
    if type(known) is not type(trigger):
        return _change("trigger", trigger.key, ["kind"], owned)
    # One that begins when it is stored has begun.
    wanted = replace(trigger, start_time=known.start_time) if trigger.start_time is None else trigger
    different = [one.name for one in fields(wanted) if one.compare and _differs(wanted, known, one.name)]
    return _change("trigger", trigger.key, different, owned)


def _differs(one: object, other: object, name: str) -> bool:
    left, right = getattr(one, name), getattr(other, name)
    return bool((left or None) != (right or None)) if name == "data" else bool(left != right)


def _change(kind: str, key: JobKey | TriggerKey, different: list[str], owned: bool) -> Change | None:
    if different:
        return Change("~", kind, key, ", ".join(different))
    return None if owned else Change("~", kind, key, "owner")


def _gone(wanted: Definitions, stored: Stored) -> Iterator[Change]:
    jobs = {job.key for job, _ in wanted}
    triggers = {trigger.key for _, declared in wanted for trigger in declared}
    for trigger_key in sorted(stored.owned_triggers - triggers):
        yield Change("-", "trigger", trigger_key)
    for job_key in sorted(stored.owned_jobs - jobs):
        yield Change("-", "job", job_key)
