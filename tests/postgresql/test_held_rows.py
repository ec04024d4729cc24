"""A row that an open transaction of a user holds puts off its own subject: no step waits for it, and no other is late.

Each operation of a node runs while a transaction holds, in turn, the rows of each table that belong to the job `held`,
as `SELECT ... FOR UPDATE` does, or a verb of `using`. The operation has to return, must have done its work for the job
`free`, and does what it has put off once the rows are free. The calls of applications may wait for a row that they are
about, but not under a lock that a step takes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from quartzpy import FixedDelayTrigger
from quartzpy.errors import StoreUnavailableError
from quartzpy.jobs.context import Progress
from quartzpy.jobs.continuation import Continuation
from quartzpy.jobs.job import JobDetail
from quartzpy.jobs.rate_limit import RateLimit
from quartzpy.keys import MANUAL_TRIGGERS, JobKey, TriggerKey
from quartzpy.matchers import GroupMatcher
from quartzpy.node.scheduler_thread import refill_of
from quartzpy.states import CompletionInstruction, JobMode, Missed, Outcome
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.protocol import (
    NO_NOTE,
    AvailableSlots,
    Completion,
    DispatchKey,
    Expectation,
    FiredTrigger,
    JobEntry,
    NamedTriggers,
    TriggerGroups,
    TriggersOfJobs,
)
from quartzpy.store.queries import HISTORY, TriggerQuery
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.trigger import Trigger
from quartzpy.triggers.upcoming import PreparedTrigger, UpcomingFireTimes, prepare
from tests.postgresql.conftest import register
from tests.postgresql.test_faults import LANES, OPENINGS, Connect, ended
from tests.postgresql.test_users_transactions import WAITS, transaction

SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
HELD, FREE = JobKey("held"), JobKey("free")
KEYS = (HELD, FREE)

# The rows of each table that belong to the job; each calendar and group is named like it.
HOLDS = {
    "triggers": "SELECT FROM qrtz_triggers WHERE job_name = 'held' FOR UPDATE",
    "job_details": "SELECT FROM qrtz_job_details WHERE job_name = 'held' FOR UPDATE",
    "fired_triggers": "SELECT FROM qrtz_fired_triggers WHERE job_name = 'held' FOR UPDATE",
    "executions": "SELECT FROM qrtz_executions WHERE job_name = 'held' FOR UPDATE",
    "calendars": "SELECT FROM qrtz_calendars FOR UPDATE",
    "paused_trigger_groups": "SELECT FROM qrtz_paused_trigger_groups FOR UPDATE",
    "limits": "SELECT FROM qrtz_limits WHERE job_name = 'held' FOR UPDATE",
}
VERBS: dict[str, Callable[[SqlJobStore], Any]] = {
    "delete_job": lambda inside: inside.delete_jobs([HELD]),
    "replace_job": lambda inside: inside.store_jobs(
        [JobEntry(JobDetail("another", "held", durable=True, max_concurrent=3))], replace=True
    ),
    "modify_job": lambda inside: inside.modify_job(
        HELD, lambda job: job.with_values({"description": "mine", "data": {"n": 7}}), keeps_data=False
    ),
    "pause_job": lambda inside: inside.pause(TriggersOfJobs([HELD]), NO_NOTE),
    "cancel_job": lambda inside: inside.request_cancel(HELD),
}


class Stage:
    """A store, its node, and what an operation needs; `run` returns the names of the jobs that it did its work for."""

    def __init__(self, store: SqlJobStore) -> None:
        self.store = store
        self.node = register(store)

    def schedule(
        self,
        *,
        at: timedelta = -SECOND,
        count: int = 1,
        trigger: Callable[..., Trigger] | None = None,
        filled: bool = True,
        **job: Any,
    ) -> None:
        now = datetime.now(UTC)
        job = {"durable": True, **job}
        make = trigger or (lambda name, **how: SimpleTrigger(name, interval=HOUR, repeat_count=5, **how))
        for key in KEYS:
            made = [make(f"{key.name} {n}", job_key=key, start_time=now + at) for n in range(count)]
            triggers = [prepare(one, now, None) for one in made]
            if not filled:
                triggers = [PreparedTrigger(one.trigger, one.progress, UpcomingFireTimes()) for one in triggers]
            self.store.store_jobs([JobEntry(JobDetail(LANES[0].job_type, key.name, **job), triggers)], replace=True)

    def acquire(self, look_ahead: timedelta = timedelta(), by: Any = None) -> Any:
        return self.store.acquire(by or self.node, OPENINGS, limit=100, look_ahead=look_ahead, misfire_threshold=HOUR)

    def fire_unfilled(self) -> list[FiredTrigger]:
        """Fire what is due; what is unfilled is refilled first, except where its row is held."""
        took = self.acquire()
        if not took.unfilled:
            return list(took.fired)
        self.store.refill(self.node, [refill_of(one, took.now) for one in took.unfilled])
        return [*took.fired, *self.acquire().fired]

    def complete(self, completions: list[Completion]) -> set[str]:
        """Complete, and keep those that are put off for the next call."""
        outcome = self.store.complete(self.node, completions)
        assert not outcome.fenced
        done = {one.fired.job_name for one in completions if one.fired.fire_id not in outcome.deferred}
        completions[:] = [one for one in completions if one.fired.fire_id in outcome.deferred]
        return done

    def states(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {key.name: set() for key in KEYS}
        for record in self.store.find(TriggerQuery(), 100):
            found[record.job_key.name].add(record.state)
        return found

    def in_state(self, state: str) -> set[str]:
        return {name for name, states in self.states().items() if states == {state}}


Run = Callable[[], set[str]]


def names(fired: Any) -> set[str]:
    return {one.trigger_name.split()[0] for one in fired}


def acquiring(stage: Stage) -> Run:
    stage.schedule()
    return lambda: names(stage.acquire().fired)


def acquiring_limited(stage: Stage) -> Run:
    stage.schedule(count=2, max_concurrent=1)
    return lambda: names(stage.acquire().fired)


def acquiring_rate_limited(stage: Stage) -> Run:
    stage.schedule(count=1, rate_limit=RateLimit.of("100000/second"))
    stage.acquire()
    stage.schedule(count=2, rate_limit=RateLimit.of("100000/second"))
    return lambda: names(stage.acquire().fired)


def cancelling_others(stage: Stage) -> Run:
    stage.schedule(max_concurrent=1, overlap_policy="cancel_other")
    assert names(stage.acquire().fired) == {"held", "free"}
    stage.schedule(count=2, max_concurrent=1, overlap_policy="cancel_other")

    def run() -> set[str]:
        stage.acquire()
        asked = stage.store.cancel_requests(stage.node)
        return {row.job_key.name for row in stage.store.list_running() if row.fire_id in asked}

    return run


def firing_ahead(stage: Stage) -> Run:
    stage.schedule(at=MINUTE)
    return lambda: names(stage.acquire(2 * MINUTE).fired)


def refilling(stage: Stage) -> Run:
    """What is refilled fires."""
    stage.schedule(filled=False)
    return lambda: names(stage.fire_unfilled())


def rejecting(stage: Stage) -> Run:
    stage.schedule(filled=False)
    unfilled = stage.acquire().unfilled

    def run() -> set[str]:
        stage.store.reject(stage.node, [(one, "cannot be computed") for one in unfilled])
        return stage.in_state("ERROR")

    return run


def reconciling(stage: Stage) -> Run:
    """The fires whose answer was lost are all known, whatever is held: they run already."""
    stage.schedule()
    stage.acquire()
    return lambda: names(stage.store.reconcile(stage.node, executions=[]).fired)


def misfiring(stage: Stage) -> Run:
    stage.schedule(at=-MINUTE)

    def run() -> set[str]:
        return {
            key.name.split()[0] for key in stage.store.recover_misfires(stage.node, threshold=SECOND, limit=10).misfired
        }

    return run


def recovering(stage: Stage, **job: Any) -> Run:
    dead = register(stage.store, "dead")
    stage.schedule(**job)
    stage.acquire(by=dead)
    stage.schedule(at=MINUTE, count=2, **job)
    stage.acquire(HOUR, by=dead)
    [judged] = [record for record in stage.store.list_nodes().nodes if record.instance_id == "dead"]

    def run() -> set[str]:
        stage.store.recover(stage.node, [judged], max_node_deaths=1)
        return {"held", "free"} - {row.job_key.name for row in stage.store.list_running()}

    return run


def recovering_again(stage: Stage) -> Run:
    return recovering(stage, requests_recovery=True)


def purging(stage: Stage) -> Run:
    stage.schedule()
    assert stage.complete([ended(one) for one in stage.acquire().fired]) == {"held", "free"}

    def run() -> set[str]:
        stage.store.purge_history(timedelta(microseconds=1), limit=100)
        left = {row.job_key.name for row in stage.store.find(HISTORY, 10)}
        return {"held", "free"} - left

    return run


def settling(stage: Stage) -> Run:
    """What users' transactions have stored is reconciled, and fires."""
    stage.schedule(at=HOUR)
    now = datetime.now(UTC)
    with stage.store._connections.call_transaction() as connection:
        inside = stage.store.within(connection)
        for key in KEYS:
            due = SimpleTrigger(f"{key.name} due", job_key=key, start_time=now - SECOND, interval=HOUR, repeat_count=5)
            inside.store_jobs([JobEntry(None, [prepare(due, now, None)])], replace=False)
    return lambda: names(stage.acquire().fired)


def reporting_progress(stage: Stage) -> Run:
    stage.schedule()
    fired = {one.fire_id: one.job_name for one in stage.acquire().fired}

    def run() -> set[str]:
        stored = stage.store.report_progress(stage.node, dict.fromkeys(fired, Progress(0.5, "half")))
        return {fired[fire_id] for fire_id in stored}

    return run


def repairing(stage: Stage) -> Run:
    stage.schedule()
    with stage.store._connections.checked_out() as connection:
        connection.execute("UPDATE qrtz_triggers SET trigger_state = 'BLOCKED'")

    def run() -> set[str]:
        stage.store.repair()
        return stage.in_state("WAITING")

    return run


def completing(how: Callable[[FiredTrigger], Completion], **schedule: Any) -> Callable[[Stage], Run]:
    def prepared(stage: Stage) -> Run:
        stage.schedule(**schedule)
        completions = [how(one) for one in stage.fire_unfilled()]
        assert {one.fired.job_name for one in completions} == {"held", "free"}, stage.states()
        return lambda: stage.complete(completions)

    return prepared


def failed(one: FiredTrigger) -> Completion:
    return replace(ended(one), outcome=Outcome.FAILED, error="failed")


def last(name: str, **how: Any) -> Trigger:
    return SimpleTrigger(name, **how)


def delayed(name: str, **how: Any) -> Trigger:
    return FixedDelayTrigger("1s", name, **how)


def asking(instruction: CompletionInstruction) -> Callable[[FiredTrigger], Completion]:
    return lambda one: ended(one, instruction=instruction)


OPERATIONS: dict[str, Callable[[Stage], Run]] = {
    "acquire": acquiring,
    "acquire with limits": acquiring_limited,
    "acquire with rate limits": acquiring_rate_limited,
    "acquire and cancel others": cancelling_others,
    "acquire what users stored": settling,
    "fire ahead": firing_ahead,
    "refill": refilling,
    "reject": rejecting,
    "reconcile": reconciling,
    "misfire": misfiring,
    "recover": recovering,
    "recover and run again": recovering_again,
    "purge": purging,
    "report progress": reporting_progress,
    "repair": repairing,
    "complete": completing(ended),
    "complete a failure": completing(failed),
    "complete the last fire": completing(ended, trigger=last),
    "complete the last fire of a job": completing(ended, trigger=last, durable=False),
    "complete a serial job": completing(ended, max_concurrent=1, count=2),
    "complete with a fixed delay": completing(ended, trigger=delayed, max_concurrent=1),
    # Its trigger is updated twice.
    "complete in error with a fixed delay": completing(
        asking(CompletionInstruction.SET_TRIGGER_ERROR), trigger=delayed, max_concurrent=1
    ),
    "complete with data": completing(lambda one: ended(one, job_data='{"n": 1}'), persist_data=True),
    "complete with a retry": completing(lambda one: replace(failed(one), retry_after=timedelta())),
    "complete a counted failure": completing(failed, pause_after_failures=1, count=2),
    "complete with a continuation": completing(ended, continuations=(Continuation("held"), Continuation("free"))),
    **{
        f"complete with {one}": completing(asking(one), count=2)
        for one in CompletionInstruction
        if one is not CompletionInstruction.NOOP
    },
}


@pytest.fixture
def impatient(make_store: Callable[..., SqlJobStore]) -> SqlJobStore:
    """A store whose steps fail where they wait."""
    return make_store(lock_timeout="1s")


# The other verbs lock rows of one table alone, less strictly than `HOLDS` does: two operations are enough for these.
OF_SEVERAL_TABLES = ("delete_job", "replace_job")
WITH_ALL_VERBS = ("acquire", "complete")


@pytest.mark.parametrize("operation", OPERATIONS)
def test_no_step_waits_for_a_held_row(impatient: SqlJobStore, connect: Connect, operation: str) -> None:
    store, cleaner = impatient, connect()
    verbs = VERBS if operation in WITH_ALL_VERBS else OF_SEVERAL_TABLES
    holds = [*HOLDS, *verbs]
    while holds:
        store.clear()
        for table in ("fired_triggers", "executions", "limits", "scheduler_state"):
            cleaner.execute(f"DELETE FROM qrtz_{table}")
        run = OPERATIONS[operation](Stage(store))
        with transaction(connect) as user:
            # A table without rows of the job holds up nothing, and leaves the stage to the next one.
            while (held := holds.pop(0)) in HOLDS and not user.execute(HOLDS[held]).rowcount:
                pass
            if held in VERBS:
                VERBS[held](store.within(user))
            try:
                done = run()
            except Exception as error:
                raise AssertionError(f"{operation}, while {held} is held: {error}") from error
            assert "free" in done or operation == "complete with a continuation", f"{held} is held"
        assert done | run() == {"held", "free"}, f"after {held} was held"


def test_a_fixed_delay_begins_once_the_row_of_its_trigger_is_free(impatient: SqlJobStore, connect: Connect) -> None:
    stage = Stage(impatient)
    run = completing(ended, trigger=delayed, max_concurrent=1)(stage)
    with transaction(connect) as user:
        user.execute(HOLDS["triggers"])
        assert run() == {"free"}
    assert run() == {"held"}
    for record in impatient.find(TriggerQuery(), 10):
        moved = record.progress.next_fire_time
        assert record.state == "WAITING"
        assert moved is not None
        assert record.progress.previous_fire_time is not None
        assert moved - record.progress.previous_fire_time < MINUTE


def test_the_transaction_of_a_job_with_a_fixed_delay_waits_for_its_trigger(
    store: SqlJobStore, connect: Connect
) -> None:
    stage = Stage(store)
    stage.schedule(trigger=delayed, max_concurrent=1)
    held, free = sorted(stage.fire_unfilled(), key=lambda one: one.job_name == "free")
    recorded = threading.Event()

    def work() -> None:
        transaction = store.begin_job_transaction()
        try:
            transaction.complete(stage.node, ended(held))
            recorded.set()
        finally:
            transaction.close()

    thread = threading.Thread(target=work)
    with transaction(connect) as user:
        user.execute(HOLDS["triggers"])
        thread.start()
        look = connect()
        while not look.execute(WAITS).fetchone() and thread.is_alive():
            pass
        assert stage.complete([ended(free)]) == {"free"}
        assert not recorded.is_set()
    thread.join(60)
    assert recorded.is_set()


def cancelling(store: SqlJobStore, connect: Connect, stage: Stage) -> tuple[list[FiredTrigger], list[Any], Any]:
    """Two executions; a request to cancel both that has locked the first and waits for the second, which `user` has."""
    stage.schedule(count=2)
    fired = sorted((one for one in stage.acquire().fired if one.job_name == "held"), key=lambda one: one.fire_id)
    asked: list[Any] = []
    user, look = connect(), connect()
    user.execute("BEGIN")
    user.execute("DELETE FROM qrtz_fired_triggers WHERE fire_id = %s", [fired[1].fire_id])
    thread = threading.Thread(target=lambda: asked.append(store.request_cancel(HELD)))
    thread.start()
    while not look.execute(WAITS).fetchone():
        pass
    return fired, asked, (user, thread)


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_a_request_to_cancel_reports_what_it_asked_and_no_completion_waits_for_it(
    store: SqlJobStore, connect: Connect, end: str
) -> None:
    stage = Stage(store)
    fired, asked, (user, thread) = cancelling(store, connect, stage)
    completions = [ended(fired[0])]
    try:
        assert not stage.complete(completions), "its row is locked by the request"
    finally:
        user.execute(end)
        thread.join(60)
    still_runs = fired if end == "ROLLBACK" else fired[:1]
    assert asked == [{one.fire_id for one in still_runs}]
    assert stage.store.cancel_requests(stage.node) == asked[0]
    assert stage.complete(completions) == {"held"}


def test_calls_that_wait_leave_connections_for_the_steps_of_a_node(
    make_store: Callable[..., SqlJobStore], connect: Connect
) -> None:
    store = make_store(pool_size=3)
    stage = Stage(store)
    stage.schedule(at=HOUR)
    held = [TriggerKey("held 0")]
    verbs: list[Callable[[], Any]] = [
        lambda: store.pause(NamedTriggers(held)),
        lambda: store.pause(TriggersOfJobs([HELD])),
        lambda: store.delete_triggers(held),
        lambda: store.pause(TriggerGroups(GroupMatcher.equals("DEFAULT"))),
    ]
    refused: list[Exception] = []

    def call(n: int) -> None:
        try:
            verbs[n % len(verbs)]()
        except StoreUnavailableError as error:
            refused.append(error)

    threads = [threading.Thread(target=call, args=(n,)) for n in range(12)]
    with transaction(connect) as user:
        user.execute(HOLDS["triggers"])
        for thread in threads:
            thread.start()
        look, calls = connect(), 0
        while calls < 3:
            [(calls,)] = look.execute(f"SELECT count(*) FROM ({WAITS}) AS waiting").fetchall()
        for n in range(3):
            due = SimpleTrigger(f"free {n} due", job_key=FREE, interval=HOUR, repeat_count=5)
            own = connect()
            own.execute("BEGIN")
            store.within(own).store_jobs([JobEntry(None, [prepare(due, datetime.now(UTC), None)])], replace=False)
            own.execute("COMMIT")
            fired = stage.acquire().fired
            assert names(fired) == {"free"}, n
            assert not store.complete(stage.node, [ended(one) for one in fired]).deferred
        [(calls,)] = look.execute(f"SELECT count(*) FROM ({WAITS}) AS waiting").fetchall()
        assert calls <= 3
    for thread in threads:
        thread.join()


def test_a_call_that_gets_no_connection_names_the_setting(make_store: Callable[..., SqlJobStore]) -> None:
    store = make_store(pool_size=3)
    store._connections.calls._seconds = 0.05
    with ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(store._connections.calls.place())
        with pytest.raises(StoreUnavailableError, match=r"3 calls of this program .* a larger pool_size allows more"):
            store.pause(TriggersOfJobs([HELD]))
        assert Stage(store).acquire().fired == ()


@pytest.mark.parametrize("verb", ["pause", "resume", "resume by name"])
def test_a_bulk_call_waits_for_a_held_row_without_the_lock(
    impatient: SqlJobStore, make_store: Callable[..., SqlJobStore], connect: Connect, verb: str
) -> None:
    """One transaction holds triggers, and another one their job, and a job that is due fires.

    What is resumed stays paused by manual mode.
    """
    patient = make_store(lock_timeout="60s", failure_window="5m")
    stage = Stage(impatient)
    stage.schedule(at=HOUR)
    patient.set_mode(None, JobMode.MANUAL, Missed.MISFIRE)
    everything = GroupMatcher.equals("DEFAULT")
    call = {
        "pause": lambda: patient.pause(TriggerGroups(everything)),
        "resume": lambda: patient.resume(TriggerGroups(everything), Missed.MISFIRE),
        "resume by name": lambda: patient.resume(NamedTriggers([TriggerKey("held 0")]), Missed.MISFIRE),
    }[verb]
    if verb != "pause":
        impatient.pause(TriggerGroups(everything))
    now = datetime.now(UTC)
    # The transactions end first, so that a call which waits for them ends, too.
    with ThreadPoolExecutor(1) as thread, transaction(connect) as one, transaction(connect) as other:
        one.execute("SELECT FROM qrtz_triggers WHERE job_name = 'held' FOR UPDATE")
        other.execute("SELECT FROM qrtz_job_details WHERE job_name = 'held' FOR UPDATE")
        called = thread.submit(call)
        look = connect()
        while not look.execute(WAITS).fetchone():
            pass
        by_hand = SimpleTrigger("free by hand", MANUAL_TRIGGERS, job_key=FREE)
        impatient.store_jobs([JobEntry(None, [prepare(by_hand, now, None)])], replace=False)
        assert names(stage.acquire().fired) == {"free"}
        one.execute("COMMIT")
        # It has its rows now, and takes the lock; the job's row is still held.
        called.result(30)
        one.execute("BEGIN")


def test_rows_that_are_held_do_not_hide_those_of_other_slot_pools(store: SqlJobStore, connect: Connect) -> None:
    """A step reads a part of most pools, but some of each, whatever is the soonest."""
    node = register(store)
    pools = [f'"group":"g{n}"' for n in range(12)]
    store.decide(node, {DispatchKey("report", f"{{{pool}}}"): True for pool in pools})
    now = datetime.now(UTC)
    for number in range(12):
        detail = JobDetail("report", f"job{number}", durable=True, execution_group=f"g{number}")
        triggers = [
            SimpleTrigger(f"t{number}-{n}", job_key=detail.key, start_time=now - timedelta(seconds=30 - number))
            for n in range(10)
        ]
        store.store_jobs([JobEntry(detail, [prepare(trigger, now, None) for trigger in triggers])], replace=False)

    def fired() -> set[str]:
        took = store.acquire(
            node,
            [AvailableSlots(pool, group=f"g{n}") for n, pool in enumerate(pools)],
            limit=10,
            look_ahead=timedelta(),
            misfire_threshold=timedelta(hours=1),
            expected=Expectation(reads_first=True),
        )
        return {one.job_name for one in took.fired}

    with connect() as user:
        user.autocommit = False
        user.execute("SELECT FROM qrtz_triggers WHERE job_name = ANY(%s) FOR UPDATE", [[f"job{n}" for n in range(8)]])
        assert fired() == {"job8", "job9"}
        assert fired() == {"job8", "job9"}
    assert fired() == {"job0"}


def test_triggers_of_a_job_whose_execution_somebody_holds_hide_no_others(store: SqlJobStore, connect: Connect) -> None:
    """They are more than the node has workers, and nobody can end the execution that they wait for."""
    node = register(store)
    serial = JobDetail(LANES[0].job_type, "serial", durable=True, disallow_concurrent=True)
    others = JobDetail(LANES[0].job_type, "others", durable=True)

    def put(job: JobDetail, count: int, ago: timedelta) -> None:
        now = datetime.now(UTC)
        triggers = [
            SimpleTrigger(f"{job.name} {n}", job_key=job.key, start_time=now - ago + n * timedelta(milliseconds=1))
            for n in range(count)
        ]
        store.store_jobs([JobEntry(job, [prepare(one, now, None) for one in triggers])], replace=True)

    def fired() -> list[str]:
        slots = [AvailableSlots(workers=10, group_slots=10)]
        took = store.acquire(node, slots, limit=10, look_ahead=timedelta(), misfire_threshold=HOUR)
        return [one.trigger_name for one in took.fired]

    put(serial, 1, 30 * SECOND)
    assert fired() == ["serial 0"]
    with transaction(connect) as user:
        user.execute("SELECT FROM qrtz_fired_triggers FOR UPDATE")
        put(serial, 20, 20 * SECOND)
        put(others, 2, 5 * SECOND)
        assert sorted([*fired(), *fired(), *fired()]) == ["others 0", "others 1"]
