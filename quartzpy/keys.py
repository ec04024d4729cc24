"""The keys of jobs and triggers, and the rules for names.

The limits are Quartz's column widths (200 characters); control and bidirectional characters are refused
because keys are printed in terminals, logs and pages.
"""

from __future__ import annotations

import difflib
import unicodedata
import uuid
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeAlias, TypeVar

from quartzpy.errors import InvalidKeyError
from quartzpy.name_hints import NameHints
from quartzpy.texts import quoted

DEFAULT_GROUP = "DEFAULT"
RECOVERING_JOBS = "RECOVERING_JOBS"
"""The group of triggers that run a job again after its node died (Quartz's DEFAULT_RECOVERY_GROUP)."""
RETRYING_JOBS = "RETRYING_JOBS"
"""The group of triggers that run a job again after it failed, according to its retry policy."""
MANUAL_TRIGGERS = "MANUAL_TRIGGERS"
"""The group of triggers made by `trigger_job`. Quartz uses DEFAULT, where pausing DEFAULT holds back manual runs."""
CONTINUATIONS = "CONTINUATIONS"
"""The group of triggers that run a job after another one has ended."""
NOTIFICATIONS = "NOTIFICATIONS"
"""The group of the jobs that send notifications, one for each channel."""
UNSCHEDULED_GROUPS = (MANUAL_TRIGGERS, RECOVERING_JOBS, RETRYING_JOBS, CONTINUATIONS)
"""The groups of triggers that do not come from a schedule: they fire even in manual mode."""

UNNAMED = "<a unique name>"
"""The default of name parameters, recognised by identity: the object then gets a unique name."""

MAIN, MAIN_IN_CHILD = "__main__", "__mp_main__"
"""The name of a program's main module, and the name that multiprocessing gives it in child processes."""

MAX_NAME_LENGTH = 200
_REFUSED_CATEGORIES = {"Cc", "Cs", "Zl", "Zp"}
_BIDIRECTIONAL = set("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def check_name(name: object, subject: str) -> str:
    """Return `name` if it is a valid name. The error message begins with `subject` ("job name").

    Raises:
        InvalidKeyError: `name` is not a str, is empty, is longer than 200 characters, or contains control characters.
    """
    if not isinstance(name, str):
        raise InvalidKeyError(f"{subject}: must be str (got {type(name).__name__})")
    if name.isascii() and name.isprintable() and 0 < len(name) <= MAX_NAME_LENGTH:
        return name
    if not name:
        raise InvalidKeyError(f"{subject}: must not be empty")
    if len(name) > MAX_NAME_LENGTH:
        raise InvalidKeyError(f"{subject}: {len(name)} characters, at most {MAX_NAME_LENGTH}")
    for position, character in enumerate(name):
        category = unicodedata.category(character)
        if category == "Cs":
            raise InvalidKeyError(f"{subject}: not valid Unicode text (lone surrogate at position {position})")
        if category in _REFUSED_CATEGORIES or character in _BIDIRECTIONAL:
            raise InvalidKeyError(f"{subject}: control character U+{ord(character):04X} at position {position}")
    return name


def unique_name() -> str:
    """Return a name that no other call in any process returns."""
    return uuid.uuid4().hex


def module_of(cls: type | Callable[..., Any]) -> str:
    """Return the module of a class or function, by the same name in a program and in its child processes."""
    return MAIN if cls.__module__ == MAIN_IN_CHILD else cls.__module__


@dataclass(frozen=True, slots=True)
class Key(NameHints):
    """A name within a group; the pair is unique in a scheduler. Keys sort by group, then by name."""

    _quartz_sections = ("Job, JobDetail, JobBuilder",)

    name: str
    group: str = DEFAULT_GROUP

    def __str__(self) -> str:
        return f"{self.group}.{self.name}"

    def __lt__(self, other: Self) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return (self.group, self.name) < (other.group, other.name)


@dataclass(frozen=True, slots=True)
class JobKey(Key):
    """Identifies a job: `JobKey("nightly-report", "billing")`."""

    def __post_init__(self) -> None:
        check_name(self.group, "job group")
        check_name(self.name, "job name")


@dataclass(frozen=True, slots=True)
class TriggerKey(Key):
    """Identifies a trigger: `TriggerKey("weekdays-at-two", "billing")`."""

    def __post_init__(self) -> None:
        check_name(self.group, "trigger group")
        check_name(self.name, "trigger name")


class Naming(str):
    """A sentence that has the keys of the jobs and the triggers which it names: its words alone do not tell them."""

    keys: tuple[Key, ...]

    def __new__(cls, sentence: str, *keys: Key) -> Self:
        made = super().__new__(cls, sentence)
        made.keys = keys
        return made


_Key = TypeVar("_Key", bound=Key)


def unchecked_key(cls: type[_Key], name: str, group: str) -> _Key:
    """Return the key of a row. Its name and group were checked when it was stored."""
    key = object.__new__(cls)
    object.__setattr__(key, "name", name)
    object.__setattr__(key, "group", group)
    return key


class HasJobKey(Protocol):
    """Any object whose `key` is a JobKey: a `JobDetail`, a handle, a record."""

    @property
    def key(self) -> JobKey:
        """The job's key."""
        ...


class HasTriggerKey(Protocol):
    """Any object whose `key` is a TriggerKey: a trigger, a record."""

    @property
    def key(self) -> TriggerKey:
        """The trigger's key."""
        ...


JobRef: TypeAlias = JobKey | str | HasJobKey
"""Refers to one job: by its key, by its name in the group DEFAULT, or by an object that has the key."""
TriggerRef: TypeAlias = TriggerKey | str | HasTriggerKey
"""Refers to one trigger, as `JobRef` refers to a job."""


def checked_key(key: object, kind: type[_Key]) -> _Key:
    """Return the key for a key, a name in the group DEFAULT, or an object with a `key`.

    Raises:
        InvalidKeyError: `key` is none of these, or has a key of another kind.
    """
    if isinstance(key, kind):
        return key
    if isinstance(key, str):
        return kind(key)
    own = None if isinstance(key, type) else getattr(key, "key", None)
    if isinstance(own, kind):
        return own
    what = kind.__name__.removesuffix("Key").lower()
    raise InvalidKeyError(
        f'key: the name of a {what} or its key is needed, as "nightly" or {kind.__name__}("nightly", "reports")'
        f" (got {quoted(own if isinstance(own, Key) else key)})"
    )


def checked_keys(keys: object, kind: type[_Key]) -> list[_Key]:
    """Return the keys of the members of a collection. Raises InvalidKeyError as `checked_key` does."""
    if isinstance(keys, Key | str) or not isinstance(keys, Iterable):
        raise InvalidKeyError(f"keys: a collection of {kind.__name__} is needed (got {quoted(keys)})")
    return [checked_key(key, kind) for key in keys]


def key_readings(text: str, kind: type[_Key], group: str | None = None) -> list[_Key]:
    """Return the keys that a text may mean, the likeliest first. With `group`, the text is the name.

    Groups and names may themselves contain dots, so that "a.b.c" has three readings.

    Raises:
        InvalidKeyError: no key can have this text.
    """
    if group is not None:
        return [kind(text, group)]
    dots = [place for place, character in enumerate(text) if character == "."]
    pairs = [(text[:dot], text[dot + 1 :]) for dot in reversed(dots)] + [(DEFAULT_GROUP, text)]
    readings: list[_Key] = []
    refused: InvalidKeyError | None = None
    for in_group, name in pairs:
        try:
            readings.append(kind(name, in_group))
        except InvalidKeyError as error:
            refused = error
    if not readings and refused is not None:
        raise refused
    return readings


def nearest(key: _Key, stored: Collection[_Key]) -> _Key | None:
    """Return the stored key that the user probably meant by `key`, which is not stored, or None.

    Name and group may have been swapped, the group may be another one, or a letter may be wrong.
    """
    for other in sorted(stored):
        if (other.name, other.group) == (key.group, key.name):
            return other
    # Names alone are compared: the group DEFAULT, which most keys have, would make any two short names similar.
    near = difflib.get_close_matches(key.name, {other.name for other in stored}, n=1, cutoff=0.7)
    named = (other for other in stored if other.name in near)
    return min(named, key=lambda other: (other.group != key.group, other), default=None)
