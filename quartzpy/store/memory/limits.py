"""Limits: what they allow, what uses them, and when they are to be asked again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime

from quartzpy.jobs.job import JobDetail
from quartzpy.jobs.rate_limit import RateLimit
from quartzpy.jobs.shared_limit import Limit, checked_limit_name, names_from_text
from quartzpy.keys import JobKey
from quartzpy.store import refusals
from quartzpy.store.gates import NO_LIMIT, Free, opens_at
from quartzpy.store.memory.rows import shared_gate
from quartzpy.store.memory.tables import Tables
from quartzpy.store.protocol import Gate, Notification
from quartzpy.store.records import MAX_WAITING, LimitRecord


def limits_of(gate: Gate) -> Iterator[Gate]:
    """Yield the limits of a gate: that of a job's own, and each of those that it shares."""
    if gate.job_name:
        yield gate._replace(limits="")
    yield from map(shared_gate, names_from_text(gate.limits))


def _rate(tables: Tables, limit: Gate) -> RateLimit | None:
    if limit.limits:
        stored = tables.limits.get(limit.limits)
        return None if stored is None else stored.rate_limit
    job = tables.jobs.get(JobKey(limit.job_name, limit.job_group))
    return None if job is None else job.rate_limit


def free(tables: Tables, limit: Gate) -> Free:
    """Return what a limit allows now."""
    now, rate = tables.now(), _rate(tables, limit)
    if limit.limits:
        stored = tables.limits.get(limit.limits)
        most = 0 if stored is None else stored.max_concurrent
    else:
        job = tables.jobs.get(JobKey(limit.job_name, limit.job_group))
        most = None if job is None else job.limit
    return Free(
        NO_LIMIT.slots if most is None else most - tables.running_at(limit),
        NO_LIMIT.fires if rate is None else rate.available(rate.bounded(tables.tats.get(limit), now), now),
    )


def charge(tables: Tables, fires: Counter[Gate]) -> None:
    """Charge the rates of limits for these fires."""
    for limit, number in fires.items():
        if (rate := _rate(tables, limit)) is not None:
            now = tables.now()
            tables.tats[limit] = rate.after(rate.bounded(tables.tats.get(limit), now), now, number)


def ask_again(tables: Tables, of_step: Iterable[Gate], unparked: Counter[Gate], at_once: Iterable[Gate]) -> None:
    """Note when each of these limits, which a step has asked, is to be asked again."""
    now = tables.now()
    rates = {}
    for limit in of_step:
        tables.opens.pop(limit, None)
        if (rate := _rate(tables, limit)) is not None:
            rates[limit] = rate
    awaited = {limit for gate in tables.parked for limit in limits_of(gate)} if rates else set()
    for limit, rate in rates.items():
        if limit in awaited:
            tat = rate.bounded(tables.tats.get(limit), now)
            opens = opens_at(rate, tat, now, unparked[limit])
            if opens is not None and tat is not None:
                # It is stored as it is bounded now: later, the bound would be a later one.
                tables.tats[limit], tables.opens[limit] = tat, opens
    tables.opens |= dict.fromkeys(at_once, now)


def open_gates(tables: Tables) -> list[Gate]:
    """Return the gates with free places at which triggers are parked, and those that nobody would ask again."""
    return [gate for gate in tables.parked if _is_open(tables, gate)]


def _is_open(tables: Tables, gate: Gate) -> bool:
    of_limits = {limit: free(tables, limit) for limit in limits_of(gate)}
    is_free = all(limit.places > 0 for limit in of_limits.values())
    return is_free or any(of.fires <= 0 and limit not in tables.opens for limit, of in of_limits.items())


def forget_past(tables: Tables, most: int) -> int:
    """Forget the states of jobs' own rates that have no effect any more; return their number."""
    now = tables.now()
    past = [
        limit for limit, tat in tables.tats.items() if tat <= now and not limit.limits and limit not in tables.opens
    ]
    for limit in past[:most]:
        del tables.tats[limit]
    return len(past[:most])


def limits(tables: Tables) -> dict[str, LimitRecord]:
    """Return the limits that jobs share; see `QueryStore.limits`."""
    now = tables.now()
    waiting: Counter[str] = Counter()
    for gate, entries in tables.parked.items():
        waiting.update(dict.fromkeys(names_from_text(gate.limits), min(len(entries), MAX_WAITING)))
    used_by: dict[str, Counter[JobKey]] = {name: Counter() for name in tables.limits}
    used_since: dict[str, datetime] = {}
    for row in tables.fired.values():
        for name in names_from_text(row.limits):
            used_by.setdefault(name, Counter())[row.job_key] += 1
            used_since[name] = min(row.fire_time, used_since.get(name, row.fire_time))
    return {
        name: LimitRecord.of(
            name,
            limit,
            dict(sorted(used_by[name].items(), key=lambda pair: (-pair[1], pair[0].group, pair[0].name))),
            waiting[name],
            tat=tables.tats.get(shared_gate(name)),
            used_since=used_since.get(name),
            now=now,
        )
        for name, limit in sorted(tables.limits.items())
    }


def put_limit(tables: Tables, name: str, limit: Limit) -> None:
    """Store a limit; see `SchedulingStore.put_limit`."""
    tables.limits[checked_limit_name(name)] = limit
    # The next step looks for what may fire by the other limit.
    tables.opens[shared_gate(name)] = tables.now()
    tables.notifications.add(Notification.SCHEDULED)


def delete_limit(tables: Tables, name: str) -> bool:
    """Remove a limit; see `SchedulingStore.delete_limit`."""
    sharing = sorted(key for key, job in tables.jobs.items() if name in names_from_text(job.limits))
    if sharing:
        raise refusals.limit_in_use(name, sharing[:3])
    tables.tats.pop(shared_gate(name), None)
    tables.opens.pop(shared_gate(name), None)
    return tables.limits.pop(name, None) is not None


def require_limits(tables: Tables, job: JobDetail) -> None:
    """Check that the limits which a job shares are stored.

    Raises:
        LimitNotFoundError: one of them is not.
    """
    for name in job.limits:
        if name not in tables.limits:
            raise refusals.limit_of_job_not_stored(job.key, name, sorted(tables.limits))
