"""The jobs of the chaos workload: each writes what it does into the history, and nothing depends on the scheduler."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

from quartzpy import (
    Job,
    JobExecutionContext,
    disallow_concurrent_execution,
    persist_job_data_after_execution,
)
from tests.chaos import history

BEAT_SECONDS = 0.05


class PlannedError(Exception):
    """A job that fails on purpose."""


def note(event: str, context: JobExecutionContext, **more: Any) -> None:
    """One line about an execution."""
    history.append(
        event,
        job=context.job_key.name,
        trigger=f"{context.trigger_key.group}.{context.trigger_key.name}",
        instant=context.scheduled_fire_time.isoformat(),
        fired=context.fire_time.isoformat(),
        coalesced_fire_times=[instant.isoformat() for instant in context.coalesced_fire_times],
        fire_id=context.fire_id,
        attempt=context.attempt,
        recovering=context.recovering,
        execution_key=context.execution_key,
        **more,
    )


def beat(context: JobExecutionContext) -> None:
    history.append("beat", job=context.job_key.name, fire_id=context.fire_id)


def body(context: JobExecutionContext, *, beats: bool = False) -> None:
    """Be busy for as long as the data says; stop where this execution no longer counts."""
    until = time.monotonic() + float(context.job_data.get("ms", 0)) / 1000
    told = False
    while (left := until - time.monotonic()) > 0:
        history.rest(min(BEAT_SECONDS, left))
        if beats:
            beat(context)
        if context.lease_lost and not told:
            told = True
            note("lease_lost", context)
            return


class Plain(Job, type_name="chaos.plain"):
    def execute(self, context: JobExecutionContext) -> None:
        note("start", context)
        body(context)
        note("end", context)


class Logged(Job, type_name="chaos.logged"):
    """Captures one line, which names the execution."""

    def execute(self, context: JobExecutionContext) -> None:
        note("start", context)
        context.log.info("executing %s", context.execution_key)
        note("end", context)


@disallow_concurrent_execution
class Serial(Job, type_name="chaos.serial"):
    def execute(self, context: JobExecutionContext) -> None:
        note("start", context)
        body(context, beats=True)
        effect(context)
        note("end", context)


def effect(context: JobExecutionContext) -> None:
    done = history.effects.write(
        context.job_key.name,
        context.trigger_key.name,
        context.scheduled_fire_time.isoformat(),
        context.fire_id,
    )
    if not done:
        note("effect_failed", context)


@disallow_concurrent_execution
@persist_job_data_after_execution
class Counter(Job, type_name="chaos.counter"):
    def execute(self, context: JobExecutionContext) -> None:
        seen = int(context.job_detail_data.get("n", 0))
        note("start", context, seen=seen)
        body(context, beats=True)
        context.job_detail_data["n"] = seen + 1
        note("end", context, wrote=seen + 1)


class Async(Job, type_name="chaos.async"):
    async def execute(self, context: JobExecutionContext) -> None:
        note("start", context)
        await asyncio.sleep(float(context.job_data.get("ms", 0)) / 1000)
        note("end", context)


class InProcess(Job, type_name="chaos.process"):
    def execute(self, context: JobExecutionContext) -> None:
        note("start", context)
        history.rest(float(context.job_data.get("ms", 0)) / 1000)
        note("end", context)


class Retried(Job, type_name="chaos.retried"):
    """Fails in its first attempt."""

    def execute(self, context: JobExecutionContext) -> None:
        note("start", context)
        if context.attempt < 2:
            note("fail", context)
            raise PlannedError("the first attempt fails")
        note("end", context)


@disallow_concurrent_execution
class Fenced(Job, type_name="chaos.fenced"):
    """Writes into the scheduler's database, only while it counts; then fails to, on purpose, now and then."""

    def execute(self, context: JobExecutionContext) -> None:
        note("start", context)
        with context.fenced_transaction() as connection:
            write_fenced(connection, context, "fenced")
        note("end", context)


class Transactional(Job, type_name="chaos.transactional"):
    """Commits its effect together with its success; each third time it raises in the block instead."""

    def execute(self, context: JobExecutionContext) -> None:
        fails = int(context.scheduled_fire_time.timestamp()) // 2 % 3 == 0
        note("start", context)
        with context.transaction() as connection:
            write_fenced(connection, context, "transaction")
            if fails:
                note("fail", context)
                raise PlannedError("the block is rolled back")
        note("end", context)


def write_fenced(connection: Any, context: JobExecutionContext, kind: str) -> None:
    connection.exec_driver_sql(
        "INSERT INTO chaos_fenced (job, fire_id, kind) VALUES (%s, %s, %s)",
        (context.job_key.name, context.fire_id, kind),
    )


class Poison(Job, type_name="chaos.poison"):
    """Misbehaves as its data says."""

    def execute(self, context: JobExecutionContext) -> Any:
        note("start", context)
        note("fail", context)
        match context.job_data["poison"]:
            case "raise":
                raise PlannedError("poison")
            case "base":
                raise KeyboardInterrupt("poison")
            case "exit":
                raise SystemExit(3)
            case "result":
                return 10**5000
            case "process":
                os._exit(9)
            case "loop":
                while True:
                    history.rest(0.01)
        return None


class BadInit(Job, type_name="chaos.bad_init"):
    """Cannot be made: its trigger goes to ERROR, as in Quartz."""

    def __init__(self) -> None:
        raise PlannedError("cannot be made")

    def execute(self, context: JobExecutionContext) -> None:
        raise AssertionError("unreachable")
