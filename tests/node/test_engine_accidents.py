"""What becomes of executions on an engine when two things go wrong at the same time."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from quartzpy import JobDetail
from quartzpy.errors import (
    InvalidValueError,
    JobCancelledError,
    JobExecutionError,
    LeaseLostError,
    StoreUnavailableError,
)
from quartzpy.node.engines.absent import AbsentEngine
from quartzpy.node.engines.engine_run import EngineRun
from quartzpy.node.engines.process_messages import error_to_json
from quartzpy.node.engines.protocol import Call, EngineEvents, Found
from quartzpy.node.engines.runs import KILL_AFTER
from quartzpy.states import Outcome
from quartzpy.store.protocol import Submitted
from tests.node.processes import execution_of
from tests.node.test_engine_runs import (
    TOUCH_EVERY,
    WINDOW,
    Begun,
    Lasting,
    Repeatable,
    Script,
    World,
    answer,
    ending,
)


def made(**abilities: bool) -> World:
    world = World(Script(**abilities))
    world.pass_after()
    return world


def adopted(world: World, row: Submitted, **stored: Any) -> Begun:
    begun = Begun(world, execution_of(Lasting, stored={"fire_id": row.fire_id, **stored}))
    values = {"worker": row.worker, "silent_for": row.silent_for, "ending": row.ending}
    world.rows.rows[row.fire_id] = {"submission": row.submission, **values}
    begun.execution.adopt(row)
    return begun


# --- requests to stop


@pytest.mark.parametrize("kind", [Lasting, Repeatable])
def test_a_call_that_is_lost_after_a_request_to_stop_is_not_submitted_again(kind: Any) -> None:
    world = made(can_kill=False)
    begun = world.begin(kind)
    begun.execution.stop()
    world.pass_after()
    world.engine.events.lost(begun.token, "gone", may_have_begun=False)
    for _ in range(3):
        world.pass_after(1)
    assert len(world.engine.calls) == 1
    assert begun.outcome is Outcome.CANCELLED


def test_what_is_asked_to_stop_while_it_is_given_back_does_not_run_elsewhere() -> None:
    world = made()
    world.engine.events.unavailable("away")
    begun = world.begin(passes=False)
    # The request is on its way to the thread of the engine.
    begun.execution.cancelled.set()
    world.pass_after()
    world.pass_after()
    assert begun.outcome is Outcome.CANCELLED


def test_a_request_to_stop_reaches_an_engine_that_comes_back() -> None:
    world = made(can_kill=False)
    begun = world.begin().taken()
    world.engine.events.unavailable("away")
    begun.execution.stop()
    world.pass_after(0)
    world.engine.stops.clear()
    world.pass_after(60)
    world.pass_after()
    assert world.engine.stops == [(begun.token, False)]


def test_a_timeout_that_is_over_before_the_adoption_counts() -> None:
    world = made(can_kill=False, can_adopt=True)
    execution = execution_of(Lasting, stored={"fire_id": 7})
    begun = Begun(world, execution)
    world.rows.rows[7] = {"submission": 3, "worker": "w1", "silent_for": 0.0, "ending": None}
    # The thread of the deadlines is faster.
    execution.time_out()
    execution.adopt(Submitted(7, 3, "w1", 0.0, None))
    world.pass_after()
    assert world.engine.stops == [("7.1.3", False)]
    world.pass_after(KILL_AFTER)
    assert begun.row["submission"] == 4


# --- rows that are gone


@pytest.mark.parametrize(("state", "after"), [(Found.GONE, TOUCH_EVERY), (Found.UNKNOWN, WINDOW + TOUCH_EVERY)])
def test_a_row_that_is_gone_ends_a_call_of_which_the_engine_says_nothing(state: Found, after: float) -> None:
    world = made()
    begun = world.begin().taken()
    begun.row["is_gone"] = True
    world.engine.states[begun.token] = Found.RUNNING
    world.pass_after(10 * WINDOW)
    assert begun.runner.completion is None
    world.engine.states[begun.token] = state
    world.pass_after(after)
    assert isinstance(begun.error, LeaseLostError)


def test_a_node_that_adopts_its_own_execution_ends_the_former_one() -> None:
    world = made(can_adopt=True)
    begun = world.begin().taken()
    fire_id = begun.execution.fired.fire_id
    heir = adopted(world, Submitted(fire_id, 1, "w1", 0.0, ending("there")))
    assert heir.result == "there"
    assert isinstance(begun.error, LeaseLostError)


def test_the_end_of_a_former_execution_does_not_hide_the_one_that_the_node_has_adopted() -> None:
    world = made(can_adopt=True)
    former, heir = (Begun(world, execution_of(Lasting, stored={"fire_id": 7})) for _ in range(2))
    former.runner.accept([former.execution])
    former.runner.accept([heir.execution])
    former.runner.end_as(former.execution, None)
    assert former.runner.accepted() == [heir.execution]


def test_a_node_without_the_executor_goes_by_the_row_and_leaves_a_refire_to_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    absent: Any = AbsentEngine()
    world = World(absent, executor="")
    world.pass_after()
    done, again, lost = (adopted(world, Submitted(fire_id, 3, "w1", 0.0, None)) for fire_id in (7, 8, 9))
    world.pass_after(TOUCH_EVERY)
    assert [one.outcome for one in (done, again, lost)] == [None] * 3
    done.row.update(ending=ending("there"))
    error = JobExecutionError("once more", refire_immediately=True)
    again.row.update(ending=ending(None, error=error_to_json(error)))
    lost.row.update(silent_for=WINDOW)
    for _ in range(2):
        world.pass_after(TOUCH_EVERY)
    assert [one.outcome for one in (done, again, lost)] == [Outcome.SUCCEEDED, Outcome.SNOOZED, Outcome.FAILED]
    # Nobody has configured it, so nobody can mend it.
    assert "its engine can be reached" not in caplog.text


# --- settling


def test_what_is_being_settled_is_not_handed_over() -> None:
    world = made(can_adopt=True)
    begun = world.begin(Lasting).taken()
    world.engine.events.killed(begun.token)
    world.runs.hand_over()
    world.pass_after()
    assert isinstance(begun.error, JobCancelledError)


def test_middleware_of_what_is_handed_over_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    world = made(can_adopt=True)
    begun = world.begin(Lasting)
    later: list[Callable[[], object]] = []
    monkeypatch.setattr(world.pool, "resume", later.append)
    monkeypatch.setattr(EngineRun, "leave", lambda run, error: left.append(run))
    left: list[EngineRun] = []
    world.runs.hand_over()
    assert begun.runner.has_ended.is_set()
    assert not left
    for task in later:
        task()
    assert len(left) == 1


def test_nothing_is_settled_for_an_execution_that_is_over() -> None:
    world = made()
    begun = world.begin().taken()
    world.engine.events.killed(begun.token)
    world.engine.events.ended(begun.token, answer())
    world.pass_after()
    assert begun.row["submission"] == 1


# --- what a node cannot read or does not know


def test_a_job_that_has_committed_succeeds_although_the_node_cannot_read_its_result() -> None:
    world = made()
    begun = world.begin(JobDetail(Lasting, "job", persist_data=True))
    said = json.loads(answer(is_committed=True))
    said["ending"] |= {"result": "{", "job_data": "{"}
    world.engine.events.ended(begun.token, json.dumps(said))
    assert begun.outcome is Outcome.SUCCEEDED


def test_a_node_adopts_an_execution_whose_job_it_does_not_know() -> None:
    world = made(can_adopt=True)
    begun = adopted(world, Submitted(7, 3, "w1", 0.0, None), job_type="not.here:Job")
    world.pass_after()
    assert world.engine.adopted == []
    begun.row.update(ending=ending("there"))
    world.pass_after(TOUCH_EVERY)
    assert begun.result == "there"


# --- the engine


def test_an_engine_that_is_away_again_before_it_has_started_is_not_taken_for_there() -> None:
    class Flapping(Script):
        def start(self, events: EngineEvents) -> None:
            super().start(events)
            events.unavailable("away again")

    world = World(Flapping())
    world.pass_after()
    assert world.runs.problem() is not None
    assert world.pool.size == 0


def test_an_engine_that_goes_away_while_it_tells_its_capacity_gets_nothing() -> None:
    class Leaving(Script):
        def capacity(self) -> int | None:
            self.events.unavailable("away")
            return 8

    world = World(Leaving())
    world.pass_after()
    assert world.pool.size == 0


def test_a_call_that_is_done_when_its_engine_comes_back_is_not_lost() -> None:
    world = made()
    begun = world.begin(Repeatable)
    world.engine.states[begun.token] = Found.DONE
    world.engine.events.unavailable("away")
    world.pass_after(60)
    assert begun.outcome is None
    world.engine.events.ended(begun.token, answer())
    assert begun.outcome is Outcome.SUCCEEDED


def test_a_call_without_a_ticket_that_an_engine_has_not_got_before_it_went_away_is_given_back() -> None:
    world = made()
    world.engine.refuses = OSError("the connection is closed")
    begun = world.begin(Repeatable, passes=False)
    world.engine.events.unavailable("away")
    world.pass_after()
    assert begun.outcome is Outcome.SNOOZED


def test_a_call_with_a_ticket_that_an_engine_has_not_got_before_it_went_away_is_given_back() -> None:
    class Leaves(Script):
        def submit(self, call: Call) -> None:
            self.fails = OSError("away")
            self.events.unavailable("away")
            raise self.fails

    world = World(Leaves())
    world.pass_after()
    begun = world.begin()
    former = begun.row["submission"]
    world.pass_after(5)
    world.pass_after(5)
    assert begun.outcome is Outcome.SNOOZED
    assert begun.row["submission"] > former, "a call that the engine has got all the same takes no ticket"


def test_a_call_whose_ticket_is_taken_is_not_given_back_when_its_engine_goes_away() -> None:
    world = made()
    begun = world.begin()
    world.engine.events.lost(begun.token, "its worker is gone", may_have_begun=False)
    world.engine.fails = OSError("away")
    world.engine.events.unavailable("away")
    begun.taken()
    world.pass_after(10)
    assert begun.outcome is None
    begun.ended()
    world.pass_after(10)
    assert begun.outcome is Outcome.SUCCEEDED


def test_an_engine_that_cannot_adopt_at_this_moment_leaves_the_word_to_the_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = made(can_adopt=True)

    def adopt(call: object) -> bool:
        raise OSError("the scheduler does not answer")

    monkeypatch.setattr(world.engine, "adopt", adopt)
    begun = adopted(world, Submitted(7, 3, "w1", 0.0, None))
    world.pass_after()
    begun.row.update(ending=ending("there"))
    world.pass_after()
    assert begun.result == "there"


def test_a_store_without_submissions_fails_the_execution_and_not_the_thread() -> None:
    world = made()
    world.rows.fails = InvalidValueError("memory:// has no engines that need tickets")
    begun = world.begin()
    assert begun.outcome is Outcome.FAILED


def test_a_store_that_is_away_for_ten_minutes_loses_nothing() -> None:
    world = made()
    running, waiting = world.begin().taken(), world.begin(passes=False)
    world.rows.fails = StoreUnavailableError("away")
    for _ in range(60):
        with pytest.raises(StoreUnavailableError):
            world.pass_after(10)
    running.ended()
    world.rows.fails = None
    world.pass_after(10)
    assert running.outcome is Outcome.SUCCEEDED
    assert len(world.engine.calls) == 2
    assert waiting.outcome is None
