"""The budget of a computation from what a user wrote: a schedule, a calendar, a file of events.

Whatever a rule says, its fire times are computed in a bounded number of steps of about a microsecond each. A
computation opens a budget, and each loop over what a user wrote spends from the one that is open. Nested computations
share it, because their numbers of steps would multiply.
"""

from __future__ import annotations

from contextvars import ContextVar, Token
from types import TracebackType

from quartzpy.errors import ScheduleTooCostlyError

MAX_STEPS = 1_000_000
"""The number of steps of one search for the next fire times, about a second of work."""


class Budget:
    """A context manager within which `spend` counts. Of nested ones, that with the least left decides."""

    __slots__ = ("_before", "_opened", "_outer", "most", "remaining")

    def __init__(self, most: int = MAX_STEPS) -> None:
        self.most = most
        self.remaining = most
        self._opened: Token[Budget | None] | None = None
        self._outer: Budget | None = None
        self._before = most

    @property
    def spent(self) -> int:
        """The number of steps that were taken within it."""
        return self.most - self.remaining

    def __enter__(self) -> Budget:
        outer = _open.get()
        if outer is not None and outer.remaining <= self.remaining:
            return outer
        self._outer, self._before = outer, self.remaining
        self._opened = _open.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._opened is not None:
            _open.reset(self._opened)
            self._opened = None
            if self._outer is not None:
                self._outer.remaining -= self._before - self.remaining


_open: ContextVar[Budget | None] = ContextVar("_open", default=None)


def spend(steps: int = 1) -> None:
    """Take steps from the budget that is open; without one nothing is counted.

    Raises:
        ScheduleTooCostlyError: it is spent.
    """
    budget = _open.get()
    if budget is not None:
        budget.remaining -= steps
        if budget.remaining < 0:
            raise ScheduleTooCostlyError(
                f"the schedule is too costly: its next fire times are not found within {budget.most:,} steps;"
                " exclude or combine less, or use a coarser rule"
            )
