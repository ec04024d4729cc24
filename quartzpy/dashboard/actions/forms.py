"""The forms of actions: the texts in their fields, and the calls that carry them out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.datastructures import FormData

from quartzpy.dashboard.actions.given import Given, NodeName, Subjects
from quartzpy.dashboard.actions.previews import PREVIEWS, backfill_times
from quartzpy.dashboard.visit import Visit
from quartzpy.errors import InvalidValueError
from quartzpy.operations import ActionResult
from quartzpy.operations.actions import Actions
from quartzpy.operations.actions.action import Action
from quartzpy.operations.selection import Keys, Selection


def argument_of(action: Action, subjects: Subjects) -> Any:
    """Return the subjects as the method of an action takes them.

    Raises:
        InvalidValueError: the action applies to one subject at a time, of another kind or number.
    """
    if isinstance(subjects, NodeName):
        return subjects.name
    if not action.is_single:
        return subjects.keys if isinstance(subjects, Keys) else subjects
    [kind] = action.subjects
    if isinstance(subjects, Keys) and subjects.kind is kind and len(subjects.keys) == 1:
        return subjects.keys[0]
    raise InvalidValueError(f"this is done to one {kind} at a time (got {subjects})")


def filled_in(visit: Visit, given: Given, action: Action, subjects: Subjects) -> Given:
    """Return the parameters with a text for each field of the form, also for those that nobody has typed in."""
    argument = argument_of(action, subjects)
    preview = PREVIEWS.get(action.name)
    texts: Mapping[str, str] = preview.present(visit, argument) if preview else {}
    defaults = {item.field: texts.get(item.field, str(item.default or "")) for item in action.inputs}
    typed = [(name, given.get(name, default)) for name, default in defaults.items()]
    return Given(given.query, FormData([*given.fields.multi_items(), *typed]))


def carry_out(
    action: Action, actions: Actions, subjects: Subjects, visit: Visit, given: Given, reason: str
) -> ActionResult:
    """Do what a form says.

    Raises:
        InvalidValueError: a field has a wrong value.
    """
    argument, values = argument_of(action, subjects), given.values(action, visit.times.zone_name)
    if action.name == "backfill":
        runs = len(backfill_times(visit, argument, given))
        if given.get("expected") != str(runs):
            raise InvalidValueError(f"these are {runs:,} fires: check them below, then run them")
    result: ActionResult = getattr(actions, action.name)(argument, **values, reason=reason)
    return result


def count_of_subjects(actions: Actions, subjects: Subjects) -> int:
    """Return the number of subjects that an action would change now."""
    if isinstance(subjects, Selection) and not subjects.is_pause:
        return actions.count(subjects)
    return len(subjects.keys) if isinstance(subjects, Keys) else 1
