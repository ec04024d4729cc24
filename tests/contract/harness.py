"""The harnesses of our own stores, for the contract tests and for others that need a store whose time they move."""

from __future__ import annotations

import psycopg

from quartzpy.config import SchedulerConfig
from quartzpy.keys import TriggerKey
from quartzpy.states import TriggerState
from quartzpy.store.ram.store import RamJobStore
from quartzpy.testing.store.harness import *
from quartzpy.testing.store.harness import START, Harness, ManualClock


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


class SqlHarness(Harness):
    """The store on a database, whose time is a row that the clock writes."""

    NOW = "(SELECT instant FROM test_clock)"

    def __init__(self, dsn: str) -> None:
        from quartzpy.store.sql.store import SqlJobStore

        self._connection = psycopg.connect(dsn.replace("postgresql+psycopg://", "postgresql://"), autocommit=True)
        self._connection.execute("CREATE TABLE IF NOT EXISTS test_clock (instant timestamptz NOT NULL)")
        self._connection.execute("DELETE FROM test_clock")
        self._connection.execute("INSERT INTO test_clock VALUES (%s)", [START])
        self._name = "contract"
        store = SqlJobStore(dsn, SchedulerConfig(name=self._name), now_sql=self.NOW)
        super().__init__(store, ManualClock(self._write_time))
        store.open()

    def _write_time(self, instant: datetime) -> None:
        self._connection.execute("UPDATE test_clock SET instant = %s", [instant])

    def set_state(self, trigger: TriggerKey, state: TriggerState) -> None:
        self._connection.execute(
            "UPDATE qrtz_triggers SET trigger_state = %s, fire_id = %s"
            " WHERE sched_name = %s AND trigger_group = %s AND trigger_name = %s",
            [
                str(state),
                -1 if state in (TriggerState.ACQUIRED, TriggerState.COMPLETE) else None,
                self._name,
                trigger.group,
                trigger.name,
            ],
        )

    def close(self) -> None:
        super().close()
        self._connection.close()
