"""The filters of queries. A field of a query says once what callers may give, and every face derives from that.

The methods of the scheduler check their arguments by it. The command line has its options from it, the JSON API its
parameters, and the web page the fields of its forms.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar

from quartzpy.errors import InvalidValueError
from quartzpy.instants import as_instant
from quartzpy.keys import Key, checked_key
from quartzpy.matchers import GroupMatcher, as_group_matcher
from quartzpy.texts import check_storable, quoted

_METADATA = "filter"
_Choice = TypeVar("_Choice", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class Filter:
    """What callers may give for a field of a query."""

    kind: type
    """The type of a value: `JobKey`, `TriggerKey`, `GroupMatcher`, `str`, `datetime`, `bool`, or an enumeration."""
    text: str
    """What it selects, without a full stop: "The group"."""
    name: str = ""
    """The name by which callers give it, if the field has another one."""
    field: str = ""
    words: tuple[str, ...] = ()
    """The words of an enumeration, if there are more than its members."""
    read_words: Callable[[str | Collection[str]], frozenset[Any]] | None = None
    """Reads one word or several; None if only one can be given."""
    default: str = ""
    """What is selected without this filter, if that is not everything."""
    is_ahead: bool = False
    """True if a length of time counts from now into the future."""
    option: str = ""
    """The name of its option on the command line, if it has another one there."""
    label: str = ""
    """Its label on the page, if that is not its name."""
    hint: str = ""
    """An example of a value, for the page."""
    spans: tuple[tuple[str, str], ...] = ()
    """The lengths of time that the page offers, with their texts; the first is the default."""
    is_rare: bool = False
    """True if the page shows it only where a link or its reader has given it."""
    is_order: bool = False
    """True if it chooses the order of the records."""

    @property
    def choices(self) -> tuple[str, ...]:
        """The words of an enumeration; empty for other kinds."""
        return self.words or tuple(map(str, self.kind)) if issubclass(self.kind, StrEnum) else ()

    @property
    def form(self) -> str:
        """How the page asks for it: by "word" of several, "key", "instant", "flag" or "text"."""
        if issubclass(self.kind, StrEnum):
            return "word"
        if issubclass(self.kind, Key):
            return "key"
        return {datetime: "instant", bool: "flag"}.get(self.kind, "text")

    @property
    def title(self) -> str:
        """Its label on the page."""
        return self.label or self.name.replace("_", " ").capitalize()

    @property
    def offers(self) -> list[tuple[str, str]]:
        """The values that the page offers as links, with their texts; the first is what is selected without any."""
        if not self.choices:
            return [*self.spans]
        return [("", "All"), *((word, word.replace("_", " ").capitalize()) for word in self.choices)]

    @property
    def help(self) -> str:
        """A sentence that says what it selects, and what can be typed for it."""
        form = ""
        if issubclass(self.kind, Key):
            form = ": GROUP.NAME, or NAME in the group DEFAULT"
        elif self.kind is GroupMatcher:
            form = "; * may stand in front and at the end"
        elif self.kind is datetime:
            form = f": an instant, or a length of time {'from now' if self.is_ahead else 'ago'}"
        elif self.read_words is not None:
            form = "; may be given several times"
        stop = "" if self.text.endswith("...") and not form else "."
        return f"{self.text}{form}{stop}{f' [default: {self.default}]' if self.default else ''}"

    def checked(self, value: Any) -> Any:
        """Return what a query needs of a value that a caller gave.

        Raises:
            InvalidValueError: the filter cannot have this value.
        """
        if self.read_words is not None:
            return self.read_words(value)
        if issubclass(self.kind, Key):
            return checked_key(value, self.kind)
        if self.kind is GroupMatcher:
            return as_group_matcher(value)
        if self.kind is datetime:
            return as_instant(value, self.name, InvalidValueError)
        if self.kind is bool:
            if not isinstance(value, bool):
                raise InvalidValueError(f"{self.name}: must be True or False (got {quoted(value)})")
            return value
        if issubclass(self.kind, StrEnum):
            return choice_of(value, self.kind, self.name)
        return checked_text(value, self.name)


def choice_of(value: Any, choices: type[_Choice], subject: str) -> _Choice:
    """Return the member of an enumeration that a caller named.

    Raises:
        InvalidValueError: it is not among the choices.
    """
    try:
        return choices(value)
    except ValueError:
        allowed = ", ".join(choices)
        raise InvalidValueError(f"{subject}: must be one of {allowed} (got {quoted(value)})") from None


def checked_text(value: object, subject: str) -> str:
    """Return a text that a caller gave.

    Raises:
        InvalidValueError: it is not a text that can be stored, or empty.
    """
    if not isinstance(value, str) or not value:
        raise InvalidValueError(f"{subject}: must be a text that is not empty (got {quoted(value)})")
    check_storable(value, subject, InvalidValueError)
    return value


def filtered(kind: type, text: str, *, instead: Any = None, **more: Any) -> Any:
    """Return the declaration of a field of a query that callers give: its default `instead`, and its `Filter`."""
    return field(default=instead, metadata={_METADATA: Filter(kind, text, **more)})


def filters_of(query: type[Any]) -> tuple[Filter, ...]:
    """Return the filters of a type of queries, in the order of its fields."""
    if query not in _KNOWN:
        _KNOWN[query] = tuple(_filters_of(query))
    return _KNOWN[query]


_KNOWN: dict[type[Any], tuple[Filter, ...]] = {}


def _filters_of(query: type[Any]) -> Iterator[Filter]:
    for place in fields(query):
        if (declared := place.metadata.get(_METADATA)) is not None:
            yield replace(declared, name=declared.name or place.name, field=place.name)
