"""A row that the database cannot process never stops the step of all others."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from quartzpy.jobs.job import JobDetail
from quartzpy.jobs.rate_limit import RateLimit
from quartzpy.node.scheduler_thread import refill_of
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.protocol import AvailableSlots, Gate, JobEntry, Node
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.upcoming import PreparedTrigger, UpcomingFireTimes, prepare
from tests.postgresql.conftest import register

REASON = "the database cannot process its row: "
NAMES = [f"t{n}" for n in range(7)]
BAD = "t3"

# What somebody stores by hand in the row of one trigger, for the step that meets it.
OF_ANY = {
    "the counter is at its end": "times_triggered = 9223372036854775807",
    "no instant follows": "upcoming = ARRAY[NULL]::timestamptz[]",
    "an infinite instant follows": "upcoming = ARRAY['infinity']::timestamptz[]",
    "an instant of no calendar follows": "upcoming = ARRAY['294276-01-01 00:00+00']::timestamptz[]",
    "the next instant is before all": "next_fire_time = '-infinity'",
    "the next instant is before Christ": "next_fire_time = '4000-01-01 00:00+00 BC'",
    "the last instant is infinite": "prev_fire_time = 'infinity'",
    "it began for ever ago": "start_time = '-infinity'",
    "it ends after the year 9999": "end_time = '10000-01-01 00:00+00'",
    "its threshold is longer than all time": "misfire_threshold = interval '200000 years'",
    "it coalesces an infinite instant": "coalesced_fire_times = ARRAY['infinity']::timestamptz[]",
}
OF_LIMITED = {
    "fires per no time": """rate_limit = rate_limit || '{"per_us": 0}'""",
    "no fire in a period": """rate_limit = rate_limit || '{"limit": 0}'""",
    "a period without end": """rate_limit = rate_limit || '{"per_us": 9223372036854775807}'""",
    "a period of a word": """rate_limit = rate_limit || '{"per_us": "a minute"}'""",
    "a period of no type": """rate_limit = rate_limit || '{"per_us": [1]}'""",
    "a limit that is no object": """rate_limit = '"often"'""",
    "a burst too long for a number": """rate_limit = rate_limit || '{"burst": 99999999999999999999}'""",
    "without its period": "rate_limit = rate_limit - 'per_us'",
}


class Scene:
    def __init__(self, store: SqlJobStore, admin: psycopg.Connection[Any]) -> None:
        self.store, self.admin = store, admin
        self.node: Node = register(store)

    def holds(self, *, ago: float, limited: bool = False, filled: bool = True) -> None:
        """Store a job for each trigger: a rate limit holds for a job."""
        now = datetime.now(UTC)
        limit = RateLimit(10, per="1m", burst=10) if limited else None
        entries = []
        for n, name in enumerate(NAMES):
            job = JobDetail("work", name, durable=True, rate_limit=limit)
            start = now - timedelta(seconds=ago) + timedelta(milliseconds=n)
            trigger = SimpleTrigger(
                name, job_key=job.key, start_time=start, interval=timedelta(hours=1), repeat_count=100
            )
            whole = prepare(trigger, now, None)
            unfilled = PreparedTrigger(whole.trigger, whole.progress, UpcomingFireTimes())
            entries.append(JobEntry(job, [whole if filled else unfilled]))
        self.store.store_jobs(entries, replace=False)

    def edits(self, change: str, name: str = BAD) -> bool:
        """Change the row of a trigger by hand. Return False if the table refuses that."""
        try:
            self.admin.execute(f"UPDATE qrtz_triggers SET {change} WHERE trigger_name = '{name}'".encode())
        except (psycopg.IntegrityError, psycopg.DataError):
            return False
        return True

    def acquire(self, *opened: Gate) -> Any:
        return self.store.acquire(
            self.node,
            [AvailableSlots(workers=20, group_slots=20)],
            limit=20,
            look_ahead=timedelta(),
            misfire_threshold=timedelta(hours=2),
            opened=opened,
        )

    def in_error(self) -> dict[str, str]:
        rows = self.admin.execute("SELECT trigger_name, error FROM qrtz_triggers WHERE trigger_state = 'ERROR'")
        return dict(rows.fetchall())

    def has_set_aside(self, name: str = BAD) -> bool:
        found = self.in_error()
        return found.keys() == {name} and found[name].startswith(REASON)


@pytest.fixture
def scene(store: SqlJobStore, connect: Callable[[], psycopg.Connection[Any]]) -> Scene:
    return Scene(store, connect())


@pytest.fixture
def unchecked(scene: Scene) -> Any:
    """Tables without constraints on values, as those of a database that was not made by this release."""
    names = scene.admin.execute(
        "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint"
        " WHERE conrelid = 'qrtz_triggers'::regclass AND contype = 'c'"
        " AND conname ~ '(instants|upcoming|counters|rate_limit)'"
    ).fetchall()
    for name, _ in names:
        scene.admin.execute(f"ALTER TABLE qrtz_triggers DROP CONSTRAINT {name}".encode())
    yield
    scene.admin.execute("DELETE FROM qrtz_fired_triggers; DELETE FROM qrtz_triggers; DELETE FROM qrtz_job_details")
    for name, definition in names:
        scene.admin.execute(f"ALTER TABLE qrtz_triggers ADD CONSTRAINT {name} {definition}".encode())


@pytest.mark.parametrize("change", OF_ANY.values(), ids=OF_ANY)
def test_the_table_refuses_what_no_step_can_process(scene: Scene, change: str) -> None:
    scene.holds(ago=60)
    assert not scene.edits(change)
    assert {one.trigger_name for one in scene.acquire().fired} == set(NAMES)


@pytest.mark.parametrize("change", OF_LIMITED.values(), ids=OF_LIMITED)
def test_the_table_refuses_a_rate_limit_that_cannot_be_computed_with(scene: Scene, change: str) -> None:
    scene.holds(ago=60, limited=True)
    assert not scene.edits(change)
    assert {one.trigger_name for _ in range(2) for one in scene.acquire().fired} == set(NAMES)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("change", list(OF_LIMITED.values())[:5], ids=list(OF_LIMITED)[:5])
def test_a_bad_rate_limit_in_a_table_without_the_constraint_holds_up_no_other(scene: Scene, change: str) -> None:
    scene.holds(ago=60, limited=True)
    assert scene.edits(change)
    fired = {one.trigger_name for _ in range(2) for one in scene.acquire().fired}
    if change == OF_LIMITED["a period without end"]:
        assert fired == {*NAMES}, "it can be computed with"
        return
    assert fired == {*NAMES} - {BAD}
    assert scene.has_set_aside()


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("at_checkin", [False, True])
@pytest.mark.parametrize("change", ["fires per no time", "a period of a word"])
def test_a_bad_rate_of_what_is_parked_stops_neither_acquire_nor_the_check_in(
    scene: Scene, change: str, at_checkin: bool
) -> None:
    scene.holds(ago=60, limited=True)
    assert scene.edits(f"trigger_state = 'BLOCKED', {OF_LIMITED[change]}")
    assert scene.edits("trigger_state = 'BLOCKED'", "t4")
    parked = {Gate("DEFAULT", name, "") for name in (BAD, "t4")}
    if at_checkin:
        assert Gate("DEFAULT", "t4", "") in scene.store.recover(scene.node, []).opened
    fired = {one.trigger_name for _ in range(2) for one in scene.acquire(*parked).fired}
    assert fired == {*NAMES} - {BAD}
    assert scene.has_set_aside()


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("change", ["the counter is at its end", "no instant follows"])
def test_acquire_sets_every_bad_row_aside_and_says_why(
    scene: Scene, change: str, caplog: pytest.LogCaptureFixture
) -> None:
    scene.holds(ago=60)
    for name in ("t0", "t5", "t6"):
        assert scene.edits(OF_ANY[change], name)
    assert {one.trigger_name for one in scene.acquire().fired} == {"t1", "t2", "t3", "t4"}
    assert scene.in_error().keys() == {"t0", "t5", "t6"}
    assert all(text.startswith(REASON) for text in scene.in_error().values())
    assert sum("goes to ERROR" in one.message for one in caplog.records) == 3
    assert not scene.acquire().fired


@pytest.mark.usefixtures("unchecked")
def test_what_was_refilled_fires_beside_a_row_that_was_edited(scene: Scene) -> None:
    scene.holds(ago=60, filled=False)
    unfilled = scene.acquire().unfilled
    assert len(unfilled) == len(NAMES)
    assert scene.edits(OF_ANY["the counter is at its end"])
    now = datetime.now(UTC)
    scene.store.refill(scene.node, [refill_of(one, now) for one in unfilled])
    assert {one.trigger_name for one in scene.acquire().fired} == {*NAMES} - {BAD}
    assert scene.has_set_aside()
    left = scene.admin.execute("SELECT count(*) FROM qrtz_fired_triggers WHERE trigger_name = %s", (BAD,)).fetchone()
    assert left == (0,)


@pytest.mark.usefixtures("unchecked")
def test_misfires_are_handled_beside_a_row_that_was_edited(scene: Scene) -> None:
    scene.holds(ago=5 * 3_600)
    # The instants that the handler stores are computed from the row: these are refused.
    scene.admin.execute(
        "ALTER TABLE qrtz_triggers ADD CONSTRAINT broken CHECK (trigger_state = 'ERROR' OR trigger_name <> 't3'"
        " OR next_fire_time < clock_timestamp() - interval '4 hours') NOT VALID"
    )
    try:
        done = scene.store.recover_misfires(scene.node, threshold=timedelta(minutes=1), limit=100)
    finally:
        scene.admin.execute("ALTER TABLE qrtz_triggers DROP CONSTRAINT broken")
    assert {key.name for key in done.misfired} == {*NAMES} - {BAD}
    assert scene.has_set_aside()


def test_a_step_that_fails_for_all_rows_puts_none_of_them_into_error(scene: Scene) -> None:
    scene.holds(ago=60)
    scene.admin.execute("ALTER TABLE qrtz_fired_triggers ADD CONSTRAINT broken CHECK (epoch < 0)")
    try:
        with pytest.raises(Exception, match="broken"):
            scene.acquire()
        assert scene.in_error() == {}
    finally:
        scene.admin.execute("ALTER TABLE qrtz_fired_triggers DROP CONSTRAINT broken")
    assert len(scene.acquire().fired) == len(NAMES)
