"""Operations: the reads of the web page, the command line and the JSON API beside a long history."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg

from benchmarks.bench import Bench
from benchmarks.drains import client
from benchmarks.figures import Goal, Result, Table, percentile, rounded
from benchmarks.jobs import Nothing
from benchmarks.nodes import NAME
from quartzpy import CronTrigger, JobDetail, WeeklyCalendar
from quartzpy.errors import TriggerNotFoundError
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.operations import Operations

MOST_MS = 100.0
REPEATS = 20
HOT = TriggerKey("trigger-0", "group-0")
"""A trigger that every tenth execution is of."""
_JOBS = """
INSERT INTO qrtz_job_details (sched_name, job_group, job_name, job_type, is_durable, persists_data, requests_recovery,
                              max_concurrent, job_data)
SELECT j.sched_name, 'group-' || n %% 50, 'job-' || n, j.job_type, true, false, false,
       CASE WHEN n %% 20 = 0 THEN 1 END, jsonb_build_object('number', n, 'token', 'secret')
  FROM generate_series(0, %(jobs)s - 1) AS n, qrtz_job_details j WHERE j.job_name = 'pattern'
"""
# Each fires once a day, those of one second at different instants.
_TRIGGERS = """
INSERT INTO qrtz_triggers (sched_name, trigger_group, trigger_name, job_group, job_name, job_type, max_concurrent, kind,
                           schedule, trigger_state, next_fire_time, prev_fire_time, times_triggered, upcoming,
                           generation, start_time, priority, misfire_instruction, misfire_rule, calendar_name,
                           paused_at, paused_by, error)
SELECT t.sched_name, 'group-' || n %% 100, 'trigger-' || n, 'group-' || n %% %(jobs)s %% 50, 'job-' || n %% %(jobs)s,
       t.job_type, CASE WHEN n %% %(jobs)s %% 20 = 0 THEN 1 END, t.kind, t.schedule,
       CASE WHEN n %% 1000 = 7 THEN 'PAUSED' WHEN n %% 10000 = 9 THEN 'ERROR' WHEN n %% 50000 = 11 THEN 'BLOCKED'
            ELSE 'WAITING' END,
       now() + interval '1 day' * (n + 1) / %(triggers)s - interval '5 minutes', now() - interval '1 day', n %% 1000,
       ARRAY[now() + interval '2 days'], n, now() - interval '60 days', 5, 'smart', t.misfire_rule,
       CASE WHEN n %% 100 = 3 THEN 'weekdays' END, CASE WHEN n %% 1000 = 7 THEN now() - interval '1 hour' END,
       CASE WHEN n %% 1000 = 7 THEN 'ann' END, CASE WHEN n %% 10000 = 9 THEN 'ValueError: poisoned' END
  FROM generate_series(0, %(triggers)s - 1) AS n, qrtz_triggers t WHERE t.trigger_name = 'pattern'
"""
_EXECUTIONS = """
INSERT INTO qrtz_executions (fire_id, sched_name, trigger_group, trigger_name, generation, job_group, job_name,
                             job_type, instance_id, epoch, fired_time, scheduled_time, started_at, ended_at, outcome,
                             error, trigger_data, retry_at)
SELECT n, %(sched)s, 'group-' || of_trigger %% 100, 'trigger-' || of_trigger, of_trigger,
       'group-' || of_trigger %% %(jobs)s %% 50, 'job-' || of_trigger %% %(jobs)s, 'benchmark-nothing',
       'node-' || n %% 8, 1, at + interval '5 milliseconds', at, at + interval '7 milliseconds' * (1 + n %% 10),
       at + interval '1 second' * (1 + n %% 30), CASE WHEN n %% 100 = 1 THEN 'FAILED' ELSE 'SUCCEEDED' END,
       CASE WHEN n %% 100 = 1 THEN 'Traceback (most recent call last):' || repeat(E'\\n  File "job.py"', 20) END,
       CASE WHEN n %% 10 = 5 THEN '{"number": 7}'::jsonb END,
       CASE WHEN n %% 200 = 1 THEN at + interval '1 minute' END
  FROM (SELECT n, CASE WHEN n %% 10 = 0 THEN 0 ELSE n %% %(triggers)s END AS of_trigger,
               now() - interval '30 days' * (%(executions)s - n) / %(executions)s - interval '40 seconds' AS at
          FROM generate_series(%(from)s::bigint, %(to)s::bigint - 1) AS n) AS fire
"""
_MISFIRES = """
INSERT INTO qrtz_misfires (id, sched_name, trigger_group, trigger_name, generation, job_group, job_name, instance_id,
                           handled_at, misfire_instruction, action, scheduled_time, missed, has_more, caught_up)
SELECT n, %(sched)s, 'group-' || n %% 100, 'trigger-' || n, n, 'group-0', 'job-0', 'node-1', now(), 'smart', 'SKIPPED',
       now() - interval '1 minute', ARRAY[now()], false, 0
  FROM generate_series(1, %(triggers)s / 10) AS n
"""
_AUDIT = """
INSERT INTO qrtz_audit (id, sched_name, at, ended_at, actor, role, action, subject, reason, state, count)
SELECT n, %(sched)s, now(), now(), 'ann', 'operator', 'pause', 'trigger group-' || n %% 100 || '.trigger-' || n, '',
       'SUCCEEDED', 1
  FROM generate_series(1, %(triggers)s) AS n
"""
_NODES = """
INSERT INTO qrtz_scheduler_state (sched_name, instance_id, epoch, host, pid, started_at, last_checkin, checkin_count,
                                  checkin_interval, failure_window, capabilities, facts)
SELECT %(sched)s, 'node-' || n, n, 'host', n, now(), now() + interval '1 day', 1, interval '5 seconds',
       interval '20 seconds',
       '{"job_types": ["benchmark-nothing"], "executors": ["default"], "workers": {"default": 25}}',
       '{"release": "1.0", "clock_ahead": 0.001}'
  FROM generate_series(0, 7) AS n
"""
_RUNNING = """
INSERT INTO qrtz_fired_triggers (fire_id, sched_name, trigger_group, trigger_name, generation, job_group, job_name,
                                 job_type, instance_id, epoch, state, fired_time, scheduled_time, priority,
                                 requests_recovery)
SELECT %(executions)s + n, %(sched)s, 'group-' || n %% 100, 'trigger-' || n, n, 'group-' || n %% 50, 'job-' || n,
       'benchmark-nothing', 'node-' || n %% 8, 1, 'EXECUTING', now(), now(), 5, false
  FROM generate_series(1, 199) AS n
"""
_BATCH = 1_000_000


def run(bench: Bench) -> Result:
    scale = bench.scale
    url = bench.new_database()
    began = time.perf_counter()
    _fill(bench, url, scale.operated_triggers, scale.operated_executions)
    filled = time.perf_counter() - began
    times = _measure(url, scale.operated_executions)
    sizes = _sizes(bench, url)
    bench.server.drop(url)
    rows = [
        (name, *(rounded(percentile(values, percent)) for percent in (50, 95)), rounded(max(values)))
        for name, values in times.items()
    ]
    slowest = max(percentile(values, 95) for values in times.values())
    beside = f"{scale.operated_triggers:,} triggers and {scale.operated_executions:,} executions"
    return Result(
        "operations",
        goals=[Goal(f"{MOST_MS:g} ms, of the p95 of the slowest read beside {beside}", 1.0, MOST_MS / slowest)],
        tables=[
            Table(f"Milliseconds of a read beside {beside}", ("", "p50", "p95", "most"), tuple(rows)),
            Table("Megabytes of tables with their indexes", ("", "table", "indexes"), tuple(sizes)),
        ],
        charts=[],
        notes=[f"The rows were made in {filled:.0f} s."],
        figures={"reads, ms": times},
    )


def _fill(bench: Bench, url: str, triggers: int, executions: int) -> None:
    jobs = max(triggers // 10, 1)
    values = {"sched": NAME, "triggers": triggers, "executions": executions, "jobs": jobs}
    with client(url) as scheduler:
        scheduler.add_calendar("weekdays", WeeklyCalendar())
        pattern = CronTrigger("0 0 2 ? * MON-FRI", "pattern", time_zone="Europe/Berlin")
        scheduler.schedule_job(JobDetail(Nothing, "pattern", durable=True), pattern)
    with bench.server.connect(url) as connection:
        # The rows are read only: a crash of the server ends the run anyway.
        connection.execute("SET synchronous_commit = off")
        cursor = psycopg.ClientCursor(connection)
        for statement in (_JOBS, _TRIGGERS, _MISFIRES, _AUDIT, _NODES, _RUNNING):
            cursor.execute(statement, values)
        for first in range(0, executions, _BATCH):
            until = min(first + _BATCH, executions)
            cursor.execute(_EXECUTIONS, {**values, "from": first, "to": until})
        connection.execute("VACUUM ANALYZE")


def _measure(url: str, executions: int) -> dict[str, list[float]]:
    """Return the milliseconds of each read, by its name."""
    with client(url) as scheduler:
        operations = Operations(scheduler)
        deep = operations.executions(limit=1000).next_cursor
        now = operations.now()
        day = timedelta(days=1)
        reads: dict[str, Callable[[], Any]] = {
            "overview": operations.overview,
            "jobs": operations.jobs,
            "jobs that contain 999": lambda: operations.jobs(contains="999"),
            "job": lambda: operations.job(JobKey("job-7", "group-7")),
            "triggers": operations.triggers,
            "triggers in ERROR": lambda: operations.triggers(state="ERROR"),
            "triggers that are PAUSED": lambda: operations.triggers(state="PAUSED"),
            "triggers that are BLOCKED": lambda: operations.triggers(state="BLOCKED"),
            "triggers of a group": lambda: operations.triggers(group="group-50"),
            "triggers of a calendar": lambda: operations.triggers(calendar="weekdays"),
            "triggers that contain 99999": lambda: operations.triggers(contains="99999"),
            "triggers with an unknown name": lambda: operations.triggers(contains="nothing-of-this"),
            "triggers of an unknown kind": lambda: operations.triggers(kind="nothing"),
            "triggers by next fire time": lambda: operations.triggers(order_by="next_fire_time"),
            "triggers with an unknown name, by next fire time": lambda: operations.triggers(
                contains="nothing-of-this", order_by="next_fire_time"
            ),
            "trigger that is not stored": lambda: _refused(operations.trigger, TriggerKey("triger-5", "group-5")),
            "trigger that is not stored, by the scheduler": lambda: _refused(
                scheduler.pause_trigger, TriggerKey("triger-5", "group-5")
            ),
            "trigger": lambda: operations.trigger(TriggerKey("trigger-2345", "group-45")),
            "trigger with a tenth of the history": lambda: operations.trigger(HOT),
            "executions": operations.executions,
            "executions, a later page": lambda: operations.executions(after=deep),
            "executions that FAILED": lambda: operations.executions(state="FAILED"),
            "executions that were CANCELLED (none)": lambda: operations.executions(state="CANCELLED"),
            "executions of a job": lambda: operations.executions(job=JobKey("job-7", "group-7")),
            "executions of a node": lambda: operations.executions(node="node-3"),
            "executions of no node": lambda: operations.executions(node="node-99"),
            "executions of a trigger": lambda: operations.executions(trigger=HOT),
            "executions of a day long ago": lambda: operations.executions(since=now - 20 * day, until=now - 19 * day),
            "execution": lambda: operations.execution(executions // 2),
            "misfires": operations.misfires,
            "running": operations.running,
            "upcoming": operations.upcoming,
            "timeline": operations.timeline,
            "timeline by job": lambda: operations.timeline(lanes="job"),
            "timeline of a day long ago": lambda: operations.timeline(now - 20 * day, now - 19 * day),
            "cluster": operations.cluster,
            "calendars": operations.calendars,
            "calendar": lambda: operations.calendar("weekdays", 2026),
            "groups": operations.groups,
            "limits": operations.limits,
            "locks": operations.locks,
            "audit log": operations.audit_log,
            "audit log of an action that never was": lambda: operations.audit_log(action="delete"),
            "system": operations.system,
            "search": lambda: operations.search("trigger-4711"),
            "search without a result": lambda: operations.search("nothing-of-this"),
            "why": lambda: operations.why(TriggerKey("trigger-5", "group-5")),
        }
        return {name: _times(read) for name, read in reads.items()}


def _refused(read: Callable[[TriggerKey], object], key: TriggerKey) -> None:
    with contextlib.suppress(TriggerNotFoundError):
        read(key)


def _times(read: Callable[[], Any]) -> list[float]:
    read()
    found = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        read()
        found.append((time.perf_counter() - began) * 1000)
        if sum(found) > 20_000:
            break
    return found


def _sizes(bench: Bench, url: str) -> list[tuple[Any, ...]]:
    with client(url) as scheduler:
        tables = Operations(scheduler).system().tables
    return [
        (table.name, rounded((table.size_bytes - table.index_bytes) / 1e6), rounded(table.index_bytes / 1e6))
        for table in tables[:4]
    ]
