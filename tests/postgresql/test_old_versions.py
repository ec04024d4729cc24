"""While somebody holds an old snapshot, every fire leaves a version of its trigger's row, and no step visits these."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from quartzpy.jobs.job import JobDetail
from quartzpy.states import Outcome
from quartzpy.store.postgresql.connection.pipeline import BoundStatement
from quartzpy.store.postgresql.connection.session import SqlSession
from quartzpy.store.postgresql.steps import acquire
from quartzpy.store.postgresql.steps.effects import schedules
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.protocol import AvailableSlots, Completion, Expectation, FiredTrigger, Front, JobEntry
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.upcoming import UpcomingFireTimes, prepare
from tests.postgresql.conftest import register

INTERVAL = timedelta(milliseconds=1)
FIRES = 300
"""The old versions of each trigger at the first measurement; at the second, there are four times as many."""
MAX_MORE = 60
"""By how many blocks a statement may differ between the two by chance."""
FIRED = """
DO $$ BEGIN
    FOR n IN 1..%s LOOP
        UPDATE qrtz_triggers
           SET times_triggered = times_triggered + 1, prev_fire_time = next_fire_time,
               next_fire_time = upcoming[1],
               upcoming = upcoming[2:] || upcoming[cardinality(upcoming)] + interval '1 millisecond';
        COMMIT;
    END LOOP;
END $$
"""


class Blocks:
    """Explains each statement before it is sent, and counts the blocks that it visits."""

    def __init__(self, connection: psycopg.Connection[Any], patch: pytest.MonkeyPatch) -> None:
        self._connection = connection
        self.visited: dict[str, int] = {}
        bind = SqlSession.bind

        def explained(session: SqlSession, text: str, **values: Any) -> BoundStatement:
            bound = bind(session, text, **values)
            if "qrtz_" in text:
                self.visited[text.splitlines()[0]] = self._blocks(bound)
            return bound

        patch.setattr(SqlSession, "bind", explained)

    def _blocks(self, bound: BoundStatement) -> int:
        values = bound.statement.encode(bound.values)
        literals = b", ".join(
            b"NULL" if value is None else b"'" + value.replace(b"'", b"''") + b"'" for value in values
        )
        self._connection.execute(b"PREPARE explained AS " + bound.statement.sql)
        with self._connection.transaction(force_rollback=True):
            row = self._connection.execute(
                b"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE explained" + (b"(" + literals + b")") * bool(values)
            ).fetchone()
        self._connection.execute("DEALLOCATE explained")
        assert row is not None
        return _visited((row[0] if isinstance(row[0], list) else json.loads(row[0]))[0]["Plan"])


def _visited(node: Mapping[str, Any]) -> int:
    """The blocks of the part of a plan that visits the most: the whole does not count a part that nothing reads."""
    own = int(node["Shared Hit Blocks"]) + int(node["Shared Read Blocks"])
    return max([own, *map(_visited, node.get("Plans", []))])


def _ended(fired: FiredTrigger) -> Completion:
    now, last = datetime.now(UTC), fired.last_known_fire_time
    assert last is not None
    further = UpcomingFireTimes(tuple(last + n * INTERVAL for n in range(1, 9)), is_complete=False)
    return Completion(fired, now, now, Outcome.SUCCEEDED, refill=further)


def test_no_step_visits_the_old_versions_of_a_trigger(
    store: SqlJobStore, connect: Callable[[], psycopg.Connection[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    node = register(store)
    job = JobDetail("known", "often", durable=True)
    begin = datetime.now(UTC) - timedelta(minutes=1)
    triggers = [SimpleTrigger(f"t{n}", job_key=job.key, start_time=begin, interval=INTERVAL) for n in range(3)]
    store.store_jobs([JobEntry(job, [prepare(trigger, begin, None) for trigger in triggers])], replace=False)
    reader, user, explaining = connect(), connect(), connect()
    reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    reader.execute("SELECT count(*) FROM qrtz_triggers")
    explaining.execute("SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET lock_timeout = '10s'")
    blocks = Blocks(explaining, monkeypatch)

    front = Front()

    def fire() -> None:
        nonlocal front
        took = store.acquire(
            node,
            [AvailableSlots()],
            limit=10,
            look_ahead=timedelta(),
            misfire_threshold=timedelta(hours=1),
            # Each step begins behind what the one before it has read.
            expected=Expectation(has_limited=False, fronts=front.pools, begins=front.pools.keys()),
        )
        front = took.front
        assert len(took.fired) == len(triggers)
        assert not store.complete(node, [_ended(fired) for fired in took.fired]).fenced

    def visited(times: int) -> dict[str, int]:
        """Let each trigger fire that often, and then by the steps. The first of these finds where the next begin."""
        user.execute((FIRED % times).encode())
        fire()
        fire()
        blocks.visited = {}
        fire()
        return dict(blocks.visited)

    before = visited(FIRES)
    after = visited(3 * FIRES)
    first_lines = [text.splitlines()[0] for text in (acquire.ACQUIRE_UNLIMITED, acquire.NEXT_DUE, schedules.REFILL)]
    assert not set(first_lines) - before.keys()
    grown = {line: (least, after[line]) for line, least in before.items() if after.get(line, 0) > least + MAX_MORE}
    assert not grown
