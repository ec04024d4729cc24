"""Placement: the worker pool, execution group and labels that a job asks for, and the capabilities of nodes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property, lru_cache
from typing import Any, Self

from quartzpy.errors import InvalidJobError, InvalidKeyError
from quartzpy.keys import check_name
from quartzpy.texts import quoted, stored_object

DEFAULT_EXECUTOR = "default"
"""The worker pool of jobs that do not name one."""
MAX_LENGTH = 500
"""The longest stored placement in characters. It is limited because it is part of an index."""


@dataclass(frozen=True)
class Placement:
    """The placement of a job. `executor` and `group` are empty if the job does not name them."""

    executor: str = ""
    group: str = ""
    requires: tuple[str, ...] = ()

    @property
    def pool(self) -> str:
        """The name of the worker pool that runs the job."""
        return self.executor or DEFAULT_EXECUTOR

    @classmethod
    def of(cls, executor: str | None, group: str | None, requires: Sequence[str]) -> Self:
        """Return the placement for the values of a job.

        Raises:
            InvalidJobError: A name is invalid, or the placement is too long.
        """
        if isinstance(requires, str) or not isinstance(requires, Sequence | frozenset | set):
            raise InvalidJobError(f"requires: must be a sequence of labels (got {quoted(requires)})")
        try:
            for name, subject in ((executor, "executor"), (group, "execution_group")):
                if name is not None:
                    check_name(name, subject)
            labels = tuple(sorted({check_name(label, "requires: a label") for label in requires}))
        except InvalidKeyError as error:
            raise InvalidJobError(str(error)) from None
        placement = cls("" if executor in (None, DEFAULT_EXECUTOR) else executor or "", group or "", labels)
        if (length := len(placement.text)) > MAX_LENGTH:
            raise InvalidJobError(
                f"executor, execution_group and requires: {length} characters as stored, at most {MAX_LENGTH}"
            )
        return placement

    @cached_property
    def text(self) -> str:
        """The stored form: an empty string for a job that may run anywhere, otherwise JSON."""
        values = {"executor": self.executor, "group": self.group, "requires": list(self.requires)}
        stored = {name: value for name, value in values.items() if value}
        return json.dumps(stored, separators=(",", ":")) if stored else ""


ANYWHERE = Placement()
"""The placement of a job that asks for nothing."""


@lru_cache(maxsize=1024)
def placement_from_text(text: str) -> Placement:
    """Return the placement with this stored form.

    Raises:
        InvalidJobError: `text` is not a stored placement.
    """
    if not text:
        return ANYWHERE
    stored = stored_object(text, "placement", InvalidJobError)
    executor, group, requires = stored.get("executor", ""), stored.get("group", ""), stored.get("requires", [])
    if not isinstance(requires, list) or not all(isinstance(name, str) for name in (executor, group, *requires)):
        raise InvalidJobError(f"placement: executor, group and labels must be strings (got {quoted(text)})")
    return Placement(executor, group, tuple(requires))


@lru_cache(maxsize=1024)
def slot_pool_of(placement: str) -> str:
    """Return the part of a stored placement that says whose slots its jobs take: the executor and the group.

    It is empty for the default executor without a group. The tables compute it, too (`SLOT_POOL`).
    """
    return placement.split('"requires":', 1)[0].strip("{,}")


def placement_of_slot_pool(slot_pool: str) -> Placement:
    """Return the placement with this slot pool and no labels."""
    return placement_from_text("{" + slot_pool + "}" if slot_pool else "")


ANY_OTHER_GROUP = "*"
NO_GROUP = "_"


@dataclass(frozen=True, slots=True)
class EngineCapability:
    """What a node says about the engine of an executor."""

    engine: str
    """The engine and its address, as in the setting."""
    cannot: tuple[str, ...] = ()
    """What it cannot do, in words: "kill a job"."""
    takes_tickets: bool = False
    """True if its calls take a ticket in the database."""
    may_repeat: bool = False
    """True if it may run a job twice, because it repeats calls and they take no ticket."""

    @classmethod
    def from_stored(cls, values: Mapping[str, Any]) -> Self:
        """Return what a node has stored, which may be of another release."""
        entries = {entry.name: values[entry.name] for entry in fields(cls) if entry.name in values}
        return cls(**{**entries, "cannot": tuple(values.get("cannot", ()))})

    def __str__(self) -> str:
        cannot = f", cannot {' or '.join(self.cannot)}" if self.cannot else ""
        return f"{self.engine}{cannot}{', may run a job twice' if self.may_repeat else ''}"


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The capabilities of a node: which jobs it can run, and how many of them at the same time.

    `groups` are the limits of execution groups on the node: "*" is the limit of each group that is not named, "_" that
    of jobs without a group, and a limit of 0 leaves a group to other nodes. `workers` is the number of workers of each
    executor, and `engines` are the engines of those that have one.
    """

    job_types: frozenset[str] = frozenset()
    executors: frozenset[str] = frozenset()
    labels: frozenset[str] = frozenset()
    groups: Mapping[str, int] = field(default_factory=dict, hash=False)
    workers: Mapping[str, int] = field(default_factory=dict, hash=False)
    engines: Mapping[str, EngineCapability] = field(default_factory=dict, hash=False)
    performs_maintenance: bool = True
    """True if the node always does maintenance (misfires, old history, repairs), even if other nodes could."""

    def limit_of(self, group: str) -> int | None:
        """Return the limit of a group, which is empty for jobs without a group; None if there is no limit."""
        if not group:
            return self.groups.get(NO_GROUP)
        return self.groups.get(group, self.groups.get(ANY_OTHER_GROUP))

    def allows(self, placement: Placement) -> bool:
        """Return True if jobs with this placement may run on the node, provided that it knows their type."""
        return (
            (not placement.executor or placement.executor in self.executors)
            and self.labels.issuperset(placement.requires)
            and self.limit_of(placement.group) != 0
        )

    def as_text(self) -> str:
        """Return the stored form, which is JSON."""
        return json.dumps(
            {
                "job_types": sorted(self.job_types),
                "executors": sorted(self.executors),
                "labels": sorted(self.labels),
                "groups": dict(self.groups),
                "workers": dict(self.workers),
                "engines": {name: asdict(engine) for name, engine in self.engines.items()},
                "performs_maintenance": self.performs_maintenance,
            }
        )

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Return the capabilities with this stored form."""
        stored = json.loads(text)
        return cls(
            frozenset(stored.get("job_types", ())),
            frozenset(stored.get("executors", ())),
            frozenset(stored.get("labels", ())),
            stored.get("groups", {}),
            stored.get("workers", {}),
            {name: EngineCapability.from_stored(engine) for name, engine in stored.get("engines", {}).items()},
            stored.get("performs_maintenance", True),
        )
