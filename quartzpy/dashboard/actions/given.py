"""The parameters of an action: the query of its link and the fields of its form, and the subjects that they name."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from starlette.datastructures import FormData, QueryParams

from quartzpy.dashboard.filters import execution_filters, job_filters, trigger_filters
from quartzpy.dashboard.links import job_key, trigger_key
from quartzpy.dashboard.visit import Visit
from quartzpy.errors import InvalidValueError
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.operations.actions.action import Action
from quartzpy.operations.selection import NAMES, Keys, Selection, Subject
from quartzpy.scheduler.methods.queries import checked_fire_id
from quartzpy.texts import quoted

ALL = "all"
"""The scope of an action on everything that matches the filter of a list, and not only what is selected there."""


@dataclass(frozen=True, slots=True)
class NodeName:
    """A node, as the subject of an action."""

    name: str

    def __str__(self) -> str:
        return f"node {self.name}"


Subjects: TypeAlias = Keys | Selection | NodeName


@dataclass(frozen=True, slots=True)
class Given:
    """The parameters of one request for an action. The fields of the form take precedence over the link's query."""

    query: QueryParams
    fields: FormData

    def get(self, name: str, default: str = "") -> str:
        found = self.fields.get(name)
        if not isinstance(found, str):
            found = self.query.get(name)
        return default if found is None else found

    def all(self, name: str) -> list[str]:
        """Return all values of a parameter."""
        found = [value for value in self.fields.getlist(name) if isinstance(value, str)]
        return found or self.query.getlist(name)

    def has(self, name: str) -> bool:
        return bool(self.get(name))

    def values(self, action: Action, zone_name: str) -> dict[str, Any]:
        """Return the values of the inputs of an action; a field that was not sent has its default.

        Raises:
            InvalidValueError: a text is not a value of its input.
        """
        sent = self.fields.keys() | self.query.keys()
        return {
            item.name: item.read(self.get(item.field), zone_name)
            if item.is_required or item.field in sent
            else item.default
            for item in action.inputs
        }


_FILTERS: Mapping[str, tuple[Callable[..., Selection], Callable[[Visit], dict[str, Any]]]] = {
    "jobs": (Selection.jobs, job_filters),
    "triggers": (Selection.triggers, trigger_filters),
    "executions": (Selection.executions, execution_filters),
}
_KINDS = {text: kind for kind, text in NAMES.items()}


def subjects_of(visit: Visit, given: Given, action: Action) -> Subjects:
    """Return the subjects that a request names: a node, one key, the selected keys of a list, or all of its filter.

    Raises:
        InvalidValueError: it names none, or a key or a filter is wrong.
    """
    if Subject.NODE in action.subjects:
        if not given.has("node"):
            raise InvalidValueError("node: the link must say which one, as ?node=NAME")
        return NodeName(given.get("node"))
    of = given.get("of")
    if of in _FILTERS:
        if given.get("scope") == ALL:
            select, filters = _FILTERS[of]
            return select(**filters(visit))
        return _selected(of, given.all("selected"))
    if given.has("fire_id"):
        return Keys(Subject.EXECUTION, (checked_fire_id(given.get("fire_id")),))
    match given.get("kind"):
        case "job":
            return Keys(Subject.JOB, (job_key(given),))
        case "trigger":
            return Keys(Subject.TRIGGER, (trigger_key(given),))
        case "job_group":
            return Selection.job_group(given.get("group"))
        case "trigger_group":
            return Selection.trigger_group(given.get("group"))
        case "everything":
            return Selection.everything()
    raise InvalidValueError(f"{action.name}: the link does not say what to do it to")


def _selected(of: str, values: list[str]) -> Keys:
    if not values:
        raise InvalidValueError(f"No {of} are selected: select some, or choose “all that match this filter”.")
    kind = _KINDS[of]
    return Keys(kind, tuple(dict.fromkeys(_key(kind, value) for value in values)))


def _key(kind: Subject, value: str) -> JobKey | TriggerKey | int:
    if kind is Subject.EXECUTION:
        return checked_fire_id(value)
    try:
        group, name = json.loads(value)
    except (ValueError, TypeError):
        raise InvalidValueError(f"selected: must be a list of a group and a name (got {quoted(value)})") from None
    return JobKey(name, group) if kind is Subject.JOB else TriggerKey(name, group)
