"""A running node finds out that its tables were migrated further, or are gone."""

from __future__ import annotations

from datetime import timedelta

from quartzpy.errors import SchemaError, StoreUnavailableError
from quartzpy.node.schema_watch import SCHEMA_CHECK_EVERY, SchemaWatch
from quartzpy.store.memory.store import RamJobStore
from quartzpy.testing.clock import ManualClock


class Tables(RamJobStore):
    """Counts the checks, and fails them on request."""

    def __init__(self) -> None:
        super().__init__(ManualClock())
        self.error: SchemaError | None = None
        self.checks = 0

    def check_tables(self) -> None:
        self.checks += 1
        if self.error is not None:
            raise self.error


def test_tables_are_checked_at_an_interval_and_each_time_while_something_is_wrong() -> None:
    clock, tables = ManualClock(), Tables()
    watch = SchemaWatch(tables, clock)
    watch.check()
    assert tables.checks == 0, "the start has just checked them"
    tables.error = SchemaError("newer")
    clock.advance(timedelta(seconds=SCHEMA_CHECK_EVERY))
    watch.check()
    assert (watch.problem, tables.checks) == ("newer", 1)
    watch.check()
    assert tables.checks == 2
    tables.error = None
    watch.check()
    assert (watch.problem, tables.checks) == (None, 3)
    watch.check()
    assert tables.checks == 3


def test_an_error_of_a_check_in_says_at_once_that_tables_are_missing() -> None:
    watch = SchemaWatch(Tables(), ManualClock())
    watch.failed(StoreUnavailableError("away"))
    assert watch.problem is None
    watch.failed(SchemaError("gone"))
    assert watch.problem == "gone"
