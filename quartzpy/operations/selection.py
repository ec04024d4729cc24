"""The subjects of an action: jobs, triggers or executions, by key or by filter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any, TypeAlias

from quartzpy.errors import InvalidValueError
from quartzpy.keys import JobKey, Key, TriggerKey
from quartzpy.matchers import GroupMatcher, MatchOperator
from quartzpy.scheduler.methods.queries import QueryMethods
from quartzpy.scheduler.querying import Query
from quartzpy.store.filters import filters_of
from quartzpy.store.queries import ExecutionQuery, JobQuery, TriggerQuery
from quartzpy.texts import numbered, quoted


class Subject(StrEnum):
    """The kinds of things that an action applies to."""

    JOB = "job"
    TRIGGER = "trigger"
    EXECUTION = "execution"
    JOB_GROUP = "job group"
    TRIGGER_GROUP = "trigger group"
    EVERYTHING = "everything"
    NODE = "node"
    INCIDENT = "incident"
    LIMIT = "limit"
    WINDOW = "window"
    CALENDAR = "calendar"


NAMES: Mapping[Subject, str] = MappingProxyType(
    {Subject.JOB: "jobs", Subject.TRIGGER: "triggers", Subject.EXECUTION: "executions"}
)
"""The kinds that a filter can select, with the words for several of them."""
_GROUPS = (Subject.JOB_GROUP, Subject.TRIGGER_GROUP)


@dataclass(frozen=True, slots=True)
class Selection:
    """All jobs, triggers or executions that match the filters of `Scheduler.jobs`, `.triggers` or `.executions`.

        Selection.triggers(state="ERROR", group="billing")

    Without a filter it selects all of them. `trigger_group`, `job_group` and `everything` select a pause of its own
    kind, which includes the triggers that are stored later.

    Raises:
        InvalidValueError: the kind cannot be selected, or the filters are not those of its query. The values of the
            filters are checked when the selection is used.
    """

    kind: Subject
    filters: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kind not in (*NAMES, *_GROUPS, Subject.EVERYTHING):
            raise InvalidValueError(
                f"selection: jobs, triggers or executions can be selected (got {quoted(self.kind)})"
            )
        filters = {name: value for name, value in self.filters.items() if value is not None}
        unknown = filters.keys() - _FILTERS[self.kind]
        if unknown:
            names = ", ".join(sorted(_FILTERS[self.kind])) or "none"
            raise InvalidValueError(
                f"selection: {NAMES.get(self.kind, self.kind)} have no filter {', '.join(sorted(unknown))};"
                f" the filters are {names}"
            )
        object.__setattr__(self, "filters", MappingProxyType(filters))

    def __hash__(self) -> int:
        return hash((self.kind, frozenset(self.filters)))

    @classmethod
    def jobs(cls, **filters: Any) -> Selection:
        """Select jobs by the filters of `Scheduler.jobs`: group, contains, job_type, mode."""
        return cls(Subject.JOB, filters)

    @classmethod
    def triggers(cls, **filters: Any) -> Selection:
        """Select triggers by the filters of `Scheduler.triggers`, except `order_by`."""
        return cls(Subject.TRIGGER, filters)

    @classmethod
    def executions(cls, **filters: Any) -> Selection:
        """Select executions by the filters of `Scheduler.executions`."""
        return cls(Subject.EXECUTION, filters)

    @classmethod
    def trigger_group(cls, group: str | GroupMatcher) -> Selection:
        """Select a group of triggers, those that are stored later included."""
        return cls(Subject.TRIGGER_GROUP, {"group": group})

    @classmethod
    def job_group(cls, group: str | GroupMatcher) -> Selection:
        """Select the triggers of a group of jobs, those that are stored later included."""
        return cls(Subject.JOB_GROUP, {"group": group})

    @classmethod
    def everything(cls) -> Selection:
        """Select all triggers, those that are stored later included."""
        return cls(Subject.EVERYTHING)

    @property
    def is_pause(self) -> bool:
        """True if this selects a pause of a group or of everything, and not a number of stored things."""
        return self.kind not in NAMES

    def query(self, transaction: QueryMethods) -> Query[Any]:
        """Return the query of the selected records, in the order of their keys.

        For a group it is that of the jobs or triggers that the group has now, and for everything that of all triggers.

        Raises:
            InvalidValueError: a filter has a value that it cannot have.
        """
        match self.kind:
            case Subject.JOB | Subject.JOB_GROUP:
                return transaction.jobs(**self.filters)
            case Subject.TRIGGER | Subject.TRIGGER_GROUP | Subject.EVERYTHING:
                return transaction.triggers(**self.filters)
        return transaction.executions(**self.filters)

    def __str__(self) -> str:
        if self.kind is Subject.EVERYTHING:
            return "everything"
        if self.is_pause:
            return f"{self.kind} {_shown(self.filters['group'])}"
        filters = ", ".join(f"{name}={_shown(value)}" for name, value in self.filters.items())
        return f"{NAMES[self.kind]} with {filters}" if filters else f"all {NAMES[self.kind]}"


_QUERIES: Mapping[Subject, type] = {
    Subject.JOB: JobQuery,
    Subject.TRIGGER: TriggerQuery,
    Subject.EXECUTION: ExecutionQuery,
}
_FILTERS: Mapping[Subject, frozenset[str]] = {
    **{
        kind: frozenset(declared.name for declared in filters_of(query) if not declared.is_order)
        for kind, query in _QUERIES.items()
    },
    Subject.TRIGGER_GROUP: frozenset({"group"}),
    Subject.JOB_GROUP: frozenset({"group"}),
    Subject.EVERYTHING: frozenset(),
}

Selected: TypeAlias = JobKey | TriggerKey | int | Iterable[JobKey] | Iterable[TriggerKey] | Iterable[int] | Selection
"""The subjects of an action: one key, several keys of one kind, or a `Selection`. Executions have fire ids as keys."""


@dataclass(frozen=True, slots=True)
class Keys:
    """Subjects that are named one by one: keys of jobs, keys of triggers, or fire ids."""

    kind: Subject
    keys: tuple[Any, ...]

    def __str__(self) -> str:
        if len(self.keys) == 1:
            return named(self.kind, self.keys[0])
        shown = ", ".join(str(key) for key in self.keys[:_MAX_NAMED])
        more = f" and {numbered(len(self.keys) - _MAX_NAMED, 'other', 'others')}" if len(self.keys) > _MAX_NAMED else ""
        return f"{len(self.keys):,} {NAMES[self.kind]}: {shown}{more}"


_MAX_NAMED = 5
_GROUP = {
    MatchOperator.EQUALS: "{}",
    MatchOperator.STARTS_WITH: "{}*",
    MatchOperator.ENDS_WITH: "*{}",
    MatchOperator.CONTAINS: "*{}*",
    MatchOperator.ANYTHING: "*",
}


def named(kind: Subject, key: object) -> str:
    """Return the name of one subject for people and for the audit log: "trigger DEFAULT.nightly"."""
    return f"{kind} {key}"


def as_selected(subjects: object, *kinds: Subject) -> Keys | Selection:
    """Return the subjects of an action that applies to things of these kinds.

    Raises:
        InvalidValueError: `subjects` selects nothing, or something of another kind.
    """
    if isinstance(subjects, Selection):
        if subjects.kind not in kinds:
            raise InvalidValueError(f"selection: {_wanted(kinds)} needed (got {subjects})")
        return subjects
    many = isinstance(subjects, Iterable) and not isinstance(subjects, str | Key)
    keys = list(dict.fromkeys(subjects)) if many else [subjects]  # type: ignore[call-overload]
    kinds_of_keys = {_kind_of(key) for key in keys}
    kind = kinds_of_keys.pop() if len(kinds_of_keys) == 1 else None
    if kind is None or kind not in kinds:
        shown = "no key" if not keys else quoted(keys[0] if len(keys) == 1 else keys)
        raise InvalidValueError(f"selection: {_wanted(kinds)} needed, one or several of one kind (got {shown})")
    return Keys(kind, tuple(keys))


def _kind_of(key: object) -> Subject | None:
    match key:
        case JobKey():
            return Subject.JOB
        case TriggerKey():
            return Subject.TRIGGER
        case bool():
            return None
        case int():
            return Subject.EXECUTION
    return None


def _wanted(kinds: Iterable[Subject]) -> str:
    words = {Subject.JOB: "a JobKey", Subject.TRIGGER: "a TriggerKey", Subject.EXECUTION: "a fire id (a whole number)"}
    return f"{' or '.join(words[kind] for kind in kinds if kind in words)}, or a Selection, is"


def _shown(value: object) -> str:
    match value:
        case datetime():
            return value.isoformat()
        case GroupMatcher():
            return _GROUP[value.operator].format(value.value)
        case str() | Key() | bool() | int():
            return str(value)
        case Iterable():
            return "|".join(sorted(str(item) for item in value))
    return str(value)
