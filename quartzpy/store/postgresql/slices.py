"""Changes of very many triggers, slice by slice: each slice is a transaction of its own.

A change of few triggers is one transaction. For more, the keys are read page by page without a lock, the soonest
first, and each transaction changes a bounded number of them, so that it holds few rows, for a short time. A row that
another transaction holds is passed over first, and waited for in the second pass, which also changes the triggers that
were stored in the meantime. Each trigger is changed at most once, so two opposite calls do not chase each other.

An interrupted change is repeated, and then changes what it had not reached.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self, TypeAlias, TypeVar

from quartzpy.keys import JobKey, TriggerKey
from quartzpy.store.postgresql.connection.locks import LockName
from quartzpy.store.postgresql.connection.pipeline import BoundStatement, Result
from quartzpy.store.postgresql.connection.session import SqlSession, Transaction
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.postgresql.slice_size import SliceSize

logger = logging.getLogger(__name__)
_Key = TypeVar("_Key", JobKey, TriggerKey)
_T = TypeVar("_T")

_SQL = SqlFile("slices.sql")
HOLD = _SQL("hold")

Switches: TypeAlias = tuple[
    Literal[
        "by_trigger", "by_page", "by_job", "by_trigger_group", "by_job_group", "scheduled", "held_by_mode", "pauses",
        "resumes", "by_calendar", "ended", "from_start", "stops",
    ],
    ...,
]  # fmt: skip
"""The switches of the statements that say which triggers a request concerns."""

MOST, LEAST, AT_FIRST = 1_000, 50, 500
"""The largest and the smallest number of triggers in a slice, and the number in the first one."""
PAGE = 50_000
"""The number of keys that are read at once: each read looks at all triggers that the change concerns."""
LONG, SHORT = 0.1, 0.04
"""The seconds of a slice from which on the next one is half as large, and below which it is twice as large."""
BEGINNING = "-infinity", 0
LOG_EVERY = 1.0
"""The seconds between two lines of the log about one change."""


class AffectedTrigger(NamedTuple):
    """A row of `affected`."""

    at: str
    """Its fire time as the database writes it, by which a page begins after another one."""
    generation: int
    group: str
    name: str


class Affected(NamedTuple):
    """Which triggers a change concerns: the switches and the values of `affected`."""

    switches: Switches
    values: dict[str, Any]


class SliceProgress:
    """The log lines of a change of many triggers, which is its block. `done` says what became of them: "paused"."""

    def __init__(self, scheduler: str, done: str, what: str = "triggers") -> None:
        self._scheduler = scheduler
        self._done = done
        self._what = what
        self._next_line = time.monotonic() + LOG_EVERY
        self.number = 0

    def add(self, number: int) -> None:
        self.number += number
        if (now := time.monotonic()) >= self._next_line:
            self._next_line = now + LOG_EVERY
            logger.info("scheduler %s: %s %s %s so far", self._scheduler, self._done, f"{self.number:,}", self._what)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None and self.number:
            logger.warning(
                "scheduler %s: interrupted by %s after %s %s were %s; the same call goes on from there",
                self._scheduler,
                kind.__name__,
                f"{self.number:,}",
                self._what,
                self._done,
            )


Apply: TypeAlias = Callable[[dict[str, list[Any]]], BoundStatement]
"""Takes the columns of a slice. Returns the statement that changes it, and passes over the rows that others hold."""
Follow: TypeAlias = Callable[[Result, bool], list[BoundStatement]]
"""Takes the result of that statement, and whether the slice is all there is. Returns what the transaction does then."""


def change(
    session: SqlSession,
    affected: Affected,
    apply: Apply,
    follow: Follow = lambda result, is_whole: [],
    *,
    ahead: Apply | None = None,
    marks: Sequence[BoundStatement] = (),
    done: str,
    waits: bool = True,
    deadline: float = math.inf,
) -> bool:
    """Change all these triggers. `apply` returns the generations of those it changed; `ahead` is executed before it.

    The slice in which the deadline of the monotonic clock passes is the last one. Then this returns False, and the same
    call goes on later; otherwise it returns True.

    Unless `waits`, there is no second pass, and nothing waits for a row that another transaction holds.

    The transaction of the first slice also executes `marks`, which decide about the triggers that are stored later,
    and commits them under TRIGGER_ACCESS: whoever stores a trigger under that lock either has committed before, and
    the second pass finds it, or reads the marks.
    """
    size = first_size()
    changed: set[int] = set()
    with SliceProgress(session.scheduler, done) as progress:
        for waits_now in (False, True) if waits else (False,):
            for rows, is_whole in _slices(session, affected, size, changed):
                began = time.monotonic()
                columns = columns_of(rows)
                # A statement that waits for a row does not change it after another one has: that is a new version.
                before = [*marks, *([session.bind(HOLD, **columns)] if waits_now or (waits and is_whole) else [])]
                before += [] if ahead is None else [ahead(columns)]
                result = _transaction(session, before, apply(columns), follow, is_whole, is_marked=bool(marks))
                size.adapt(time.monotonic() - began)
                marks = ()
                changed.update(row[0] for row in result.rows)
                progress.add(len(result.rows))
                if time.monotonic() >= deadline:
                    return False
            if marks:
                _transaction(session, marks, is_marked=True)
                marks = ()
    return True


def first_size() -> SliceSize:
    """Return the size of the first slice of a change, which adapts to how long each slice takes."""
    return SliceSize(AT_FIRST, least=LEAST, most=MOST, short=SHORT, long=LONG)


def in_parts(
    session: SqlSession,
    keys: Collection[_Key],
    work: Callable[[Sequence[_Key]], _T],
    *,
    done: str,
    what: str = "triggers",
) -> list[_T]:
    """Call `work`, which is a transaction, with parts of the keys; return its results."""
    if len(keys) <= AT_FIRST or not session.decides_at_once:
        return [work(list(keys))] if keys else []
    ordered, results = sorted(keys), []
    with SliceProgress(session.scheduler, done, what) as progress:
        for start in range(0, len(ordered), AT_FIRST):
            part = ordered[start : start + AT_FIRST]
            results.append(work(part))
            progress.add(len(part))
    return results


def are_few(session: SqlSession, affected: Affected) -> bool:
    """Return whether the triggers are so few that one transaction may change all of them."""
    return len(page_of(session, affected, BEGINNING, AT_FIRST + 1)) <= AT_FIRST


def _transaction(
    session: SqlSession,
    before: Sequence[BoundStatement],
    statement: BoundStatement | None = None,
    follow: Follow = lambda result, is_whole: [],
    is_whole: bool = True,
    *,
    is_marked: bool,
) -> Result:
    def work(transaction: Transaction) -> Result:
        result = transaction.execute(*before, *([] if statement is None else [statement]))[-1]
        after = [] if statement is None else follow(result, is_whole)
        transaction.commit(*([session.lock(LockName.TRIGGER_ACCESS)] if is_marked else ()), *after)
        return result

    return session.transaction(work)


def _slices(
    session: SqlSession, affected: Affected, size: SliceSize, changed: set[int]
) -> Iterator[tuple[list[AffectedTrigger], bool]]:
    """Yield the triggers slice by slice, and whether a slice is all there is."""
    for page, is_only in _pages(session, affected):
        rows = [row for row in page if row.generation not in changed]
        is_whole = is_only and len(rows) <= size.number
        while rows:
            # In one order, as all callers lock the rows of a transaction.
            part, rows = sorted(rows[: size.number], key=lambda row: row[2:4]), rows[size.number :]
            yield part, is_whole


def _pages(session: SqlSession, affected: Affected) -> Iterator[tuple[list[AffectedTrigger], bool]]:
    """Yield the triggers page by page, and whether a page is the only one."""
    after, is_first = BEGINNING, True
    while page := page_of(session, affected, after, PAGE):
        is_last = len(page) < PAGE
        yield page, is_first and is_last
        if is_last:
            return
        after, is_first = (page[-1].at, page[-1].generation), False


def page_of(session: SqlSession, affected: Affected, after: tuple[str, int], limit: int) -> list[AffectedTrigger]:
    """Return triggers after the last one of another page, the soonest first, without a lock."""
    text = _SQL("affected", **dict.fromkeys(affected.switches, True))
    rows = session.read_one(text, **affected.values, after_at=after[0], after_id=after[1], limit=limit)
    return [AffectedTrigger._make(row) for row in rows]


def columns_of(rows: Sequence[AffectedTrigger]) -> dict[str, list[Any]]:
    """Return the values by which a statement finds the triggers of a slice."""
    return {
        "groups": [row.group for row in rows],
        "names": [row.name for row in rows],
        "generations": [row.generation for row in rows],
    }
