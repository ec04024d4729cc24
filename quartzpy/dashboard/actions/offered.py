"""The actions that the page offers: their words, their inputs, and the calls that carry them out."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from quartzpy.dashboard.actions.given import Given, NodeName, Subjects
from quartzpy.dashboard.visit import Visit
from quartzpy.errors import InvalidJobDataError, InvalidValueError
from quartzpy.instants import zone
from quartzpy.job_data import decode
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.operations import ActionResult
from quartzpy.operations.actions import Actions
from quartzpy.operations.selection import Keys, Selection, Subject
from quartzpy.states import Missed
from quartzpy.texts import quoted

_MOST_DIGITS = 5

Run = Callable[[Actions, Any, Visit, Given, str], ActionResult]


@dataclass(frozen=True, slots=True)
class Offered:
    """An action of the page."""

    name: str
    title: str
    """The beginning of the heading that asks for confirmation; the subject follows."""
    explanation: str
    run: Run
    inputs: tuple[str, ...] = ()
    """The names of its inputs, each a macro of the template."""
    is_dangerous: bool = False
    button: str = ""
    """The words of its button, if they are not those of the title."""


def _selected(subjects: Subjects) -> Any:
    """Return the subjects as a selection of `Operations.actions`."""
    return subjects.keys if isinstance(subjects, Keys) else subjects


def _job(subjects: Subjects) -> JobKey:
    return _single(subjects, Subject.JOB, "job")  # type: ignore[no-any-return]


def trigger_of(subjects: Subjects) -> TriggerKey:
    """Return the trigger that an action on one trigger is for.

    Raises:
        InvalidValueError: it is not for one trigger.
    """
    return _single(subjects, Subject.TRIGGER, "trigger")  # type: ignore[no-any-return]


def _single(subjects: Subjects, kind: Subject, word: str) -> Any:
    if isinstance(subjects, Keys) and subjects.kind is kind and len(subjects.keys) == 1:
        return subjects.keys[0]
    raise InvalidValueError(f"this is done to one {word} at a time (got {subjects})")


def _node(subjects: Subjects) -> str:
    assert isinstance(subjects, NodeName)
    return subjects.name


def data_of(given: Given) -> dict[str, Any] | None:
    """Return the data that was entered, as JSON.

    Raises:
        InvalidJobDataError: it is not a JSON object.
    """
    text = given.get("data").strip()
    if not text:
        return None
    try:
        found = json.loads(text)
    except ValueError as error:
        raise InvalidJobDataError(f"data: not JSON: {error}") from None
    if not isinstance(found, dict):
        raise InvalidJobDataError(f'data: must be a JSON object such as {{"region": "eu"}} (got {quoted(found)})')
    return decode(text)


def missed_of(given: Given) -> str:
    """Return the chosen policy for missed fires."""
    return given.get("missed") or Missed.MISFIRE


def count_of(given: Given) -> int:
    """Return the number that was entered.

    Raises:
        InvalidValueError: it is not a number.
    """
    text = given.get("count", "1").strip()
    if not text.isdecimal() or len(text) > _MOST_DIGITS:
        raise InvalidValueError(f"count: must be a whole number from 1 to 10,000 (got {quoted(text)})")
    return int(text)


def span_of(visit: Visit, given: Given) -> tuple[datetime, datetime]:
    """Return the instants `start` and `end` that were entered, by the clock of the reader's zone.

    Raises:
        InvalidValueError: one is missing, or is not an instant, or the end is not after the start.
    """
    start, end = _instant(visit, given, "start"), _instant(visit, given, "end")
    if start >= end:
        raise InvalidValueError("“Until before” must be later than “From”")
    return start, end


def _instant(visit: Visit, given: Given, name: str) -> datetime:
    text = given.get(name).strip()
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidValueError(f"{name}: must be an instant such as 2026-11-22T08:00 (got {quoted(text)})") from None
    return instant if instant.tzinfo is not None else instant.replace(tzinfo=zone(visit.times.zone_name))


def _trigger(actions: Actions, subjects: Subjects, visit: Visit, given: Given, reason: str) -> ActionResult:
    even_if_paused = given.has("even_if_paused")
    return actions.trigger(_job(subjects), data_of(given), even_if_paused=even_if_paused, reason=reason)


def _reschedule(actions: Actions, subjects: Subjects, visit: Visit, given: Given, reason: str) -> ActionResult:
    text, in_zone = given.get("schedule"), given.get("in_zone").strip() or None
    return actions.reschedule(trigger_of(subjects), text, in_zone, reason=reason)


def _backfill(actions: Actions, subjects: Subjects, visit: Visit, given: Given, reason: str) -> ActionResult:
    start, end = span_of(visit, given)
    runs = len(actions.backfill_times(trigger_of(subjects), start, end))
    if given.get("expected") != str(runs):
        raise InvalidValueError(f"these are {runs:,} fires: check them below, then run them")
    even_if_paused = given.has("even_if_paused")
    return actions.backfill(trigger_of(subjects), start, end, even_if_paused=even_if_paused, reason=reason)


def _on_selected(name: str) -> Run:
    def run(actions: Actions, subjects: Subjects, visit: Visit, given: Given, reason: str) -> ActionResult:
        result: ActionResult = getattr(actions, name)(_selected(subjects), reason=reason)
        return result

    return run


def _on_node(name: str) -> Run:
    def run(actions: Actions, subjects: Subjects, visit: Visit, given: Given, reason: str) -> ActionResult:
        result: ActionResult = getattr(actions, name)(_node(subjects), reason=reason)
        return result

    return run


OFFERED: Mapping[str, Offered] = {
    one.name: one
    for one in (
        Offered("trigger", "Trigger now", "The job runs once, now, beside its schedule.", _trigger, ("data", "anyway")),
        Offered(
            "pause", "Pause", "Nothing fires until it is resumed. Running executions continue.", _on_selected("pause")
        ),
        Offered(
            "resume",
            "Resume",
            "The schedule continues.",
            lambda actions, subjects, visit, given, reason: actions.resume(
                _selected(subjects), missed_of(given), reason=reason
            ),
            ("missed",),
        ),
        Offered(
            "skip_next",
            "Skip the next fire of",
            "The schedule continues after the fires that are skipped.",
            lambda actions, subjects, visit, given, reason: actions.skip_next(
                _selected(subjects), count_of(given), reason=reason
            ),
            ("count",),
            button="Skip",
        ),
        Offered(
            "reschedule",
            "Edit the schedule of",
            "Data, priority, calendar, end time and a pause stay as they are.",
            _reschedule,
            ("schedule",),
            button="Save the schedule",
        ),
        Offered(
            "backfill",
            "Backfill",
            "The job runs once for each fire time of the schedule in this span, also for those that it ran for before.",
            _backfill,
            ("span", "anyway"),
        ),
        Offered("cancel", "Cancel", "The running execution is asked to stop.", _on_selected("cancel"), (), True),
        Offered(
            "run_again",
            "Run again",
            "The job runs again, with the data of that run.",
            lambda actions, subjects, visit, given, reason: actions.run_again(
                _selected(subjects), even_if_paused=given.has("even_if_paused"), reason=reason
            ),
            ("anyway",),
        ),
        Offered(
            "reset",
            "Reset from error:",
            "The trigger returns from ERROR to its schedule. Remove the cause first.",
            _on_selected("reset"),
            button="Reset",
        ),
        Offered(
            "enable", "Enable", "Its triggers fire again. Fires that were missed are skipped.", _on_selected("enable")
        ),
        Offered(
            "disable", "Disable", "None of its triggers fires, and it cannot be triggered.", _on_selected("disable")
        ),
        Offered(
            "delete",
            "Delete",
            "A job is deleted with all its triggers; a trigger, with its job if that has no other and is not durable."
            " The history stays, and running executions continue.",
            _on_selected("delete"),
            (),
            True,
        ),
        Offered(
            "drain",
            "Drain",
            "The node claims nothing more, and gives back what waits there. When it is idle, its process can be"
            " stopped.",
            _on_node("drain"),
        ),
        Offered(
            "standby",
            "Put in standby:",
            "The node claims nothing more until it is resumed.",
            _on_node("standby"),
            button="Put in standby",
        ),
        Offered("resume_node", "Resume", "The node claims triggers again.", _on_node("resume_node")),
    )
}
"""The actions, by name."""


def count_of_subjects(actions: Actions, subjects: Subjects) -> int:
    """Return the number of subjects that an action would change now."""
    if isinstance(subjects, Selection) and not subjects.is_pause:
        return actions.count(subjects)
    return len(subjects.keys) if isinstance(subjects, Keys) else 1
