"""The executions of an executor on an engine that does what the test says, on a clock that it moves."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from typing import Any

import pytest

from quartzpy import JobDetail, JobExecutionContext
from quartzpy.errors import (
    InvalidValueError,
    JobCancelledError,
    JobExecutionError,
    LeaseLostError,
    StoreUnavailableError,
    WorkerDiedError,
)
from quartzpy.job_data import encode
from quartzpy.jobs.job import Job, job_types
from quartzpy.node.engines.judgement import CallVerdict, judged
from quartzpy.node.engines.messages import MessageMaker
from quartzpy.node.engines.process_messages import error_to_json
from quartzpy.node.engines.protocol import Abilities, Call, EngineEvents, Found
from quartzpy.node.engines.runs import KILL_AFTER, EngineRuns
from quartzpy.node.workers.execution import Execution, Executor
from quartzpy.node.workers.worker_pool import WorkerPool
from quartzpy.states import Outcome
from quartzpy.store.node_problems import ENGINE_UNAVAILABLE
from quartzpy.store.protocol import Node, Submitted
from tests.node.processes import Runner, execution_of

WINDOW, TOUCH_EVERY = 60.0, 5.0


class Remote(Job):
    """It never runs here."""

    def execute(self, context: JobExecutionContext) -> None:
        raise NotImplementedError


class Repeatable(Remote):
    may_repeat = True


class Lasting(Remote):
    outlives_node = True


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now


class Pool(WorkerPool):
    """Goes on at once, on the thread of the test."""

    def resume(self, task: Callable[[], object]) -> None:
        task()


class Script:
    """An engine."""

    def __init__(self, **abilities: bool) -> None:
        self.abilities = Abilities(**({"repeats": True, "can_find": True, "can_kill": True} | abilities))
        self.events: EngineEvents
        self.calls: list[Call] = []
        self.stops: list[tuple[str, bool]] = []
        self.adopted: list[str] = []
        self.closed: list[float] = []
        self.states: dict[str, Found] = {}
        self.offered: int | None = 8
        self.fails: Exception | None = None
        self.refuses: Exception | None = None
        self.is_over_at: tuple[bool, ...] = ()
        self.knows_adopted = True

    def start(self, events: EngineEvents) -> None:
        self.events = events
        if self.fails is not None:
            raise self.fails

    def capacity(self) -> int | None:
        return self.offered

    def submit(self, call: Call) -> None:
        if self.refuses is not None:
            raise self.refuses
        self.calls.append(call)

    def stop(self, token: str, *, kill: bool = False) -> bool:
        self.stops.append((token, kill))
        return kill in self.is_over_at

    def find(self, tokens: Collection[str]) -> Mapping[str, Found]:
        return {token: state for token, state in self.states.items() if token in tokens}

    def adopt(self, call: Call) -> bool:
        self.adopted.append(call.token)
        return self.knows_adopted

    def close(self, timeout: float) -> None:
        self.closed.append(timeout)


class Rows:
    """The rows of executions in a store."""

    def __init__(self) -> None:
        self.rows: dict[int, dict[str, Any]] = {}
        self.fails: Exception | None = None
        self.loses_answers = False
        self.submits = 0

    def submit(self, node: Node, fires: Mapping[int, bool], *, refires: Collection[int] = ()) -> dict[int, int]:
        self.submits += 1
        self._fail()
        numbers = {}
        for fire_id, outlives in fires.items():
            row = self.rows.setdefault(fire_id, {"submission": 0, "worker": None, "ending": None, "silent_for": None})
            is_free = row["worker"] is None and row["ending"] is None
            if row.get("is_gone") or not (is_free or fire_id in refires):
                continue
            number = row["submission"] + 1
            row.update(submission=number, worker=None, silent_for=None, ending=None, outlives=outlives)
            numbers[fire_id] = number
        if self.loses_answers:
            raise StoreUnavailableError("the answer is lost")
        return numbers

    def submitted(self, node: Node, fire_ids: Collection[int]) -> dict[int, Submitted]:
        self._fail()
        found = {fire_id: self.rows[fire_id] for fire_id in fire_ids if not self.rows[fire_id].get("is_gone")}
        return {
            fire_id: Submitted(fire_id, row["submission"], row["worker"], row["silent_for"], row["ending"])
            for fire_id, row in found.items()
        }

    def settle(self, node: Node, submissions: Mapping[int, int]) -> dict[int, str | None]:
        self._fail()
        settled: dict[int, str | None] = {}
        for fire_id, submission in submissions.items():
            row = self.rows[fire_id]
            if row.get("is_gone") or row["submission"] != submission:
                continue
            settled[fire_id] = row["ending"]
            if row["ending"] is None:
                row["submission"] += 1
        return settled

    def _fail(self) -> None:
        if self.fails is not None:
            raise self.fails


class World:
    """`EngineRuns` without its thread."""

    def __init__(
        self,
        engine: Script | None = None,
        *,
        executor: str = "big",
        workers: int | None = None,
        tickets: bool | None = None,
    ) -> None:
        self.engine = engine or Script()
        self.rows, self.clock = Rows(), Clock()
        self.pool = Pool(workers or 0, "test")
        clock: Any = self.clock
        store: Any = self.rows
        self.runs = EngineRuns(
            "test-engine",
            self.engine,
            executor=executor,
            workers=workers,
            tickets=self.engine.abilities.repeats if tickets is None else tickets,
            pool=self.pool,
            store=store,
            job_types=job_types,
            messages=MessageMaker({"scheduler": "test"}, None),
            touch_every=TOUCH_EVERY,
            window=WINDOW,
            clock=clock,
        )
        self._fire_ids = iter(range(100, 200))

    def pass_after(self, seconds: float = 0.0) -> float:
        self.clock.now += seconds
        return self.runs.run_once()

    def begin(self, kind: type[Job] | JobDetail = Remote, *, passes: bool = True) -> Begun:
        execution = execution_of(kind, stored={"fire_id": next(self._fire_ids)})
        begun = Begun(self, execution)
        execution()
        if passes:
            self.pass_after()
        return begun


class Begun:
    """One execution of the world."""

    def __init__(self, world: World, execution: Execution) -> None:
        self.world, self.execution = world, execution
        self.runner = Runner(world.runs, execution)
        execution.executor = Executor("big", "script", world.pool, world.runs)

    @property
    def row(self) -> dict[str, Any]:
        return self.world.rows.rows[self.execution.fired.fire_id]

    @property
    def token(self) -> str:
        mine = [call for call in self.world.engine.calls if call.token.startswith(f"{self.execution.fired.fire_id}.")]
        return mine[-1].token

    @property
    def submissions(self) -> int:
        return len(
            {call.token for call in self.world.engine.calls if call.token.split(".")[0] == self.token.split(".")[0]}
        )

    @property
    def outcome(self) -> Outcome | None:
        return None if self.runner.completion is None else self.runner.completion.outcome

    @property
    def result(self) -> Any:
        return self.runner.end().result

    @property
    def error(self) -> BaseException:
        return self.runner.end().error

    def taken(self, silent_for: float = 0.0) -> Begun:
        self.row.update(worker="w1", silent_for=silent_for)
        return self

    def ended(self, result: str = "done") -> Begun:
        self.row.update(ending=ending(result))
        return self


def ending(result: Any = "done", **values: Any) -> str:
    return json.dumps({"noticed_stop": False, "result": encode({"result": result}), **values})


def answer(result: Any = "done", **values: Any) -> str:
    return json.dumps({"ending": json.loads(ending(result, **values))})


@pytest.fixture
def world() -> World:
    made = World()
    made.pass_after()
    return made


# --- a call, its ticket and its end


def test_a_call_is_submitted_under_the_number_that_its_row_has(world: World) -> None:
    begun = world.begin()
    [call] = world.engine.calls
    assert call.token == "100.1.1"
    message = json.loads(call.message)
    assert (message["token"], message["submission"], message["scheduler"]) == (call.token, 1, "test")
    assert message["fired"]["fire_id"] == begun.execution.fired.fire_id
    assert begun.outcome is None
    world.engine.events.ended(call.token, answer())
    assert begun.outcome is Outcome.SUCCEEDED
    assert begun.result == "done"


def test_many_calls_are_committed_by_one_statement(world: World) -> None:
    begun = [world.begin(passes=False) for _ in range(50)]
    world.pass_after()
    assert len(world.engine.calls) == 50
    assert world.rows.submits == 1
    assert {one.token for one in begun} == {call.token for call in world.engine.calls}


@pytest.mark.parametrize(
    ("engine", "kind", "tickets"),
    [
        (Script(repeats=False), Remote, None),
        (Script(), Repeatable, None),
        (Script(), Remote, False),
    ],
)
def test_a_call_without_a_ticket_is_passed_on_at_once(engine: Script, kind: type[Job], tickets: bool | None) -> None:
    world = World(engine, tickets=tickets)
    world.pass_after()
    begun = world.begin(kind, passes=False)
    [call] = engine.calls
    assert json.loads(call.message)["submission"] is None
    assert not world.rows.rows
    engine.events.ended(call.token, answer())
    assert begun.outcome is Outcome.SUCCEEDED


def test_an_engine_that_does_not_repeat_can_be_made_to_take_tickets() -> None:
    world = World(Script(repeats=False), tickets=True)
    world.pass_after()
    assert json.loads(world.begin().world.engine.calls[0].message)["submission"] == 1


def test_the_error_of_the_job_is_that_of_the_execution(world: World) -> None:
    begun = world.begin()
    world.engine.events.ended(begun.token, answer(None, error=error_to_json(ValueError("wrong"))))
    assert begun.outcome is Outcome.FAILED
    assert str(begun.error) == "wrong"


def test_a_job_that_has_committed_its_transaction_has_succeeded_whatever_came_later(world: World) -> None:
    begun = world.begin()
    begun.execution.time_out()
    world.engine.events.ended(begun.token, answer("kept", is_committed=True))
    assert begun.outcome is Outcome.SUCCEEDED


def test_each_end_counts_once(world: World) -> None:
    begun = world.begin()
    for _ in range(2):
        world.engine.events.ended(begun.token, answer("first"))
    world.engine.events.lost(begun.token, "gone", may_have_begun=True)
    world.engine.events.killed(begun.token)
    world.pass_after(WINDOW)
    assert begun.result == "first"


def test_an_end_that_comes_after_a_loss_counts(world: World) -> None:
    begun = world.begin().taken()
    world.engine.events.lost(begun.token, "the worker left", may_have_begun=True)
    world.pass_after()
    assert begun.outcome is None
    world.engine.events.ended(begun.token, answer())
    assert begun.outcome is Outcome.SUCCEEDED


def test_events_of_unknown_tokens_are_ignored(world: World) -> None:
    events = world.engine.events
    events.began("1.1.1", "w")
    events.progress("1.1.1", 0.5, None)
    events.log("1.1.1", "text")
    events.ended("1.1.1", answer())
    events.lost("1.1.1", "gone", may_have_begun=False)
    events.killed("1.1.1")


# --- what an engine loses


@pytest.mark.parametrize("said", [json.dumps({"failed": "no database"}), None])
def test_what_has_not_begun_is_submitted_again_up_to_three_times(world: World, said: str | None) -> None:
    begun = world.begin()
    for number in (1, 2, 3):
        assert begun.token == f"100.1.{number}"
        if said is not None:
            world.engine.events.ended(begun.token, said)
        else:
            world.engine.events.lost(begun.token, "no database", may_have_begun=False)
        world.pass_after(10)
        world.pass_after(10)
    assert begun.outcome is Outcome.FAILED
    assert isinstance(begun.error, WorkerDiedError)
    assert str(begun.error) == "no database"
    # The ticket of the last one cannot be taken any more.
    assert begun.row["submission"] == 4


def test_the_log_says_why_a_call_has_not_begun(world: World, caplog: pytest.LogCaptureFixture) -> None:
    begun = world.begin()
    token = begun.token
    world.engine.events.ended(token, json.dumps({"failed": "worker w1: no password"}))
    assert f"job DEFAULT.job: call {token} was lost before it began: worker w1: no password" in caplog.text


def test_a_submit_that_raises_counts_like_a_loss(world: World) -> None:
    world.engine.refuses = RuntimeError("no such queue")
    begun = world.begin()
    for _ in range(6):
        world.pass_after(10)
    assert begun.outcome is Outcome.FAILED
    assert "no such queue" in str(begun.error)


def test_a_call_without_a_ticket_fails_as_soon_as_it_may_have_begun() -> None:
    world = World(Script(repeats=False))
    world.pass_after()
    begun = world.begin()
    world.engine.events.lost(begun.token, "the worker process ended", may_have_begun=True, exit_code=-9)
    assert isinstance(begun.error, WorkerDiedError)
    assert begun.error.exit_code == -9


def test_a_call_without_a_ticket_that_has_not_begun_is_passed_on_again() -> None:
    world = World(Script(repeats=False))
    world.pass_after()
    begun = world.begin()
    for _ in range(3):
        world.engine.events.lost(begun.token, "it went away", may_have_begun=False)
        world.pass_after(10)
    assert len(world.engine.calls) == 3
    assert str(begun.error) == "it went away"


def test_another_run_may_have_the_ticket_that_an_engine_believes_lost(world: World) -> None:
    begun = world.begin().taken()
    world.engine.events.lost(begun.token, "gone", may_have_begun=False)
    world.pass_after(10)
    assert len(world.engine.calls) == 1
    begun.ended("by the other run")
    world.pass_after(10)
    assert begun.result == "by the other run"


def test_a_ticket_that_is_taken_meanwhile_is_not_submitted_again(world: World) -> None:
    begun = world.begin()
    world.engine.events.lost(begun.token, "gone", may_have_begun=False)
    submit = world.rows.submit

    def taken_first(node: Node, fires: Mapping[int, bool], *, refires: Collection[int] = ()) -> dict[int, int]:
        begun.taken()
        return submit(node, fires, refires=refires)

    world.rows.submit = taken_first  # type: ignore[method-assign]
    world.pass_after(10)
    world.pass_after(10)
    assert len(world.engine.calls) == 1
    assert begun.outcome is None
    world.engine.events.ended(begun.token, answer())
    assert begun.outcome is Outcome.SUCCEEDED


def test_a_refused_run_ends_with_what_the_first_has_written(world: World) -> None:
    begun = world.begin().taken().ended("first")
    world.engine.events.ended(begun.token, json.dumps({"refused": "another run has the ticket"}))
    world.pass_after()
    assert begun.result == "first"


def test_a_worker_that_is_silent_for_the_window_is_lost(world: World) -> None:
    begun = world.begin().taken(silent_for=WINDOW - 1)
    world.engine.events.lost(begun.token, "the worker left", may_have_begun=True)
    world.pass_after(10)
    assert begun.outcome is None
    begun.taken(silent_for=WINDOW)
    world.pass_after(10)
    assert isinstance(begun.error, WorkerDiedError)
    assert str(begun.error) == "the worker w1, not heard of for 60 s, was lost (the worker left)"
    assert begun.row["submission"] == 2


@pytest.mark.parametrize(
    ("state", "silent_for", "outcome"),
    [
        (None, 3 * TOUCH_EVERY, None),
        (None, WINDOW, Outcome.FAILED),
        (Found.UNKNOWN, WINDOW, Outcome.FAILED),
        (Found.RUNNING, WINDOW, None),
        (Found.GONE, TOUCH_EVERY, None),
        (Found.GONE, 3 * TOUCH_EVERY, Outcome.FAILED),
        (Found.FAILED, 3 * TOUCH_EVERY, Outcome.FAILED),
    ],
)
def test_a_silent_row_is_judged_without_any_event(
    world: World, state: Found | None, silent_for: float, outcome: Outcome | None
) -> None:
    begun = world.begin().taken(silent_for)
    if state is not None:
        world.engine.states[begun.token] = state
    world.pass_after(TOUCH_EVERY)
    assert begun.outcome is outcome


def test_settling_finds_an_ending_that_was_written_meanwhile(world: World) -> None:
    begun = world.begin().taken(silent_for=WINDOW)
    submitted = world.rows.submitted

    def ended_after(node: Node, fire_ids: Collection[int]) -> dict[int, Submitted]:
        answers = submitted(node, fire_ids)
        begun.ended("just in time")
        return answers

    world.rows.submitted = ended_after  # type: ignore[method-assign]
    world.pass_after(TOUCH_EVERY)
    assert begun.result == "just in time"


def test_a_lost_answer_is_found_in_the_row(world: World) -> None:
    begun = world.begin().taken().ended("written")
    world.pass_after(TOUCH_EVERY)
    assert begun.result == "written"


def test_without_a_ticket_only_an_engine_that_is_certain_is_believed(world: World) -> None:
    begun = world.begin()
    world.pass_after(10 * WINDOW)
    assert (begun.submissions, begun.outcome) == (1, None)
    world.engine.states[begun.token] = Found.GONE
    world.pass_after(TOUCH_EVERY)
    world.pass_after()
    assert (begun.submissions, begun.outcome) == (2, None)


def test_a_row_that_is_gone_ends_what_is_in_doubt(world: World) -> None:
    begun = world.begin().taken()
    begun.row["is_gone"] = True
    world.pass_after(TOUCH_EVERY)
    assert begun.runner.completion is None
    world.engine.events.lost(begun.token, "gone", may_have_begun=True)
    world.pass_after()
    assert isinstance(begun.error, LeaseLostError)


@pytest.mark.parametrize(
    ("ticket", "state", "lost", "is_void", "verdict"),
    [
        (None, Found.UNKNOWN, False, False, CallVerdict.WAIT),
        (None, Found.RUNNING, False, False, CallVerdict.WAIT),
        (None, Found.GONE, False, False, CallVerdict.SUBMIT),
        (None, Found.FAILED, False, False, CallVerdict.SUBMIT),
        (None, Found.UNKNOWN, True, False, CallVerdict.SUBMIT),
        (None, Found.GONE, False, True, CallVerdict.OVER),
        (0.0, Found.GONE, True, False, CallVerdict.WAIT),
        (WINDOW, Found.RUNNING, True, False, CallVerdict.WAIT),
        (WINDOW, Found.UNKNOWN, True, False, CallVerdict.SETTLE),
        (WINDOW, Found.UNKNOWN, False, True, CallVerdict.OVER),
        (15.0, Found.DONE, False, False, CallVerdict.SETTLE),
        (15.0, Found.UNKNOWN, True, False, CallVerdict.WAIT),
    ],
)
def test_verdicts(ticket: float | None, state: Found, lost: bool, is_void: bool, verdict: CallVerdict) -> None:
    row = Submitted(1, 2 if is_void else 1, None if ticket is None else "w", ticket, None)
    limits = {"window": WINDOW, "touch_every": TOUCH_EVERY}
    said = judged(row, state, submission=1, lost=lost, is_void=is_void, unseen_for=0.0, **limits)
    assert said is verdict


# --- the store


def test_a_store_that_cannot_be_reached_delays_a_submission_and_its_number_rises(world: World) -> None:
    world.rows.loses_answers = True
    begun = world.begin(passes=False)
    for _ in range(2):
        with pytest.raises(StoreUnavailableError):
            world.pass_after(1)
    assert not world.engine.calls
    world.rows.loses_answers = False
    world.pass_after(1)
    assert begun.token == "100.1.3"


def test_requests_to_stop_reach_the_engine_while_the_store_is_away(world: World) -> None:
    begun = world.begin()
    world.rows.fails = StoreUnavailableError("away")
    begun.execution.stop()
    with pytest.raises(StoreUnavailableError):
        world.pass_after(TOUCH_EVERY)
    assert world.engine.stops == [(begun.token, False)]


def test_a_refire_is_a_submission_over_the_ending_of_the_one_before(world: World) -> None:
    begun = world.begin()
    again = error_to_json(JobExecutionError("again", refire_immediately=True))
    for number in (1, 2):
        assert begun.token == f"100.1.{number}"
        assert json.loads(world.engine.calls[-1].message)["refire_count"] == number - 1
        begun.taken().row.update(ending=ending(None, error=again))
        world.engine.events.ended(begun.token, answer(None, error=again))
        world.pass_after()
    world.engine.events.ended(begun.token, answer())
    assert begun.outcome is Outcome.SUCCEEDED


def test_a_store_without_rows_for_workers_fails_the_execution(world: World) -> None:
    world.rows.fails = InvalidValueError("executors: this store is in memory")
    assert "in memory" in str(world.begin().error)


def test_an_execution_whose_row_is_gone_is_not_submitted(world: World) -> None:
    world.rows.rows[100] = {"is_gone": True, "submission": 0, "worker": None, "ending": None}
    begun = world.begin()
    assert not world.engine.calls
    assert isinstance(begun.error, LeaseLostError)


# --- stopping


def test_a_stop_before_the_submission_ends_it_without_the_engine(world: World) -> None:
    begun = world.begin(passes=False)
    begun.execution.stop()
    world.pass_after()
    assert begun.outcome is Outcome.CANCELLED
    assert type(begun.error) is asyncio.CancelledError
    assert not world.engine.calls


def test_a_job_that_ignores_the_request_is_killed(world: World) -> None:
    begun = world.begin().taken()
    begun.execution.stop()
    world.pass_after()
    assert world.engine.stops == [(begun.token, False)]
    world.pass_after(KILL_AFTER - 0.1)
    assert world.engine.stops[1:] == []
    world.pass_after(0.1)
    assert world.engine.stops[1:] == [(begun.token, True)]
    world.engine.events.began(begun.token, "w1")
    world.engine.events.killed(begun.token)
    world.pass_after()
    assert begun.outcome is Outcome.CANCELLED
    assert "ignored the request to stop" in str(begun.error)
    assert begun.row["submission"] == 2


def test_a_call_that_no_worker_was_seen_to_begin_has_ignored_nothing(world: World) -> None:
    begun = world.begin()
    begun.execution.stop()
    world.pass_after()
    world.engine.events.killed(begun.token)
    world.pass_after()
    assert str(begun.error) == "its call was ended, and no worker of the engine was seen to begin it before"


def test_a_job_that_ends_while_it_is_killed_has_ended(world: World) -> None:
    begun = world.begin().taken().ended("in the last moment")
    world.engine.events.killed(begun.token)
    world.pass_after()
    assert begun.result == "in the last moment"


def test_an_engine_that_has_certainly_stopped_a_call_ends_it() -> None:
    world = World(Script(repeats=False))
    world.pass_after()
    world.engine.is_over_at = (False,)
    begun = world.begin()
    begun.execution.stop()
    world.pass_after()
    assert begun.outcome is Outcome.CANCELLED


def test_without_the_ability_to_kill_the_timeout_makes_the_submission_void() -> None:
    world = World(Script(can_kill=False))
    world.pass_after()
    begun = world.begin(JobDetail(Remote, "job", timeout=timedelta(hours=1))).taken()
    begun.execution.time_out()
    world.pass_after()
    world.pass_after(KILL_AFTER)
    assert [kill for _, kill in world.engine.stops] == [False]
    assert begun.row["submission"] == 2
    assert begun.outcome is None
    # Its worker could not write its ending.
    world.engine.events.ended(begun.token, json.dumps({"refused": "void"}))
    assert begun.outcome is Outcome.FAILED
    assert isinstance(begun.error.__cause__, JobCancelledError)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("worker w1: no password", "no worker of the engine has begun the job: worker w1: no password"),
        (None, "no worker of the engine has begun the job"),
    ],
)
def test_a_job_that_has_not_begun_by_its_timeout_has_ignored_nothing(said: str | None, words: str) -> None:
    world = World(Script(can_kill=False))
    world.pass_after()
    begun = world.begin(JobDetail(Remote, "job", timeout=timedelta(hours=1)))
    begun.execution.time_out()
    world.pass_after()
    world.pass_after(KILL_AFTER)
    if said is None:
        world.engine.states[begun.token] = Found.GONE
        world.pass_after(WINDOW)
    else:
        world.engine.events.ended(begun.token, json.dumps({"failed": said}))
    assert begun.outcome is Outcome.FAILED
    assert str(begun.error.__cause__) == words


def test_what_was_cancelled_and_cannot_be_killed_keeps_its_ticket() -> None:
    world = World(Script(can_kill=False))
    world.pass_after()
    begun = world.begin().taken()
    begun.execution.stop()
    world.pass_after()
    world.pass_after(KILL_AFTER)
    assert begun.row["submission"] == 1
    world.engine.events.ended(begun.token, answer())
    assert begun.result == "done"


# --- the engine itself


def test_an_engine_that_is_down_at_the_start_is_told_and_tried_again() -> None:
    world = World(Script())
    world.engine.fails = OSError("cannot reach tcp://nowhere.")
    world.pass_after()
    problem = world.runs.problem()
    assert problem is not None
    assert (problem.kind, problem.subject) == (ENGINE_UNAVAILABLE, "big")
    assert problem.what.endswith(": cannot reach tcp://nowhere")
    assert world.pool.headroom == 0
    assert world.pass_after() > 0
    world.engine.fails = None
    world.pass_after(60)
    assert world.runs.problem() is None
    assert world.pool.headroom == 8


def test_the_capacity_follows_the_engine(world: World) -> None:
    assert world.pool.size == 8
    begun = [world.begin() for _ in range(3)]
    world.engine.offered = 0
    world.pass_after(1)
    assert world.pool.headroom == 0
    problem = world.runs.problem()
    assert problem is not None
    assert (problem.kind, problem.what) == (ENGINE_UNAVAILABLE, "executor 'big': its engine has no workers")
    world.engine.offered = 20
    world.engine.events.changed()
    world.pass_after()
    assert world.pool.size == 20
    assert world.runs.problem() is None
    for one in begun:
        world.engine.events.ended(one.token, answer())
        assert one.outcome is Outcome.SUCCEEDED


def test_the_setting_limits_the_capacity() -> None:
    world = World(workers=2)
    world.pass_after()
    assert world.pool.size == 2


def test_an_engine_without_a_number_is_not_asked_again() -> None:
    engine = Script(repeats=False)
    engine.offered = None
    world = World(engine, workers=3)
    assert world.pass_after() > 10
    assert world.pool.size == 3


def test_calls_go_on_while_the_engine_is_away(world: World) -> None:
    begun = world.begin().taken()
    world.engine.fails = OSError("away")
    world.engine.events.unavailable("away")
    assert world.pool.headroom == 0
    for _ in range(5):
        world.pass_after(60)
    assert begun.outcome is None
    begun.ended("meanwhile")
    world.pass_after(TOUCH_EVERY)
    assert begun.result == "meanwhile"


def test_what_an_engine_that_is_away_has_not_got_is_given_back(world: World) -> None:
    begun = world.begin(passes=False)
    world.engine.fails = OSError("away")
    world.engine.events.unavailable("away")
    world.pass_after()
    assert begun.outcome is Outcome.SNOOZED


def test_an_engine_that_comes_back_is_asked_for_calls_without_tickets() -> None:
    world = World(Script(repeats=False))
    world.pass_after()
    lost, runs, unknown = (world.begin() for _ in range(3))
    world.engine.states = {lost.token: Found.GONE, runs.token: Found.RUNNING}
    world.engine.events.unavailable("away")
    world.pass_after(60)
    assert [one.outcome for one in (lost, runs, unknown)] == [Outcome.FAILED, None, None]


# --- nodes that end


def test_an_execution_that_outlives_its_node_is_handed_over() -> None:
    world = World(Script(can_adopt=True))
    world.pass_after()
    lasting, other = world.begin(Lasting), world.begin()
    assert (lasting.row["outlives"], other.row["outlives"]) == (True, False)
    world.runs.hand_over()
    assert lasting.runner.has_ended.is_set()
    assert lasting.runner.completion is None
    assert not other.runner.has_ended.is_set()
    # Later events are for the node that has adopted it.
    world.engine.events.ended(lasting.token, answer())
    assert lasting.runner.completion is None


@pytest.mark.parametrize("knows", [True, False])
def test_an_adopted_execution_is_not_begun_again(knows: bool) -> None:
    world = World(Script(can_adopt=True))
    world.engine.knows_adopted = knows
    world.pass_after()
    begun = Begun(world, execution_of(Lasting, stored={"fire_id": 7}))
    world.rows.rows[7] = {"submission": 3, "worker": "w1", "silent_for": 0.0, "ending": None}
    begun.execution.adopt(Submitted(7, 3, "w1", 0.0, None))
    world.pass_after()
    assert world.engine.adopted == ["7.1.3"]
    assert not world.engine.calls
    assert begun.outcome is None
    if knows:
        world.engine.events.ended("7.1.3", answer())
    else:
        world.rows.rows[7].update(ending=ending())
        world.pass_after()
    assert begun.outcome is Outcome.SUCCEEDED


def test_an_adopted_execution_that_has_ended_ends_at_once(world: World) -> None:
    begun = Begun(world, execution_of(Lasting, stored={"fire_id": 7}))
    begun.execution.adopt(Submitted(7, 3, "w1", 0.0, ending("there")))
    assert begun.result == "there"


def test_closing_stops_what_runs(world: World) -> None:
    begun = world.begin()
    world.runs.close(1.5)
    assert world.engine.stops == [(begun.token, False)]
    assert world.engine.closed == [1.5]


# --- middleware


def test_middleware_surrounds_the_call_without_a_thread(world: World) -> None:
    seen: list[object] = []

    class Around:
        def __enter__(self) -> None:
            seen.append("entered")

        def __exit__(self, kind: object, error: object, trace: object) -> bool:
            seen.append(error)
            return isinstance(error, Exception)

    begun = Begun(world, execution_of(Remote, stored={"fire_id": 7}))
    begun.runner.middleware = (lambda context: Around(),)
    begun.execution()
    world.pass_after()
    assert seen == ["entered"]
    world.engine.events.ended("7.1.1", answer(None, error=error_to_json(ValueError("wrong"))))
    assert str(seen[1]) == "wrong"
    assert begun.outcome is Outcome.SUCCEEDED
