"""Jobs at their limits, as their rows say it: what a fire and an end write, and that every slot is passed on.

The rows say less than queries do: a trigger of a full job is BLOCKED only once a step has met it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from quartzpy.jobs.shared_limit import Limit
from quartzpy.keys import TriggerKey
from quartzpy.states import CompletionInstruction
from quartzpy.store.postgresql.steps.acquire import LEAST_MET
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.protocol import (
    FiredTrigger,
    Gate,
    JobEntry,
    NamedTriggers,
    Node,
    TriggerMove,
    TriggersOfJobs,
)
from quartzpy.store.queries import TriggerQuery
from quartzpy.triggers.cron import CronTrigger
from quartzpy.triggers.fixed_delay import FixedDelayTrigger
from quartzpy.triggers.trigger import TriggerProgress
from quartzpy.triggers.upcoming import PreparedTrigger, UpcomingFireTimes, prepare
from tests.contract.harness import (
    HOUR,
    SECOND,
    START,
    SqlBackend,
    SqlHarness,
    at,
    every,
    job,
    job_key,
    key,
    names,
    once,
    serial,
)
from tests.database import connect_to
from tests.postgresql.conftest import register
from tests.postgresql.test_faults import acquire, ended

MANY = 200


class Stage(SqlHarness):
    """A store whose clock the test moves, and what its rows say."""

    def __init__(self, backend: SqlBackend) -> None:
        super().__init__(backend)
        self.user = backend.connection

    def rows(self) -> dict[str, str]:
        """The stored states."""
        return dict(self.user.execute("SELECT trigger_name, trigger_state FROM qrtz_triggers").fetchall())

    def of(self, state: str) -> list[str]:
        found = self.user.execute(
            "SELECT trigger_name FROM qrtz_triggers WHERE trigger_state = %s ORDER BY next_fire_time, priority DESC",
            [state],
        ).fetchall()
        return [name for (name,) in found]

    def written(self, does: Callable[[], Any]) -> int:
        """The number of triggers that something writes or deletes."""
        versions = "SELECT trigger_name, xmin::text, ctid::text FROM qrtz_triggers"
        before = set(self.user.execute(versions).fetchall())
        does()
        return len(before - set(self.user.execute(versions).fetchall()))

    def check_in(self, node: Node) -> None:
        """What follows a check-in; it repairs nothing, as nothing was wrong."""
        outcome = self.store.recover(node, [])
        assert not outcome.changed_anything
        self.look_at(node, outcome.opened)

    def run_down(self, node: Node, running: list[FiredTrigger], limit: int = 100) -> list[str]:
        """End executions one after the other, with the fires that follow; return the triggers in their order."""
        order = names(running)
        while running:
            self.complete(node, running.pop(0))
            running += (fired := self.fire_due(node, limit=limit))
            order += names(fired)
        return order


@pytest.fixture
def stage(postgres_dsn: str) -> Iterator[Stage]:
    with closing(SqlBackend(postgres_dsn)) as backend:
        yield Stage(backend)


def serial_with_two_waiting(stage: Stage, node: Node) -> FiredTrigger:
    """A serial job whose trigger `a` runs, while `b` and `c` wait for its end."""
    stage.schedule(serial(durable=True), *[once(name, priority=9 - n) for n, name in enumerate("abc")])
    [fired] = stage.acquire(node).fired
    assert stage.rows() == {"a": "COMPLETE", "b": "BLOCKED", "c": "BLOCKED"}
    return fired


# --- an end that takes no lock, beside a step that parks a trigger for it

Meeting = tuple[FiredTrigger, Callable[[], Any]]
"""An execution, and a step that meets the trigger `next` while it runs."""


def met_by_an_acquire_step(stage: Stage, node: Node) -> Meeting:
    stage.schedule(serial(durable=True), once("first"))
    fired = stage.fire_one(node)
    stage.add_triggers(job_key(), once("next"))
    return fired, lambda: stage.acquire(node)


def met_by_a_misfire_step(stage: Stage, node: Node) -> Meeting:
    stage.schedule(serial(durable=True), once("first"))
    fired = stage.fire_one(node)
    stage.add_triggers(job_key(), every(60, "next"))
    stage.clock.advance(HOUR)
    return fired, lambda: stage.misfire(node)


def met_by_a_step_that_asks_a_shared_limit(stage: Stage, node: Node) -> Meeting:
    stage.store.put_limit("erp", Limit.of(5))
    stage.schedule(serial(durable=True), once("first"))
    fired = stage.fire_one(node)
    stage.schedule(serial(durable=True, limits=["erp"]), once("next"), replace=True)
    return fired, lambda: stage.acquire(node)


@pytest.mark.parametrize(
    "meet",
    [met_by_an_acquire_step, met_by_a_misfire_step, met_by_a_step_that_asks_a_shared_limit],
    ids=lambda meet: meet.__name__,
)
def test_the_step_after_an_end_finds_what_was_parked_beside_it(
    stage: Stage, postgres_dsn: str, meet: Callable[[Stage, Node], Meeting]
) -> None:
    """The end sees no parked trigger, and the step that parks it sees no end."""
    node = stage.node()
    fired, step = meet(stage, node)
    with closing(connect_to(postgres_dsn)) as ending, ending.transaction():
        ending.execute("DELETE FROM qrtz_fired_triggers WHERE fire_id = %s", [fired.fire_id])
        step()
        assert stage.rows()["next"] == "BLOCKED"
    assert fired.gate is not None
    assert not stage.fire_due(node)
    stage.look_at(node, [fired.gate])
    assert stage.rows()["next"] == "WAITING"


def test_an_end_waits_for_no_lock_whatever_waits_for_it(stage: Stage) -> None:
    node = stage.node()
    fired = serial_with_two_waiting(stage, node)
    with stage.user.transaction():
        stage.user.execute("SELECT FROM qrtz_locks FOR UPDATE")
        assert not stage.store.complete(node, [stage.ended(fired)]).fenced
    assert stage.rows() == {"b": "BLOCKED", "c": "BLOCKED"}, "an end releases nothing"
    assert fired.gate is not None
    assert names(stage.fire_due(node, opened=[fired.gate])) == ["b"]


def test_what_finds_a_place_and_no_worker_waits_for_any_node(stage: Stage) -> None:
    node = stage.node()
    fired = serial_with_two_waiting(stage, node)
    stage.store.complete(node, [stage.ended(fired)])
    assert fired.gate is not None
    assert not stage.store.acquire(
        node, (), limit=0, look_ahead=SECOND, misfire_threshold=HOUR, opened=[fired.gate]
    ).taken
    assert stage.rows() == {"b": "WAITING", "c": "BLOCKED"}
    assert names(stage.fire_due(stage.node("other"))) == ["b"]


# --- what a fire and an end write


def test_a_fire_and_its_end_write_two_triggers_at_most_however_many_the_job_has(stage: Stage) -> None:
    node = stage.node()
    stage.schedule(serial(), every(10), *[once(f"t{n}", at(3600 + n)) for n in range(MANY)])
    running: list[FiredTrigger] = []
    assert stage.written(lambda: running.extend(stage.fire_due(node))) == 1
    assert stage.written(lambda: stage.complete(node, *running)) == 0
    running.clear()
    stage.clock.set(at(10))
    assert stage.written(lambda: running.extend(stage.fire_due(node))) == 1


def test_what_waits_is_written_once_when_it_is_met_and_once_when_it_is_released(stage: Stage) -> None:
    node = stage.node()
    stage.schedule(serial(), *[once(f"t{n}", at(n / 1000)) for n in range(MANY)])
    stage.clock.set(at(1))
    running: list[FiredTrigger] = []
    assert stage.written(lambda: running.extend(stage.fire_due(node, limit=1))) == LEAST_MET
    assert stage.written(lambda: stage.fire_due(node, limit=MANY)) == MANY - LEAST_MET
    assert stage.written(lambda: stage.fire_due(node, limit=MANY)) == 0
    assert stage.written(lambda: stage.complete(node, *running)) == 2, "the one that ended and the one that follows"


def test_a_node_with_few_workers_sees_past_the_triggers_of_full_jobs(stage: Stage) -> None:
    node = stage.node()
    stage.schedule(serial("one"), *[once(f"one{n}") for n in range(MANY // 4)])
    stage.schedule(serial("two"), *[once(f"two{n}") for n in range(MANY // 4)])
    stage.schedule(job("free"), once("free", at(1)))
    stage.clock.set(at(2))
    assert len(stage.fire_due(node, limit=3)) <= 2
    assert "free" in names([*stage.fire_due(node, limit=3), *stage.fire_due(node, limit=3)])
    assert len(stage.of("BLOCKED")) == 2 * (MANY // 4 - 1)


# --- the order


def test_those_that_wait_follow_by_fire_time_and_priority(stage: Stage) -> None:
    node = stage.node()
    stage.schedule(serial(), once("first"), *[once(f"t{n}", at(1 + n // 4), priority=5 - n % 4) for n in range(12)])
    stage.clock.set(at(10))
    assert stage.run_down(node, stage.fire_due(node)) == ["first", *[f"t{n}" for n in range(12)]]


def test_one_that_comes_due_earlier_than_those_that_wait_goes_first(stage: Stage) -> None:
    node = stage.node()
    stage.schedule(serial(durable=True), once("a"), once("b", at(2)), once("c", at(3)))
    stage.clock.set(at(5))
    running = stage.fire_due(node)
    assert stage.of("BLOCKED") == ["b", "c"]
    stage.add_triggers(job_key(), once("new", at(1)))
    assert stage.rows()["new"] == "WAITING", "nobody asks whether the job is full"
    assert stage.run_down(node, running) == ["a", "new", "b", "c"]


def test_one_that_comes_due_later_does_not_overtake_what_is_parked(stage: Stage) -> None:
    node = stage.node()
    stage.schedule(serial(durable=True), once("a"), once("b", at(2)))
    stage.clock.set(at(5))
    [running] = stage.fire_due(node)
    stage.add_triggers(job_key(), once("new", at(3)))
    stage.store.complete(node, [stage.ended(running)])
    assert running.gate is not None
    assert names(stage.fire_due(node, opened=[running.gate])) == ["b"]
    assert stage.of("BLOCKED") == ["new"]


def test_nothing_is_parked_beside_a_place_that_this_step_leaves(stage: Stage) -> None:
    node = stage.node()
    stage.schedule(job("other"), once("other", priority=9))
    stage.schedule(serial(), *[once(f"t{n}") for n in range(3)])
    assert names(stage.fire_due(node, limit=1)) == ["other"]
    assert stage.of("BLOCKED") == []


def test_a_limit_above_one_releases_as_many_as_ended(stage: Stage) -> None:
    node = stage.node()
    stage.schedule(job(max_concurrent=3), *[once(f"t{n}", priority=9 - n) for n in range(9)])
    running = stage.fire_due(node)
    assert names(running) == ["t0", "t1", "t2"]
    assert stage.written(lambda: stage.complete(node, *running[:2])) == 4
    assert stage.of("WAITING") == ["t3", "t4"]
    assert stage.run_down(node, [running[2], *stage.fire_due(node)]) == [f"t{n}" for n in range(2, 9)]


def test_the_end_of_an_execution_above_a_lowered_limit_releases_nothing(stage: Stage) -> None:
    node = stage.node()
    stage.schedule(job(max_concurrent=3, durable=True), *[once(f"t{n}", priority=9 - n) for n in range(5)])
    running = stage.fire_due(node)
    stage.schedule(job(max_concurrent=1, durable=True), replace=True)
    assert not stage.fire_due(node)
    stage.complete(node, *running[:2])
    assert stage.of("BLOCKED") == ["t3", "t4"]
    stage.complete(node, running[2])
    assert stage.of("WAITING") == ["t3"]


def test_a_limit_that_is_raised_releases_at_once(stage: Stage) -> None:
    node = stage.node()
    stage.schedule(job(max_concurrent=1, durable=True), *[once(f"t{n}", priority=9 - n) for n in range(5)])
    stage.fire_due(node)
    stage.schedule(job(max_concurrent=3, durable=True), replace=True)
    assert names(stage.fire_due(node)) == ["t1", "t2"]
    assert stage.of("BLOCKED") == ["t3", "t4"]


def test_each_key_has_its_own_queue(stage: Stage) -> None:
    node = stage.node()
    keyed = job(max_concurrent=1, concurrency_key="tenant")
    stage.schedule(
        keyed,
        *[
            once(f"{key}{n}", at(n + late), data={"tenant": key})
            for key, late in (("x", 0), ("y", 0.1))
            for n in range(3)
        ],
    )
    stage.clock.set(at(5))
    running = {one.trigger_name: one for one in stage.fire_due(node)}
    assert running.keys() == {"x0", "y0"}
    stage.complete(node, running["x0"])
    assert stage.of("WAITING") == ["x1"]
    assert stage.of("BLOCKED") == ["y1", "x2", "y2"]


def test_what_comes_later_for_a_key_at_its_limit_waits(stage: Stage) -> None:
    node = stage.node()
    keyed = job(max_concurrent=2, concurrency_key="tenant", durable=True)
    stage.schedule(keyed, *[once(f"t{n}", data={"tenant": "x"}) for n in range(2)])
    assert len(stage.fire_due(node)) == 2
    stage.add_triggers(keyed.key, once("late", data={"tenant": "x"}), once("other", data={"tenant": "y"}))
    assert names(stage.fire_due(node)) == ["other"]
    assert stage.of("BLOCKED") == ["late"]


# --- a slot that the released trigger does not take


def pause(stage: Stage, node: Node) -> None:
    stage.store.pause(NamedTriggers([key("b")]))


def delete(stage: Stage, node: Node) -> None:
    stage.store.delete_triggers([key("b")])


def store_again(stage: Stage, node: Node) -> None:
    stage.add_triggers(job_key(), once("b", at(3600)), replace=True)


def replace_it(stage: Stage, node: Node) -> None:
    stage.store.replace_trigger(key("b"), stage.prepare(once("d", at(3600)), job_key()))


@pytest.mark.parametrize(
    "instruction", [None, CompletionInstruction.DELETE_TRIGGER, CompletionInstruction.SET_TRIGGER_COMPLETE]
)
def test_an_end_that_moves_or_ends_its_own_trigger_leaves_its_slot_to_the_next(
    stage: Stage, instruction: CompletionInstruction | None
) -> None:
    node = stage.node()
    own = FixedDelayTrigger("10s", "own", start_time=START) if instruction is None else every(10, "own")
    stage.schedule(serial(durable=True), own, once("other", at(12)))
    [fired] = stage.fire_due(node)
    stage.clock.set(at(15))
    assert not stage.fire_due(node)
    assert stage.of("BLOCKED") == ["own", "other"]
    stage.complete(node, fired, **({} if instruction is None else {"instruction": instruction}))
    assert names(stage.fire_due(node)) == ["other"]


def pause_job_in_part(stage: Stage, node: Node) -> None:
    """As by hand: everything of the job, and then one of them goes on."""
    stage.store.pause(TriggersOfJobs([job_key()]))
    stage.store.resume(NamedTriggers([key("c")]))


def move(stage: Stage, node: Node) -> None:
    [seen] = stage.store.find(TriggerQuery(contains="b"), None)
    there = PreparedTrigger(seen.trigger, TriggerProgress(at(3600)), UpcomingFireTimes(is_complete=True))
    assert stage.store.move_triggers([TriggerMove(seen, there)])


def set_aside(stage: Stage, node: Node) -> None:
    stage.user.execute("UPDATE qrtz_triggers SET trigger_state = 'ERROR', error = 'odd' WHERE trigger_name = 'b'")


def delete_in_a_users_transaction(stage: Stage, node: Node) -> None:
    with stage.store._connections.call_transaction() as connection:
        stage.store.within(connection).delete_triggers([key("b")])


def leave_it_to_nobody(stage: Stage, node: Node) -> None:
    """No node knows the type of the trigger, as while a new version is rolled out."""
    stage.user.execute("UPDATE qrtz_triggers SET job_type = 'unknown' WHERE trigger_name = 'b'")


def end_by_hand(stage: Stage, node: Node) -> None:
    stage.user.execute("DELETE FROM qrtz_triggers WHERE trigger_name = 'b'")


@pytest.mark.parametrize(
    "takes_away",
    [
        pause,
        delete,
        store_again,
        replace_it,
        pause_job_in_part,
        move,
        set_aside,
        delete_in_a_users_transaction,
        leave_it_to_nobody,
        end_by_hand,
    ],
)
def test_a_slot_is_passed_on_by_the_next_check_in(stage: Stage, takes_away: Callable[[Stage, Node], None]) -> None:
    node = stage.node()
    stage.complete(node, serial_with_two_waiting(stage, node))
    takes_away(stage, node)
    stage.check_in(node)
    assert names(stage.fire_due(node)) == ["c"]


def test_a_users_transaction_holds_no_trigger_that_it_is_not_about(stage: Stage) -> None:
    node = stage.node()
    stage.complete(node, serial_with_two_waiting(stage, node))
    with stage.store._connections.call_transaction() as connection:
        stage.store.within(connection).delete_triggers([key("b")])
        stage.check_in(node)
        assert names(stage.fire_due(node)) == ["c"]


def test_one_that_is_rejected_leaves_its_slot_to_the_next(stage: Stage) -> None:
    node = stage.node()
    stage.schedule_exhausted(serial(durable=True), every(HOUR.total_seconds(), "b"), every(HOUR.total_seconds(), "c"))
    [unfilled] = stage.acquire(node, limit=1).unfilled
    stage.user.execute(
        "UPDATE qrtz_triggers SET trigger_state = 'BLOCKED' WHERE trigger_name <> %s", [unfilled.key.name]
    )
    stage.store.reject(node, [(unfilled, "cannot be computed")])
    stage.check_in(node)
    assert len(stage.of("WAITING")) == 1


def test_a_check_in_without_anything_that_waits_takes_no_lock(stage: Stage) -> None:
    node = stage.node()
    stage.schedule(serial(), *[once(name) for name in "abc"])
    stage.fire_due(node)
    with stage.user.transaction():
        stage.user.execute("SELECT FROM qrtz_locks FOR UPDATE")
        stage.check_in(node)


# --- rows that somebody holds


@pytest.mark.parametrize("held", [["b"], ["b", "c"]], ids=["the next one", "all"])
def test_a_row_that_is_held_at_the_end_is_not_left_behind(stage: Stage, postgres_dsn: str, held: list[str]) -> None:
    node = stage.node()
    fired = serial_with_two_waiting(stage, node)
    with closing(connect_to(postgres_dsn)) as user, user.transaction():
        user.execute("SELECT FROM qrtz_triggers WHERE trigger_name = ANY(%s) FOR UPDATE", [held])
        stage.complete(node, fired)
        assert stage.of("WAITING") == (["c"] if held == ["b"] else [])
    stage.check_in(node)
    following = stage.fire_due(node)
    assert len(following) == 1
    assert sorted(stage.run_down(node, following)) == ["b", "c"]


def test_a_dead_nodes_slots_are_taken_by_those_that_wait(stage: Stage) -> None:
    dead, node = stage.node("dead"), stage.node()
    stage.schedule(job(max_concurrent=2), *[once(f"t{n}", priority=9 - n) for n in range(5)])
    assert len(stage.fire_due(dead)) == 2
    stage.recover(node, dead)
    assert stage.of("WAITING") == ["t2", "t3"]
    assert stage.run_down(node, stage.fire_due(node)) == ["t2", "t3", "t4"]


def test_the_end_of_an_execution_that_is_no_longer_the_nodes_releases_nothing(stage: Stage) -> None:
    dead, node = stage.node("dead"), stage.node()
    fired = serial_with_two_waiting(stage, dead)
    stage.recover(node, dead)
    assert names(stage.fire_due(node)) == ["b"]
    assert stage.complete(dead, fired).fenced
    assert stage.of("BLOCKED") == ["c"]


# --- late ones


def hourly(name: str, misfire: str, **how: Any) -> CronTrigger:
    return CronTrigger("0 0 * * * ?", name, time_zone="UTC", start_time=START, misfire=misfire, **how)


def test_late_ones_are_handled_together_once_there_is_a_slot(stage: Stage) -> None:
    node = stage.node()
    late = [hourly(f"t{n}", "do_nothing") for n in range(10)]
    stage.schedule(serial(durable=True), once("a", priority=9), *late)
    running = stage.fire_due(node)
    assert names(running) == ["a"]
    stage.clock.set(START + HOUR / 2)
    assert not stage.misfire(node).misfired, "its job is full"
    assert len(stage.of("BLOCKED")) == 10
    stage.complete(node, *running)
    assert not stage.fire_due(node)
    handled: set[TriggerKey] = set()
    passes = 0
    while (outcome := stage.misfire(node, limit=3)).misfired:
        handled |= outcome.misfired.keys()
        passes += 1
    assert passes <= 5
    assert handled == {trigger.key for trigger in late}
    assert set(stage.rows().values()) == {"WAITING"}
    assert stage.progress("t3").next_fire_time == START + HOUR


def test_late_ones_that_fire_now_follow_one_after_the_other(stage: Stage) -> None:
    node = stage.node()
    stage.schedule(serial(), once("a", priority=9), *[once(f"t{n}", at(n), misfire="fire_now") for n in range(1, 5)])
    stage.clock.set(at(5))
    running = stage.fire_due(node)
    stage.clock.set(at(600))
    stage.complete(node, *running)
    assert not stage.fire_due(node)
    assert len(stage.misfire(node).misfired) == 4
    assert sorted(stage.run_down(node, stage.fire_due(node))) == ["t1", "t2", "t3", "t4"]


def test_late_ones_that_ignore_misfires_fire_in_their_order(stage: Stage) -> None:
    node = stage.node()
    stage.schedule(serial(), once("a", priority=9), *[once(f"t{n}", at(n), misfire="ignore") for n in range(1, 5)])
    stage.clock.set(at(5))
    running = stage.fire_due(node)
    stage.clock.set(at(600))
    assert stage.run_down(node, running) == ["a", "t1", "t2", "t3", "t4"]


@pytest.mark.parametrize("threshold", [None, 30 * SECOND], ids=["the scheduler's threshold", "its own threshold"])
def test_one_that_is_in_time_does_not_wait_for_the_misfire_step_behind_late_ones(
    stage: Stage, threshold: timedelta | None
) -> None:
    node = stage.node()
    late = [once(f"late{n}", at(n), misfire_threshold=threshold) for n in range(5)]
    stage.schedule(serial(durable=True), once("a", priority=9), *late, once("in time", at(595)))
    stage.clock.set(at(5))
    running = stage.fire_due(node)
    stage.clock.set(at(600))
    assert not stage.fire_due(node)
    stage.complete(node, *running)
    running = stage.fire_due(node)
    assert names(running) == ["in time"]
    assert not stage.misfire(node).misfired, "the job is full again"
    stage.complete(node, *running)
    assert len(stage.misfire(node).misfired) == 5


def test_a_misfire_that_moves_one_away_leaves_its_place_to_the_next(stage: Stage) -> None:
    node = stage.node()
    stage.schedule(serial(durable=True), once("a", priority=9), hourly("b", "do_nothing"), once("c", at(30)))
    stage.clock.set(at(40))
    running = stage.fire_due(node)
    assert stage.of("BLOCKED") == ["b", "c"]
    stage.complete(node, *running)
    assert stage.of("WAITING") == ["b"]
    stage.clock.set(at(75))
    assert not stage.fire_due(node), "it is late by now"
    assert list(stage.misfire(node).misfired) == [key("b")]
    stage.check_in(node)
    assert names(stage.fire_due(node)) == ["c"]


def test_a_late_trigger_of_a_full_job_that_no_step_has_met_is_blocked_and_does_not_misfire(stage: Stage) -> None:
    node = stage.node()
    stage.schedule(serial(durable=True), once("a"), once("b", at(30)))
    stage.fire_due(node)
    stage.clock.set(at(600))
    assert stage.rows()["b"] == "WAITING"
    assert not stage.misfire(node).misfired
    assert stage.rows()["b"] == "BLOCKED"


# --- rows of other releases


def test_rows_that_an_older_release_has_blocked_go_on(stage: Stage) -> None:
    """It blocked all triggers of a full job, those that are not due, too."""
    node = stage.node()
    stage.schedule(serial(durable=True), every(10, "a"), once("b", at(5)), once("c", at(6)))
    [fired] = stage.fire_due(node)
    stage.user.execute("UPDATE qrtz_triggers SET trigger_state = 'BLOCKED'")
    stage.complete(node, fired)
    stage.clock.set(at(20))
    assert stage.run_down(node, stage.fire_due(node), limit=1)[:3] == ["b", "c", "a"]


# --- several nodes


@pytest.mark.parametrize("limit", [1, 3])
def test_nodes_that_fire_end_pause_and_check_in_at_once_leave_nothing_behind(
    make_store: Callable[..., SqlJobStore], connect: Callable[[], psycopg.Connection[Any]], limit: int
) -> None:
    stores = [make_store() for _ in range(2)]
    detail = job("busy", max_concurrent=limit, durable=True)
    now = stores[0].now()
    names_of = [f"t{n}" for n in range(60)]
    prepared = [prepare(once(name, now - SECOND, job_key=detail.key), now, None) for name in names_of]
    stores[0].store_jobs([JobEntry(detail, prepared)], replace=False)
    failed: list[BaseException] = []
    done: list[str] = []
    enough = threading.Event()

    def work(number: int) -> None:
        store = stores[number]
        try:
            node = register(store, f"node-{number}")
            turns = 0
            opened: set[Gate] = set()
            while not enough.is_set():
                turns += 1
                took, opened = acquire(store, node, opened=opened), set()
                for fired in took.fired:
                    store.complete(node, [ended(fired)])
                    opened |= {Gate("DEFAULT", "busy", "")}
                    done.append(fired.trigger_name)
                some = key(names_of[(7 * turns + number) % len(names_of)])
                store.pause(NamedTriggers([some]))
                store.resume(NamedTriggers([some]))
                if turns % 5 == 0:
                    opened |= {*store.recover(node, []).opened}
                if len(done) >= len(names_of):
                    enough.set()
        except BaseException as error:
            failed.append(error)
            enough.set()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    in_time = enough.wait(60)
    enough.set()
    for thread in threads:
        thread.join()
    assert not failed
    assert in_time, connect().execute("SELECT trigger_state, count(*) FROM qrtz_triggers GROUP BY 1").fetchall()
    assert sorted(done) == sorted(names_of)
