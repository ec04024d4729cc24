"""Queries as callers make them: their filters, checked, and records that are read page by page when they are needed."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, Generic, TypeVar, overload

from quartzpy.errors import InvalidValueError
from quartzpy.instants import as_instant
from quartzpy.matchers import GroupMatcher, as_group_matcher
from quartzpy.name_hints import QUERY_NAMES, NameHints
from quartzpy.store.filters import choice_of, filters_of
from quartzpy.store.queries import RecordQuery
from quartzpy.texts import check_storable, did_you_mean, numbered, quoted

DEFAULT_LIMIT = 100
MAX_LIMIT = 1_000_000
_PAGE_SIZE = 500
_INSTANT = "at"
_MAX_NUMBER = 2**63 - 1
_T = TypeVar("_T")
_Choice = TypeVar("_Choice", bound=StrEnum)
_Query = TypeVar("_Query", bound=RecordQuery[Any])


class Page(Sequence[_T]):
    """The records of one page, in order. `next_cursor` continues after the last one; None marks the last page.

    A page whose query examines a limited number of records may end before it is full. Then `examined` is that number,
    and `next_cursor` continues after the last record that was examined; otherwise `examined` is None.
    """

    __slots__ = ("_records", "examined", "next_cursor")

    def __init__(self, records: Sequence[_T], next_cursor: str | None, examined: int | None = None) -> None:
        self._records = tuple(records)
        self.next_cursor = next_cursor
        self.examined = examined

    @overload
    def __getitem__(self, index: int) -> _T: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[_T]: ...

    def __getitem__(self, index: int | slice) -> _T | Sequence[_T]:
        return self._records[index]

    def __len__(self) -> int:
        return len(self._records)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Page):
            return self._records == other._records and self.next_cursor == other.next_cursor
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Page({list(self._records)!r}, next_cursor={self.next_cursor!r})"


class Query(NameHints, Iterable[_T], Generic[_T]):
    """The records that a query selects. It reads nothing until it is used, and reads again at each use.

    Iterating reads all records, page by page, in a fixed order. Records that are stored, removed or changed in the
    meantime do not shift the others: a record that exists all the time appears exactly once. A query is true if it
    selects at least one record. It has no length, because counting is a separate query: see `count`.
    """

    _name_hints = QUERY_NAMES

    def __init__(
        self,
        name: str,
        find: Callable[[int, tuple[Any, ...] | None], list[_T]],
        position: Callable[[_T], tuple[Any, ...]],
        shape: tuple[tuple[type, ...], ...],
        count: Callable[[], int],
    ) -> None:
        self._name = name
        self._find = find
        self._position = position
        self._shape = shape
        self._count = count

    def __iter__(self) -> Iterator[_T]:
        after = None
        while True:
            records = self._find(_PAGE_SIZE, after)
            yield from records
            if len(records) < _PAGE_SIZE:
                return
            after = self._position(records[-1])

    @overload
    def __getitem__(self, index: int) -> _T: ...

    @overload
    def __getitem__(self, index: slice) -> list[_T]: ...

    def __getitem__(self, index: int | slice) -> _T | list[_T]:
        """Return the record at an index counted from the front, or those from `start` to `stop`.

        Raises:
            InvalidValueError: the index is negative, or the slice has no stop or has a step.
            IndexError: the query selects fewer records.
        """
        if isinstance(index, slice):
            start, stop = index.start or 0, index.stop
            if index.step is not None or stop is None or start < 0 or stop < 0:
                raise InvalidValueError(f"index: must be a slice from the front with a stop (got {quoted(index)})")
            return self._find(stop, None)[start:] if stop > start else []
        if not isinstance(index, int) or index < 0:
            raise InvalidValueError(f"index: must be a number counted from the front (got {quoted(index)})")
        records = self._find(index + 1, None)
        if len(records) <= index:
            raise IndexError(f"index {index}: the query selects {numbered(len(records), 'record', 'records')}")
        return records[index]

    def __len__(self) -> int:
        """Refuse to answer, because `list` would ask for the length, and read twice. Raises TypeError."""
        raise TypeError("a query has no length without a read of the database: call count() on it, or len(list(...))")

    def __reversed__(self) -> Iterator[_T]:
        return reversed(list(self))

    def page(self, limit: int = DEFAULT_LIMIT, after: str | None = None) -> Page[_T]:
        """Return at most `limit` records: the first ones, or those after the cursor `after`.

        A cursor is the `next_cursor` of a page of the same query. It contains no secrets, is safe in a URL, and stays
        valid as long as the store exists.

        Raises:
            InvalidValueError: `limit` is not a whole number from 1 to 1,000,000, or `after` is not a cursor of this
                query.
        """
        limit = _checked_limit(limit)
        selected = self._find(limit + 1, None if after is None else self._decoded(after))
        records = selected[:limit]
        return Page(records, self._encoded(self._position(records[-1])) if len(selected) > limit else None)

    def first(self) -> _T | None:
        """Return the first record, or None if the query selects nothing."""
        return next(iter(self._find(1, None)), None)

    def count(self) -> int:
        """Return the number of records that the query selects."""
        return self._count()

    def __bool__(self) -> bool:
        return self.first() is not None

    def __repr__(self) -> str:
        return f"<Query {self._name}>"

    def _encoded(self, position: tuple[Any, ...]) -> str:
        return encoded_cursor(self._name, position)

    def _decoded(self, cursor: str) -> tuple[Any, ...]:
        return decoded_cursor(self._name, self._shape, cursor)


def encoded_cursor(name: str, position: tuple[Any, ...]) -> str:
    """Return the cursor of a position in the query of that name."""
    values = [{_INSTANT: value.isoformat()} if isinstance(value, datetime) else value for value in position]
    text = json.dumps([name, *values], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decoded_cursor(name: str, shape: tuple[tuple[type, ...], ...], cursor: str) -> tuple[Any, ...]:
    """Return the position of a cursor.

    Args:
        name: the name of the query.
        shape: the types that each value of a position may have.
        cursor: the cursor, which comes from outside.

    Raises:
        InvalidValueError: it is not a cursor of this query.
    """
    refused = InvalidValueError(
        f"after: must be the next_cursor of a page of the same query, {name} (got {quoted(cursor)})"
    )
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        of, *values = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
        position = tuple(_decoded_value(value) for value in values)
        fits = len(position) == len(shape) and all(map(isinstance, position, shape))
    except Exception as error:
        raise refused from error
    if of != name or not fits:
        raise refused
    return position


def _decoded_value(value: object) -> object:
    if isinstance(value, dict):
        return as_instant(datetime.fromisoformat(value[_INSTANT]), "after", InvalidValueError)
    if isinstance(value, str):
        check_storable(value, "after", InvalidValueError)
    if isinstance(value, int) and abs(value) > _MAX_NUMBER:
        raise ValueError(value)
    return value


def _checked_limit(limit: object) -> int:
    if type(limit) is int and 1 <= limit <= MAX_LIMIT:
        return limit
    raise InvalidValueError(f"limit: must be a whole number from 1 to {MAX_LIMIT:,} (got {quoted(limit)})")


def query_of(kind: type[_Query], filters: Mapping[str, Any]) -> _Query:
    """Return the query of filters as callers give them; those that are None select nothing.

    Raises:
        InvalidValueError: a filter has a value that it cannot have.
        TypeError: the query has no such filter.
    """
    by_name = {declared.name: declared for declared in filters_of(kind)}
    for name in filters:
        if name not in by_name:
            raise TypeError(f"{name}: is not a filter of this query; {did_you_mean(name, by_name, 'filters')}")
    return kind(
        **{by_name[name].field: by_name[name].checked(value) for name, value in filters.items() if value is not None}
    )


def group_matcher(group: str | GroupMatcher | None) -> GroupMatcher | None:
    """Return the matcher of a group; None if no group is given."""
    return None if group is None else as_group_matcher(group)


def checked_instant(value: datetime | None, subject: str) -> datetime | None:
    """Return the value of a filter in UTC; None if it is not given.

    Raises:
        InvalidValueError: it is not an instant with a time zone.
    """
    return None if value is None else as_instant(value, subject, InvalidValueError)


def checked_choice(value: str | None, choices: type[_Choice], subject: str) -> _Choice | None:
    """Return the value of a filter; None if it is not given.

    Raises:
        InvalidValueError: it is not among the choices.
    """
    return None if value is None else choice_of(value, choices, subject)
