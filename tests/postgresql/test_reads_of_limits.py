"""What is told about limits reads few of the triggers that wait for them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from quartzpy import Scheduler
from quartzpy.store.postgresql.admin.usage import BLOCKED, RATES
from quartzpy.store.postgresql.lookups import AHEAD, TRIGGERS
from quartzpy.store.postgresql.schema.naming import DATABASE_CLOCK
from quartzpy.store.postgresql.steps.limits import LIMITS

NAME = "limits"
PARKED = 3_000
MOST = 50
FILL = f"""
INSERT INTO qrtz_job_details (sched_name, job_group, job_name, job_type, is_durable, max_concurrent, rate_limit, limits,
    persists_data, requests_recovery)
VALUES ('{NAME}', 'DEFAULT', 'rated', 'known', true, NULL, '{{"limit": 1, "per_us": 1000000, "burst": 1}}', NULL, false,
        false),
       ('{NAME}', 'DEFAULT', 'sharing', 'known', true, NULL, NULL, 'erp', false, false),
       ('{NAME}', 'DEFAULT', 'serial', 'known', true, 1, NULL, NULL, false, false);
INSERT INTO qrtz_triggers (sched_name, generation, trigger_group, trigger_name, job_group, job_name, job_type,
    max_concurrent, rate_limit, limits, parked_at, kind, schedule, trigger_state, next_fire_time, start_time, priority,
    misfire_instruction)
SELECT '{NAME}', row_number() OVER (), 'DEFAULT', j.job_name || n, j.job_group, j.job_name, 'known', j.max_concurrent,
       j.rate_limit, j.limits, j.limits, 'simple', '{{}}', 'BLOCKED', now() - interval '1 h' + n * interval '1 ms',
       now(), 5, 'smart'
  FROM qrtz_job_details j
 CROSS JOIN generate_series(1, {PARKED}) AS n
 WHERE j.sched_name = '{NAME}';
INSERT INTO qrtz_fired_triggers (fire_id, sched_name, trigger_group, trigger_name, generation, job_group, job_name,
    job_type, instance_id, epoch, fired_time, scheduled_time, priority, requests_recovery, max_concurrent, limits)
VALUES (1, '{NAME}', 'DEFAULT', 'a', 1, 'DEFAULT', 'serial', 'known', 'node', 1, now(), now(), 5, false, 1, NULL),
       (2, '{NAME}', 'DEFAULT', 'b', 2, 'DEFAULT', 'sharing', 'known', 'node', 1, now(), now(), 5, false, NULL, 'erp');
INSERT INTO qrtz_limits (sched_name, limit_name, job_group, job_name, max_concurrent, tat, opens_at)
VALUES ('{NAME}', 'erp', '', '', 1, NULL, NULL),
       ('{NAME}', '', 'DEFAULT', 'rated', NULL, now() + interval '1 s', now() + interval '1 s');
"""


@pytest.fixture
def connection(postgres_dsn: str, connect: Callable[[], psycopg.Connection[Any]]) -> Iterator[psycopg.Connection[Any]]:
    with Scheduler(postgres_dsn, name=NAME) as scheduler:
        scheduler.limits()
    connection = connect()
    connection.execute(FILL.encode())
    connection.execute("ANALYZE qrtz_triggers")
    yield connection
    for table in ("limits", "fired_triggers", "triggers", "job_details"):
        connection.execute(f"DELETE FROM qrtz_{table} WHERE sched_name = '{NAME}'".encode())


def read_by(connection: psycopg.Connection[Any], text: str, values: dict[str, str]) -> tuple[str, float]:
    """The plan of a statement, and the largest number of rows that a part of it has read."""
    given = {"sched": f"'{NAME}'", "most": str(MOST), "limit": str(MOST), **values}
    query = re.sub(r":'(\w+)'", lambda name: given[name[1]], text).replace(":now", DATABASE_CLOCK)
    for setting in ("enable_seqscan", "enable_bitmapscan", "jit"):
        connection.execute(f"SET {setting} = off".encode())
    plan = "\n".join(str(line) for (line,) in connection.execute(f"EXPLAIN (ANALYZE, TIMING off) {query}".encode()))
    rows = [float(count) for count in re.findall(r"actual rows=([\d.]+)", plan)]
    return plan, max(rows + [float(count) for count in re.findall(r"Rows Removed by Filter: (\d+)", plan)])


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (AHEAD, {"group": "'DEFAULT'", "name": f"'rated{PARKED}'"}),
        (AHEAD, {"group": "'DEFAULT'", "name": f"'sharing{PARKED}'"}),
        (AHEAD, {"group": "'DEFAULT'", "name": f"'serial{PARKED}'"}),
        (BLOCKED, {"until": "now()"}),
        (RATES, {}),
        (LIMITS, {}),
        (TRIGGERS, {"groups": "'{DEFAULT,DEFAULT}'", "names": "'{rated7,sharing7}'"}),
    ],
    ids=["ahead, rate", "ahead, shared", "ahead, slots", "blocked", "rates", "limits", "triggers"],
)
def test_few_of_those_that_wait_are_read(
    connection: psycopg.Connection[Any], text: str, values: dict[str, str]
) -> None:
    plan, most = read_by(connection, text, values)
    assert most <= 6 * (MOST + 1), plan
