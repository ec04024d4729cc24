"""The neutral plan of an import: what is stored, and notes about what changes or is left out.

It can be written as a file of definitions, which `load_definitions` reads.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from quartzpy.calendars.calendar import BaseCalendar
from quartzpy.errors import InvalidValueError
from quartzpy.jobs.job import JobDetail
from quartzpy.keys import TriggerKey
from quartzpy.triggers.cron import CronTrigger
from quartzpy.triggers.trigger import Trigger, TriggerProgress


class NoteSeverity(StrEnum):
    """The meaning of a note for the import."""

    DIFFERS = "differs"
    """The object comes over, but something about it changes."""
    LEFT_OUT = "left out"
    """The object does not come over, and nothing can be done about it."""
    UNDECIDED = "undecided"
    """The object does not come over unless the user decides how. An import with such a note is refused by default."""


@dataclass(frozen=True, slots=True)
class Note:
    """A remark about one object of the source."""

    severity: NoteSeverity
    subject: str
    """The kind and the name of the object: "job reports.nightly"."""
    text: str

    def __str__(self) -> str:
        return f"{self.severity}: {self.subject}: {self.text}"


@dataclass(frozen=True, slots=True)
class ImportedTrigger:
    """A trigger with its position in its schedule."""

    trigger: Trigger
    progress: TriggerProgress
    paused: str | None = None
    """The reason why the trigger is paused; None if it is not paused."""


@dataclass(frozen=True, slots=True)
class ImportedJob:
    """A job with its triggers."""

    job: JobDetail
    triggers: Sequence[ImportedTrigger] = ()


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """Everything that an import stores, and the notes about the rest."""

    source: str
    """The source in words: "Quartz scheduler billing"."""
    owner: str
    """The owner that the stored jobs and triggers get (see `Scheduler.sync`); it identifies them in a later import."""
    jobs: Sequence[ImportedJob] = ()
    calendars: Mapping[str, BaseCalendar] = field(default_factory=dict)
    paused_groups: frozenset[str] = frozenset()
    notes: Sequence[Note] = ()
    running: str | None = None
    """How the source shows that it still runs; None if it does not."""

    @property
    def undecided(self) -> list[Note]:
        """The notes that need a decision of the user."""
        return [note for note in self.notes if note.severity is NoteSeverity.UNDECIDED]

    def triggers(self) -> dict[TriggerKey, ImportedTrigger]:
        """Return all triggers by key."""
        return {item.trigger.key: item for job in self.jobs for item in job.triggers}


def definitions_text(plan: ImportPlan) -> str:
    """Return the jobs of a plan with their cron triggers in TOML.

    Raises:
        InvalidValueError: a trigger is of another kind.
    """
    lines = [f"# From {plan.source}."]
    for imported in plan.jobs:
        job = imported.job
        lines += ["", "[[job]]"]
        values = {"type": job.job_type, "name": job.name, "group": job.group, "description": job.description}
        lines += [f"{name} = {_value(value)}" for name, value in values.items() if value is not None]
        lines.append(f"data = {_value(job.data or {})}")
        for item in imported.triggers:
            trigger = item.trigger
            if not isinstance(trigger, CronTrigger):
                raise InvalidValueError(f"trigger {trigger.key}: only cron triggers can be written to a file")
            values = {
                "kind": "cron",
                "expression": trigger.expression,
                "dialect": trigger.dialect,
                "time_zone": trigger.time_zone,
            }
            lines += ["", "  [[job.trigger]]", *(f"  {name} = {_value(value)}" for name, value in values.items())]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_value(str(name))} = {_value(item)}" for name, item in value.items()) + " }"
    # A JSON text is one of TOML's, but for the DEL character.
    return re.sub("\x7f", r"\\u007f", json.dumps(value, ensure_ascii=False))
