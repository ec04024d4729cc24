"""The filters of listings and of methods: those of `Scheduler.jobs`, `triggers`, `executions` and `misfires`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import click

from quartzpy.cli.completion import CALENDARS, JOBS, NODES, TRIGGERS
from quartzpy.cli.formatter import Formatter, faint, instant
from quartzpy.cli.keys import group_matcher, job_key, trigger_key
from quartzpy.scheduler.typed_text import FUTURE, PAST
from quartzpy.states import ActionState, ExecutionState, JobMode, MisfireAction, PublicState, TriggerState, folded_word

if TYPE_CHECKING:
    from quartzpy.operations.operations import Operations


class _Words(click.Choice[str]):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        by_text = {folded_word(word): word for word in self.choices}
        return super().convert(by_text.get(folded_word(str(value)), value), param, ctx)


def choice(words: Iterable[str]) -> click.Choice[str]:
    """Return the type of an option that accepts the values of an enumeration, as `quartzpy.states.Word` reads them."""
    # Of an enumeration itself, Click would accept the names of its members instead.
    return _Words([str(word) for word in words], case_sensitive=False)


_Command = Callable[..., Any]
_TRIGGER_STATES: list[StrEnum] = list(
    dict.fromkeys([*TriggerState, *(word for word in PublicState if word != PublicState.NONE)])
)
_GROUP = {"help": "The group; * may stand in front and at the end."}
_CONTAINS = {"help": "A part of the name; upper and lower case differ."}
_TYPE = {"help": "The type of the job, as it is registered."}
_JOB = {"help": "The job: GROUP.NAME.", "shell_complete": JOBS}
_TRIGGER = {"help": "The trigger: GROUP.NAME.", "shell_complete": TRIGGERS}


@dataclass(frozen=True, slots=True)
class FilterSet:
    """The filters of one kind of record, by the names of the parameters of its query."""

    kind: str
    """The kind of record, in the singular."""
    declared: Mapping[str, dict[str, Any]]
    direction: int
    """The direction, from now, of a length of time in `--since` and `--until`."""

    def options(self, command: _Command) -> _Command:
        """Add an option for each filter."""
        for name, declaration in reversed(list(self.declared.items())):
            flag = "--type" if name == "job_type" else f"--{name}"
            command = click.option(flag, name, **declaration)(command)
        return command


JOB_FILTERS = FilterSet(
    "job",
    {
        "group": _GROUP,
        "contains": _CONTAINS,
        "job_type": _TYPE,
        "mode": {"type": choice(JobMode), "help": "The mode of the job."},
    },
    FUTURE,
)
TRIGGER_FILTERS = FilterSet(
    "trigger",
    {
        "job": _JOB,
        "group": _GROUP,
        "contains": _CONTAINS,
        "state": {
            "multiple": True,
            "type": choice(_TRIGGER_STATES),
            "help": "The state; may be given several times.",
        },
        "calendar": {"help": "The calendar that they use.", "shell_complete": CALENDARS},
        "job_type": _TYPE,
        "kind": {"help": "The kind of schedule: simple, cron, ..."},
        "since": {"help": "The earliest next fire time: an instant, or a length of time from now."},
        "until": {"help": "The next fire time is before this instant, or before this length of time from now."},
    },
    FUTURE,
)
EXECUTION_FILTERS = FilterSet(
    "execution",
    {
        "state": {
            "multiple": True,
            "type": choice(ExecutionState),
            "help": "The state; may be given several times. [default: all that have ended]",
        },
        "job": _JOB,
        "trigger": _TRIGGER,
        "group": {"help": "The group of the job; * may stand in front and at the end."},
        "job_type": _TYPE,
        "node": {"help": "The node that executed it.", "shell_complete": NODES},
        "since": {"help": "The earliest scheduled fire time: an instant, or a length of time ago."},
        "until": {"help": "The scheduled fire time is before this instant, or before this length of time ago."},
        "exhausted": {"is_flag": True, "help": "Only those that failed and that no retry follows."},
        "error": {"help": "A part of the error; upper and lower case differ."},
    },
    PAST,
)
MISFIRE_FILTERS = FilterSet(
    "misfire",
    {
        "trigger": _TRIGGER,
        "job": _JOB,
        "action": {
            "type": choice(MisfireAction),
            "help": "The result of the misfire instruction.",
        },
        "node": {"help": "The node that handled it.", "shell_complete": NODES},
        "since": {"help": "The earliest scheduled fire time that was missed: an instant, or a length of time ago."},
        "until": {"help": "The missed fire time is before this instant, or before this length of time ago."},
    },
    PAST,
)

AUDIT_FILTERS = FilterSet(
    "action",
    {
        "actor": {"help": "The name of the actor."},
        "action": {"help": "The name of the action: pause, delete, ..."},
        "subject": {"help": 'The whole subject: "trigger GROUP.NAME", "job GROUP.NAME", "node NAME", ...'},
        "state": {"type": choice(ActionState), "help": "The state of the action."},
        "since": {"help": "The earliest begin: an instant, or a length of time ago."},
        "until": {"help": "They began before this instant, or before this length of time ago."},
    },
    PAST,
)

INCIDENT_FILTERS = FilterSet(
    "incident",
    {
        "kind": {"help": "The kind: dead-node, trigger-error, ..."},
        "contains": {"help": "A part of the subject or of the sentence."},
        "since": {"help": "They ended at this instant or later, or this length of time ago. Implies --past."},
        "until": {"help": "They began before this instant, or before this length of time ago."},
    },
    PAST,
)


class Filters:
    """The filters that a command was given."""

    def __init__(self, filters: FilterSet, values: Mapping[str, Any], formatter: Formatter) -> None:
        self._set = filters
        self._values = {name: values[name] for name in filters.declared if name in values}
        self._formatter = formatter

    def __bool__(self) -> bool:
        """Return True if at least one filter was given."""
        return any(value not in (None, (), False) for value in self._values.values())

    def values(self, operations: Operations) -> dict[str, Any]:
        """Return the filters that were given, in the types of the query.

        Raises:
            SettingsError: a value is wrong.
            ObjectNotFoundError: a filter names a job or trigger that is not stored.
        """
        scheduler = operations.scheduler
        now = operations.now()
        converted: dict[str, Any] = {}
        for name, value in self._values.items():
            if value in (None, (), False):
                continue
            match name:
                case "job":
                    converted[name] = job_key(scheduler, value)
                case "trigger":
                    converted[name] = trigger_key(scheduler, value)
                case "group":
                    converted[name] = group_matcher(value)
                case "since" | "until":
                    converted[name] = instant(value, f"--{name}", self._formatter, now, direction=self._set.direction)
                case _:
                    converted[name] = value
        return converted

    def __str__(self) -> str:
        """Return the filters as options of the command: "--state ERROR --group eu"."""
        words = []
        for name, value in self._values.items():
            flag = "--type" if name == "job_type" else f"--{name}"
            if value is True:
                words.append(flag)
            elif value not in (None, (), False):
                words += [f"{flag} {word}" for word in (value if isinstance(value, tuple) else (value,))]
        return " ".join(words)

    def nothing(self, operations: Operations) -> str:
        """Return the sentence for an empty answer: what was looked for, and what there is."""
        kind = self._set.kind
        scheduler = f"the scheduler {operations.scheduler.name!r}"
        if not self:
            return faint(f"{scheduler} has no {'actions in its audit log' if kind == 'action' else f'{kind}s'}")
        return faint(f"no {kind} matches {self}; {scheduler} has {_in_all(kind, operations)}")


def _in_all(kind: str, operations: Operations) -> str:
    match kind:
        case "job":
            return f"{operations.counts()['jobs']} jobs"
        case "trigger":
            # Each number is counted up to a limit: an exact number of millions would take seconds.
            counts = operations.counts()
            states = {state: counts[state] for state in sorted(TriggerState) if state in counts}
            converted = [f"{count} {state}" for state, count in states.items() if count.number]
            return f"triggers: {', '.join(converted)}" if converted else "no triggers"
        case "execution":
            latest = operations.executions(limit=1)
            return f"executions, the latest of {latest[0].job}" if latest else "no executions in its history"
        case "action":
            return "other actions" if operations.audit_log(limit=1) else "no actions in its audit log"
    return "other misfires" if operations.misfires(limit=1) else "no misfires in its history"
