"""The scheduler that the read models describe, and the helpers that all of them share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from quartzpy.config.config import SchedulerConfig
from quartzpy.errors import JobNotFoundError, TriggerNotFoundError
from quartzpy.keys import JobKey, Key, TriggerKey, nearest
from quartzpy.operations.redaction import Redaction
from quartzpy.scheduler.advice import PYTHON, Advice
from quartzpy.scheduler.methods.base import MOST_NEAR
from quartzpy.scheduler.paging import Page, Query
from quartzpy.scheduler.reading import Answer, Reading
from quartzpy.scheduler.scheduler import BaseScheduler
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.protocol import JobStore
from quartzpy.store.queries import AnyQuery, Position
from quartzpy.texts import reason

_T = TypeVar("_T")
_Record = TypeVar("_Record")
_View = TypeVar("_View")
_Key = TypeVar("_Key", JobKey, TriggerKey)
_Bounded = TypeVar("_Bounded", bound=AnyQuery)

EXAMINED = 10_000
"""The number of jobs, triggers or entries of the audit log that a page examines at most. A database reads so many
within 100 ms even if they are not in its cache."""


@dataclass(frozen=True, slots=True)
class Source:
    """A scheduler, which need not be started, and the rules by which its data is shown."""

    scheduler: BaseScheduler
    redaction: Redaction
    advice: Advice = PYTHON
    """The words in which the reader is told what to do."""
    page: Reading | None = None
    """The questions of the one page that is read; None if each read model asks its own."""

    def reading(self) -> Reading:
        return self.page or Reading(self.scheduler._usable_store)

    @property
    def store(self) -> JobStore:
        # The read models use queries that are not among the scheduler's transaction.
        return self.scheduler._usable_store()

    @property
    def config(self) -> SchedulerConfig:
        return self.scheduler.config

    def shown(self, data: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return job data with its secrets hidden."""
        redacted: dict[str, Any] = self.redaction.of(data or {})
        return redacted


def no_job(reading: Reading, key: JobKey) -> JobNotFoundError:
    """Return the error for a job that is not stored, with the key that was probably meant."""
    return JobNotFoundError(f"job {key} is not stored{_hint(nearest(key, _near(reading, key)()))}")


def no_trigger(reading: Reading, key: TriggerKey) -> TriggerNotFoundError:
    """Return the error for a trigger that is not stored, with the key that was probably meant."""
    return TriggerNotFoundError(f"trigger {key} is not stored{_hint(nearest(key, _near(reading, key)()))}")


def _near(reading: Reading, key: _Key) -> Answer[set[_Key]]:
    return reading.ask(lambda store: store.near_keys(key, MOST_NEAR))


def _hint(key: Key | None) -> str:
    return "" if key is None else f"; did you mean {key}?"


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


def page_of(page: Page[_Record], view: Callable[[_Record], _View]) -> Page[_View]:
    """Return a page of views of a page of records."""
    return Page([view(record) for record in page], page.next_cursor, page.examined)


Find = Callable[[JobStore, _Bounded, int | None, Position | None], list[_Record]]


def examined_page(
    reading: Reading,
    name: str,
    query: _Bounded,
    find: Find[_Bounded, _Record],
    limit: int,
    after: str | None,
    is_outdated: Callable[[Page[_Record]], bool] = lambda page: False,
) -> Page[_Record]:
    """Return a page of the records that `find` finds, which examines no more of them than the query says.

    If the page `is_outdated`, it is read once more.
    """
    found: Query[_Record] = Query(
        name,
        lambda limit, after: reading.ask(lambda store: find(store, query, limit, after))(),
        cast("Callable[[_Record], Position]", query.position),
        query.shape,
        lambda: reading.ask(lambda store: store.count(query))(),
    )
    page = found.page(limit, after)
    position = None if after is None else found._decoded(after)
    last: Answer[Position | None] | None = None
    if is_outdated(page):
        last = reading.ask(lambda store: admin(store).last_examined(query, position))
        page = found.page(limit, after)
    if page.next_cursor is None and query.among is not None:
        end = (last or reading.ask(lambda store: admin(store).last_examined(query, position)))()
        if end is not None:
            return Page(page, found._encoded(end), query.among)
    return page
