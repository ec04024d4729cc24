"""Each operation, at each of its round trips, each way to fail: afterwards the cluster comes to the same end by itself.

An operation is done once without a fault, for what its end is. Then its first round trip goes wrong, then its second,
and so on until there is no such round trip any more: what is sent in future is covered without a new test. After the
fault the node does what its runtime does, a second node works, what was stuck or held goes on, and both live until
nothing is left to do. Every instant has then run exactly once, and the tables say what they say without the fault.

`--long` plays all of that. Other runs play all of it for the steps of the protocol, and for other operations one round
trip in each way, for a user's in every other way; which one goes by turns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from quartzpy.calendars.days import HolidayCalendar
from quartzpy.errors import ObjectAlreadyExistsError, OutcomeUnknownError, StoreUnavailableError
from quartzpy.jobs.internal_entries import BatchKey, batch_entry
from quartzpy.jobs.join import ON
from quartzpy.jobs.retry import RetryPolicy
from quartzpy.matchers import GroupMatcher
from quartzpy.states import JobMode
from quartzpy.store.postgresql.connection import connections
from quartzpy.store.postgresql.steps import halts
from quartzpy.store.protocol import EVERYTHING, BatchEntry, JobEntry, JobGroups, NamedTriggers, TriggerMove
from tests.contract.harness import SECOND, WINDOW, at, every, job, job_key, key, once, serial, stored_trigger
from tests.protocol.driver import DrivenNode, Stage
from tests.protocol.faults import Faults, Mode
from tests.protocol.options import is_long

MAX_PIPELINES = 40
"""No operation of so small a stage takes so many: a loop that does not end is found."""
LATEST = 10
"""By then the node that gave a round trip up has long looked what became of it."""
BACKLOG = 200
TENANT = "tenant"
Act = Callable[[], Any]


@dataclass
class Prepared:
    """An operation that is about to happen."""

    act: Act
    lives: list[DrivenNode] = field(default_factory=list)
    """Who goes on living, besides node b."""
    by_user: bool = False
    afterwards: Act | None = None
    """What a user does once the fault is over, so that all comes to rest soon."""


OPERATIONS: dict[str, Callable[[Stage, DrivenNode], Prepared]] = {}


def operation(prepare: Callable[[Stage, DrivenNode], Prepared]) -> Callable[[Stage, DrivenNode], Prepared]:
    OPERATIONS[prepare.__name__.replace("_", "-")] = prepare
    return prepare


@pytest.fixture(autouse=True)
def _few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(halts, "MOST", 5)


# --- the stage


def scheduled(stage: Stage) -> None:
    """What is due, what is soon, two of a serial job that counts its runs, one that fails and is retried.

    And more than may run at a time: of a serial job, of each key of a job, and of a job with a limit of two.
    """
    stage.schedule(job("plain"), every(5, "due", times=2))
    stage.store.store_jobs([_exhausted(stage), *_limited(stage)], replace=False)
    stage.schedule(serial("serial", persist_data=True, data={"n": 0}), once("s1", priority=9), once("s2"))
    failing = job("failing", retry=RetryPolicy(attempts=2, delay=SECOND, jitter=0.0), durable=True)
    stage.schedule(failing, once("fails", data={"fails": True}))


def _exhausted(stage: Stage) -> Any:
    """Its following instants are not computed: a node computes more before each of its fires."""
    detail = job("slow", requests_recovery=True)
    return JobEntry(detail, [stage.exhausted(every(5, "soon", start=at(6), times=2), detail.key)])


def _limited(stage: Stage) -> list[JobEntry]:
    details = {
        "deep": serial("deep"),
        "keyed": job("keyed", max_concurrent=1, concurrency_key=TENANT),
        "wide": job("wide", max_concurrent=2),
    }
    # They have been due for a while, each at an instant of its own.
    triggers = {
        "deep": [once(f"deep-{n}", at(-0.5 + n / 10)) for n in range(4)],
        "keyed": [once(f"keyed-{n}", at(-0.5 + n / 10), data={TENANT: f"tenant-{n % 2}"}) for n in range(4)],
        "wide": [once(f"wide-{n}", at(-0.5 + n / 10)) for n in range(4)],
    }
    return [
        JobEntry(detail, [stage.prepare(trigger, detail.key) for trigger in triggers[name]])
        for name, detail in details.items()
    ]


def deep_backlog(stage: Stage) -> Act:
    """Store a serial job with very many due triggers; return what lets them all run at once.

    They would take too many passes one by one, and must not misfire meanwhile.
    """
    triggers = [once(f"b{n:03}", at(-0.5 + n / 1000), misfire="ignore") for n in range(BACKLOG)]
    stage.schedule(serial("backlog", durable=True), *triggers)
    return lambda: stage.schedule(job("backlog", durable=True), replace=True)


# --- a node's operations


@operation
def register(stage: Stage, other: DrivenNode) -> Prepared:
    scheduled(stage)
    node = stage.new_node("a")
    return Prepared(node.register, [node])


@operation
def check_in(stage: Stage, other: DrivenNode) -> Prepared:
    node = stage.living("a")
    scheduled(stage)
    return Prepared(node.check_in, [node])


@operation
def acquire(stage: Stage, other: DrivenNode) -> Prepared:
    node = stage.living("a")
    scheduled(stage)
    return Prepared(node.schedule, [node])


@operation
def refill(stage: Stage, other: DrivenNode) -> Prepared:
    """The second instant of due fires, and soon is refilled before it fires."""
    node = stage.living("a")
    scheduled(stage)
    node.schedule()
    node.schedule()
    stage.clock.advance(6 * SECOND)

    def fire() -> None:
        node.schedule()
        node.schedule()

    return Prepared(fire, [node])


@operation
def fire_ahead(stage: Stage, other: DrivenNode) -> Prepared:
    """What is due in a moment fires now."""
    node = stage.living("a")
    scheduled(stage)
    node.schedule()
    stage.clock.advance(4 * SECOND)

    def fire() -> None:
        node.schedule_ahead(2.0)
        stage.clock.advance(4 * SECOND)

    return Prepared(fire, [node])


@operation
def stand_by(stage: Stage, other: DrivenNode) -> Prepared:
    node = stage.living("a")
    scheduled(stage)
    node.schedule()
    return Prepared(node.stand_by, [node])


@operation
def settle(stage: Stage, other: DrivenNode) -> Prepared:
    node = stage.living("a")
    scheduled(stage)
    faults = Faults(stage)
    # The first is a read, because nothing is expected, and would be repeated.
    with pytest.MonkeyPatch.context() as patch, faults.armed(Mode.ANSWER_LOST, 2):
        patch.setattr(connections, "execute_pipelined", faults.execute)
        node.schedule()
    return Prepared(node.schedule, [node])


@operation
def complete(stage: Stage, other: DrivenNode) -> Prepared:
    node = stage.living("a")
    scheduled(stage)
    node.schedule()
    node.run()
    return Prepared(node.complete, [node])


def _joined(stage: Stage) -> None:
    """Two jobs after which another one runs, and a batch of three triggers with one end; all of them are due."""
    for name in ("first", "second"):
        stage.schedule(job(name, durable=True), once(name))
    stage.schedule(job("joined", after=["first", "second"]))
    batch = BatchKey(job_key("batched"), "batch")
    parts = [stage.prepare(once(f"part-{n}", data=batch_entry(batch)), job_key("part")) for n in range(3)]
    entries = [JobEntry(job("part", durable=True), parts), JobEntry(job("batched", durable=True))]
    stage.store.store_jobs(entries, replace=False, batch=BatchEntry(batch, len(parts), ON["end"]))


@operation
def complete_joined(stage: Stage, other: DrivenNode) -> Prepared:
    """The ends that are recorded together start a job that waits for two others, and the one of a batch."""
    node = stage.living("a")
    _joined(stage)
    node.schedule()
    node.run()
    return Prepared(node.complete, [node])


@operation
def recover_joined(stage: Stage, other: DrivenNode) -> Prepared:
    """The ends of a node that died start the job of a batch."""
    node = stage.living("a")
    victim = stage.living("c")
    _joined(stage)
    victim.schedule()
    return _next_check_in_recovers(stage, node)


@operation
def delete_of_batch(stage: Stage, other: DrivenNode) -> Prepared:
    """The deletion of the last triggers of a batch starts its job."""
    node = stage.living("a")
    _joined(stage)
    stage.store.pause(NamedTriggers([key("part-1"), key("part-2")]))
    node.schedule()
    node.run()
    node.complete()
    return Prepared(lambda: stage.store.delete_triggers([key("part-1"), key("part-2")]), [node], by_user=True)


@operation
def complete_at_length(stage: Stage, other: DrivenNode) -> Prepared:
    """The end of an execution pauses more triggers than one statement may."""
    node = stage.living("a")
    paused = [once(f"paused-{n}", at(30)) for n in range(halts.MOST)]
    detail = job("halting", pause_after_failures=1, durable=True)
    stage.schedule(detail, once("halts", data={"fails": True}), *paused)
    node.schedule()
    node.run()
    return Prepared(node.complete, [node])


@operation
def acquire_backlog(stage: Stage, other: DrivenNode) -> Prepared:
    node = stage.living("a")
    return Prepared(node.schedule, [node], afterwards=deep_backlog(stage))


@operation
def complete_backlog(stage: Stage, other: DrivenNode) -> Prepared:
    node = stage.living("a")
    afterwards = deep_backlog(stage)
    node.schedule()
    node.run()
    return Prepared(node.complete, [node], afterwards=afterwards)


@operation
def misfire(stage: Stage, other: DrivenNode) -> Prepared:
    stage.schedule(
        job("late", durable=True),
        every(5, "now", times=2, misfire="fire_now"),
        every(5, "next", times=20, misfire="reschedule_next_with_remaining_count"),
        every(5, "all", times=2, misfire="fire_all", catch_up_max=9),
    )
    for _ in range(18):  # node b sees everybody's check-ins, and fires nothing
        stage.clock.advance(5 * SECOND)
        other.check_in()
    node = stage.living("a")
    node.check_in()
    return Prepared(node.misfire, [node])


def _a_node_dies(stage: Stage) -> None:
    """It dies with executions, of which one is to be recovered, and node a sees it silent for its window."""
    victim = stage.living("c")
    scheduled(stage)
    victim.schedule()
    stage.clock.advance(6 * SECOND)
    victim.schedule()


def _next_check_in_recovers(stage: Stage, node: DrivenNode) -> Prepared:
    """The others have been silent for their window at the node's next check-in."""
    for _ in range(int(WINDOW / (5 * SECOND))):
        node.check_in()
        stage.clock.advance(5 * SECOND)
    node.check_in()
    stage.clock.advance(SECOND)
    return Prepared(node.check_in, [node])


@operation
def recover(stage: Stage, other: DrivenNode) -> Prepared:
    node = stage.living("a")
    _a_node_dies(stage)
    return _next_check_in_recovers(stage, node)


@operation
def leave(stage: Stage, other: DrivenNode) -> Prepared:
    node = stage.living("a")
    stage.store.store_jobs([_exhausted(stage)], replace=False)
    node.schedule()
    return Prepared(node.leave)


# --- a user's operations


def by_user(act: Callable[[Stage], Any], name: str = "") -> None:
    """An operation on what is scheduled, while node a holds executions."""

    def prepare(stage: Stage, other: DrivenNode) -> Prepared:
        node = stage.living("a")
        scheduled(stage)
        stage.put_calendar("holidays", HolidayCalendar(frozenset({at(0).date()})))
        node.schedule()
        return Prepared(partial(act, stage), [node], by_user=True)

    OPERATIONS[name or act.__name__.replace("_", "-")] = prepare


def store_new(stage: Stage) -> None:
    stage.schedule(job("new"), once("new", at(3)))


def store_again(stage: Stage) -> None:
    stage.schedule(serial("serial", persist_data=True), once("s1", at(8)), replace=True)


def replace_trigger(stage: Stage) -> None:
    stage.store.replace_trigger(key("soon"), stage.prepare(every(5, "sooner", start=at(3), times=2), job_key("slow")))


def pause_trigger(stage: Stage) -> None:
    stage.store.pause(NamedTriggers([key("soon"), key("s2")]))


def resume_trigger(stage: Stage) -> None:
    stage.store.resume(NamedTriggers([key("soon"), key("s2")]))


def pause_all(stage: Stage) -> None:
    stage.store.pause(EVERYTHING)


def pause_group(stage: Stage) -> None:
    stage.store.pause(JobGroups(GroupMatcher.equals("DEFAULT")))


def disable(stage: Stage) -> None:
    stage.store.set_mode(job_key("slow"), JobMode.DISABLED)


def delete_trigger(stage: Stage) -> None:
    stage.store.delete_triggers([key("soon"), key("s2")])


def delete_job(stage: Stage) -> None:
    stage.store.delete_jobs([job_key("slow"), job_key("serial")])


def clear(stage: Stage) -> None:
    stage.store.clear()


def replace_calendar(stage: Stage) -> None:
    stage.put_calendar("holidays", HolidayCalendar(frozenset({at(90_000).date()})), replace=True)


def delete_calendar(stage: Stage) -> None:
    stage.store.delete_calendar("holidays")


def own(stage: Stage) -> None:
    stage.store.own("somebody", [job_key("plain")], [key("soon")])


def purge(stage: Stage) -> None:
    stage.store.purge_history(timedelta(days=1), limit=100)


def move_triggers(stage: Stage) -> None:
    record = stored_trigger(stage.store, key("s2"))
    assert record is not None
    moved = stage.prepare(once("s2", at(4)), job_key("serial"))
    stage.store.move_triggers([TriggerMove(record, moved)])


for each in (
    store_new,
    store_again,
    replace_trigger,
    pause_trigger,
    pause_all,
    pause_group,
    disable,
    delete_trigger,
    delete_job,
    clear,
    replace_calendar,
    delete_calendar,
    own,
    purge,
    move_triggers,
):
    by_user(each)


def _paused(act: Callable[[Stage], Any]) -> Callable[[Stage, DrivenNode], Prepared]:
    """An operation on what was paused before."""

    def prepare(stage: Stage, other: DrivenNode) -> Prepared:
        node = stage.living("a")
        scheduled(stage)
        node.schedule()
        stage.store.pause(EVERYTHING)
        return Prepared(partial(act, stage), [node], by_user=True)

    return prepare


OPERATIONS["resume-trigger"] = _paused(resume_trigger)
OPERATIONS["resume-all"] = _paused(lambda stage: stage.store.resume(EVERYTHING))


# --- the loop


@pytest.fixture(scope="module")
def stages() -> Iterator[dict[str, Stage]]:
    """The stage of this module, made by the first test: its stores and their connections serve them all."""
    made: dict[str, Stage] = {}
    yield made
    for one in made.values():
        one.close()


@pytest.fixture
def stage(stages: dict[str, Stage], request: pytest.FixtureRequest) -> Stage:
    if "stage" not in stages:
        # Enough for all that is due at once, so that a node claims what is due next as well, and that no batch ends
        # among triggers of one instant, of which the order of the rows would decide.
        stages["stage"] = Stage(request.getfixturevalue("postgres_dsn"), workers=20)
    return stages["stage"]


@pytest.fixture
def faults(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Iterator[Faults]:
    made = Faults(stage)
    monkeypatch.setattr(connections, "execute_pipelined", made.execute)
    yield made
    made.end()


JOINED = {
    "complete-joined": [("batched", "FIRED", 0), ("joined", "FIRED", 0)],
    "recover-joined": [("batched", "FIRED", 0), ("joined", "WAITING", 0)],
    "delete-of-batch": [("batched", "FIRED", 2), ("joined", "FIRED", 0)],
}
"""What waits for several ends, its state afterwards, and the triggers that ended without a fire."""
STEPS = ("acquire", "refill", "fire-ahead", "settle", "complete", "misfire", "recover")
"""The steps of the protocol: all their round trips, in every run."""
OF_NODES = (*STEPS, "register", "check-in", "stand-by", "leave", "complete-joined")


@dataclass(frozen=True)
class Reference:
    """What an operation comes to where nothing goes wrong, and how many round trips it takes."""

    outcome: Any
    pipelines: int


references: dict[str, Reference] = {}


def play(stage: Stage, faults: Faults, name: str, mode: Mode | None, number: int, *, goes_on_after: int = 0) -> bool:
    """One life with one fault, up to its rest; whether there was a round trip of this number."""
    stage.reset()
    faults.goes_on_after = goes_on_after
    other = stage.living("b")
    other.check_in()
    prepared = OPERATIONS[name](stage, other)
    failed = False
    with faults.armed(mode, number):
        try:
            prepared.act()
        except (StoreUnavailableError, OutcomeUnknownError):
            assert prepared.by_user, "a node handles this by itself"
            failed = True
    if mode is not None and not faults.was_reached:
        return False
    if prepared.by_user:
        if mode is not None and mode.holds_rows:
            faults.end()
        if failed:
            try:
                prepared.act()
            except ObjectAlreadyExistsError:
                assert name == "store-new", "it was stored by the call whose answer was lost"
        faults.end()
    for node in (*prepared.lives, other):
        node.live()
    assert stage.violations() == []
    faults.end()
    assert in_order(stage)
    if prepared.afterwards is not None:
        prepared.afterwards()
    stage.bring_to_rest(*prepared.lives, other)
    assert stage.violations(at_rest=True) == []
    return True


def in_order(stage: Stage) -> bool:
    """Whether the triggers of each serial job fired in the order of their fire times."""
    fires = stage.rows(
        "SELECT job_name, fire_id, scheduled_time FROM qrtz_executions WHERE job_name IN ('deep', 'backlog')"
        " UNION SELECT job_name, fire_id, scheduled_time FROM qrtz_fired_triggers"
        "  WHERE job_name IN ('deep', 'backlog') ORDER BY 1, 2"
    )
    return all(
        earlier < later for (job_name, _, earlier), (next_name, _, later) in pairwise(fires) if job_name == next_name
    )


def reference(stage: Stage, faults: Faults, name: str) -> Reference:
    if name not in references:
        play(stage, faults, name, None, 0)
        assert faults.pipelines, "the operation sends nothing"
        references[name] = Reference(stage.outcome(), faults.pipelines)
    return references[name]


def numbers(name: str, mode: Mode, pipelines: int, *, is_long: bool) -> range:
    """The round trips to go wrong. A long run goes on until there is none: after a fault there may be more."""
    if is_long:
        return range(1, MAX_PIPELINES)
    if name in STEPS:
        return range(1, pipelines + 1)
    one = 1 + [*Mode].index(mode) // (1 if name in OF_NODES else 2) % pipelines
    return range(one, one + 1)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "mode" not in metafunc.fixturenames or "behind" in metafunc.fixturenames:
        return
    plays = [
        (name, mode)
        for place, name in enumerate(OPERATIONS)
        for turn, mode in enumerate(Mode, place)
        if is_long(metafunc.config) or name in OF_NODES or turn % 3 == 0
    ]
    metafunc.parametrize(("name", "mode"), plays, ids=[f"{name}-{mode}" for name, mode in plays])


def test_any_fault_of_a_round_trip_leads_to_the_same_result_as_no_fault(
    stage: Stage, faults: Faults, name: str, mode: Mode, pytestconfig: pytest.Config
) -> None:
    expected = reference(stage, faults, name)
    for number in numbers(name, mode, expected.pipelines, is_long=is_long(pytestconfig)):
        if not play(stage, faults, name, mode, number):
            assert number > expected.pipelines, "the operation sends as much as without a fault, at the least"
            return
        assert stage.outcome() == expected.outcome, f"round trip {number} of {name}, {mode}"
    assert number < MAX_PIPELINES - 1, "the operation does not end"


@pytest.mark.parametrize("name", STEPS)
def test_an_abandoned_round_trip_may_commit_at_any_later_moment(
    stage: Stage, faults: Faults, name: str, pytestconfig: pytest.Config
) -> None:
    """Between any two round trips of the node that gave it up: while it looks what became of it, and after."""
    expected = reference(stage, faults, name)
    for number in range(1, MAX_PIPELINES):
        for behind in range(1, LATEST) if is_long(pytestconfig) else (1, 2):
            if not play(stage, faults, name, Mode.LATE, number, goes_on_after=behind):
                return
            assert stage.outcome() == expected.outcome, f"round trip {number} of {name} commits behind {behind} others"


@pytest.mark.parametrize(
    ("name", "mode", "behind"),
    [
        *(
            (name, mode, 0)
            for name in ("acquire", "refill", "fire-ahead")
            for mode in (Mode.ANSWER_LOST, Mode.TRIGGERS_HELD)
        ),
        *((name, Mode.LATE, behind) for name in ("acquire", "refill", "fire-ahead", "settle") for behind in (1, 2)),
    ],
)
def test_the_next_passes_end_the_difference_with_no_check_in(
    stage: Stage, faults: Faults, name: str, mode: Mode, behind: int
) -> None:
    """What a check-in would heal is not left to it."""
    faults.goes_on_after = behind
    stage.reset()
    prepared = OPERATIONS[name](stage, stage.living("b"))
    [node] = prepared.lives
    with faults.armed(mode, 1):
        prepared.act()
    if mode.holds_rows:
        faults.end()
    for _ in range(2):
        node.schedule()
    faults.end()
    held = stage.rows("SELECT fire_id FROM qrtz_fired_triggers WHERE epoch = %s", node.node.epoch)
    assert {fire_id for (fire_id,) in held} == node.executions


@pytest.mark.parametrize("name", OPERATIONS)
def test_without_a_fault_each_instant_runs_once(stage: Stage, faults: Faults, name: str) -> None:
    """The reference itself is right."""
    outcome = reference(stage, faults, name).outcome
    assert all(count == 1 for count in outcome["runs"].values())
    assert all(count == 1 for count in outcome["executions"].values())
    if name not in (
        "misfire",
        "recover",
        "leave",
        "clear",
        "acquire-backlog",
        "complete-backlog",
        "complete-at-length",
        "complete-joined",
        "recover-joined",
        "delete-of-batch",
    ):
        ran = {instant[0] for instant in outcome["runs"]}
        assert {"DEFAULT.due", "DEFAULT.s1", "DEFAULT.fails"} <= ran
    if name in STEPS and name not in ("misfire", "recover"):
        ran = {instant[0] for instant in outcome["runs"]}
        assert {f"DEFAULT.{limited}-{n}" for limited in ("deep", "keyed", "wide") for n in range(4)} <= ran
    if name.endswith("-backlog"):
        assert len(outcome["runs"]) == BACKLOG
    if name in JOINED:
        assert [(job_name, state, removed) for job_name, _, state, _, _, removed in outcome["joins"]] == JOINED[name]
        started = {what for what, _ in outcome["runs"] if what.startswith("after an end")}
        names = {"batched": "after an end: batch", "joined": "after an end: join"}
        assert started == {names[job_name] for job_name, state, _ in JOINED[name] if state == "FIRED"}
