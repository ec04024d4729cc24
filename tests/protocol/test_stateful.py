"""Random lives of three whole nodes and their users, in memory and on PostgreSQL, by the same rules.

Steps may fail before they are sent, lose their answer, or be done by the store only long after the node gave them up;
nodes crash, freeze and thaw; the store's clock jumps. After each rule the invariants hold (the letters are those of
the specification of safety); at the end all is healed, and the cluster comes to rest by itself.
`--long` lives many more of them, each time others, and makes what it finds small.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from quartzpy.errors import LeaseLostError, OutcomeUnknownError, StoreUnavailableError
from quartzpy.jobs.retry import RetryPolicy
from quartzpy.keys import RECOVERING_JOBS, RETRYING_JOBS
from quartzpy.states import Outcome, TriggerState
from quartzpy.store.memory.store import RamJobStore
from quartzpy.store.protocol import EVERYTHING, JobEntry, JobStore, NamedTriggers, Node
from quartzpy.store.queries import HISTORY, TriggerQuery
from tests.contract.harness import (
    CHECKIN,
    SECOND,
    START,
    Harness,
    ManualClock,
    RamHarness,
    every,
    job,
    key,
    serial,
    stored_job,
)
from tests.protocol.driver import DrivenNode, Runs, Stage
from tests.protocol.options import is_long

NODES = ("a", "b", "c")
TRIGGERS = [f"t{n}" for n in range(6)]
JOBS = {
    "plain": job("plain", durable=True),
    "recovering": job("recovering", durable=True, requests_recovery=True),
    "serial": serial("serial", durable=True, persist_data=True, data={"n": 0}),
    "failing": job("failing", durable=True, retry=RetryPolicy(attempts=2, delay=3 * SECOND, jitter=0.0)),
}
LEAD = 2 * SECOND
MADE_BY_PROTOCOL = (RECOVERING_JOBS, RETRYING_JOBS)
HELD = (TriggerState.BLOCKED, TriggerState.PAUSED_BLOCKED)
FAILURES = ["before", "after", "late"]
"""The step is not sent, or its answer is lost, or it is done only when the node has given it up."""
a_failure = st.one_of(st.none(), st.tuples(st.sampled_from(FAILURES), st.integers(0, 1)))
"""What becomes of a pass of a node: of its first step that asks the store, or of its second."""


class WorldClock(ManualClock):
    """The store's time, which may jump, and the machines' steady clocks, which do not."""

    def __init__(self, on_move: Callable[[datetime], None] | None = None) -> None:
        super().__init__(on_move)
        self._steady = 0.0
        self._ahead = timedelta()

    def monotonic(self) -> float:
        return self._steady

    def advance(self, span: timedelta) -> None:
        self._steady += span.total_seconds()
        super().advance(span)

    def jump(self, span: timedelta) -> None:
        self._ahead += span
        super().advance(span)

    def set_right(self) -> None:
        """What a clock that was set back delays comes when it is right again."""
        if self._ahead < timedelta():
            self.jump(-self._ahead)


class Line:
    """A node's line to its store: the steps of a node go over it, and one of them may fare badly."""

    def __init__(self, store: JobStore) -> None:
        self._store = store
        self._mode: str | None = None
        self._behind = 0
        self.late: list[Callable[[], Any]] = []

    def spoil(self, mode: str, behind: int) -> None:
        """Let a step fail, so many others behind."""
        self._mode, self._behind = mode, behind

    def heal(self) -> None:
        self._mode = None

    def arrive(self) -> None:
        """What the store has of given-up steps is done now."""
        while self.late:
            with suppress(LeaseLostError):
                self.late.pop(0)()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        return partial(self._step, found) if callable(found) else found

    def _step(self, step: Callable[..., Any], *values: Any, **named: Any) -> Any:
        if self._mode is None or not (values and isinstance(values[0], Node)):
            return step(*values, **named)
        if self._behind:
            self._behind -= 1
            return step(*values, **named)
        mode, self._mode = self._mode, None
        if mode == "before":
            raise StoreUnavailableError("refused by the test")
        if mode == "late":
            self.late.append(partial(step, *values, **named))
        else:
            step(*values, **named)
        raise OutcomeUnknownError("the answer was lost by the test")


class World:
    """A store with its nodes and its clock."""

    def __init__(self, harness: Harness, clock: WorldClock, store_of: Callable[[str], JobStore]) -> None:
        self.harness = harness
        self.clock = harness.clock = clock
        self.store = harness.store
        self.runs = Runs()
        self._store_of = store_of

    def new_node(self, name: str) -> tuple[DrivenNode, Line]:
        line = Line(self._store_of(name))
        return DrivenNode(name, line, self.clock, self.runs), line  # type: ignore[arg-type]


class Cluster(RuleBasedStateMachine):
    """Three nodes, four jobs, six triggers."""

    def __init__(self, new_world: Callable[[], World]) -> None:
        super().__init__()
        self.world = new_world()
        self.harness = self.world.harness
        self.store = self.world.store
        self.clock = self.world.clock
        self.nodes: dict[str, DrivenNode] = {}
        self.lines: dict[str, Line] = {}
        self.lost_lines: list[Line] = []
        self.frozen: set[str] = set()
        self.everyone: list[DrivenNode] = []
        self.generation = 0
        self.gone: dict[str, set[int]] = {}
        self.next_times: dict[tuple[Any, int], datetime] = {}
        for detail in JOBS.values():
            self.harness.schedule(detail)
        for name in NODES:
            self.start(name)
        for number, name in enumerate(TRIGGERS):
            self.schedule(name, [*JOBS, "serial", "plain"][number], 30, 2, number, number % 2 == 0)

    # --- users

    @rule(
        name=st.sampled_from(TRIGGERS),
        of=st.sampled_from(sorted(JOBS)),
        seconds=st.sampled_from([7, 30, 70]),
        times=st.integers(1, 3),
        delay=st.sampled_from([-90, -5, 0, 3, 20]),
        exhausted=st.booleans(),
    )
    def schedule(self, name: str, of: str, seconds: int, times: int, delay: int, exhausted: bool) -> None:
        trigger = every(
            seconds,
            name,
            start=self.clock.now() + delay * SECOND,
            times=times,
            data={"fails": True} if of == "failing" else None,
        )
        prepared = self.harness.prepare(trigger, JOBS[of].key)
        if exhausted:
            prepared = self.harness.exhausted(trigger, JOBS[of].key)
        self.store.store_jobs([JobEntry(None, [prepared])], replace=True)
        self.gone.pop(name, None)

    @rule(name=st.sampled_from(TRIGGERS))
    def delete(self, name: str) -> None:
        self.store.delete_triggers([key(name)])
        self.gone[name] = self._fires_of(name)

    @rule(name=st.sampled_from(TRIGGERS))
    def pause(self, name: str) -> None:
        self.store.pause(NamedTriggers([key(name)]))
        self.gone[name] = self._fires_of(name)

    @rule(name=st.sampled_from(TRIGGERS))
    def resume(self, name: str) -> None:
        self.store.resume(NamedTriggers([key(name)]))
        self.gone.pop(name, None)

    @rule(seconds=st.sampled_from([1, 2, 4, 4, 25]))
    def tick(self, seconds: int) -> None:
        self.clock.advance(seconds * SECOND)

    @rule(seconds=st.sampled_from([-40, -3, 3, 40]))
    def clock_jump(self, seconds: int) -> None:
        self.clock.jump(seconds * SECOND)

    # --- nodes

    def _awake(self, name: str) -> DrivenNode | None:
        return None if name in self.frozen else self.nodes.get(name)

    @rule(name=st.sampled_from(NODES))
    def start(self, name: str) -> None:
        """A process starts in the place of one that ended; what that one left is for the others to find."""
        if name not in self.nodes:
            node, self.lines[name] = self.world.new_node(f"{name}{len(self.everyone)}")
            node.register()
            self.nodes[name] = node
            self.everyone.append(node)

    @rule(name=st.sampled_from(NODES))
    def crash(self, name: str) -> None:
        if self.nodes.pop(name, None) is not None:
            self.frozen.discard(name)
            self.lost_lines.append(self.lines.pop(name))

    @rule(name=st.sampled_from(NODES))
    def freeze(self, name: str) -> None:
        if name in self.nodes:
            self.frozen.add(name)

    @rule(name=st.sampled_from(NODES))
    def thaw(self, name: str) -> None:
        self.frozen.discard(name)

    @rule(name=st.sampled_from(NODES))
    def arrive(self, name: str) -> None:
        if name in self.lines:
            self.lines[name].arrive()

    def _step(self, name: str, step: Callable[[DrivenNode], None], failure: tuple[str, int] | None) -> None:
        if (node := self._awake(name)) is not None:
            if failure is not None:
                self.lines[name].spoil(*failure)
            step(node)
            self.lines[name].heal()

    @rule(name=st.sampled_from(NODES), failure=a_failure)
    def check_in(self, name: str, failure: tuple[str, int] | None) -> None:
        self._step(name, DrivenNode.check_in, failure)

    @rule(name=st.sampled_from(NODES), failure=a_failure)
    def fire(self, name: str, failure: tuple[str, int] | None) -> None:
        """Settle, fire what is due, compute the fire times of what is used up."""
        self._step(name, DrivenNode.schedule, failure)

    @rule(name=st.sampled_from(NODES), failure=a_failure)
    def fire_again(self, name: str, failure: tuple[str, int] | None) -> None:
        """A while later, when something else is due."""
        self.clock.advance(3 * SECOND)
        self._step(name, DrivenNode.schedule, failure)

    @rule(name=st.sampled_from(NODES), failure=a_failure)
    def fire_ahead(self, name: str, failure: tuple[str, int] | None) -> None:
        """Fire what is due in a moment, and let that moment pass: no worker begins before it."""
        self._step(name, lambda node: node.schedule_ahead(LEAD.total_seconds()), failure)
        for check in (self.s3_a_serial_job_executes_once_at_a_time, self.s4_nothing_is_held_by_nobody):
            check()
        self.clock.advance(2 * LEAD)

    @rule(name=st.sampled_from(NODES), failure=a_failure)
    def stand_by(self, name: str, failure: tuple[str, int] | None) -> None:
        self._step(name, DrivenNode.stand_by, failure)

    @rule(name=st.sampled_from(NODES))
    def run(self, name: str) -> None:
        self._step(name, DrivenNode.run, None)

    @rule(name=st.sampled_from(NODES), failure=a_failure)
    def complete(self, name: str, failure: tuple[str, int] | None) -> None:
        self._step(name, DrivenNode.complete, failure)

    @rule(name=st.sampled_from(NODES), failure=a_failure)
    def misfire(self, name: str, failure: tuple[str, int] | None) -> None:
        self._step(name, DrivenNode.misfire, failure)

    @rule()
    def everybody_lives(self) -> None:
        """What passes between two check-ins."""
        self.clock.advance(CHECKIN)
        for name in NODES:
            if (node := self._awake(name)) is not None:
                node.live()

    # --- invariants

    def _fires_of(self, name: str) -> set[int]:
        """The fire_ids of all fires of a trigger that were committed."""
        running = {row.fire_id for row in self.store.list_running() if row.trigger_key == key(name)}
        return running | {
            row.fire_id for row in self.store.find(HISTORY, 10_000) if row.fire_id and row.trigger_key == key(name)
        }

    @invariant()
    def s1_a_fire_runs_at_most_once_and_an_instant_fires_at_most_once(self) -> None:
        assert max(Counter(run.fire_id for run in self.world.runs).values(), default=1) == 1
        instants: dict[Any, set[int]] = {}
        for node in self.everyone:
            for fired in node.workers.handed_over:
                instant = (fired.trigger_key, fired.generation, fired.scheduled_fire_time, fired.attempt)
                instants.setdefault(instant, set()).add(fired.fire_id)
        assert all(len(fire_ids) == 1 for fire_ids in instants.values()), instants

    @invariant()
    def s2_next_fire_times_rise(self) -> None:
        for record in self.store.find(TriggerQuery(), 1_000):
            following = record.progress.next_fire_time
            if following is not None:
                place = (record.trigger.key, record.generation)
                assert self.next_times.get(place, following) <= following
                self.next_times[place] = following

    @invariant()
    def s3_a_serial_job_executes_once_at_a_time(self) -> None:
        assert sum(row.job_key.name == "serial" for row in self.store.list_running()) <= 1

    @invariant()
    def s4_nothing_is_held_by_nobody(self) -> None:
        running = self.store.list_running()
        epochs = {record.epoch for record in self.store.list_nodes().nodes}
        assert all(row.epoch in epochs for row in running)
        if any(record.state in HELD for record in self.store.find(TriggerQuery(), 1_000)):
            assert "serial" in {row.job_key.name for row in running}

    @invariant()
    def s7_what_a_job_stores_is_a_chain(self) -> None:
        detail = stored_job(self.store, JOBS["serial"].key)
        assert detail is not None
        ended = self.store.find(HISTORY, 10_000)
        assert dict(detail.data or {})["n"] == sum(
            row.job_key.name == "serial" and row.outcome is Outcome.SUCCEEDED for row in ended
        )

    @invariant()
    def s8_a_fire_ends_in_one_way(self) -> None:
        ended = Counter(row.fire_id for row in self.store.find(HISTORY, 10_000))
        assert max(ended.values(), default=1) == 1
        assert not ended.keys() & {row.fire_id for row in self.store.list_running()}

    @invariant()
    def s9_fences_of_a_serial_job_rise(self) -> None:
        given = [run.fire_id for run in self.world.runs if run.job_detail.name == "serial"]
        executed = {row.fire_id for row in self.store.find(HISTORY, 10_000) if row.outcome is Outcome.SUCCEEDED}
        recorded = [fire_id for fire_id in given if fire_id in executed]
        assert recorded == sorted(recorded)

    @invariant()
    def s10_what_was_paused_or_deleted_does_not_fire(self) -> None:
        for name, fires in self.gone.items():
            assert self._fires_of(name) <= fires, name

    # --- the end

    def teardown(self) -> None:
        """Faults stop, and with no human hand all comes to rest within the time that a dead node takes."""
        self.frozen.clear()
        self.clock.set_right()
        for line in [*self.lines.values(), *self.lost_lines]:
            line.heal()
            line.arrive()
        if not self.nodes:
            self.start("a")
        self.store.resume(EVERYTHING)
        self.gone.clear()
        for _ in range(24):
            for node in self.nodes.values():
                node.live()
            if self._is_at_rest():
                break
            self.clock.advance(CHECKIN)
        else:
            raise AssertionError(f"stuck: {self.store.list_running()}\n{self.store.find(TriggerQuery(), 1_000)}")
        for check in (
            self.s1_a_fire_runs_at_most_once_and_an_instant_fires_at_most_once,
            self.s7_what_a_job_stores_is_a_chain,
            self.s8_a_fire_ends_in_one_way,
        ):
            check()

    def _is_at_rest(self) -> bool:
        now = self.clock.now()
        return (
            not self.store.list_running()
            and {record.epoch for record in self.store.list_nodes().nodes}
            == {node.node.epoch for node in self.nodes.values()}
            and not any(
                record.progress.next_fire_time is not None
                and record.progress.next_fire_time <= now
                and record.state in (TriggerState.WAITING, *HELD)
                for record in self.store.find(TriggerQuery(), 1_000)
            )
        )


def how_often(config: pytest.Config, examples: int, steps: int, *, in_long_runs: int) -> settings:
    long = is_long(config)
    return settings(
        max_examples=in_long_runs if long else examples,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        derandomize=not long,
        print_blob=False,
        phases=list(Phase) if long else [Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


def test_random_lives_in_memory(pytestconfig: pytest.Config) -> None:
    def new_world() -> World:
        clock = WorldClock()
        harness = RamHarness()
        harness.store = RamJobStore(clock)
        harness.store.open()
        return World(harness, clock, lambda name: harness.store)

    lives = how_often(pytestconfig, 60, 50, in_long_runs=2_000)
    run_state_machine_as_test(lambda: Cluster(new_world), settings=lives)


@pytest.fixture
def stage(postgres_dsn: str) -> Iterator[Stage]:
    made = Stage(postgres_dsn)
    yield made
    made.close()


def test_random_lives_on_postgresql(stage: Stage, pytestconfig: pytest.Config) -> None:
    def new_world() -> World:
        stage.reset()
        clock = WorldClock(stage.write_time)
        clock.set(START)
        return World(stage, clock, lambda name: stage.store_of(name[0]))

    lives = how_often(pytestconfig, 12, 40, in_long_runs=400)
    run_state_machine_as_test(lambda: Cluster(new_world), settings=lives)
