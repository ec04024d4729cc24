"""Watches that the tables of a running node remain such that its release can use them."""

from __future__ import annotations

import logging

from quartzpy.clock import Clock
from quartzpy.errors import SchemaError
from quartzpy.store.protocol import JobStore

CHECK_EVERY = 30.0
"""The interval, in seconds, at which the tables are checked."""

logger = logging.getLogger(__name__)


class SchemaWatch:
    """Knows what is wrong with the tables, by regular checks and by the errors of check-ins.

    The start of a node checks them. Afterwards somebody may migrate them for another release, or drop them. Tables of a
    newer release that say that this one can use them are in order: the node is part of a rolling upgrade.
    """

    def __init__(self, store: JobStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._checked_at = clock.monotonic()
        self.problem: str | None = None
        """What is wrong with the tables, in words."""

    def failed(self, error: BaseException) -> None:
        """Note the error of a check-in, if it is about the tables."""
        if isinstance(error, SchemaError):
            self._found(str(error))

    def check(self) -> None:
        """Check the tables if that is due; those with a problem are checked each time."""
        at = self._clock.monotonic()
        if self.problem is None and at - self._checked_at < CHECK_EVERY:
            return
        self._checked_at = at
        try:
            self._store.check_tables()
        except SchemaError as error:
            self._found(str(error))
        else:
            self._found(None)

    def _found(self, problem: str | None) -> None:
        if problem == self.problem:
            return
        self.problem = problem
        if problem is None:
            logger.warning("this release can use the tables again")
        else:
            logger.error("this release cannot use the tables any more: %s", problem)
