"""The filters of lists as options of commands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from quartzpy.cli.completion import CALENDARS, JOBS, NODES, TRIGGERS
from quartzpy.cli.formatter import Formatter, faint, instant
from quartzpy.cli.keys import group_matcher, job_key, trigger_key
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.matchers import GroupMatcher
from quartzpy.operations.lists.spec import ListSpec
from quartzpy.scheduler.typed_text import FUTURE, PAST
from quartzpy.states import TriggerState, folded_word
from quartzpy.store.filters import Filter

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
_COMPLETERS: Mapping[Any, Any] = {JobKey: JOBS, TriggerKey: TRIGGERS, "node": NODES, "calendar": CALENDARS}


def filter_options(filters: Sequence[Filter]) -> Callable[[_Command], _Command]:
    """Return the decorator that adds an option for each filter."""

    def decorated(command: _Command) -> _Command:
        for declared in reversed(filters):
            command = _option(declared)(command)
        return command

    return decorated


def _option(declared: Filter) -> Callable[[_Command], _Command]:
    more: dict[str, Any] = {}
    if declared.kind is bool:
        more["is_flag"] = True
    elif declared.choices:
        more |= {"type": choice(declared.choices), "multiple": declared.read_words is not None}
    completer = _COMPLETERS.get(declared.kind) or _COMPLETERS.get(declared.name)
    return click.option(flag(declared), declared.name, help=declared.help, shell_complete=completer, **more)


def flag(declared: Filter) -> str:
    """Return the option of a filter."""
    return f"--{(declared.option or declared.name).replace('_', '-')}"


class Filters:
    """The filters that a command was given."""

    def __init__(self, spec: ListSpec[Any], values: Mapping[str, Any], formatter: Formatter) -> None:
        self._spec = spec
        self._given = [
            (declared, values[declared.name])
            for declared in spec.declared
            if values.get(declared.name) not in (None, (), False)
        ]
        self._formatter = formatter

    def __bool__(self) -> bool:
        """Return True if at least one filter was given."""
        return any(not declared.is_order for declared, _ in self._given)

    def values(self, operations: Operations) -> dict[str, Any]:
        """Return the filters that were given, in the types of the query.

        Raises:
            SettingsError: a value is wrong.
            ObjectNotFoundError: a filter names a job or trigger that is not stored.
        """
        return {declared.name: self._value(declared, value, operations) for declared, value in self._given}

    def _value(self, declared: Filter, value: Any, operations: Operations) -> Any:
        if declared.kind is JobKey:
            return job_key(operations.scheduler, value)
        if declared.kind is TriggerKey:
            return trigger_key(operations.scheduler, value)
        if declared.kind is GroupMatcher:
            return group_matcher(value)
        if declared.kind is datetime:
            direction = FUTURE if declared.is_ahead else PAST
            return instant(value, flag(declared), self._formatter, operations.now(), direction=direction)
        return value

    def __str__(self) -> str:
        """Return the filters as options of the command: "--state ERROR --group eu"."""
        words = []
        for declared, value in self._given:
            if value is True:
                words.append(flag(declared))
            elif not declared.is_order:
                words += [f"{flag(declared)} {word}" for word in (value if isinstance(value, tuple) else (value,))]
        return " ".join(words)

    def nothing(self, operations: Operations) -> str:
        """Return the sentence for an empty answer: what was looked for, and what there is."""
        scheduler = f"the scheduler {operations.scheduler.name!r}"
        if not self:
            return faint(self._spec.empty or f"{scheduler} has no {self._spec.nouns}")
        return faint(f"no {self._spec.noun} matches {self}; {scheduler} has {_in_all(self._spec, operations)}")


def _in_all(spec: ListSpec[Any], operations: Operations) -> str:
    match spec.noun:
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
    return f"other {spec.nouns}" if spec.page(spec.read(operations, 1)) else f"no {spec.nouns}"
