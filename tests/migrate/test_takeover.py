"""A running Quartz is rehearsed, stopped and taken over by a running node: no instant is lost, and none is doubled."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import partial
from itertools import pairwise
from typing import Any

import psycopg
import pytest

from quartzpy import Job, JobExecutionContext, Scheduler, TriggerKey
from quartzpy.config.config import SchedulerConfig
from quartzpy.errors import SettingsError
from quartzpy.migrate import ImportPlan, apply, read_quartz
from quartzpy.migrate.class_map import ClassMap
from quartzpy.store.postgresql import migrations
from quartzpy.store.postgresql.store import SqlJobStore
from tests.database import connect_to
from tests.migrate import java_quartz
from tests.waiting import wait_until

SCHEMA = "ours"
LIMIT = 60


class Record(Job, type_name="migrate.Record"):
    def execute(self, context: JobExecutionContext) -> None:
        with context.transaction() as connection:
            connection.exec_driver_sql(
                "INSERT INTO public.fires VALUES (%s, %s, 'quartzpy')",
                (context.trigger_key.name, context.scheduled_fire_time),
            )


@pytest.fixture
def database(fresh_database: Callable[[], str]) -> Iterator[tuple[str, psycopg.Connection[Any]]]:
    java_quartz.skip_without_java()
    dsn = fresh_database()
    with connect_to(dsn) as connection:
        connection.execute("CREATE TABLE fires (trigger text, instant timestamptz, by text)")
        connection.execute(f"CREATE SCHEMA {SCHEMA}")
        migrations.upgrade(dsn, schema=SCHEMA)
        yield dsn, connection


def fires(connection: psycopg.Connection[Any], trigger: str) -> list[tuple[datetime, str]]:
    return connection.execute("SELECT instant, by FROM fires WHERE trigger = %s ORDER BY 1", [trigger]).fetchall()


def fired_here(connection: psycopg.Connection[Any], trigger: str) -> bool:
    return sum(by == "quartzpy" for _, by in fires(connection, trigger)) >= 3


def plan_of(dsn: str) -> ImportPlan:
    return read_quartz(dsn, decisions=ClassMap({"Live$Record": "migrate.Record"}))


@pytest.mark.cluster
def test_a_node_goes_on_where_quartz_has_stopped(database: tuple[str, psycopg.Connection[Any]]) -> None:
    dsn, connection = database
    quartz = subprocess.Popen(java_quartz.command("Live", dsn), stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    store = SqlJobStore(dsn, SchedulerConfig.of({"name": "live", "schema": SCHEMA}))
    node = Scheduler(dsn, name="live", schema=SCHEMA)
    try:
        wait_until(lambda: len(fires(connection, "cron")) >= 2, "fires of Quartz", seconds=LIMIT)
        with pytest.raises(SettingsError, match="still runs"):
            apply(plan_of(dsn), store)
        apply(plan_of(dsn), store, held=True)
        node.start()
        seen = len(fires(connection, "cron"))
        wait_until(
            lambda: len(fires(connection, "cron")) >= seen + 2, "fires of Quartz during the rehearsal", seconds=LIMIT
        )
        quartz.communicate(timeout=LIMIT)
        assert quartz.returncode == 0
        outcome = apply(plan_of(dsn), store, while_running=True)
        assert outcome.resumed == {TriggerKey("cron"), TriggerKey("simple")}
        for trigger in ("cron", "simple"):
            wait_until(partial(fired_here, connection, trigger), f"fires of {trigger} by quartzpy", seconds=LIMIT)
        node.shutdown()
        [simple] = store.triggers([TriggerKey("simple")]).values()
    finally:
        quartz.kill()
        quartz.communicate()
        node.shutdown()
        store.close()
    for trigger, interval in (("cron", timedelta(seconds=1)), ("simple", timedelta(milliseconds=700))):
        found = fires(connection, trigger)
        instants = [instant for instant, _ in found]
        assert [later - earlier for earlier, later in pairwise(instants)] == [interval] * (len(instants) - 1), found
        by = [who for _, who in found]
        assert by == sorted(by), "quartzpy fired before Quartz had ended"
    # The repetitions that Quartz had made count.
    assert simple.times_triggered == len(fires(connection, "simple"))
