"""Every two operations, one held at the end of each of its round trips while the other begins: on a real server.

Nothing sleeps: what is held waits for the test's own lock, and whoever waits for it is seen in the server's tables.
`--long` plays all of that. Other runs play each two operations in one order, held at the end of one round trip, by
turns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import psycopg
import pytest

from quartzpy.calendars.days import HolidayCalendar
from quartzpy.errors import CalendarInUseError, JobNotFoundError
from quartzpy.jobs.retry import RetryPolicy
from quartzpy.store.postgresql.connection import connections
from quartzpy.store.postgresql.steps import halts
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.protocol import EVERYTHING, JobEntry
from tests.contract.harness import SECOND, THRESHOLD, at, every, job, job_key, key, once, serial
from tests.protocol.driver import Stage
from tests.protocol.options import is_long
from tests.protocol.staging import Actor, Staging

MAX_PIPELINES = 20
Act = Callable[[], Any]
CALENDAR = HolidayCalendar(frozenset({at(0).date()}))

JOBS = {
    "plain": job("plain", durable=True),
    "serial": serial("serial", durable=True, persist_data=True, data={"n": 0}),
    "slow": job("slow", durable=True, requests_recovery=True),
    "failing": job("failing", durable=True, retry=RetryPolicy(attempts=2, delay=SECOND, jitter=0.0)),
}


@pytest.fixture(autouse=True)
def _few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(halts, "MOST", 5)


def due(stage: Stage, of: str) -> None:
    """What is due, of each kind of job; `of` is in the names."""
    stage.add_triggers(job_key("plain"), once(f"plain-{of}"), every(3_600, f"often-{of}"))
    stage.add_triggers(job_key("serial"), once(f"serial-{of}"))
    stage.add_triggers(job_key("slow"), once(f"slow-{of}"))
    stage.add_triggers(job_key("failing"), once(f"failing-{of}", data={"fails": True}))


def soon(stage: Stage, of: str) -> None:
    """What is to be refilled before it fires."""
    unfilled = [stage.exhausted(once(f"soon-{kind}-{of}", at(6)), job_key(kind)) for kind in ("plain", "slow")]
    stage.store.store_jobs([JobEntry(None, unfilled)], replace=False)


# --- what nodes do: made ready for an actor of this name, then done


def acquire(stage: Stage, name: str) -> Act:
    return stage.living(name).schedule


def refill(stage: Stage, name: str) -> Act:
    node = stage.living(name)
    soon(stage, name)

    def fire() -> None:
        node.schedule()
        node.schedule()

    return fire


def complete(stage: Stage, name: str) -> Act:
    node = stage.living(name)
    due(stage, name)
    node.schedule()
    node.run()
    return node.complete


def complete_at_length(stage: Stage, name: str) -> Act:
    """The end of an execution pauses more triggers than one statement may."""
    node = stage.living(name)
    detail = job(f"halting-{name}", pause_after_failures=1, durable=True)
    paused = [once(f"paused-{n}-{name}", at(40)) for n in range(halts.MOST)]
    stage.schedule(detail, once(f"halts-{name}", data={"fails": True}), *paused)
    node.schedule()
    node.run()
    return node.complete


def settle(stage: Stage, name: str) -> Act:
    node = stage.living(name)
    soon(stage, name)
    node.schedule()
    node.doubt()
    return node.schedule


def misfire(stage: Stage, name: str) -> Act:
    return stage.living(name).misfire


def check_in(stage: Stage, name: str) -> Act:
    return stage.living(name).check_in


def recover(stage: Stage, name: str) -> Act:
    """Of a node that has executions, and some of them are to be recovered."""
    node = stage.living(name)
    dead = stage.living({"a": "c", "b": "e"}[name])
    due(stage, f"dead-{name}")
    soon(stage, f"dead-{name}")
    dead.schedule()
    return lambda: stage.recover(node.node, dead.node)


def register(stage: Stage, name: str) -> Act:
    return stage.new_node(name).register


def leave(stage: Stage, name: str) -> Act:
    node = stage.living(name)
    soon(stage, name)
    node.schedule()
    return node.leave


# --- what users do, each inside a transaction of theirs, too


def pause_all(store: SqlJobStore, stage: Stage) -> None:
    store.pause(EVERYTHING)


def store_again(store: SqlJobStore, stage: Stage) -> None:
    trigger = stage.prepare(once("again", at(3)), job_key("serial"))
    store.store_jobs([JobEntry(JOBS["serial"], [trigger])], replace=True)


def add_trigger(store: SqlJobStore, stage: Stage) -> None:
    with suppress(JobNotFoundError):
        store.store_jobs([JobEntry(None, [stage.prepare(once("more", at(3)), job_key("failing"))])], replace=True)


def delete_triggers(store: SqlJobStore, stage: Stage) -> None:
    store.delete_triggers([key("serial-free"), key("soon-slow-a"), key("late")])


def delete_jobs(store: SqlJobStore, stage: Stage) -> None:
    store.delete_jobs([job_key("slow"), job_key("failing"), job_key("serial")])


def replace_calendar(store: SqlJobStore, stage: Stage) -> None:
    store.put_calendar("holidays", HolidayCalendar(frozenset({at(90_000).date()})), replace=True)


def delete_calendar(store: SqlJobStore, stage: Stage) -> None:
    with suppress(CalendarInUseError):
        store.delete_calendar("holidays")


STEPS = {
    step.__name__.replace("_", "-"): step
    for step in (
        acquire,
        refill,
        complete,
        complete_at_length,
        settle,
        misfire,
        check_in,
        recover,
        register,
        leave,
    )
}
CALLS = {
    call.__name__.replace("_", "-"): call
    for call in (pause_all, store_again, add_trigger, delete_triggers, delete_jobs, replace_calendar, delete_calendar)
}
TELLING = ("pause-all", "store-again", "delete-jobs", "replace-calendar")
"""Calls that between them lock whatever calls lock."""
OPERATIONS = [*STEPS, *CALLS]
IN_TRANSACTION = [*CALLS, "holds-jobs", "holds-triggers"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    everything = is_long(metafunc.config)
    operations = OPERATIONS if everything else [*STEPS, *TELLING]
    places = {name: place for place, name in enumerate([*operations, *IN_TRANSACTION])}
    if "second" in metafunc.fixturenames:
        pairs = [
            (first, second)
            for first in operations
            for second in operations
            # Of each two operations the one order or the other.
            if everything or (places[first] >= places[second]) == ((places[first] + places[second]) % 2 == 0)
        ]
        metafunc.parametrize(("first", "second"), pairs, ids=[f"{first}-{second}" for first, second in pairs])
    elif "call" in metafunc.fixturenames:
        beside = [
            (call, operation)
            for call in IN_TRANSACTION
            for operation in operations
            if everything or call.startswith("holds") or (places[call] + places[operation]) % 3 == 0
        ]
        metafunc.parametrize(("call", "operation"), beside, ids=[f"{call}-{operation}" for call, operation in beside])


def prepared(stage: Stage, operation: str, name: str) -> Act:
    if operation in STEPS:
        return STEPS[operation](stage, name)
    return lambda: CALLS[operation](stage.store, stage)


def set_stage(stage: Stage) -> None:
    stage.reset()
    for detail in JOBS.values():
        stage.schedule(detail)
    stage.put_calendar("holidays", CALENDAR)


def set_scene(stage: Stage) -> None:
    """What is there for whoever comes first, when all is ready: something due, something late."""
    stage.clock.advance(6 * SECOND)
    due(stage, "free")
    stage.add_triggers(
        job_key("plain"), every(5, "late", start=stage.clock.now() - 2 * THRESHOLD, times=2, misfire="fire_now")
    )


# --- the tests


@pytest.fixture(scope="module")
def stages() -> Iterator[dict[str, Stage]]:
    made: dict[str, Stage] = {}
    yield made
    for one in made.values():
        one.close()


@pytest.fixture
def stage(stages: dict[str, Stage], request: pytest.FixtureRequest) -> Stage:
    if "stage" not in stages:
        # Nobody who waits is to give up before the test has seen it.
        stages["stage"] = Stage(
            request.getfixturevalue("postgres_dsn"), lock_timeout="20s", statement_timeout="40s", failure_window="60s"
        )
    return stages["stage"]


@pytest.fixture
def staging(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Iterator[Staging]:
    made = Staging(stage)
    monkeypatch.setattr(connections, "execute_pipelined", made.execute)
    yield made
    made.close()


def bring_to_rest(stage: Stage) -> None:
    """All nodes that are registered go on; what was paused is resumed; every fire has then run exactly once."""
    stage.store.resume(EVERYTHING)
    registered = {name for (name,) in stage.rows("SELECT instance_id FROM qrtz_scheduler_state")}
    lives = [node for node in stage.nodes if node.name in registered and node.name not in "ce"]
    if not lives:
        lives = [stage.living("d")]
    stage.bring_to_rest(*lives)
    assert stage.violations(at_rest=True) == []
    twice = {instant: count for instant, count in stage.outcome()["runs"].items() if count > 1}
    assert not twice
    jobs = {name for (name,) in stage.rows("SELECT job_name FROM qrtz_job_details")}
    ended = stage.rows("SELECT job_name, trigger_name, outcome, attempt FROM qrtz_executions")
    assert ended, "something ran"
    ran = {name for name, _ in stage.outcome()["runs"]}
    for of, trigger, outcome, attempt in ended:
        if of == "failing" and of in jobs and (outcome, attempt) == ("FAILED", 1):
            assert f"retry of {trigger}" in ran
        assert not (of == "slow" and of in jobs and outcome == "TERMINATED"), f"{trigger} was to be recovered"


pipelines: dict[str, int] = {}


def pipelines_of(stage: Stage, staging: Staging, operation: str) -> int:
    """How many an operation sends that nobody disturbs."""
    if operation not in pipelines:
        set_stage(stage)
        act = prepared(stage, operation, "a")
        set_scene(stage)
        alone = Actor(act, operation)
        assert not staging.start_held(alone, 0)
        staging.let_go()
        alone.join()
        pipelines[operation] = staging.pipelines
    return pipelines[operation]


def race(stage: Stage, staging: Staging, first: str, second: str, number: int) -> bool:
    """Let `second` begin while `first` is held at the end of its round trip of this number; whether there is one."""
    set_stage(stage)
    one, other = prepared(stage, first, "a"), prepared(stage, second, "b")
    set_scene(stage)
    held, begun = Actor(one, f"first: {first}"), Actor(other, f"second: {second}")
    if not staging.start_held(held, number):
        held.join()
        return False
    assert staging.pid is not None
    waits = staging.start(begun, staging.pid)
    staging.let_go()
    held.join()
    begun.join()
    assert not staging.deadlocks
    assert not (waits and second == "check-in" and first not in ("check-in", "register", "leave", "recover")), (
        "a check-in waits for nobody's work"
    )
    assert stage.violations() == []
    bring_to_rest(stage)
    return True


def test_one_operation_begins_while_another_is_about_to_commit(
    stage: Stage, staging: Staging, first: str, second: str, pytestconfig: pytest.Config
) -> None:
    sent = pipelines_of(stage, staging, first)
    assert sent, "the operation sends nothing"
    if is_long(pytestconfig):
        played = next(number for number in range(1, MAX_PIPELINES) if not race(stage, staging, first, second, number))
        assert played > 1
    else:
        assert race(stage, staging, first, second, 1 + OPERATIONS.index(second) % sent)


def in_transaction(stage: Stage, call: str) -> psycopg.Connection[Any]:
    """A user's transaction that has done this and stays open."""
    user = stage.connect()
    user.execute("BEGIN")
    if call == "holds-jobs":
        user.execute("SELECT FROM qrtz_job_details FOR UPDATE")
    elif call == "holds-triggers":
        user.execute("SELECT FROM qrtz_triggers FOR UPDATE")
    else:
        CALLS[call](stage.store.within(user), stage)
    return user


def test_no_step_waits_for_a_users_row_while_it_holds_the_lock(
    stage: Stage, staging: Staging, call: str, operation: str
) -> None:
    """A step of a node waits for no user's row at all; a user's call may, but not under TRIGGER_ACCESS."""
    set_stage(stage)
    act = prepared(stage, operation, "a")
    set_scene(stage)
    user = in_transaction(stage, call)
    try:
        actor = Actor(act, operation)
        waits = staging.start(actor, user.info.backend_pid)
        under_lock = waits and staging.is_locked()
    finally:
        user.execute("COMMIT" if operation in STEPS else "ROLLBACK")
        user.close()
    actor.join()
    assert not under_lock, f"{operation} waits for a row of the user's under TRIGGER_ACCESS"
    assert not (waits and operation in STEPS), f"{operation} waits for a row of the user's"
    assert not staging.deadlocks
    bring_to_rest(stage)
