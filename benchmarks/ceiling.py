"""The ceiling: what PostgreSQL itself can do with the scheduler's protocol, driven by one thread, without any job.

A batch is one transaction, sent as one pipeline: take the cluster's lock, delete the claims of the batch before, claim
the soonest due triggers, move each to its next fire time, and return what a node needs to run it. There is no history,
no calendar, no limit and no job. A scheduler that does more per fire can only come near.

`python -m benchmarks.ceiling URL COUNT BATCH` runs it in a process of its own.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any, LiteralString

import psycopg

BATCH = 200

TABLES: LiteralString = """
CREATE SEQUENCE fire_ids;
CREATE TABLE locks (scheduler text, name text, PRIMARY KEY (scheduler, name));
CREATE TABLE nodes (epoch bigint PRIMARY KEY, instance text NOT NULL, checked_in timestamptz NOT NULL);
CREATE TABLE jobs (
    scheduler text, job_group text, job_name text,
    job_type text NOT NULL, job_data jsonb, exclusive boolean NOT NULL, recovers boolean NOT NULL,
    PRIMARY KEY (scheduler, job_group, job_name)
);
CREATE TABLE triggers (
    scheduler text, trigger_group text, trigger_name text,
    job_group text NOT NULL, job_name text NOT NULL,
    kind text NOT NULL, schedule jsonb NOT NULL, state text NOT NULL,
    next_fire_time timestamptz, previous_fire_time timestamptz, upcoming timestamptz[] NOT NULL,
    times_triggered bigint NOT NULL, generation bigint NOT NULL, priority integer NOT NULL,
    start_time timestamptz NOT NULL, end_time timestamptz, calendar text, misfire text NOT NULL, trigger_data jsonb,
    PRIMARY KEY (scheduler, trigger_group, trigger_name),
    CHECK (state IN ('WAITING', 'BLOCKED', 'PAUSED', 'COMPLETE', 'ERROR')),
    CHECK (state <> 'WAITING' OR next_fire_time IS NOT NULL)
) WITH (fillfactor = 70);
CREATE INDEX triggers_due ON triggers (scheduler, next_fire_time, priority DESC) WHERE state = 'WAITING';
CREATE INDEX triggers_job ON triggers (scheduler, job_group, job_name);
CREATE TABLE fired (
    fire_id bigint PRIMARY KEY, scheduler text NOT NULL, trigger_group text NOT NULL, trigger_name text NOT NULL,
    job_group text NOT NULL, job_name text NOT NULL, epoch bigint NOT NULL, fired_at timestamptz NOT NULL,
    scheduled_for timestamptz NOT NULL, priority integer NOT NULL,
    exclusive boolean NOT NULL, recovers boolean NOT NULL, generation bigint NOT NULL, attempt integer NOT NULL
);
CREATE INDEX fired_epoch ON fired (epoch);
CREATE INDEX fired_job ON fired (scheduler, job_group, job_name);
CREATE INDEX fired_trigger ON fired (scheduler, trigger_group, trigger_name);
CREATE UNIQUE INDEX fired_exclusive ON fired (scheduler, job_group, job_name) WHERE exclusive;
INSERT INTO locks VALUES ('ceiling', 'TRIGGERS');
INSERT INTO nodes VALUES (1, 'one', now());
"""
JOBS: LiteralString = """
INSERT INTO jobs SELECT 'ceiling', 'g', 'j' || n, 'module:Job', '{}', false, false FROM generate_series(1, %s) n
"""
TRIGGERS: LiteralString = """
INSERT INTO triggers
SELECT 'ceiling', 'g', 't' || n, 'g', 'j' || n, 'CRON', '{"expression": "0 0/5 * * * ?", "zone": "UTC"}', 'WAITING',
       now() - interval '10 minutes' + n * interval '1 microsecond', NULL,
       array(SELECT now() + k * interval '1 hour' + n * interval '1 microsecond' FROM generate_series(1, 8) k),
       0, 1, 5, now(), NULL, NULL, 'SMART', NULL
FROM generate_series(1, %s) n
"""
LOCK: LiteralString = "SELECT 1 FROM locks WHERE scheduler = 'ceiling' AND name = 'TRIGGERS' FOR UPDATE"
COMPLETE: LiteralString = "DELETE FROM fired WHERE fire_id = ANY(%s::bigint[]) AND epoch = 1"
FIRE: LiteralString = """
WITH due AS (
    SELECT trigger_group, trigger_name, nextval('fire_ids') AS fire_id
    FROM (
        SELECT trigger_group, trigger_name FROM triggers
        WHERE scheduler = 'ceiling' AND state = 'WAITING' AND next_fire_time <= clock_timestamp()
        ORDER BY next_fire_time, priority DESC LIMIT %s
    ) soonest
    WHERE EXISTS (SELECT FROM nodes WHERE epoch = 1)
), moved AS (
    UPDATE triggers t
    SET previous_fire_time = next_fire_time, next_fire_time = upcoming[1], upcoming = upcoming[2:],
        times_triggered = times_triggered + 1
    FROM due d
    WHERE t.scheduler = 'ceiling' AND t.trigger_group = d.trigger_group AND t.trigger_name = d.trigger_name
      AND t.state = 'WAITING'
    RETURNING t.*, d.fire_id
), with_job AS (
    SELECT m.*, j.job_type, j.job_data, j.exclusive, j.recovers
    FROM moved m JOIN jobs j
      ON j.scheduler = 'ceiling' AND j.job_group = m.job_group AND j.job_name = m.job_name
), claimed AS (
    INSERT INTO fired
    SELECT fire_id, 'ceiling', trigger_group, trigger_name, job_group, job_name, 1, clock_timestamp(),
           previous_fire_time, priority, exclusive, recovers, generation, 1
    FROM with_job
)
SELECT fire_id, trigger_group, trigger_name, previous_fire_time, schedule, times_triggered, job_group, job_name,
       trigger_data, job_type, job_data, exclusive, recovers
FROM with_job ORDER BY previous_fire_time
"""


def prepare(connection: psycopg.Connection[Any], count: int) -> None:
    """Create the tables, and fill them with jobs of one due trigger each."""
    connection.execute(TABLES)
    connection.execute(JOBS, [count])
    connection.execute(TRIGGERS, [count])
    connection.execute("VACUUM ANALYZE")
    connection.execute("CHECKPOINT")


def drain(connection: psycopg.Connection[Any], batch: int) -> int:
    """Fire and complete all due triggers, and return their number."""
    connection.prepare_threshold = 0
    fired: list[int] = []
    total = 0
    while True:
        with connection.pipeline():
            connection.execute("BEGIN")
            connection.execute(LOCK)
            if fired:
                connection.execute(COMPLETE, [fired])
            rows = connection.execute(FIRE, [batch])
            connection.execute("COMMIT")
        fired = [row[0] for row in rows.fetchall()]
        if not fired:
            return total
        total += len(fired)


def main(url: str, count: int, batch: int) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        prepare(connection, count)
        began = time.perf_counter()
        total = drain(connection, batch)
        print(json.dumps({"count": total, "seconds": time.perf_counter() - began}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
