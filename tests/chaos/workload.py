"""What is scheduled in a chaos run, and the record of what was asked and answered.

Each request is written into the history before and after, with its answer: "ok", "error", or "unknown" where the
answer was lost. What follows from it is computed by the checker from these lines alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from quartzpy import (
    CronTrigger,
    JobDetail,
    JobKey,
    RateLimit,
    RetryPolicy,
    Scheduler,
    SimpleTrigger,
    Trigger,
    TriggerKey,
)
from quartzpy.errors import OutcomeUnknownError, QuartzpyError
from tests.chaos import history, jobs

GROUP = "chaos"
MOVED = "moved"
SERIAL = "serial"
ONCE = "once"
SKIP = "reschedule_next_with_remaining_count"
OWN_THRESHOLD = timedelta(seconds=2)
RATED, RATED_EVERY, RATED_SLACK = "rated", 4.0, 6
PROCESS_SLACK = 15
"""Starting a process takes seconds, and there are two at most."""
DEEP, DEEP_TRIGGERS, DEEP_EVERY, DEEP_SLACK = "deep", 200, 20.0, 20
TENANT = "tenant"


@dataclass(frozen=True)
class Planned:
    """A job with its triggers, and what the checker has to know of them."""

    job: JobDetail
    triggers: tuple[Trigger, ...]
    specs: tuple[dict[str, Any], ...]
    flags: dict[str, Any] = field(default_factory=dict)


def every(start: datetime, period: timedelta) -> dict[str, Any]:
    return {"kind": "interval", "start": start.isoformat(), "period_us": period // timedelta(microseconds=1)}


def each(start: datetime, zone: str, seconds: str) -> dict[str, Any]:
    step, offset = (int(part) for part in reversed(seconds.split("/")))
    return {"kind": "cron", "start": start.isoformat(), "zone": zone, "seconds": list(range(offset, 60, step))}


def once(at: datetime) -> dict[str, Any]:
    return {"kind": "once", "start": at.isoformat()}


def declared(start: datetime, rate: float = 1.0, slowness: int = 1, sparseness: int = 1) -> Iterator[Planned]:
    """The workload that stands for the whole run; `rate` 1 is about 110 fires a second with the clients' own.

    Where everything takes longer, what has more time has so much more, and misfires so much later. Where periods are
    longer, those bodies are too that are there to be longer than a period, or to be met by a fault.
    """
    for planned in _declared(start, rate, OWN_THRESHOLD * slowness, sparseness):
        slack = {"slack": planned.flags["slack"] * slowness} if "slack" in planned.flags else {}
        yield replace(planned, flags={**planned.flags, **slack})


def _declared(start: datetime, rate: float, threshold: timedelta, sparseness: int) -> Iterator[Planned]:

    def number(full: int) -> range:
        return range(max(1, round(full * rate)))

    def recurring(
        name: str, job: type, ms: int, period: float = 1.0, *, flags: dict[str, Any] | None = None, **detail: Any
    ) -> Planned:
        misfire = detail.pop("misfire", {})
        span = timedelta(seconds=period * sparseness)
        trigger = SimpleTrigger(name, GROUP, interval=span, repeat_count=None, start_time=start, **misfire)
        found = JobDetail(job, name, GROUP, data={"ms": ms}, **detail)
        serial = bool(found.disallow_concurrent)
        told = {"serial": serial, "recovers": found.requests_recovery, "policy": "merge" if misfire else "exact"}
        return Planned(found, (trigger,), (every(start, span),), {**told, **(flags or {})})

    for i in number(10):
        yield recurring(f"plain-{i}", jobs.Plain, 30 * i, requests_recovery=i % 3 == 0)
    for i in number(7):
        yield recurring(f"serial-{i}", jobs.Serial, 40 * i, requests_recovery=i % 3 == 0)
    for i in number(3):
        yield recurring(f"counter-{i}", jobs.Counter, 20, flags={"counter": True})
    slow = {"misfire": SKIP, "misfire_threshold": threshold}
    for i in number(5):
        yield recurring(f"slow-{i}", jobs.Serial, 1500 * sparseness, misfire=slow)
    for i in number(5):
        yield recurring(f"long-{i}", jobs.Plain, 3000 * sparseness, 6.0, requests_recovery=True)
    for i in number(3):
        yield recurring(f"async-{i}", jobs.Async, 200)
    yield recurring(
        "process-0", jobs.InProcess, 100, 2.0, executor="cpu", flags={"slack": PROCESS_SLACK, "in_process": True}
    )
    retry = RetryPolicy(attempts=3, delay=timedelta(milliseconds=200), factor=1)
    yield recurring("retried-0", jobs.Retried, 0, 2.0, retry=retry, flags={"fails": [1]})
    yield recurring("fenced-0", jobs.Fenced, 0, 1.0)
    for i in number(2):
        yield recurring(f"transactional-{i}", jobs.Transactional, 0, 2.0, flags={"may_fail": True})
    yield recurring("limited-0", jobs.Plain, 300, 0.5, max_concurrent=2, flags={"limit": 2})
    yield recurring("logged-0", jobs.Logged, 0, capture_logs="INFO", flags={"logs": True})
    yield from _bursts(start, number(40), sparseness)
    yield _rated(start, sparseness)
    for name, policy in (("skip", SKIP), ("ignore", "ignore")):
        misfire = {"misfire": policy, "misfire_threshold": threshold}
        yield recurring(f"misfire-{name}", jobs.Plain, 0, misfire=misfire)
    yield from _crons(start, threshold, sparseness)
    yield _same_instant(start, sparseness)
    yield _deep(start, number(DEEP_TRIGGERS), sparseness)
    yield _keyed(start, number(8), sparseness)
    yield _wide(start, number(24), sparseness)


def _crons(start: datetime, threshold: timedelta, sparseness: int) -> Iterator[Planned]:
    kinds = [
        ("Europe/Berlin", "0/2", "smart"),
        ("Asia/Kolkata", "1/3", "smart"),
        ("America/New_York", "0/2", "smart"),
        ("Europe/Berlin", "0/2", "do_nothing"),
        ("Asia/Kolkata", "0/2", "fire_once_now"),
    ]
    for i, (zone, often, policy) in enumerate(kinds):
        offset, step = often.split("/")
        seconds = f"{offset}/{int(step) * sparseness}"
        own = {} if policy == "smart" else {"misfire": policy, "misfire_threshold": threshold}
        name = f"cron-{i}"
        trigger = CronTrigger(f"{seconds} * * ? * *", name, GROUP, time_zone=zone, start_time=start, **own)
        job = JobDetail(jobs.Plain, name, GROUP, data={"ms": 10})
        flags = {"policy": "merge" if own else "exact", "serial": False, "recovers": False}
        yield Planned(job, (trigger,), (each(start, zone, seconds),), flags)


def _bursts(start: datetime, size: range, sparseness: int) -> Iterator[Planned]:
    """Short jobs in a pool of their own, many at one instant: most of them are fired ahead of its free workers.

    Now and then jobs that are not short take all workers of that pool, so that a node hands fires back.
    """
    for name, recovers in (("burst", True), ("burst-not-recovered", False)):
        yield _together(start, name, size, 2.0 * sparseness, 0, recovers)
    # The pools have measured by then that the others are short.
    yield _together(
        start + timedelta(seconds=10), "burst-long", range(4), 16.0 * sparseness, 2500, True, priorities=(6,)
    )


def _together(
    start: datetime,
    name: str,
    numbers: range,
    period: float,
    ms: int,
    recovers: bool,
    priorities: Sequence[int] = (7, 5),
) -> Planned:
    """A job of the pool for bursts, with triggers that are all due at one instant.

    Half of the short executions come before the long ones, and half of them after.
    """
    span = timedelta(seconds=period)
    names = [f"{name}-{i}" for i in numbers]
    triggers = tuple(
        SimpleTrigger(
            n, GROUP, interval=span, repeat_count=None, start_time=start, priority=priorities[i % len(priorities)]
        )
        for i, n in enumerate(names)
    )
    job = JobDetail(jobs.Plain, name, GROUP, data={"ms": ms}, executor="burst", requests_recovery=recovers)
    flags = {"serial": False, "recovers": recovers, "policy": "exact", "slack": 4}
    return Planned(job, triggers, tuple(every(start, span) for _ in names), flags)


def _rated(start: datetime, sparseness: int) -> Planned:
    """Two triggers that are due at one instant, of a job that may start once a second: one of them waits."""
    span = timedelta(seconds=RATED_EVERY * sparseness)
    names = ("rated-0", "rated-1")
    triggers = tuple(SimpleTrigger(n, GROUP, interval=span, repeat_count=None, start_time=start) for n in names)
    job = JobDetail(jobs.Plain, RATED, GROUP, data={"ms": 0}, rate_limit=RateLimit(1, per=timedelta(seconds=1)))
    flags = {"serial": False, "recovers": False, "policy": "exact", "slack": RATED_SLACK, "rated": True}
    return Planned(job, triggers, tuple(every(start, span) for _ in names), flags)


def _same_instant(start: datetime, sparseness: int) -> Planned:
    """Five triggers of one serial job, all due at one instant."""
    span = timedelta(seconds=4 * sparseness)
    names = [f"together-{i}" for i in range(5)]
    triggers = tuple(SimpleTrigger(n, GROUP, interval=span, repeat_count=None, start_time=start) for n in names)
    job = JobDetail(jobs.Serial, "together", GROUP, data={"ms": 100})
    flags = {"serial": True, "recovers": False, "policy": "exact"}
    return Planned(job, triggers, tuple(every(start, span) for _ in names), flags)


def _deep(start: datetime, numbers: range, sparseness: int) -> Planned:
    """Very many triggers of one serial job that become due almost together, in an order that their fires have to have.

    All but one of them wait, and each end lets the next one go.
    """
    span = timedelta(seconds=DEEP_EVERY * sparseness)
    starts = {f"{DEEP}-{i}": start + timedelta(milliseconds=i) for i in numbers}
    triggers = tuple(
        SimpleTrigger(name, GROUP, interval=span, repeat_count=None, start_time=at) for name, at in starts.items()
    )
    job = JobDetail(jobs.Serial, DEEP, GROUP, data={"ms": 0})
    flags = {"serial": True, "recovers": False, "policy": "exact", "slack": DEEP_SLACK, "ordered": True}
    return Planned(job, triggers, tuple(every(at, span) for at in starts.values()), flags)


def _keyed(start: datetime, numbers: range, sparseness: int) -> Planned:
    """A job that runs once at a time for each of several tenants, each of whom has several triggers due at once."""
    span = timedelta(seconds=3 * sparseness)
    tenants = {f"keyed-{i}-{turn}": f"tenant-{i}" for turn in range(4) for i in numbers}
    triggers = tuple(
        SimpleTrigger(name, GROUP, interval=span, repeat_count=None, start_time=start, data={TENANT: tenant})
        for name, tenant in tenants.items()
    )
    job = JobDetail(jobs.Plain, "keyed", GROUP, data={"ms": 50}, max_concurrent=1, concurrency_key=TENANT)
    flags: dict[str, Any] = {"serial": False, "recovers": False, "policy": "exact", "slack": 4, "limit": 1}
    flags["keys"] = {f"{GROUP}.{name}": tenant for name, tenant in tenants.items()}
    return Planned(job, triggers, tuple(every(start, span) for _ in triggers), flags)


def _wide(start: datetime, numbers: range, sparseness: int) -> Planned:
    """A job that runs three times at a time at most, with many more triggers due at once."""
    span = timedelta(seconds=4 * sparseness)
    names = [f"wide-{i}" for i in numbers]
    triggers = tuple(SimpleTrigger(n, GROUP, interval=span, repeat_count=None, start_time=start) for n in names)
    job = JobDetail(jobs.Plain, "wide", GROUP, data={"ms": 100}, max_concurrent=3, requests_recovery=True)
    flags = {"serial": False, "recovers": True, "policy": "exact", "slack": 6, "limit": 3}
    return Planned(job, triggers, tuple(every(start, span) for _ in names), flags)


def on_engines(start: datetime, executors: Sequence[str], slowness: int = 1) -> Iterator[Planned]:
    """The workload of a run about engines: on each of them jobs that are short, and some that faults meet."""
    span = timedelta(seconds=2 * slowness)
    for executor in executors:
        for ms, kind in ((50, jobs.InProcess), (1500, jobs.InProcess), (400, jobs.Fenced)):
            if kind is jobs.Fenced and executor == "cpu":
                # Process workers have no transactions.
                continue
            name = f"engine-{executor}-{ms}"
            trigger = SimpleTrigger(name, GROUP, interval=span, repeat_count=None, start_time=start)
            job = JobDetail(kind, name, GROUP, data={"ms": ms}, executor=executor)
            flags = {"policy": "exact", "slack": PROCESS_SLACK * slowness, "in_process": True, "engine": True}
            flags["serial"] = kind is jobs.Fenced
            yield Planned(job, (trigger,), (every(start, span),), {"recovers": False, **flags})
    trigger = SimpleTrigger("plain-beside", GROUP, interval=span / 4, repeat_count=None, start_time=start)
    job = JobDetail(jobs.Plain, "plain-beside", GROUP, data={"ms": 0})
    yield Planned(job, (trigger,), (every(start, span / 4),), {"serial": False, "recovers": False, "policy": "exact"})


def moved(start: datetime, count: int, sparseness: int = 1) -> Iterator[Planned]:
    """Triggers that the client pauses, resumes, reschedules and deletes. Every other one is of one serial job.

    So the trigger that an end lets go is moved, too, and another one of the job has to take its place.
    """
    for i in range(count):
        span = timedelta(seconds=sparseness)
        name = f"moved-{i}"
        trigger = SimpleTrigger(name, MOVED, interval=span, repeat_count=None, start_time=start)
        job = JobDetail(
            jobs.Serial if i % 2 else jobs.Plain,
            f"{MOVED}-{SERIAL}" if i % 2 else name,
            MOVED,
            data={"ms": 20},
            durable=True,
        )
        flags = {"serial": bool(i % 2), "recovers": False, "policy": "exact"}
        yield Planned(job, (trigger,), (every(start, span),), flags)


def asked(op: str, key: TriggerKey | JobKey | str, call: Callable[[], Any], **detail: Any) -> str:
    """Make a request and record it; the answer."""
    before = history.now_ns()
    error = None
    try:
        result = call()
        # A method about what is not there changes nothing, and says so.
        answer = "absent" if result is None and op == "reschedule" else "ok"
    except OutcomeUnknownError as unknown:
        answer, error = "unknown", unknown
    except QuartzpyError as refused:
        # A refusal of the database's while it is away is certain only where nothing had been sent.
        answer, error = "error", refused
    except Exception as other:
        answer, error = "unknown", other
    history.append(
        "api",
        op=op,
        key=str(key) if isinstance(key, str) else f"{key.group}.{key.name}",
        before=before,
        after=history.now_ns(),
        answer=answer,
        error=None if error is None else f"{type(error).__name__}: {error}"[:400],
        **detail,
    )
    return answer


def store(scheduler: Scheduler, planned: Planned) -> str:
    """Schedule a job with its triggers, and record each trigger."""
    details = [(t.key, spec) for t, spec in zip(planned.triggers, planned.specs, strict=True)]
    return asked(
        "schedule",
        details[0][0],
        lambda: scheduler.schedule_job(planned.job, planned.triggers, replace=True),
        job=planned.job.name,
        spec=details[0][1],
        also=[[f"{key.group}.{key.name}", spec] for key, spec in details[1:]],
        **planned.flags,
    )


def soon(seconds: float) -> datetime:
    """A whole second of the near future."""
    return (datetime.now(UTC) + timedelta(seconds=seconds)).replace(microsecond=0)
