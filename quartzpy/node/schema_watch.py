"""Whether this release can use the tables, and whether they were made for this database."""

from __future__ import annotations

import logging
from collections.abc import Callable

from quartzpy.clock import Clock
from quartzpy.errors import CopiedDatabaseError, SchemaError
from quartzpy.store.protocol import JobStore

logger = logging.getLogger(__name__)

SCHEMA_CHECK_EVERY = 30.0
"""The interval, in seconds, at which the tables are checked."""


class SchemaWatch:
    """Knows what is wrong with the tables, by regular checks and by the errors of check-ins.

    The start of a node checks them. Afterwards somebody may migrate them for another release, or drop them. Tables of a
    newer release that say that this one can use them are in order: the node is part of a rolling upgrade.
    """

    def __init__(self, store: JobStore, clock: Clock, halt: Callable[[bool], None] = lambda is_halted: None) -> None:
        self._store = store
        self._clock = clock
        self._halt = halt
        self._checked_at = clock.monotonic()
        self.problem: str | None = None
        """What is wrong with the tables, in words."""
        self.is_copy = False
        """True if the tables were made for another database, so that nothing may fire."""

    def failed(self, error: BaseException) -> None:
        """Note the error of a check-in, if it is about the tables."""
        if isinstance(error, SchemaError):
            self._found(str(error))
        # The next answer may come from another database.
        self._checked_at = float("-inf")

    def check_at_start(self) -> None:
        """Look whether the tables were made for this database, before anything fires."""
        self._checked_at = float("-inf")
        self.check()

    def check(self) -> None:
        """Check the tables if that is due; those with a problem are checked each time."""
        at = self._clock.monotonic()
        if self.problem is None and at - self._checked_at < SCHEMA_CHECK_EVERY:
            return
        self._checked_at = at
        try:
            self._store.check_tables()
        except CopiedDatabaseError as error:
            self._found(str(error), is_copy=True)
        except SchemaError as error:
            self._found(str(error))
        else:
            self._found(None)

    def _found(self, problem: str | None, *, is_copy: bool = False) -> None:
        if problem == self.problem:
            return
        was_copy, self.problem, self.is_copy = self.is_copy, problem, is_copy
        if was_copy or is_copy:
            self._halt(is_copy)
        if is_copy:
            logger.error("this node fires nothing: %s", problem)
        elif problem is None and was_copy:
            logger.warning("the database was adopted: this node fires again")
        elif problem is None:
            logger.warning("this release can use the tables again")
        else:
            logger.error("this release cannot use the tables any more: %s", problem)
