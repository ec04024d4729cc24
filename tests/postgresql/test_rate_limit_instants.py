"""The instants of rate limits: none that is stored, and none that a rate leads to, stops a step."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from quartzpy.jobs.job import JobDetail
from quartzpy.jobs.rate_limit import RateLimit
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.protocol import AvailableSlots, FiredTrigger, JobEntry, Node
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.upcoming import prepare
from tests.postgresql.conftest import register

LIMITED = JobDetail("limited", "limited", durable=True, rate_limit=RateLimit(1, per="1d"))
PLAIN = JobDetail("plain", "plain", durable=True)


def store_due(store: SqlJobStore, job: JobDetail, count: int, *, ago: timedelta) -> None:
    now = datetime.now(UTC)
    # Triggers of one instant have no order: the table keeps them where vacuum has left room.
    starts = [now - ago + n * timedelta(milliseconds=1) for n in range(count)]
    triggers = [SimpleTrigger(f"{job.name}-{n}", job_key=job.key, start_time=at) for n, at in enumerate(starts)]
    store.store_jobs([JobEntry(job, [prepare(one, now, None) for one in triggers])], replace=False)


def acquire(store: SqlJobStore, node: Node, limit: int) -> list[FiredTrigger]:
    slots = [AvailableSlots(workers=limit, group_slots=limit)]
    took = store.acquire(node, slots, limit=limit, look_ahead=timedelta(), misfire_threshold=timedelta(hours=1))
    return list(took.fired)


def test_a_bucket_whose_fire_had_no_room_in_the_batch_stops_nothing(store: SqlJobStore) -> None:
    node = register(store)
    store_due(store, PLAIN, 4, ago=timedelta(minutes=2))
    store_due(store, LIMITED, 3, ago=timedelta(minutes=1))
    names = []
    for _ in range(4):
        # The limit admits one of the three, and the older triggers fill the first batches.
        names += [one.trigger_name for one in acquire(store, node, 2)]
    assert sorted(names) == ["limited-0", *(f"plain-{n}" for n in range(4))]


@pytest.mark.parametrize("instant", ["0001-01-01", "9999-12-31 23:59"])
@pytest.mark.parametrize("opens_at", [None, "0001-01-01", "9999-12-31 23:59"])
def test_instants_far_away_stop_nothing(
    store: SqlJobStore, connect: Callable[[], psycopg.Connection[Any]], instant: str, opens_at: str | None
) -> None:
    node = register(store)
    store_due(store, PLAIN, 1, ago=timedelta(minutes=2))
    store_due(store, LIMITED, 3, ago=timedelta(minutes=1))
    admin = connect()
    admin.execute(
        "INSERT INTO qrtz_limits (sched_name, limit_name, job_group, job_name, tat, opens_at)"
        " VALUES ('store-sql', '', 'DEFAULT', 'limited', %s, %s)",
        (instant, opens_at),
    )
    fired = {one.trigger_name for _ in range(2) for one in acquire(store, node, 5)}
    # A bucket that is charged for ever opens after its burst, as one does after the limit was raised.
    assert fired == {"plain-0", *(["limited-0"] if instant == "0001-01-01" else [])}
    [(tat, opens_at)] = admin.execute("SELECT tat, opens_at FROM qrtz_limits").fetchall()
    assert tat == opens_at
    assert timedelta(hours=23) < tat - datetime.now(UTC) <= timedelta(days=1)


def test_a_rate_whose_burst_lasts_longer_than_there_are_instants_stops_nothing(
    store: SqlJobStore, connect: Callable[[], psycopg.Connection[Any]]
) -> None:
    """No job can have it; somebody has written it into the table."""
    node = register(store)
    store_due(store, LIMITED, 102, ago=timedelta(minutes=1))
    rate = '{"limit": 1, "per_us": 3155760000000000, "burst": 1000000}'
    connect().execute("UPDATE qrtz_triggers SET rate_limit = %s::jsonb", (rate,))
    assert len(acquire(store, node, 100)) == 100
    assert len(acquire(store, node, 2)) == 2


def test_a_bucket_that_is_charged_meanwhile_is_not_deleted(
    store: SqlJobStore, connect: Callable[[], psycopg.Connection[Any]]
) -> None:
    """The purge takes no lock: it deletes a bucket only if the row, as it is then, is without effect."""
    register(store)
    admin, node = connect(), connect()
    admin.execute(
        "INSERT INTO qrtz_limits (sched_name, limit_name, job_group, job_name, tat)"
        " VALUES ('store-sql', '', 'DEFAULT', 'limited', 'epoch')"
    )
    with node.transaction():
        node.execute("UPDATE qrtz_limits SET tat = now() + interval '1 day'")
        store.purge_history(timedelta(days=1), limit=10)
    assert admin.execute("SELECT count(*) FROM qrtz_limits").fetchone() == (1,)
