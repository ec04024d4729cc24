"""The standing audit of a run: the invariants as SQL, asked each second past the network, and who was alive when."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg

from tests.chaos import history

# Each returns one column that names the offender. It must return nothing for longer than it takes to settle a lost
# answer.
AUDIT = {
    # S4: an execution of an epoch that is not registered.
    "fire_without_node": """
        SELECT f.fire_id::text FROM qrtz_fired_triggers f
          LEFT JOIN qrtz_scheduler_state s USING (sched_name, epoch) WHERE s.epoch IS NULL""",
    # Blocked, and nothing of its job and key runs that blocks it, or is about to run.
    "blocked_by_nobody": """
        SELECT t.trigger_group || '.' || t.trigger_name FROM qrtz_triggers t
         WHERE t.trigger_state = 'BLOCKED'
           AND NOT EXISTS (SELECT FROM qrtz_fired_triggers f WHERE f.sched_name = t.sched_name
                              AND f.job_group = t.job_group AND f.job_name = t.job_name
                              AND f.concurrency_key = t.concurrency_key)
           AND NOT EXISTS (SELECT FROM qrtz_triggers s WHERE s.sched_name = t.sched_name
                              AND s.job_group = t.job_group AND s.job_name = t.job_name
                              AND s.concurrency_key = t.concurrency_key AND s.trigger_state = 'WAITING'
                              AND s.next_fire_time <= clock_timestamp())""",
    # L1: due, untouched, and not held up by its own job.
    "overdue": """
        SELECT t.trigger_group || '.' || t.trigger_name || '@' || t.next_fire_time FROM qrtz_triggers t
         WHERE t.trigger_state = 'WAITING' AND t.job_type <> 'chaos.not_known_here'
           AND t.next_fire_time < clock_timestamp() - interval '3 s'""",
    # Fired, and running for longer than any job of the workload does.
    "endless_fire": """
        SELECT f.fire_id || ' of ' || f.trigger_group || '.' || f.trigger_name FROM qrtz_fired_triggers f
         WHERE f.fired_time < clock_timestamp() - interval '12 s'""",
}
# S3, which nothing excuses.
EXECUTIONS_ABOVE_LIMIT = """
SELECT job_group || '.' || job_name || CASE WHEN concurrency_key <> '' THEN ' of ' || concurrency_key ELSE '' END
  FROM qrtz_fired_triggers
 WHERE max_concurrent IS NOT NULL
 GROUP BY job_group, job_name, concurrency_key, max_concurrent HAVING count(*) > max_concurrent
"""
EPOCHS = """
SELECT (SELECT coalesce(json_agg(json_build_array(instance_id, epoch)), '[]') FROM qrtz_scheduler_state),
       (SELECT coalesce(json_agg(DISTINCT epoch), '[]') FROM qrtz_fired_triggers),
       (SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'quartzpy:%'),
       (SELECT deadlocks FROM pg_stat_database WHERE datname = current_database())
"""
EPOCHS_EVERY, AUDIT_EVERY = 0.25, 4
BEAT, SHARE_EVERY = 0.05, 10
STALL_SECONDS = 0.4
LEAST_SHARE = 0.2
"""A thread that gets less of a processor than this makes nothing in the time that the rules give a calm machine."""


def processor_share() -> float:
    """How much of a processor a thread gets: the processor time of a piece of work against the time that it took."""
    began, busy = time.perf_counter_ns(), time.thread_time_ns()
    # 10 ms, longer than a turn of the system's scheduler, and without the interpreter's lock.
    hashlib.pbkdf2_hmac("sha256", b"", b"", 50_000)
    return (time.thread_time_ns() - busy) / max(1, time.perf_counter_ns() - began)


class Auditor:
    """Threads that write into the history what the database says, and when this machine stood still or was slow."""

    def __init__(
        self,
        connect: Callable[[], psycopg.Connection[Any]],
        slowness: float = 1.0,
        share: Callable[[], float] = processor_share,
    ) -> None:
        self._connect = connect
        self._share = share
        self._least_share = LEAST_SHARE / slowness
        self._stall_seconds = STALL_SECONDS * slowness
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="auditor", daemon=True)
        self._heart = threading.Thread(target=self._beat, name="heartbeat", daemon=True)

    def start(self) -> None:
        self._thread.start()
        self._heart.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._heart.join()

    def _beat(self) -> None:
        last = measured = history.now_ns()
        beats = 0
        while not self._stopping.wait(BEAT):
            now = history.now_ns()
            if (now - last) / 1e9 > self._stall_seconds:
                history.append("machine_stall", since=last)
            last = now
            beats += 1
            if beats % SHARE_EVERY == 0:
                share, since = self._share(), measured
                last = measured = history.now_ns()
                if share < self._least_share:
                    history.append("machine_slow", since=since, share=round(share, 3))

    def _run(self) -> None:
        connection: psycopg.Connection[Any] | None = None
        passes = 0
        while not self._stopping.wait(EPOCHS_EVERY):
            try:
                connection = connection or self._connect()
                self._look(connection, passes % AUDIT_EVERY == 0)
                passes += 1
            except psycopg.Error as error:
                history.append("audit_failed", error=str(error)[:200])
                if connection is not None:
                    connection.close()
                connection = None
        if connection is not None:
            connection.close()

    @staticmethod
    def _look(connection: psycopg.Connection[Any], whole: bool) -> None:
        before = history.now_ns()
        row = connection.execute(EPOCHS).fetchone()
        assert row is not None
        nodes, held, connections, deadlocks = row
        history.append("epochs", before=before, nodes=nodes, held=held, connections=connections, deadlocks=deadlocks)
        if not whole:
            return
        found = {name: [one for (one,) in connection.execute(sql).fetchall()] for name, sql in AUDIT.items()}
        above = [job for (job,) in connection.execute(EXECUTIONS_ABOVE_LIMIT).fetchall()]
        history.append("audit", found={name: rows for name, rows in found.items() if rows}, above_limit=above)
