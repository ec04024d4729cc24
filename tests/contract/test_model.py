"""Random lives of a cluster: whatever three nodes and their users do, in whatever order, the invariants hold.

The letters are RELIABILITY.md's. More runs: `QUARTZPY_MODEL_EXAMPLES=5000 pytest tests/contract/test_model.py`.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from quartzpy.errors import LeaseLostError
from quartzpy.keys import RECOVERING_JOBS, TriggerKey
from quartzpy.matchers import GroupMatcher
from quartzpy.states import CompletionInstruction, Missed, Outcome, OverlapPolicy, TriggerState
from quartzpy.store.memory.limits import open_gates
from quartzpy.store.protocol import (
    EVERYTHING,
    AvailableSlots,
    DispatchKey,
    FiredTrigger,
    Gate,
    JobEntry,
    NamedTriggers,
    Node,
    Reconciliation,
    TriggerGroups,
)
from quartzpy.store.queries import TriggerQuery
from quartzpy.triggers.upcoming import UpcomingFireTimes, refill
from tests.contract.harness import SECOND, WINDOW, RamHarness, every, job, key, stored_trigger

JOBS = {
    "plain": job("plain", durable=True),
    "recovering": job("recovering", durable=True, requests_recovery=True),
    "serial": job("serial", durable=True, disallow_concurrent=True),
    "two": job("two", durable=True, max_concurrent=2),
    "skipping": job("skipping", durable=True, max_concurrent=1, overlap_policy="skip"),
    "buffering": job("buffering", durable=True, max_concurrent=1, overlap_policy="buffer_one"),
    "replacing": job("replacing", durable=True, max_concurrent=2, overlap_policy="cancel_other"),
    "keyed": job("keyed", durable=True, max_concurrent=1, concurrency_key="customer"),
    "serial-recovering": job("serial-recovering", disallow_concurrent=True, requests_recovery=True),
}
TRIGGERS = [f"t{n}" for n in range(8)]
NODES = ["a", "b", "c"]

a_trigger = st.sampled_from(TRIGGERS)
a_node = st.sampled_from(NODES)
a_schedule = st.fixed_dictionaries(
    {
        "seconds": st.sampled_from([30, 70, 300]),
        "times": st.sampled_from([1, 2, 12, None]),
        "misfire": st.sampled_from(["smart", "ignore", "fire_all"]),
        "priority": st.sampled_from([1, 5]),
        "data": st.sampled_from([None, {"customer": "x"}, {"customer": "y"}]),
    }
).map(lambda how: {**how, "catch_up_max": 2 if how["misfire"] == "fire_all" else None})

ENDED_STATES = (TriggerState.COMPLETE, TriggerState.ERROR)
"""Such a trigger fires no more: it ended, or a job asked for it."""


class Virtual:
    """A node as its own process knows it."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.running: list[FiredTrigger] = []
        self.opened: set[Gate] = set()
        """The gates at which its executions have ended since its last step that answered."""


class Cluster(RuleBasedStateMachine):
    """Three nodes, nine jobs, eight triggers, one store."""

    def __init__(self) -> None:
        super().__init__()
        self.harness = RamHarness()
        self.store = self.harness.store
        self.clock = self.harness.clock
        self.nodes: dict[str, Virtual] = {}
        self.fires: list[FiredTrigger] = []
        self.ended: set[int] = set()
        self.recovered: set[int] = set()
        self.next_times: dict[tuple[TriggerKey, int], datetime] = {}
        self.never_misfire: dict[tuple[TriggerKey, int], tuple[datetime, timedelta]] = {}
        for detail in JOBS.values():
            if detail.durable:
                self.harness.schedule(detail)
        for name in NODES:
            self.nodes[name] = Virtual(self.harness.node(name))
        how = {"seconds": 30, "times": None, "misfire": "ignore", "priority": 5}
        for name, of in zip(TRIGGERS, [*JOBS, "serial"], strict=False):
            self.schedule(name, of, how, 1, name == "t0")

    # --- users

    @rule(
        name=a_trigger,
        of=st.sampled_from(sorted(JOBS)),
        how=a_schedule,
        delay=st.integers(-100, 60),
        exhausted=st.booleans(),
    )
    def schedule(self, name: str, of: str, how: dict[str, Any], delay: int, exhausted: bool) -> None:
        trigger = every(name=name, start=self.clock.now() + delay * SECOND, **how)
        prepared = self.harness.prepare(trigger, JOBS[of].key)
        if exhausted:
            prepared = replace(prepared, upcoming=UpcomingFireTimes())
        self.store.store_jobs([JobEntry(JOBS[of], [prepared])], replace=True)
        self._remember(name, how)

    @rule(name=a_trigger, how=a_schedule, delay=st.integers(0, 60))
    def reschedule(self, name: str, how: dict[str, Any], delay: int) -> None:
        record = stored_trigger(self.store, key(name))
        trigger = every(name=name, start=self.clock.now() + delay * SECOND, **how)
        bound = None if record is None else record.trigger.job_key
        if self.store.replace_trigger(key(name), self.harness.prepare(trigger, bound)) is not None:
            self._remember(name, how)

    def _remember(self, name: str, how: dict[str, Any]) -> None:
        record = stored_trigger(self.store, key(name))
        assert record is not None
        # What a full job skips, or lets one fire stand for, is no instant that was missed.
        of = JOBS[record.trigger.job_key.name] if record.trigger.job_key else None
        if how["misfire"] == "ignore" and of is not None and of.overlap_policy is OverlapPolicy.BLOCK:
            start = record.trigger.anchor
            self.never_misfire[key(name), record.generation] = (start, how["seconds"] * SECOND)

    @rule(names=st.sets(a_trigger, min_size=1))
    def delete(self, names: set[str]) -> None:
        self.store.delete_triggers([key(name) for name in names])

    @rule(name=a_trigger)
    def pause(self, name: str) -> None:
        self.store.pause(NamedTriggers([key(name)]))

    @rule(name=a_trigger, missed=st.sampled_from(Missed))
    def resume(self, name: str, missed: Missed) -> None:
        self.store.resume(NamedTriggers([key(name)]), missed)
        self._may_leave_out({key(name)} if missed is not Missed.MISFIRE else set())

    @rule(paused=st.booleans(), recoveries=st.booleans())
    def pause_or_resume_a_group(self, paused: bool, recoveries: bool) -> None:
        matcher = GroupMatcher.equals(RECOVERING_JOBS if recoveries else "DEFAULT")
        if paused:
            self.store.pause(TriggerGroups(matcher))
        else:
            self.store.resume(TriggerGroups(matcher))

    @rule(missed=st.sampled_from(Missed))
    def resume_all(self, missed: Missed) -> None:
        self.store.resume(EVERYTHING, missed)
        self._may_leave_out({key(name) for name in TRIGGERS} if missed is not Missed.MISFIRE else set())

    def _may_leave_out(self, keys: set[TriggerKey]) -> None:
        self.never_misfire = {place: how for place, how in self.never_misfire.items() if place[0] not in keys}

    @rule(seconds=st.sampled_from([0.5, 1, 5, 15, 25, 90]))
    def tick(self, seconds: float) -> None:
        self.clock.advance(timedelta(seconds=seconds))

    # --- nodes

    @rule(name=a_node)
    def start(self, name: str) -> None:
        """A node starts; the one of that name, if it was running, is known to have ended."""
        old = next((record for record in self.store.list_nodes().nodes if record.instance_id == name), None)
        with self._recovery():
            node = self.harness.node(name, ended_epoch=None if old is None else old.epoch)
        self.nodes[name] = Virtual(node)

    @rule(name=a_node)
    def crash(self, name: str) -> None:
        self.nodes.pop(name, None)

    @rule(name=a_node)
    def leave(self, name: str) -> None:
        if name in self.nodes:
            self.store.leave(self.nodes.pop(name).node)

    @rule(name=a_node)
    def check_in(self, name: str) -> None:
        with self._as(name) as virtual:
            self.store.check_in(virtual.node)

    @rule(name=a_node, limit=st.sampled_from([1, 3, 50]), seconds=st.sampled_from([0, 1, 60]))
    def acquire(self, name: str, limit: int, seconds: int) -> None:
        with self._as(name) as virtual:
            took = self.harness.acquire(virtual.node, limit=limit, look_ahead=seconds * SECOND, opened=virtual.opened)
            virtual.opened = set()
            assert took.taken <= limit
            self.harness.refill(virtual.node, took.unfilled)
            self._fired(virtual, took.fired)

    @rule(name=a_node)
    def pass_on_gates(self, name: str) -> None:
        """A node without free workers looks at its gates."""
        with self._as(name) as virtual:
            self.harness.look_at(virtual.node, virtual.opened)
            virtual.opened = set()

    @rule(
        name=a_node,
        count=st.integers(1, 3),
        instruction=st.sampled_from([*[CompletionInstruction.NOOP] * 6, *CompletionInstruction]),
    )
    def complete(self, name: str, count: int, instruction: CompletionInstruction) -> None:
        with self._as(name) as virtual:
            batch, virtual.running = virtual.running[:count], virtual.running[count:]
            self._complete(virtual, batch, instruction)

    @rule(name=a_node, limit=st.sampled_from([1, 100]))
    def misfire(self, name: str, limit: int) -> None:
        with self._as(name) as virtual:
            self.harness.misfire(virtual.node, limit=limit)

    @rule(name=a_node)
    def recover(self, name: str) -> None:
        with self._as(name) as virtual:
            nodes = self.store.check_in(virtual.node)
            dead = [one for one in nodes.nodes if one.last_checkin < nodes.now - WINDOW]
            with self._recovery():
                outcome = self.store.recover(virtual.node, dead)
            assert outcome.repaired == 0
            virtual.opened |= {*outcome.opened}

    @rule(name=a_node, seconds=st.sampled_from([0, 1, 31]))
    def go_on(self, name: str, seconds: int) -> None:
        """A node's everyday life."""
        self.clock.advance(seconds * SECOND)
        self.check_in(name)
        self.acquire(name, 10, 0)

    @rule(name=a_node)
    def compare(self, name: str) -> None:
        with self._as(name) as virtual:
            found = self._reconciled(virtual)
            assert not found.fired, "every answer arrived"
            assert found.holdings.executions == {one.fire_id for one in virtual.running}

    @rule(name=a_node, seconds=st.sampled_from([0, 60]))
    def lose_the_answer_to_an_acquire(self, name: str, seconds: int) -> None:
        with self._as(name) as virtual:
            lost = self.harness.acquire(virtual.node, look_ahead=seconds * SECOND, opened=virtual.opened)
            found = self._reconciled(virtual)
            assert {one.fire_id for one in found.fired} == {one.fire_id for one in lost.fired}
            self._fired(virtual, found.fired)

    def _reconciled(self, virtual: Virtual) -> Reconciliation:
        return self.harness.reconcile(virtual.node, executions=virtual.running)

    # --- what happened

    def _as(self, name: str) -> _Life:
        return _Life(self, name)

    def _recovery(self) -> _Recovery:
        return _Recovery(self)

    def _fired(self, virtual: Virtual, fired: Any) -> None:
        virtual.running += fired
        self.fires += fired

    def _complete(self, virtual: Virtual, batch: list[FiredTrigger], instruction: CompletionInstruction) -> None:
        completions = []
        for fired in batch:
            completion = self.harness.ended(fired, instruction=instruction)
            if fired.fire_id % 7 == 0 and fired.attempt < 3:
                completion.retry_after = 5 * SECOND
            if fired.next_fire_time is not None:
                completion.refill = refill(
                    fired.trigger, fired.next_fire_time, fired.upcoming, fired.times_triggered, None
                )
            completions.append(completion)
        outcome = self.store.complete(virtual.node, completions)
        virtual.opened |= {fired.gate for fired in batch if fired.gate is not None}
        self.ended |= {fired.fire_id for fired in batch} - set(outcome.fenced)

    # --- invariants

    @invariant()
    def s1_an_instant_fires_at_most_once(self) -> None:
        instants = Counter((one.trigger_key, one.generation, one.scheduled_fire_time) for one in self.fires)
        assert all(count == 1 for count in instants.values())

    @invariant()
    def s2_no_instant_is_skipped_and_time_never_goes_back(self) -> None:
        for record in self.store.find(TriggerQuery(), 1000):
            at = record.progress.next_fire_time
            place = (record.trigger.key, record.generation)
            if at is not None:
                assert self.next_times.get(place, at) <= at
                self.next_times[place] = at
                assert list(record.upcoming) == sorted({*record.upcoming} - {at})
                assert not record.upcoming or record.upcoming[0] > at
        scheduled: dict[tuple[TriggerKey, int], list[datetime]] = {}
        for fired in self.fires:
            scheduled.setdefault((fired.trigger_key, fired.generation), []).append(fired.scheduled_fire_time)
            assert fired.next_fire_time is None or fired.next_fire_time > fired.scheduled_fire_time
        for place, (start, interval) in self.never_misfire.items():
            instants = scheduled.get(place, [])
            assert instants == [start + n * interval for n in range(len(instants))]

    @invariant()
    def s3_a_job_executes_as_often_at_a_time_as_it_allows(self) -> None:
        running = Counter(row.gate for row in self.store._tables.fired.values() if row.counts)
        assert all(count <= (JOBS[gate.job_name].max_concurrent or 0) for gate, count in running.items())
        assert running == self.store._tables._running

    @invariant()
    def s4_nothing_is_held_by_nobody(self) -> None:
        tables = self.store._tables
        for row in tables.triggers.values():
            if row.state in ENDED_STATES:
                continue
            assert row.fire_id is None
            if row.state is TriggerState.BLOCKED:
                assert row.job.overlap_policy is not OverlapPolicy.SKIP
                assert tables.free_slots(row) == 0 or row.gate in open_gates(tables)
            assert row.progress.next_fire_time is not None
            assert row.catch_up_until is None or row.progress.next_fire_time <= row.catch_up_until

    @invariant()
    def one_fire_at_most_waits_in_a_buffer(self) -> None:
        waiting = Counter(row.job.key.name for row in self.store._tables.by_state[TriggerState.BLOCKED].values())
        assert waiting["buffering"] <= 1

    @invariant()
    def a_fire_stands_for_instants_that_passed(self) -> None:
        for fired in self.fires:
            assert list(fired.coalesced_fire_times) == sorted(set(fired.coalesced_fire_times))
            assert all(instant <= fired.fire_time for instant in fired.coalesced_fire_times)

    @invariant()
    def s8_every_fire_ends_in_exactly_one_way(self) -> None:
        lost = {record.fire_id for record in self.store._tables.history if record.outcome is Outcome.TERMINATED}
        running = {row.fire_id for row in self.store.list_running()}
        ends = Counter([*lost, *running, *self.ended, *self.recovered])
        assert ends == Counter(fired.fire_id for fired in self.fires)

    @invariant()
    def s9_fences_of_a_serial_job_rise(self) -> None:
        for name in ("serial", "serial-recovering"):
            given = [fired.fire_id for fired in self.fires if fired.job_name == name]
            assert given == sorted(given)

    @invariant()
    def the_index_holds_what_waits(self) -> None:
        tables = self.store._tables
        waiting = sorted(row.entry for row in tables.triggers.values() if row.state is TriggerState.WAITING)
        late = list(tables.due.misfired([DispatchKey("report")], self.clock.now(), 60 * SECOND))
        on_time = list(
            tables.due.on_time({DispatchKey("report"): AvailableSlots()}, self.clock.now(), 60 * SECOND, 1000)
        )
        assert sorted(late + on_time) == waiting
        assert on_time == sorted(on_time)
        for state, rows in tables.by_state.items():
            assert all(row.state is state for row in rows.values())
        assert sum(len(rows) for rows in tables.by_state.values()) == len(tables.triggers)

    # --- the end

    def teardown(self) -> None:
        """All nodes die; one new node brings everything to rest."""
        self.clock.advance(2 * WINDOW)
        with self._recovery():
            last = Virtual(self.harness.node("last"))
        self.store.resume(EVERYTHING)
        dead = [record for record in self.store.list_nodes().nodes if record.epoch != last.node.epoch]
        with self._recovery():
            self.store.recover(last.node, dead)
        for _ in range(2000):
            while self.harness.misfire(last.node).more:
                pass
            opened, last.opened = last.opened, set()
            fired = self.harness.fire_due(last.node, opened=opened)
            if not fired and not opened:
                last.opened = {*self.store.recover(last.node, []).opened}
                if not last.opened:
                    break
            self._fired(last, fired)
            self._complete(last, fired, CompletionInstruction.NOOP)
        else:
            raise AssertionError("the cluster does not come to rest")
        assert not self.store.list_running()
        now = self.clock.now()
        for record in self.store.find(TriggerQuery(), 1000):
            if record.state in ENDED_STATES:
                continue
            assert record.state is TriggerState.WAITING, record
            assert record.progress.next_fire_time is not None
            assert record.progress.next_fire_time > now
        assert not self.store.recover(last.node, []).changed_anything
        self.s1_an_instant_fires_at_most_once()
        self.s2_no_instant_is_skipped_and_time_never_goes_back()
        self.s8_every_fire_ends_in_exactly_one_way()


class _Life:
    """What a node does until it learns that it was declared dead; then it forgets all it had.

    One that does not live is stood in for by one that does.
    """

    def __init__(self, cluster: Cluster, name: str) -> None:
        if not cluster.nodes:
            cluster.start(name)
        self._cluster = cluster
        self._name = name if name in cluster.nodes else next(iter(cluster.nodes))

    def __enter__(self) -> Virtual:
        return self._cluster.nodes[self._name]

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        if kind is None or not issubclass(kind, LeaseLostError):
            return False
        virtual = self._cluster.nodes.pop(self._name)
        registered = {record.epoch for record in self._cluster.store.list_nodes().nodes}
        assert virtual.node.epoch not in registered
        return True


class _Recovery:
    """Notes which fires got a recovery trigger, each once."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def _recoveries(self) -> set[str]:
        keys = self._cluster.store.keys(TriggerKey, GroupMatcher.equals(RECOVERING_JOBS))
        return {one.name for one in keys}

    def __enter__(self) -> None:
        self._before = self._recoveries()

    def __exit__(self, *_: object) -> None:
        new = {int(name.rsplit("_", 1)[1]) for name in self._recoveries() - self._before}
        assert not new & self._cluster.recovered
        self._cluster.recovered |= new


TestCluster = Cluster.TestCase
TestCluster.settings = settings(
    max_examples=int(os.environ.get("QUARTZPY_MODEL_EXAMPLES", "60")),
    stateful_step_count=50,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
