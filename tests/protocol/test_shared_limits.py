"""Limits that jobs share, while one operation is held just before its commit and another begins; and beside users'
transactions that hold rows of limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from quartzpy.jobs.shared_limit import Limit
from tests.contract.harness import SECOND, at, job, once
from tests.protocol.driver import Stage
from tests.protocol.staging import Actor, Staging
from tests.protocol.test_staged_races import MAX_PIPELINES
from tests.protocol.test_staged_races import stage as stage
from tests.protocol.test_staged_races import stages as stages
from tests.protocol.test_staged_races import staging as staging

Act = Callable[[], Any]
JOBS = {name: job(name, durable=True, requests_recovery=True, limits=["erp"]) for name in ("book", "remind")}


def set_stage(stage: Stage) -> None:
    stage.reset()
    stage.store.put_limit("erp", Limit(1))
    for name, detail in JOBS.items():
        stage.schedule(detail, *(once(f"{name}-{n}", at(n), misfire="ignore") for n in range(2)))
    stage.clock.advance(2 * SECOND)


def acquire(stage: Stage, name: str) -> Act:
    return stage.living(name).schedule


def complete(stage: Stage, name: str) -> Act:
    node = stage.living(name)
    node.schedule()
    node.run()
    return node.complete


def recover(stage: Stage, name: str) -> Act:
    node, dead = stage.living(name), stage.living({"a": "c", "b": "e"}[name])
    dead.schedule()
    return lambda: stage.recover(node.node, dead.node)


def raise_the_limit(stage: Stage, name: str) -> Act:
    return lambda: stage.store.put_limit("erp", Limit(3))


def in_use(stage: Stage) -> int:
    [(number, running)] = stage.rows("SELECT count(*) FILTER (WHERE limits = 'erp'), count(*) FROM qrtz_fired_triggers")
    assert running == number, "each execution uses a slot"
    return int(number)


def bring_to_rest(stage: Stage) -> None:
    """Everything has run exactly once, and no slot is left in use."""
    registered = {name for (name,) in stage.rows("SELECT instance_id FROM qrtz_scheduler_state")}
    lives = [node for node in stage.nodes if node.name in registered and node.name not in "ce"]
    stage.bring_to_rest(*(lives or [stage.living("d")]))
    assert stage.violations(at_rest=True) == []
    assert in_use(stage) == 0
    ran = stage.rows("SELECT trigger_name FROM qrtz_executions WHERE outcome = 'SUCCEEDED'")
    assert len(ran) == 4


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (acquire, acquire),
        (acquire, complete),
        (complete, acquire),
        (recover, acquire),
        (acquire, raise_the_limit),
        (raise_the_limit, acquire),
    ],
)
def test_one_operation_begins_while_another_is_about_to_commit(
    stage: Stage, staging: Staging, first: Callable[..., Act], second: Callable[..., Act]
) -> None:
    most = 3 if raise_the_limit in (first, second) else 1
    for number in range(1, MAX_PIPELINES):
        set_stage(stage)
        one, other = first(stage, "a"), second(stage, "b")
        held, begun = Actor(one, "first"), Actor(other, "second")
        if not staging.start_held(held, number):
            held.join()
            assert number > 1
            return
        assert staging.pid is not None
        staging.start(begun, staging.pid)
        staging.let_go()
        held.join()
        begun.join()
        assert not staging.deadlocks
        assert in_use(stage) <= most
        bring_to_rest(stage)


@pytest.mark.parametrize("step", [acquire, complete])
def test_no_step_waits_for_rows_of_limits_that_a_user_holds(
    stage: Stage, staging: Staging, step: Callable[..., Act]
) -> None:
    set_stage(stage)
    # The row of a limit with a rate is written by each step that uses it.
    stage.store.put_limit("erp", Limit(1, "1000000/second"))
    act = step(stage, "a")
    user = stage.connect()
    user.execute("BEGIN")
    user.execute("SELECT FROM qrtz_limits FOR UPDATE")
    try:
        actor = Actor(act, "step")
        assert not staging.start(actor, user.info.backend_pid)
    finally:
        user.execute("ROLLBACK")
        user.close()
    actor.join()
    bring_to_rest(stage)
