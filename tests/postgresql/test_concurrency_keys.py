"""Limits by key while several nodes claim and complete at the same time."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from quartzpy.job_data import decode
from quartzpy.jobs.job import JobDetail
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.protocol import FiredTrigger, Gate, JobEntry
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.upcoming import prepare
from tests.postgresql.conftest import register
from tests.postgresql.test_faults import LANES, acquire, ended

FIRES, KEYS, NODES = 80, 4, 3


@pytest.mark.parametrize("limit", [1, 2])
def test_never_more_than_the_limit_run_for_a_key_over_nodes(make_store: Callable[..., SqlJobStore], limit: int) -> None:
    job = JobDetail(LANES[0].job_type, "keyed", durable=True, concurrency_key="customer", max_concurrent=limit)
    now = datetime.now(UTC)
    triggers = [
        SimpleTrigger(f"t{n}", job_key=job.key, start_time=now - timedelta(seconds=1), data={"customer": n % KEYS})
        for n in range(FIRES)
    ]
    stores = [make_store() for _ in range(NODES)]
    stores[0].store_jobs([JobEntry(job, [prepare(one, now, None) for one in triggers])], replace=False)

    guard = threading.Lock()
    running: Counter[int] = Counter()
    most: Counter[int] = Counter()
    done = 0
    failed: list[BaseException] = []
    enough = threading.Event()

    def key_of(fired: FiredTrigger) -> int:
        return int(decode(fired.trigger_data)["customer"])

    def work(number: int) -> None:
        nonlocal done
        choose = random.Random(number)
        store = stores[number]
        try:
            node = register(store, f"node-{number}")
            held: list[FiredTrigger] = []
            opened: list[Gate] = []
            while not enough.is_set():
                # What was fired before still runs while this node looks again, and ends one by one.
                fired = acquire(store, node, opened=opened).fired
                held += fired
                ending = held.pop(choose.randrange(len(held))) if held else None
                with guard:
                    for one in fired:
                        running[key_of(one)] += 1
                    for key in running:
                        most[key] = max(most[key], running[key])
                    # Before they end in the database: from then on others may run.
                    if ending is not None:
                        running[key_of(ending)] -= 1
                if ending is not None:
                    store.complete(node, [ended(ending)])
                opened = [ending.gate] if ending is not None and ending.gate is not None else []
                with guard:
                    done += ending is not None
                    if done >= FIRES:
                        enough.set()
        except BaseException as error:
            failed.append(error)
            enough.set()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(NODES)]
    for thread in threads:
        thread.start()
    in_time = enough.wait(60)
    enough.set()
    for thread in threads:
        thread.join()
    assert not failed
    assert in_time
    assert done == FIRES
    assert max(most.values()) <= limit
    assert set(most) == set(range(KEYS))
