"""The subjects of an action from the command line: those that the user names, or selects by filters."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from quartzpy.cli import completion
from quartzpy.cli.filters import Filters, filter_options
from quartzpy.cli.formatter import Formatter
from quartzpy.cli.keys import execution_id, group_matcher, job_key, trigger_key
from quartzpy.cli.show import GROUP_HELP
from quartzpy.errors import ObjectNotFoundError
from quartzpy.keys import JobKey, Key
from quartzpy.matchers import GroupMatcher
from quartzpy.operations.actions.table import ACTIONS
from quartzpy.operations.lists.history import EXECUTIONS
from quartzpy.operations.lists.schedule import JOBS, TRIGGERS
from quartzpy.operations.lists.spec import ListSpec
from quartzpy.operations.selection import Selection, Subject
from quartzpy.scheduler.typed_text import read_subject
from quartzpy.states import ENDED
from quartzpy.texts import numbered, visible

if TYPE_CHECKING:
    from quartzpy.operations.actions.action import Action
    from quartzpy.operations.incidents.incident import Remedy
    from quartzpy.operations.operations import Operations

SHOWN = 10
"""The number of subjects that a question and a dry run name."""
_Command = Callable[..., Any]
_LISTS: Mapping[Subject, ListSpec[Any]] = {Subject.JOB: JOBS, Subject.TRIGGER: TRIGGERS, Subject.EXECUTION: EXECUTIONS}
_NAMED: Mapping[Subject, dict[str, Any]] = {
    Subject.NODE: {"shell_complete": completion.NODES},
    Subject.INCIDENT: {"type": click.IntRange(1)},
    Subject.LIMIT: {"shell_complete": completion.LIMITS},
    Subject.WINDOW: {},
}
"""The subjects that are named by one word, and the arguments of commands for them."""
_COMPLETERS = {"job": completion.JOBS, "trigger": completion.TRIGGERS, "execution": completion.RUNNING}


@dataclass(frozen=True, slots=True)
class Subjects:
    """The subjects of an action: those that were named, or a selection by filters."""

    selected: Any
    """The argument of the method: a key, several, or a selection; of a node, its name."""
    kind: str
    """The kind of one subject: "trigger"."""
    count: int
    first: Sequence[str]
    """The first of them, as text."""
    named: bool
    """True if the user named each of them."""
    words: str | None = None
    """Describes a group or everything, which lasts and so may be empty."""
    lasts: bool = False
    """True for a group or everything: what is stored there later belongs to it."""

    @property
    def must_be_confirmed(self) -> bool:
        """True if the user did not name each of them."""
        return self.lasts or (not self.named and self.count > 1)

    def __str__(self) -> str:
        if self.words is not None:
            return self.words
        if self.count == 1 and self.first:
            return f"{self.kind} {self.first[0]}"
        more = (
            f" and {numbered(self.count - len(self.first), 'other', 'others')}" if self.count > len(self.first) else ""
        )
        names = f": {', '.join(self.first)}{more}" if self.first else ""
        return f"{self.count:,} {self.kind}s{names}"


Find: TypeAlias = "Callable[[Operations], Subjects]"


@dataclass(frozen=True, slots=True)
class Chosen:
    """The arguments of a command that choose its subjects."""

    spec: ListSpec[Any]
    keys: Sequence[str]
    everything: bool
    values: dict[str, Any]
    """The values of the filters; None, False or empty for those that were not given."""

    @property
    def is_by_filters(self) -> bool:
        """True if filters or `--all` select the subjects."""
        return not self.keys and (self.everything or any(self.values.values()))

    def find(self, operations: Operations) -> Subjects:
        """Return the subjects.

        Raises:
            click.UsageError: there are neither keys nor filters, or both.
            ObjectNotFoundError: one that was named is not stored.
        """
        kind, values, group = self.spec.noun, self.values, self.values.get("group")
        filters = Filters(self.spec, values, Formatter())
        if self.keys:
            only_group = group is not None and not Filters(self.spec, {**values, "group": None}, Formatter())
            if self.everything or (filters and not only_group):
                raise click.UsageError(f"give either the keys of the {kind}s or filters, not both")
            keys = [_key(operations, self.spec, text, group) for text in dict.fromkeys(self.keys)]
            return _named(kind, keys)
        if not filters and not self.everything:
            raise click.UsageError(f"name the {kind}s, select them by filters, or give --all")
        selection = Selection(Subject(kind), filters.values(operations))
        count = operations.actions.count(selection)
        records = selection.query(operations.scheduler).page(SHOWN) if count else []
        first = [getattr(record, "fire_id", None) or getattr(record, "key", None) for record in records]
        if not count:
            click.echo(filters.nothing(operations), err=True)
        return Subjects(selection, kind, count, _texts(first), named=False)


def subject_options(action: Action, *kinds: Subject) -> Callable[[_Command], _Command]:
    """Return the decorator that adds the subjects of an action.

    The command receives the function that finds them as the parameter `find`.
    """
    if Subject.EVERYTHING in kinds:
        return partial(_of_any_kind, action)
    [kind] = kinds
    if kind in _NAMED:
        return partial(_by_name, kind)
    return partial(_single if action.is_single else _several, action, _LISTS[kind])


def _by_name(kind: Subject, command: _Command) -> _Command:
    @click.argument(str(kind), **_NAMED[kind])
    @wraps(command)
    def collected(*arguments: Any, **rest: Any) -> None:
        name = rest.pop(str(kind))
        command(*arguments, find=lambda _: _named(kind, [name]), **rest)

    return collected


def _single(action: Action, spec: ListSpec[Any], command: _Command) -> _Command:
    @click.argument(spec.noun, shell_complete=_COMPLETERS[spec.noun])
    @click.option("--group", help=GROUP_HELP)
    @wraps(command)
    def collected(*arguments: Any, group: str | None, **rest: Any) -> None:
        text = rest.pop(spec.noun)
        command(*arguments, find=lambda ops: _named(spec.noun, [_key(ops, spec, text, group)]), **rest)

    return collected


def _several(action: Action, spec: ListSpec[Any], command: _Command) -> _Command:
    @wraps(command)
    def collected(*arguments: Any, keys: tuple[str, ...], everything: bool, **rest: Any) -> None:
        chosen = Chosen(spec, keys, everything, {declared.name: rest.pop(declared.name) for declared in spec.filters})
        if action.states and chosen.is_by_filters:
            if ENDED.intersection(chosen.values["state"]):
                possible = " or ".join(action.states)
                raise click.UsageError(f"--state: only {spec.noun}s that are {possible} can be selected")
            chosen.values["state"] = chosen.values["state"] or tuple(action.states)
        command(*arguments, find=chosen.find, **rest)

    words = f"Every {spec.noun}, if no filter is given."
    decorated = filter_options(spec.filters)(click.option("--all", "everything", is_flag=True, help=words)(collected))
    metavar = "FIRE_ID" if spec is EXECUTIONS else spec.noun.upper()
    completer = _COMPLETERS[spec.noun]
    return click.argument("keys", nargs=-1, metavar=f"[{metavar}]...", shell_complete=completer)(decorated)


_OPTIONS: Mapping[Subject, str] = {
    Subject.JOB: "--job",
    Subject.TRIGGER: "--trigger",
    Subject.TRIGGER_GROUP: "--group",
    Subject.JOB_GROUP: "--job-group",
    Subject.EVERYTHING: "--everything",
}


@dataclass(frozen=True, slots=True)
class AnyKind:
    """The arguments of a command whose subjects are jobs, triggers, groups, or everything."""

    keys: Sequence[str]
    jobs: Sequence[str]
    triggers: Sequence[str]
    group: str | None
    job_group: str | None
    everything: bool
    filters: dict[str, Any]

    def find(self, operations: Operations) -> Subjects:
        """Return the subjects.

        Raises:
            click.UsageError: none are given, or some in several ways.
            ObjectNotFoundError: one that was named is not stored.
        """
        named = bool(self.keys or self.jobs or self.triggers)
        filtered = any(self.filters.values())
        lasting = {
            Subject.TRIGGER_GROUP: None if named or filtered else self.group,
            Subject.JOB_GROUP: self.job_group,
            Subject.EVERYTHING: "" if self.everything else None,
        }
        groups = [(kind, group) for kind, group in lasting.items() if group is not None]
        ways = ["keys"] * named + ["filters"] * filtered + [_OPTIONS[kind] for kind, _ in groups]
        if not ways:
            options = ", ".join(_OPTIONS[kind] for kind in lasting)
            raise click.UsageError(f"name jobs or triggers, or give filters of triggers, or one of {options}")
        if len(ways) > 1:
            raise click.UsageError(f"give only one of {', '.join(ways)}")
        if named:
            return self._named(operations)
        if filtered:
            return Chosen(TRIGGERS, (), False, {**self.filters, "group": self.group}).find(operations)
        [(kind, group)] = groups
        return _lasting(operations, kind, group or None)

    def _named(self, operations: Operations) -> Subjects:
        scheduler = operations.scheduler
        try:
            named: list[Any] = [read_subject(scheduler, text, self.group, _WAYS) for text in self.keys]
        except ObjectNotFoundError:
            self._refuse_kind()
            raise
        named += [job_key(scheduler, text, self.group) for text in self.jobs]
        named += [trigger_key(scheduler, text, self.group) for text in self.triggers]
        kinds = {type(key) for key in named}
        if len(kinds) > 1:
            raise click.UsageError("name either jobs or triggers: " + ", ".join(f"{_kind(key)} {key}" for key in named))
        return _named(str(_kind(named[0])), [*dict.fromkeys(named)])

    def _refuse_kind(self) -> None:
        """Refuse the name of a kind in front of a key, which no job and no trigger has."""
        first, *rest = self.keys
        option = {kind.replace(" ", "-"): option for kind, option in _OPTIONS.items()} | {"group": "--group"}
        if first in option:
            context = click.get_current_context()
            words = shlex.join([*context.command_path.split(), option[first], *rest])
            raise click.UsageError(f"there is no job and no trigger {first!r}; did you mean `{words}`?")


_WAYS = "--job {key} or --trigger {key}"


def _of_any_kind(action: Action, command: _Command) -> _Command:
    """Add jobs and triggers by their keys, triggers by filters, groups, and everything."""
    filters = [declared for declared in TRIGGERS.filters if declared.kind not in (JobKey, GroupMatcher)]

    @wraps(command)
    def collected(*arguments: Any, **rest: Any) -> None:
        own = {name: rest.pop(name) for name in ("keys", "jobs", "triggers", "group", "job_group", "everything")}
        chosen = AnyKind(**own, filters={declared.name: rest.pop(declared.name) for declared in filters})
        command(*arguments, find=chosen.find, **rest)

    decorated: _Command = filter_options(filters)(collected)
    several: Mapping[Subject, tuple[str, dict[str, Any]]] = {
        Subject.EVERYTHING: ("everything", {"is_flag": True}),
        Subject.JOB_GROUP: ("job_group", {}),
        Subject.TRIGGER_GROUP: ("group", {}),
        Subject.TRIGGER: ("triggers", {"multiple": True, "shell_complete": completion.TRIGGERS}),
        Subject.JOB: ("jobs", {"multiple": True, "shell_complete": completion.JOBS}),
    }
    for kind, (name, more) in several.items():
        decorated = click.option(_OPTIONS[kind], name, help=action.subjects[kind], **more)(decorated)
    return click.argument("keys", nargs=-1, metavar="[KEY]...", shell_complete=completion.SUBJECTS)(decorated)


def _lasting(operations: Operations, kind: Subject, group: str | None) -> Subjects:
    """Return a group of triggers, the triggers of a group of jobs, or everything. There may be none of them as yet."""
    filters = {} if group is None else {"group": group_matcher(group)}
    present = Selection.jobs(**filters) if kind is Subject.JOB_GROUP else Selection.triggers(**filters)
    selection, count = Selection(kind, filters), operations.actions.count(present)
    words = f"{selection} (now {count:,} {present.kind}s, and those that are stored later)"
    return Subjects(selection, present.kind, count, (), named=False, words=words, lasts=True)


def _kind(key: object) -> Subject:
    return Subject.JOB if isinstance(key, JobKey) else Subject.TRIGGER


def _named(kind: str, keys: Sequence[Any]) -> Subjects:
    """Return subjects that the user named one by one."""
    return Subjects(keys[0] if len(keys) == 1 else keys, kind, len(keys), _texts(keys), named=True)


def _key(operations: Operations, spec: ListSpec[Any], text: str, group: str | None) -> Any:
    if spec is JOBS:
        return job_key(operations.scheduler, text, group)
    if spec is EXECUTIONS:
        return execution_id(text)
    return trigger_key(operations.scheduler, text, group)


def _texts(keys: Sequence[Any]) -> list[str]:
    return [visible(str(key)) for key in keys[:SHOWN]]


def command_of(remedy: Remedy) -> str:
    """Return the command line that carries out a remedy."""
    arguments = dict(remedy.arguments)
    [subject] = [arguments.pop(name) for name in ("selection", "node", "incident") if name in arguments]
    action = ACTIONS[remedy.action]
    words = ["quartzpy", *action.command.split()]
    options = [f"--{name}={value}" for name, value in arguments.items()]
    if Subject.EVERYTHING in action.commanded:
        return shlex.join([*words, *options, *_by_options(subject)])
    keys = subject if isinstance(subject, list) else [subject]
    kind = [_kind(keys[0])] if len(action.commanded) > 1 else []
    return shlex.join([*words, *kind, *options, *_words(*keys)])


def _by_options(subject: object) -> list[str]:
    match subject:
        case Selection(kind, filters):
            return [f"{_OPTIONS[kind]}={value}" for value in filters.values()] or [_OPTIONS[kind]]
        case Key(name, group) if "." in name + group:
            # Without the group, the text may read like another key.
            return [f"--group={group}", f"{_OPTIONS[_kind(subject)]}={name}"]
    keys = subject if isinstance(subject, list) else [subject]
    return [f"{_OPTIONS[_kind(key)]}={key}" for key in keys]


def _words(*subjects: object) -> list[str]:
    match subjects:
        case [Key(name, group)] if "." in name + group:
            return [f"--group={group}", "--", name]
    texts = [str(subject) for subject in subjects]
    return [*(["--"] if any(text.startswith("-") for text in texts) else []), *texts]
