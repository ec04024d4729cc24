"""The rows that an operator of a large cluster looks at."""

from __future__ import annotations

import time
from typing import Any

import psycopg

from benchmarks.bench import Bench
from benchmarks.drains import client
from benchmarks.jobs import Nothing
from benchmarks.nodes import NAME
from quartzpy import CronTrigger, JobDetail, Scheduler, WeeklyCalendar

CROWD = "crowd"
"""The name of the job that all triggers of the second database are of, and of their group."""
CALENDAR = "weekdays"
_JOBS = """
INSERT INTO qrtz_job_details (sched_name, job_group, job_name, job_type, is_durable, persists_data, requests_recovery,
                              max_concurrent, job_data)
SELECT j.sched_name, 'group-' || n %% 50, 'job-' || n, j.job_type, true, false, false,
       CASE WHEN n %% 20 = 0 THEN 1 END, jsonb_build_object('number', n, 'token', 'secret')
  FROM generate_series(0, %(jobs)s - 1) AS n, qrtz_job_details j
 WHERE j.job_name = 'pattern' AND j.sched_name = %(sched)s
"""
# Each fires once a day, those of one second at different instants.
_TRIGGERS = """
INSERT INTO qrtz_triggers (sched_name, trigger_group, trigger_name, job_group, job_name, job_type, max_concurrent, kind,
                           schedule, trigger_state, next_fire_time, prev_fire_time, times_triggered, upcoming,
                           generation, start_time, priority, misfire_instruction, calendar_name,
                           paused_at, paused_by, error)
SELECT t.sched_name, 'group-' || n %% 100, 'trigger-' || n, 'group-' || n %% %(jobs)s %% 50, 'job-' || n %% %(jobs)s,
       t.job_type, CASE WHEN n %% %(jobs)s %% 20 = 0 THEN 1 END, t.kind, t.schedule,
       CASE WHEN n %% 1000 = 7 THEN 'PAUSED' WHEN n %% 10000 = 9 THEN 'ERROR' WHEN n %% 50000 = 11 THEN 'BLOCKED'
            ELSE 'WAITING' END,
       now() + interval '1 day' * (n + 1) / %(triggers)s - interval '5 minutes', now() - interval '1 day', n %% 1000,
       ARRAY[now() + interval '2 days'], n, now() - interval '60 days', 5, 'smart',
       CASE WHEN n %% 100 = 3 THEN 'weekdays' END, CASE WHEN n %% 1000 = 7 THEN now() - interval '1 hour' END,
       CASE WHEN n %% 1000 = 7 THEN 'ann' END, CASE WHEN n %% 10000 = 9 THEN 'ValueError: poisoned' END
  FROM generate_series(0, %(triggers)s - 1) AS n, qrtz_triggers t
 WHERE t.trigger_name = 'pattern' AND t.sched_name = %(sched)s
"""
_EXECUTIONS = """
INSERT INTO qrtz_executions (fire_id, sched_name, trigger_group, trigger_name, generation, job_group, job_name,
                             job_type, instance_id, fired_time, scheduled_time, started_at, ended_at, outcome,
                             error, trigger_data, retry_at)
SELECT n, %(sched)s, 'group-' || of_trigger %% 100, 'trigger-' || of_trigger, of_trigger,
       'group-' || of_trigger %% %(jobs)s %% 50, 'job-' || of_trigger %% %(jobs)s, 'benchmark-nothing',
       'node-' || n %% 8, at + interval '5 milliseconds', at, at + interval '7 milliseconds' * (1 + n %% 10),
       at + interval '1 second' * (1 + n %% 30), CASE WHEN n %% 100 = 1 THEN 'FAILED' ELSE 'SUCCEEDED' END,
       CASE WHEN n %% 100 = 1 THEN 'Traceback (most recent call last):' || repeat(E'\\n  File "job.py"', 20) END,
       CASE WHEN n %% 10 = 5 THEN '{"number": 7}'::jsonb END,
       CASE WHEN n %% 200 = 1 THEN at + interval '1 minute' END
  FROM (SELECT n, CASE WHEN n %% 10 = 0 THEN 0 ELSE n %% %(triggers)s END AS of_trigger,
               now() - interval '30 days' * (%(executions)s - n) / %(executions)s - interval '40 seconds' AS at
          FROM generate_series(%(from)s::bigint, %(to)s::bigint - 1) AS n) AS fire
"""
# Nodes handled them within the last 30 days; the latest have the highest ids.
_MISFIRES = """
INSERT INTO qrtz_misfires (id, sched_name, trigger_group, trigger_name, generation, job_group, job_name, instance_id,
                           handled_at, misfire_instruction, action, scheduled_time, missed, has_more, caught_up)
SELECT n, %(sched)s, 'group-' || n %% 100, 'trigger-' || n, n, 'group-' || n %% 50, 'job-' || n %% %(jobs)s,
       'node-' || n %% 8, at, 'smart', CASE WHEN n %% 100000 = 1 THEN 'ENDED' ELSE 'SKIPPED' END,
       at - interval '1 minute', ARRAY[at], false, 0
  FROM (SELECT n, now() - interval '30 days' * (%(triggers)s - n) / %(triggers)s AS at
          FROM generate_series(1, %(triggers)s) AS n) AS misfire
"""
# Operators acted within the last year.
_AUDIT = """
INSERT INTO qrtz_audit (id, sched_name, at, ended_at, actor, role, action, subject, reason, state, count)
SELECT n, %(sched)s, at, at, 'ann', 'operator', 'pause', 'trigger group-' || n %% 100 || '.trigger-' || n, '',
       'SUCCEEDED', 1
  FROM (SELECT n, now() - interval '365 days' * (%(triggers)s - n) / %(triggers)s AS at
          FROM generate_series(1, %(triggers)s) AS n) AS action
"""
# Within the last year, and twenty of them last.
_INCIDENTS = """
INSERT INTO qrtz_incidents (id, sched_name, kind, subject, identity, severity, cause, began_as, what, why,
                            trigger_group, trigger_name, since, opened_at, confirmed_at, closed_at)
SELECT n, %(sched)s, 'trigger-error', 'group-' || n %% 100 || '.trigger-' || n,
       encode(sha256(n::text::bytea), 'hex'), 'error', '', 'Trigger is in ERROR.', 'Trigger is in ERROR.', '[]',
       'group-' || n %% 100, 'trigger-' || n, at, at, at, CASE WHEN n > 20 THEN at + interval '1 hour' END
  FROM (SELECT n, now() - interval '365 days' * n / %(triggers)s * 10 - interval '1 hour' AS at
          FROM generate_series(1, %(triggers)s / 10) AS n) AS incident
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
                                 job_type, instance_id, epoch, fired_time, scheduled_time, priority,
                                 requests_recovery)
SELECT %(executions)s + n, %(sched)s, 'group-' || n %% 100, 'trigger-' || n, n, 'group-' || n %% 50, 'job-' || n,
       'benchmark-nothing', 'node-' || n %% 8, 1, now(), now(), 5, false
  FROM generate_series(1, 199) AS n
"""
# One trigger in a hundred is late, and as many are in ERROR or BLOCKED; one in twenty is paused.
_CROWD = """
INSERT INTO qrtz_triggers (sched_name, trigger_group, trigger_name, job_group, job_name, job_type, kind, schedule,
                           trigger_state, next_fire_time, prev_fire_time, times_triggered, upcoming, generation,
                           start_time, priority, misfire_instruction, calendar_name, paused_at, error)
SELECT t.sched_name, 'crowd', 'crowd-' || lpad(n::text, 7, '0'), t.job_group, t.job_name, t.job_type, t.kind,
       t.schedule,
       CASE WHEN n %% 20 = 7 THEN 'PAUSED' WHEN n %% 100 = 9 THEN 'ERROR' WHEN n %% 100 = 11 THEN 'BLOCKED'
            ELSE 'WAITING' END,
       now() + interval '1 day' * (n + 1) / %(triggers)s - interval '15 minutes', now() - interval '1 day', n %% 1000,
       ARRAY[now() + interval '2 days'], n, now() - interval '60 days', 5, 'smart', 'weekdays',
       CASE WHEN n %% 20 = 7 THEN now() - interval '1 hour' END,
       CASE WHEN n %% 100 = 9 THEN 'ValueError: poisoned' END
  FROM generate_series(0, %(triggers)s - 1) AS n, qrtz_triggers t
 WHERE t.trigger_name = 'crowd' AND t.sched_name = %(sched)s
"""
_BATCH = 1_000_000
_MAX_VACUUMS = 60


def fill(bench: Bench, url: str, triggers: int, executions: int) -> None:
    """Store many jobs with their triggers, and all other rows."""
    values = {"sched": NAME, "triggers": triggers, "executions": executions, "jobs": max(triggers // 10, 1)}
    with client(url) as scheduler:
        _store_pattern(scheduler, "pattern")
    with bench.server.connect(url) as connection:
        # The rows are read only: a crash of the server ends the run anyway.
        connection.execute("SET synchronous_commit = off")
        cursor = psycopg.ClientCursor(connection)
        for statement in (_JOBS, _TRIGGERS, _MISFIRES, _AUDIT, _INCIDENTS, _NODES, _RUNNING):
            cursor.execute(statement, values)
        for first in range(0, executions, _BATCH):
            until = min(first + _BATCH, executions)
            cursor.execute(_EXECUTIONS, {**values, "from": first, "to": until})
        connection.execute("VACUUM ANALYZE")
        _vacuum_the_rest(connection)


def _vacuum_the_rest(connection: psycopg.Connection[Any]) -> None:
    """Vacuum the history until no row is left that an index-only scan has to look up, as is so after days.

    A `VACUUM` leaves what is newer than the oldest snapshot, such as that of an autovacuum of another table.
    """
    for _ in range(_MAX_VACUUMS):
        is_done = connection.execute(
            "SELECT relallvisible = relpages FROM pg_class WHERE oid = 'qrtz_executions'::regclass"
        ).fetchone()
        if is_done == (True,):
            return
        time.sleep(1)
        connection.execute("VACUUM qrtz_executions")
    raise RuntimeError(f"{_MAX_VACUUMS} VACUUMs left pages of qrtz_executions that are not all visible")


def fill_crowded(bench: Bench, url: str, triggers: int) -> None:
    """Store one job that all triggers are of."""
    with client(url) as scheduler:
        _store_pattern(scheduler, CROWD)
    with bench.server.connect(url) as connection:
        connection.execute("SET synchronous_commit = off")
        cursor = psycopg.ClientCursor(connection)
        for statement in (_CROWD, _NODES):
            cursor.execute(statement, {"sched": NAME, "triggers": triggers})
        connection.execute("VACUUM ANALYZE")


def _store_pattern(scheduler: Scheduler, name: str) -> None:
    """Store the job, the trigger and the calendar of which the others are copies."""
    scheduler.add_calendar(CALENDAR, WeeklyCalendar())
    pattern = CronTrigger("0 0 2 ? * MON-FRI", name, time_zone="Europe/Berlin", calendar=CALENDAR)
    scheduler.schedule_job(JobDetail(Nothing, name, durable=True), pattern)
