"""The statement for free jobs takes what it may decide about, and leaves the rest for the one of all jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import psycopg
import pytest

from quartzpy.states import Outcome
from quartzpy.store.postgresql.connection import connections, free_jobs, next_due
from quartzpy.store.postgresql.connection.pipeline import BoundStatement, execute_pipelined
from quartzpy.store.protocol import Node
from tests.contract.harness import SECOND, at, job, job_key, names, once, serial
from tests.full_reads import _every_read_is_full as _every_read_is_full
from tests.postgresql.test_blocking import Stage
from tests.postgresql.test_blocking import stage as stage

TENANT = "tenant"


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(free_jobs, "LEAST", 1)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which of the two statements were sent."""
    made: list[str] = []

    def execute(connection: psycopg.Connection[Any], statements: Sequence[BoundStatement], **options: Any) -> Any:
        for statement, _ in statements:
            for part, kind in ((b"free AS MATERIALIZED", "free"), (b"limited AS MATERIALIZED", "all")):
                if part in statement.sql:
                    made.append(kind)
        return execute_pipelined(connection, statements, **options)

    monkeypatch.setattr(connections, "execute_pipelined", execute)
    return made


def after_a_full_batch(stage: Stage) -> None:
    stage.store._session.free_jobs.note(1, 1, by_shorter=False)


def test_a_full_batch_of_jobs_with_a_limit_is_followed_by_the_shorter_statement(stage: Stage, sent: list[str]) -> None:
    node = stage.node()
    for n in range(6):
        stage.schedule(serial(f"serial-{n}"), once(f"t{n}", at(n)))
    stage.clock.set(at(9))
    batches = [stage.acquire(node, limit=2) for _ in range(4)]
    assert sent[:3] == ["all", "free", "free"]
    assert [names(batch.fired) for batch in batches] == [["t0", "t1"], ["t2", "t3"], ["t4", "t5"], []]
    assert not batches[-1].is_partial


def one_that_runs(stage: Stage, node: Node) -> None:
    stage.schedule(serial("met", durable=True), once("running"))
    stage.fire_one(node)
    stage.add_triggers(job_key("met"), once("met"))


def one_of_a_key_that_runs(stage: Stage, node: Node) -> None:
    stage.schedule(
        job("met", max_concurrent=1, concurrency_key=TENANT, durable=True), once("running", data={TENANT: "a"})
    )
    stage.fire_one(node)
    stage.add_triggers(job_key("met"), once("met", data={TENANT: "a"}), once("free", at(0), data={TENANT: "b"}))


def one_that_skips_and_runs(stage: Stage, node: Node) -> None:
    stage.schedule(serial("met", overlap_policy="skip", durable=True), once("running"))
    stage.fire_one(node)
    stage.add_triggers(job_key("met"), once("met"))


@pytest.mark.parametrize(
    ("make", "state"),
    [(one_that_runs, "BLOCKED"), (one_of_a_key_that_runs, "BLOCKED"), (one_that_skips_and_runs, "COMPLETE")],
)
def test_a_trigger_of_a_job_that_runs_is_left_for_the_next_step(
    stage: Stage, sent: list[str], make: Callable[[Stage, Node], None], state: str
) -> None:
    node = stage.node()
    make(stage, node)
    stage.schedule(serial("other"), once("other"))
    after_a_full_batch(stage)
    sent.clear()
    first = stage.acquire(node)
    assert sent == ["free"]
    assert "other" in names(first.fired)
    assert "met" not in names(first.fired)
    assert first.is_partial, "the node looks again at once"
    assert stage.rows()["met"] == "WAITING"
    assert not stage.acquire(node).fired
    assert sent == ["free", "all"]
    skipped = [one for one in stage.history() if one.outcome is Outcome.SKIPPED]
    assert stage.rows().get("met", "COMPLETE") == state
    assert len(skipped) == (state == "COMPLETE")


def test_of_several_triggers_of_a_job_none_is_taken_out_of_turn(stage: Stage, sent: list[str]) -> None:
    node = stage.node()
    stage.schedule(serial("two"), once("second", priority=3), once("first", priority=9))
    stage.schedule(serial("other"), once("other", priority=1))
    after_a_full_batch(stage)
    assert names(stage.acquire(node).fired) == ["other"]
    assert names(stage.acquire(node).fired) == ["first"]
    assert stage.of("BLOCKED") == ["second"]
    assert sent == ["free", "all"]


@pytest.mark.parametrize("policy", ["buffer_one", "cancel_other"])
def test_what_coalesces_fire_times_is_left_for_the_next_step(stage: Stage, sent: list[str], policy: str) -> None:
    node = stage.node()
    stage.schedule(serial("coalesces", overlap_policy=policy), once("coalesces"))
    stage.schedule(serial("other"), once("other"))
    after_a_full_batch(stage)
    assert names(stage.acquire(node).fired) == ["other"]
    assert names(stage.acquire(node).fired) == ["coalesces"]
    assert sent == ["free", "all"]


def test_where_no_job_is_free_the_same_step_decides_about_all(stage: Stage, sent: list[str]) -> None:
    node = stage.node()
    one_that_runs(stage, node)
    after_a_full_batch(stage)
    sent.clear()
    took = stage.acquire(node)
    assert sent == ["free", "all"]
    assert not took.fired
    assert not took.is_partial
    assert stage.of("BLOCKED") == ["met"]


def test_a_step_that_could_decide_about_nothing_is_no_step_in_part(stage: Stage, sent: list[str]) -> None:
    """So the node rests: somebody holds the row of the execution, for an unknown time."""
    node = stage.node()
    one_that_runs(stage, node)
    after_a_full_batch(stage)
    sent.clear()
    with stage.user.transaction():
        stage.user.execute("SELECT FROM qrtz_fired_triggers FOR UPDATE")
        took = stage.acquire(node)
    assert sent == ["free", "all"]
    assert stage.of("WAITING") == ["met"]
    assert not took.is_partial


def test_what_is_not_due_yet_is_claimed(stage: Stage, sent: list[str]) -> None:
    node = stage.node()
    stage.schedule(serial("soon"), once("soon", at(5)))
    stage.schedule(job("plain"), once("plain", at(5)))
    stage.schedule(serial("due"), once("due"))
    after_a_full_batch(stage)
    took = stage.acquire(node, look_ahead=10 * SECOND)
    assert sent == ["free"]
    assert names(took.fired) == ["due"]
    assert sorted(claim.trigger_name for claim in took.acquired) == ["plain", "soon"]


def test_a_trigger_is_left_while_a_sooner_one_of_its_job_is_released(stage: Stage, sent: list[str]) -> None:
    """As a step does not meet the sooner one that begins at a later time."""
    node = stage.node()
    stage.acquire(node)
    stage.schedule(serial("met", durable=True), once("sooner", at(-9)), once("later"))
    stage.schedule(serial("other"), once("other"))
    stage.user.execute("UPDATE qrtz_triggers SET trigger_state = 'BLOCKED' WHERE trigger_name = 'sooner'")
    cache, part, others = stage.store._session.next_due, ("", False), (node.epoch, ())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(next_due, "EXPENSIVE_READ", 0.0)
        patch.setattr(next_due, "FULL_READ_SHARE", 1e-9)
        cache.note_read(cache.next_read([part], others), [part], others, at(-1), [at(-1)], 1.0)
    after_a_full_batch(stage)
    sent.clear()
    assert names(stage.acquire(node).fired) == ["other"]
    assert sent == ["free"]
    assert cache.next_read([part], others).sinces[0] is not None


def test_while_a_rate_limit_has_its_turns_all_are_decided_about(stage: Stage, sent: list[str]) -> None:
    node = stage.node()
    stage.schedule(job("limited", rate_limit="1/s"), once("limited"))
    stage.acquire(node)
    stage.schedule(serial("other"), once("other"))
    after_a_full_batch(stage)
    sent.clear()
    assert names(stage.acquire(node).fired) == ["other"]
    assert sent == ["all"]


def test_after_it_has_left_some_full_batches_of_the_other_statement_come_first(stage: Stage, sent: list[str]) -> None:
    node = stage.node()
    one_that_runs(stage, node)
    after_a_full_batch(stage)
    stage.acquire(node)
    for n in range(3):
        stage.schedule(serial(f"serial-{n}"), once(f"t{n}"))
    sent.clear()
    for _ in range(3):
        stage.acquire(node, limit=1)
    assert sent == ["all", "free", "free"]
