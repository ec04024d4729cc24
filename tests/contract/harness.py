"""The harnesses of our own stores, for the contract tests and for others that need a store whose time they move."""

from __future__ import annotations

from quartzpy.config.config import SchedulerConfig
from quartzpy.keys import TriggerKey
from quartzpy.states import TriggerState
from quartzpy.store.ram.store import RamJobStore
from quartzpy.testing.store.harness import *
from quartzpy.testing.store.harness import START, Harness, ManualClock
from tests.database import connect_to


class RamHarness(Harness):
    """The store in memory."""

    store: RamJobStore

    def __init__(self) -> None:
        clock = ManualClock()
        super().__init__(RamJobStore(clock), clock)
        self.store.open()

    def set_state(self, trigger: TriggerKey, state: TriggerState) -> None:
        tables = self.store._tables
        fire_id = -1 if state is TriggerState.COMPLETE else None
        tables.move(tables.triggers[trigger], state, fire_id=fire_id)


class SqlBackend:
    """A store on a database, whose time is a row of a table.

    One backend serves many tests, because a new one connects, and prepares every statement again.
    """

    NAME = "contract"
    NOW = "(SELECT instant FROM test_time.clock)"

    def __init__(self, dsn: str) -> None:
        from quartzpy.store.sql.store import SqlJobStore

        self.connection = connect_to(dsn)
        # The table is not among the scheduler's, and stays when those are emptied: statements refer to it.
        self.connection.execute(
            "CREATE SCHEMA IF NOT EXISTS test_time;"
            " CREATE TABLE IF NOT EXISTS test_time.clock (instant timestamptz NOT NULL)"
        )
        self.store = SqlJobStore(dsn, SchedulerConfig(name=self.NAME), now_sql=self.NOW)

    def set_time(self, instant: datetime) -> None:
        if not self.connection.execute("UPDATE test_time.clock SET instant = %s", [instant]).rowcount:
            self.connection.execute("INSERT INTO test_time.clock VALUES (%s)", [instant])

    def close(self) -> None:
        self.store.close()
        self.connection.close()


class SqlHarness(Harness):
    """The store of a backend, on tables that are empty."""

    def __init__(self, backend: SqlBackend) -> None:
        self._connection = backend.connection
        backend.set_time(START)
        super().__init__(backend.store, ManualClock(backend.set_time))
        self.store.open()

    def set_state(self, trigger: TriggerKey, state: TriggerState) -> None:
        self._connection.execute(
            "UPDATE qrtz_triggers SET trigger_state = %s, fire_id = %s"
            " WHERE sched_name = %s AND trigger_group = %s AND trigger_name = %s",
            [
                str(state),
                -1 if state in (TriggerState.ACQUIRED, TriggerState.COMPLETE) else None,
                SqlBackend.NAME,
                trigger.group,
                trigger.name,
            ],
        )

    def close(self) -> None:
        """Leave the store to the next test."""
