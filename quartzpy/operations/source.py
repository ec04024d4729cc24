"""The scheduler that the read models describe, and the helpers that all of them share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from quartzpy.config.config import SchedulerConfig
from quartzpy.errors import JobNotFoundError, TriggerNotFoundError
from quartzpy.keys import JobKey, Key, TriggerKey, nearest
from quartzpy.operations.redaction import Redaction
from quartzpy.scheduling.advice import PYTHON, Advice
from quartzpy.scheduling.paging import Page, Query
from quartzpy.scheduling.scheduler import BaseScheduler
from quartzpy.scheduling.verbs.base import MOST_NEAR
from quartzpy.store.protocol import JobStore
from quartzpy.store.queries import BoundedQuery, Position
from quartzpy.texts import reason

_T = TypeVar("_T")
_Record = TypeVar("_Record")
_View = TypeVar("_View")
_Bounded = TypeVar("_Bounded", bound=BoundedQuery)

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

    @property
    def store(self) -> JobStore:
        # The read models use queries that are not among the scheduler's verbs.
        return self.scheduler._usable_store()

    @property
    def config(self) -> SchedulerConfig:
        return self.scheduler.config

    def shown(self, data: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return job data with its secrets hidden."""
        redacted: dict[str, Any] = self.redaction.of(data or {})
        return redacted


def no_job(store: JobStore, key: JobKey) -> JobNotFoundError:
    """Return the error for a job that is not stored, with the key that was probably meant."""
    return JobNotFoundError(f"job {key} is not stored{_hint(nearest(key, store.near_keys(key, MOST_NEAR)))}")


def no_trigger(store: JobStore, key: TriggerKey) -> TriggerNotFoundError:
    """Return the error for a trigger that is not stored, with the key that was probably meant."""
    return TriggerNotFoundError(f"trigger {key} is not stored{_hint(nearest(key, store.near_keys(key, MOST_NEAR)))}")


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


def examined_page(
    store: JobStore,
    name: str,
    query: _Bounded,
    find: Callable[[_Bounded, int | None, Position | None], list[_Record]],
    limit: int,
    after: str | None,
) -> Page[_Record]:
    """Return a page of the records that `find` finds, which examines no more of them than the query says."""
    found: Query[_Record] = Query(
        name,
        lambda limit, after: find(query, limit, after),
        cast("Callable[[_Record], Position]", query.position),
        query.shape,
        lambda: store.count(query),
    )
    page = found.page(limit, after)
    if page.next_cursor is None and query.among is not None:
        end = store.last_examined(query, None if after is None else found._decoded(after))
        if end is not None:
            return Page(page, found._encoded(end), query.among)
    return page


def all_of(views: Iterable[_View | None]) -> tuple[_View, ...]:
    """Return the views that are not None."""
    return tuple(view for view in views if view is not None)
