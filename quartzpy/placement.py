"""Where a job may run: which of a node's worker pools, counted in which group, on nodes with which labels."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Self

from quartzpy.errors import InvalidJobError, InvalidKeyError
from quartzpy.keys import check_name
from quartzpy.texts import quoted, stored_object

DEFAULT_EXECUTOR = "default"
"""The worker pool of jobs that name none."""
MAX_LENGTH = 500
"""Characters of a placement as it is stored: it is part of an index."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a job may run. `executor` and `group` are empty where it names none."""

    executor: str = ""
    group: str = ""
    requires: tuple[str, ...] = ()

    @property
    def pool(self) -> str:
        """The name of the worker pool that it asks for."""
        return self.executor or DEFAULT_EXECUTOR

    @classmethod
    def of(cls, executor: str | None, group: str | None, requires: Sequence[str]) -> Self:
        """The placement that a job's values say.

        Raises:
            InvalidJobError: a name is none, or together they are too long.
        """
        if isinstance(requires, str) or not isinstance(requires, Sequence | frozenset | set):
            raise InvalidJobError(f"requires: a sequence of labels (got {quoted(requires)})")
        try:
            for name, subject in ((executor, "executor"), (group, "execution_group")):
                if name is not None:
                    check_name(name, subject)
            labels = tuple(sorted({check_name(label, "requires: a label") for label in requires}))
        except InvalidKeyError as error:
            raise InvalidJobError(str(error)) from None
        made = cls("" if executor in (None, DEFAULT_EXECUTOR) else executor or "", group or "", labels)
        if len(made.as_text()) > MAX_LENGTH:
            raise InvalidJobError(
                f"executor, execution_group and requires: {len(made.as_text())} characters as stored,"
                f" at most {MAX_LENGTH}"
            )
        return made

    def as_text(self) -> str:
        """What is stored: empty for a job that may run anywhere, else JSON."""
        values = {"executor": self.executor, "group": self.group, "requires": list(self.requires)}
        said = {name: value for name, value in values.items() if value}
        return json.dumps(said, separators=(",", ":")) if said else ""


@lru_cache(maxsize=1024)
def placement_from_text(text: str) -> Placement:
    """The placement that is stored so. Raises InvalidJobError where the text is none."""
    if not text:
        return Placement()
    said = stored_object(text, "placement", InvalidJobError)
    executor, group, requires = said.get("executor", ""), said.get("group", ""), said.get("requires", [])
    if not isinstance(requires, list) or not all(isinstance(name, str) for name in (executor, group, *requires)):
        raise InvalidJobError(f"placement: names are needed (got {quoted(text)})")
    return Placement(executor, group, tuple(requires))


ANY_OTHER_GROUP = "*"
NO_GROUP = "_"


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The capabilities of a node: what it can run, and how much of it.

    `groups` are the limits of execution groups on the node: "*" is the limit of each group that is not named, "_" that
    of jobs without a group, and a limit of 0 leaves a group to other nodes. A group without a limit is not named.
    `workers` is the number of workers of each executor.
    """

    job_types: frozenset[str] = frozenset()
    executors: frozenset[str] = frozenset()
    labels: frozenset[str] = frozenset()
    groups: Mapping[str, int] = field(default_factory=dict, hash=False)
    workers: Mapping[str, int] = field(default_factory=dict, hash=False)
    keeps_house: bool = True
    """Whether the node handles misfires, deletes old history and repairs rows, also where other nodes could."""

    def limit_of(self, group: str) -> int | None:
        """How many executions of a group (empty: of jobs without one) may run there at once; None: any number."""
        if not group:
            return self.groups.get(NO_GROUP)
        return self.groups.get(group, self.groups.get(ANY_OTHER_GROUP))

    def allows(self, placement: Placement) -> bool:
        """Whether jobs that ask for this may run there, if their type is known."""
        return (
            (not placement.executor or placement.executor in self.executors)
            and self.labels.issuperset(placement.requires)
            and self.limit_of(placement.group) != 0
        )

    def as_text(self) -> str:
        """The JSON that is stored."""
        return json.dumps(
            {
                "job_types": sorted(self.job_types),
                "executors": sorted(self.executors),
                "labels": sorted(self.labels),
                "groups": dict(self.groups),
                "workers": dict(self.workers),
                "keeps_house": self.keeps_house,
            }
        )

    @classmethod
    def from_text(cls, text: str) -> Self:
        """The capabilities of stored JSON."""
        stored = json.loads(text)
        return cls(
            frozenset(stored.get("job_types", ())),
            frozenset(stored.get("executors", ())),
            frozenset(stored.get("labels", ())),
            stored.get("groups", {}),
            stored.get("workers", {}),
            stored.get("keeps_house", True),
        )
