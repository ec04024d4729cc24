"""The scheduler that the read models describe, the rules by which its data is shown, and what all of them share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, TypeVar, cast

from quartzpy.config.config import SchedulerConfig
from quartzpy.errors import JobNotFoundError, TriggerNotFoundError
from quartzpy.keys import JobKey, TriggerKey, nearest
from quartzpy.scheduler.batched_reads import BatchedReads, Deferred
from quartzpy.scheduler.explain import PYTHON, Advice
from quartzpy.scheduler.methods.base import MAX_NEAR
from quartzpy.scheduler.querying import Page, Query
from quartzpy.scheduler.scheduler import BaseScheduler
from quartzpy.scheduler.typed_text import not_stored
from quartzpy.secret_texts import Redaction
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.protocol import JobStore
from quartzpy.store.queries import AnyQuery, BoundedQuery, Position
from quartzpy.texts import reason

MAX_COUNTED = 10_000


@dataclass(frozen=True, slots=True, order=True)
class Count:
    """A number of rows. If `has_more` is true, there are more than `number`."""

    number: int
    has_more: bool = False

    def __str__(self) -> str:
        return f"{self.number:,}+" if self.has_more else f"{self.number:,}"


def counted(number: int, most: int = MAX_COUNTED) -> Count:
    """Return a count of which a store has reported a number above `most` for "more"."""
    return Count(min(number, most), number > most)


_T = TypeVar("_T")
_Record = TypeVar("_Record")
_View = TypeVar("_View")
_Key = TypeVar("_Key", JobKey, TriggerKey)

EXAMINED = 10_000
"""The number of jobs, triggers or entries of the audit log that a page examines at most. A database reads so many
within 100 ms even if they are not in its cache."""


@dataclass(frozen=True, slots=True)
class ReadContext:
    """A scheduler, which need not be started, and the rules by which its data is shown."""

    scheduler: BaseScheduler
    redaction: Redaction
    advice: Advice = PYTHON
    """The words in which the reader is told what to do."""
    page: BatchedReads | None = None
    """The questions of the one page that is read; None if each read model asks its own."""

    def reading(self) -> BatchedReads:
        return self.page or BatchedReads(self.scheduler._usable_store)

    @property
    def store(self) -> JobStore:
        # The read models use queries that are not among the scheduler's methods.
        return self.scheduler._usable_store()

    @property
    def config(self) -> SchedulerConfig:
        return self.scheduler.config

    def shown(self, data: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return job data with its secrets hidden."""
        redacted: dict[str, Any] = self.redaction.of(data or {})
        return redacted


def no_job(reading: BatchedReads, key: JobKey) -> JobNotFoundError:
    """Return the error for a job that is not stored, with the key that was probably meant."""
    return not_stored(JobNotFoundError, f"job {key} is not stored", nearest(key, near_keys(reading, key)()))


def no_trigger(reading: BatchedReads, key: TriggerKey) -> TriggerNotFoundError:
    """Return the error for a trigger that is not stored, with the key that was probably meant."""
    return not_stored(TriggerNotFoundError, f"trigger {key} is not stored", nearest(key, near_keys(reading, key)()))


def near_keys(reading: BatchedReads, key: _Key) -> Deferred[set[_Key]]:
    """Ask for some stored keys that are similar to one that is not stored."""
    return reading.defer(lambda store: store.near_keys(key, MAX_NEAR))


def unreadable(error: Exception) -> str:
    """Return the text that replaces a value which this process cannot decode."""
    return f"unreadable: {reason(error)}"


def attempt(read: Callable[[], _T]) -> tuple[_T | None, str | None]:
    """Return the value that `read` returns, or the reason why it cannot be read.

    A row may have been written by another release or by hand: such a row must never prevent the others from being
    shown.
    """
    try:
        return read(), None
    except Exception as error:
        return None, unreadable(error)


def view_of(view: type[_View], record: object, **values: Any) -> _View:
    """Return a view of a record: `values`, and of its other fields those that the record has under the same name.

    So what is only shown is named by its record and its view, and not on the way between them.
    """
    names = (name for name in _field_names(cast("Any", view)) if name not in values)
    return view(**{name: getattr(record, name) for name in names if hasattr(record, name)}, **values)


@cache
def _field_names(view: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(view))


def page_of(page: Page[_Record], view: Callable[[_Record], _View]) -> Page[_View]:
    """Return a page of views of a page of records."""
    return Page([view(record) for record in page], page.next_cursor, page.examined)


def examined_page(
    reading: BatchedReads,
    query: BoundedQuery[_Record],
    limit: int,
    after: str | None,
    is_outdated: Callable[[Page[_Record]], bool] = lambda page: False,
    ask_more: Callable[[Page[_Record]], None] = lambda page: None,
) -> Page[_Record]:
    """Return a page of a query, which examines no more records than the query says.

    If the page `is_outdated`, it is read once more. `ask_more` may ask about the records of the page, with what this
    asks itself.
    """
    bounded = cast("AnyQuery", query)
    pages: Query[_Record] = Query(
        query.name,
        lambda limit, after: reading.defer(lambda store: admin(store).find(query, limit, after))(),
        query.position,
        query.shape,
        lambda: reading.defer(lambda store: admin(store).count(bounded))(),
    )
    page = pages.page(limit, after)
    position = None if after is None else pages._decoded(after)
    last: Deferred[Position | None] | None = None
    if is_outdated(page):
        last = reading.defer(lambda store: admin(store).last_examined(bounded, position))
        page = pages.page(limit, after)
    ask_more(page)
    if page.next_cursor is None and query.among is not None:
        end = (last or reading.defer(lambda store: admin(store).last_examined(bounded, position)))()
        if end is not None:
            return Page(page, pages._encoded(end), query.among)
    return page


def are_few(reading: BatchedReads, query: BoundedQuery[_Record], most: int) -> bool:
    """Return whether a query selects at most `most` records, and these among those that a page examines."""
    return examined_page(reading, query, most, None).next_cursor is None
