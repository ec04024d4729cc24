"""A process that computes for long between two statements of a large transaction."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

import pytest

from quartzpy.jobs.job import JobDetail
from quartzpy.keys import TriggerKey
from quartzpy.store.postgresql import batches
from quartzpy.store.postgresql.connection.external import STAY, ExternalTransaction, KeptAwake
from quartzpy.store.postgresql.connection.pipeline import BoundStatement, Result
from quartzpy.store.postgresql.connection.session import Transaction
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.protocol import JobEntry, JobStore
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.trigger import Trigger
from quartzpy.triggers.upcoming import PreparedTrigger, UnpreparedTrigger, prepare
from tests.waiting import wait_until

MakeStore = Callable[..., SqlJobStore]
LOCK_TIMEOUT = timedelta(seconds=1)
"""An ordinary transaction is ended as idle after this time."""
LONG = 3 * LOCK_TIMEOUT.total_seconds()
KEEPER = "quartzpy-keep-awake"


def keepers() -> int:
    return sum(thread.name == KEEPER for thread in threading.enumerate())


def compute() -> None:
    threading.Event().wait(LONG)


def test_a_sync_may_compute_for_long_before_it_stores(make_store: MakeStore) -> None:
    store = make_store(lock_timeout=LOCK_TIMEOUT)

    def work(inside: JobStore) -> datetime:
        inside.now()
        compute()
        assert keepers() == 1
        return inside.now()

    assert store.together(work, exclusively=True)
    assert keepers() == 0


def test_a_call_whose_process_was_stopped_before_its_last_statements_is_repeated(
    make_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make_store(lock_timeout=LOCK_TIMEOUT)
    commit, stops = Transaction.commit, [compute]

    def slow_commit(transaction: Transaction, *statements: BoundStatement) -> list[Result]:
        while stops:
            stops.pop()()
        return commit(transaction, *statements)

    monkeypatch.setattr(Transaction, "commit", slow_commit)
    job = JobDetail("work", "stopped")
    later = datetime.now(UTC) + timedelta(days=1)
    trigger = SimpleTrigger("stopped", job_key=job.key, start_time=later)
    given = UnpreparedTrigger(trigger, lambda trigger, now: prepare(trigger, now, None))
    store.store_jobs([JobEntry(job, [given])], replace=False)
    assert not stops
    assert len(store.triggers([trigger.key])) == 1


@pytest.mark.parametrize("alone", [True, False], ids=["sync", "own transaction"])
def test_a_bulk_store_may_compute_for_long_between_its_batches(
    make_store: MakeStore, monkeypatch: pytest.MonkeyPatch, alone: bool
) -> None:
    monkeypatch.setattr(batches, "CHUNK", 2)
    store = make_store(lock_timeout=LOCK_TIMEOUT)
    job = JobDetail("work", "slow")
    started: list[str] = []

    def slowly(trigger: Trigger, now: datetime) -> PreparedTrigger:
        started.append(trigger.key.name)
        if len(started) == 4:
            compute()
        return prepare(trigger, now, None)

    later = datetime.now(UTC) + timedelta(days=1)
    given = [
        UnpreparedTrigger(SimpleTrigger(f"t{number}", job_key=job.key, start_time=later), slowly) for number in range(6)
    ]

    def work(inside: JobStore) -> None:
        inside.store_jobs([JobEntry(job, given)], replace=True)

    if alone:
        store.together(work, exclusively=True)
    else:
        work(store)
    assert len(store.triggers([TriggerKey(f"t{number}") for number in range(6)])) == 6


class _Recorded(ExternalTransaction):
    """Records what is sent; two calls at the same time are an error."""

    def __init__(self) -> None:
        self.sent: list[bytes | None] = []
        self._busy = threading.Lock()

    def execute(self, sends: Sequence[BoundStatement], *, begin: bytes | None, commit: bytes | None) -> list[Result]:
        assert self._busy.acquire(blocking=False), "the connection is in use"
        try:
            self.sent.append(begin)
            threading.Event().wait(0.001)
        finally:
            self._busy.release()
        return []

    def undo(self) -> None:
        self.execute([], begin=None, commit=None)


def test_a_transaction_that_is_kept_awake_speaks_until_it_ends() -> None:
    recorded = _Recorded()
    transaction = KeptAwake(recorded, 0.001)
    with transaction.awake():
        wait_until(lambda: recorded.sent.count(STAY) > 3)
        for _ in range(50):
            transaction.execute([], begin=b"SAVEPOINT a", commit=None)
            transaction.undo()
    said = len(recorded.sent)
    assert keepers() == 0
    assert len(recorded.sent) == said
