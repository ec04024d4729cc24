"""An action of operators: who may do it, what it applies to and takes, and how each of its faces words it."""

from __future__ import annotations

import getpass
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, Literal

from quartzpy.errors import InvalidValueError
from quartzpy.operations.actions.inputs import Input
from quartzpy.operations.selection import Subject
from quartzpy.texts import quoted

NOUNS: Mapping[str, str] = {
    str(Subject.LIMIT): "Set, delete or list the limits that jobs share.",
    str(Subject.WINDOW): "Set, delete or list maintenance windows.",
}
"""The subjects whose commands begin with them, such as `limit set`, with the help of these."""


class Role(StrEnum):
    """The roles of operators. Each role may do what the role before it may do."""

    VIEWER = "viewer"
    """Reads everything."""
    OPERATOR = "operator"
    """Also triggers, pauses, resumes, skips, cancels, runs again and resets, acknowledges incidents, and changes the
    modes of nodes."""
    ADMIN = "admin"
    """Also changes schedules, definitions, calendars, maintenance windows and limits, runs past fires, and enables,
    disables and deletes."""

    def includes(self, other: Role) -> bool:
        """Return True if this role may do everything that `other` may do."""
        order = list(Role)
        return order.index(self) >= order.index(other)


@dataclass(frozen=True, slots=True)
class Grant:
    """What an actor who is no administrator may define: jobs and triggers of these groups, of these job types.

    Both are patterns, in which `*` stands for any text: `Grant(["shop", "shop-*"], ["shop.jobs:*"])`. A trigger and its
    job must both be within the groups, and so must the jobs that run after it. Calendars, which triggers of all groups
    share, are not part of it.
    """

    groups: Sequence[str]
    job_types: Sequence[str] = ("*",)

    def __post_init__(self) -> None:
        """Check the patterns.

        Raises:
            InvalidValueError: these are not several texts.
        """
        for name in ("groups", "job_types"):
            patterns = getattr(self, name)
            if isinstance(patterns, str) or not all(isinstance(pattern, str) and pattern for pattern in patterns):
                raise InvalidValueError(
                    f"{name}: a list of patterns such as ['shop-*'] is needed (got {quoted(patterns)})"
                )
            object.__setattr__(self, name, tuple(patterns))

    def covers_group(self, group: str) -> bool:
        """Return True if jobs and triggers of the group may be defined."""
        return any(fnmatchcase(group, pattern) for pattern in self.groups)

    def covers_type(self, job_type: str) -> bool:
        """Return True if jobs of the type may be defined."""
        return any(fnmatchcase(job_type, pattern) for pattern in self.job_types)

    def covers(self, group: str, job_type: str) -> bool:
        """Return True if a job of this group and type may be defined."""
        return self.covers_group(group) and self.covers_type(job_type)

    def __str__(self) -> str:
        types = "" if self.job_types == ("*",) else f", of the job types {', '.join(self.job_types)}"
        return f"jobs and triggers of the groups {', '.join(self.groups)}{types}"


@dataclass(frozen=True, slots=True)
class Actor:
    """An operator. Actions record the name in the audit log."""

    name: str
    role: Role = Role.VIEWER
    defines: Grant | None = None
    """What the actor may define whatever its role is; an administrator may define everything."""


def local_user() -> Actor:
    """Return the user of this process as an administrator, because that user has the database's password."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError, ImportError):
        # A container may run under a user id that has no name.
        name = "unknown"
    return Actor(name, Role.ADMIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """An action of operators: a method of `Actions` takes its subjects, its inputs and a reason."""

    name: str
    role: Role
    """The least role that it needs."""
    subjects: Mapping[Subject, str]
    """The kinds of its subjects, with the help of the command or option for each; a kind without help has none."""
    is_single: bool = False
    """True if it applies to one subject at a time."""
    states: Sequence[StrEnum] = ()
    """The states of the subjects that the filters of its command select where they name no state."""
    inputs: tuple[Input, ...] = ()
    help: str = ""
    """The help of its command, if that takes several kinds of subjects."""
    question: str
    """The beginning of the question before an action; the subjects follow. `count_question` is that of a count."""
    count_question: str = ""
    past_tense: str = ""
    """The action in the past, before the number of its subjects, if it applies to several."""
    title: str = ""
    """The heading of its form, if that is not the question."""
    button: str = ""
    """The button of its form, if that is not the title."""
    label: str = ""
    """The button that leads to its form, if that is not the title."""
    explanation: str
    """Its effect, in the form."""
    style: str = ""
    """The emphasis of its buttons: none, "primary", or "danger" for what cannot be undone."""
    needs_reason: bool = False
    """True if it is refused without a reason."""
    follows: Literal["", "run", "repeat"] = ""
    """What the page follows to its end after the action on one subject: the run that it began, or that repeats one."""
    is_always_offered: bool = False
    """True if the page offers it on each subject; of other actions, `views.allowed_actions` says when they are."""
    always_asks: bool = False
    """True if its command asks for confirmation also where the user has named each subject."""
    undone_by: str | None = None
    """The name of the action that undoes it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "title", self.title or self.question)
        object.__setattr__(self, "button", self.button or self.title)
        object.__setattr__(self, "label", self.label or self.title)

    @property
    def parameter(self) -> str:
        """The name of the parameter of its method that takes the subjects."""
        return next(iter(self.subjects)).value if self.is_single else "selection"

    @property
    def focus(self) -> str:
        """The name of the field of its form that people begin with: the first that cannot be empty, or the reason."""
        return next((item.field for item in self.inputs if item.is_required or item.takes_focus), "reason")

    @property
    def command(self) -> str:
        """The words of its command."""
        verb, _, noun = self.name.partition("_")
        return f"{noun} {verb}" if noun in NOUNS else self.name.replace("_", "-")

    @property
    def commanded(self) -> tuple[Subject, ...]:
        """The kinds of subjects that its command takes.

        Of several, each has a command of its own below it; only what takes everything takes each by an option.
        """
        return tuple(kind for kind, text in self.subjects.items() if text)

    def question_for(self, values: Mapping[str, Any]) -> str:
        """Return the beginning of the question for these values of the inputs."""
        return self.count_question.format(**values) if self.count_question and values["count"] != 1 else self.question
