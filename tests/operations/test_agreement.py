"""No page contradicts itself or another: random states of the tables, and everything that is said about them."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest

from quartzpy import Scheduler
from quartzpy.config.config import SchedulerConfig
from quartzpy.matchers import GroupMatcher
from quartzpy.operations import Incident, Operations, Overview
from quartzpy.operations.incidents.incident import MORE
from quartzpy.operations.telling.health_check import EVERY, LISTED_EVERY, HealthCheck
from quartzpy.placement import Capabilities
from quartzpy.states import NodeMode, Outcome, TriggerState
from quartzpy.store.node_problems import NodeProblem
from quartzpy.store.node_states import NodeState, states_of
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.postgresql.admin.records import HealthRun
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.protocol import JobGroups, NamedTriggers, Node, TriggerGroups
from quartzpy.texts import numbered
from tests.contract.harness import MINUTE, REPORT, SECOND, Harness, SqlHarness, at, every, job, key, once, serial
from tests.database import connect_to

SEEDS = range(12)
STEPS = 14


class Scene:
    """A scheduler in which anything may have happened."""

    def __init__(self, store: Harness, seed: int) -> None:
        self.store, self.chance = store, random.Random(seed)
        self.nodes: list[Node] = []
        self.names: list[tuple[str, str]] = []

    def happen(self) -> None:
        often = (self.schedule, self.check_in, self.fire, self.wait)
        kinds = (self.start_node, self.end, self.pause, self.fail_for_good, self.check_in, self.fail_often)
        events: Sequence[Callable[[], object]] = (*often, *often, *kinds)
        self.chance.choice(events)()

    def schedule(self) -> None:
        name, group = f"job{len(self.names)}", self.chance.choice("xy")
        make = self.chance.choice((job, job, serial))
        values: dict[str, Any] = self.chance.choice(
            ({}, {}, {"executor": "gpu"}, {"rate_limit": "1/minute"}, {"job_type": "unknown"})
        )
        triggers = []
        for number in range(self.chance.choice((1, 1, 3, 24))):
            trigger = f"{name}-{number}"
            when = at((self.store.clock.now() - at(0)).total_seconds() + self.chance.choice((0, 1, 30)))
            self.names.append((trigger, group))
            repeats = self.chance.random() < 0.5
            triggers.append(
                every(20, trigger, start=when, group=group) if repeats else once(trigger, when, group=group)
            )
        self.store.schedule(make(name, group, **values), *triggers)

    def start_node(self) -> None:
        node = self.store.node(f"node{len(self.nodes)}")
        self.store.store.publish(
            node, Capabilities(frozenset({REPORT}), workers={"default": self.chance.choice((1, 40))})
        )
        self.nodes.append(node)

    def check_in(self) -> None:
        for node in self.nodes:
            self.store.store.check_in(node)

    def fire(self) -> None:
        if self.nodes:
            self.store.fire_due(self.chance.choice(self.nodes), limit=self.chance.choice((1, 10)))

    def end(self) -> None:
        for node in self.nodes:
            for fired in self.store.fire_due(node, limit=2):
                failed = self.chance.random() < 0.5
                outcome = Outcome.FAILED if failed else Outcome.SUCCEEDED
                self.store.complete(node, fired, outcome=outcome, error="ValueError: x" if failed else None)

    def fail_often(self) -> None:
        for _ in range(4):
            for node in self.nodes[:1]:
                self.store.complete(node, *self.store.fire_due(node), outcome=Outcome.FAILED, error="ValueError: x")
            self.store.clock.advance(20 * SECOND)

    def wait(self) -> None:
        self.store.clock.advance(self.chance.choice((3 * SECOND, 15 * SECOND, MINUTE)))

    def pause(self) -> None:
        if not self.names:
            return
        name, group = self.chance.choice(self.names)
        self.store.store.pause(
            self.chance.choice(
                (
                    NamedTriggers([key(name, group)]),
                    TriggerGroups(GroupMatcher.equals(group)),
                    JobGroups(GroupMatcher.equals(group)),
                )
            )
        )

    def fail_for_good(self) -> None:
        if self.names and not self.nodes:
            self.store.set_state(key(*self.chance.choice(self.names)), TriggerState.ERROR)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_tiles_the_tables_the_incidents_and_why_agree(
    store: Harness, operations: Operations, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(store, seed)
    flights: list[int] = []
    ask = SqlJobStore.ask
    monkeypatch.setattr(
        SqlJobStore, "ask", lambda store, questions: flights.append(len(questions)) or ask(store, questions)
    )
    admin(store.store).take_slot(EVERY, LISTED_EVERY)
    turn = HealthRun(store.clock.now() + EVERY, EVERY, timedelta())
    judge = HealthCheck(operations.scheduler)
    for _ in range(STEPS):
        scene.happen()
        judge.judge(turn)
        flights.clear()
        overview = operations.overview()
        assert len(flights) <= 3, flights
        check_tables(operations, overview)
        check_incidents(operations, overview)
        check_records(store, operations, overview)


def check_records(store: Harness, operations: Operations, overview: Overview) -> None:
    """What is recorded is what is shown: each once, and nothing besides."""
    records = {record.identity: record for record in admin(store.store).open_incidents(1_000)}
    shown = [incident for incident in overview.incidents if incident.lasting != MORE]
    for incident in shown:
        record = records[incident.identity]
        assert (incident.incident_id, incident.opened_at) == (record.incident_id, record.opened_at)
        assert (incident.kind, incident.severity, incident.cause) == (record.kind, record.severity, record.cause)
    is_cut = len(shown) < len(overview.incidents)
    identities = {incident.identity for incident in shown}
    assert records.keys() == identities or (is_cut and records.keys() > identities)
    assert {record.kind for record in records.values()} == {incident.kind for incident in overview.incidents}
    assert len(operations.open_incidents()) == len(records)
    over = operations.past_incidents(limit=1_000)
    assert not {row.incident_id for row in over} & {record.incident_id for record in records.values()}


def check_tables(operations: Operations, overview: Overview) -> None:
    until = overview.now - 10 * SECOND
    late = operations.triggers(state="WAITING", until=until, limit=1000)
    assert overview.number("late").number == len(late)
    assert len(overview.late) == min(20, len(late))
    assert {row.trigger for row in overview.late} <= {row.key for row in late}
    assert all(row.late for row in late)
    for names, state in ((("ERROR",), "ERROR"), (("PAUSED", "PAUSED_BLOCKED"), "PAUSED"), (("BLOCKED",), "BLOCKED")):
        assert overview.number(*names).number == len(operations.triggers(state=state, limit=1000)), state
    assert overview.number("running", "claimed").number == len(operations.running())
    assert [node.state for node in overview.nodes] == [node.state for node in operations.cluster().nodes]
    for row in overview.late:
        if row.why:
            assert row.why == operations.why(row.trigger) == operations.trigger(row.trigger).why
    groups = operations.groups()
    for kind in (groups.triggers, groups.jobs):
        assert (sum(group.in_error.number for group in kind) > 0) == (overview.number("ERROR").number > 0)
    assert sum(group.paused.number for group in groups.triggers) == overview.number("PAUSED", "PAUSED_BLOCKED").number


def check_incidents(operations: Operations, overview: Overview) -> None:
    kinds = {incident.kind for incident in overview.incidents}
    alive = sum(node.state.is_alive for node in overview.nodes)
    assert ("no-node" in kinds) == (alive == 0)
    if not overview.incidents:
        assert re.fullmatch(r"\d+ nodes? alive, nothing late, nothing in error(, \d+ paused)?", overview.calm)
        assert alive == len(overview.nodes)
    late = overview.number("late").number
    causes = {"no-node", "none-takes", "full-pool", "unknown-type", "no-node-for-job", "late-triggers"}
    assert not late or kinds & causes, "no late trigger is without an incident"
    if alive and "full-pool" not in kinds:
        told = sum(numbers_of(overview, kind) for kind in ("unknown-type", "no-node-for-job", "late-triggers"))
        assert told == late or any(incident.subject.endswith(" more") for incident in overview.incidents)
    assert ("trigger-error" in kinds) == (overview.number("ERROR").number > 0)
    missed = [
        row
        for row in operations.triggers(state="PAUSED", limit=1000)
        if row.state == "PAUSED"
        and row.next_fire_time is not None
        and row.next_fire_time < overview.now
        # A pause of this very instant is not an incident yet.
        and (row.paused_at or row.next_fire_time) < overview.now
    ]
    assert numbers_of(overview, "paused-overdue") == len(missed)
    subjects = [(incident.kind, incident.subject, incident.what) for incident in overview.incidents]
    assert len(subjects) == len(set(subjects)), "each is told once"


def numbers_of(overview: Overview, kind: str) -> int:
    """Return the sum of the numbers of triggers that the incidents of a kind say."""
    return sum(_number_of(incident) for incident in overview.incidents if incident.kind == kind)


def _number_of(incident: Incident) -> int:
    match = re.search(r"\b(\d+) triggers?\b", incident.what)
    return 1 if match is None else int(match[1])


INTERVALS = (SECOND, 5 * SECOND)
WINDOWS = (4 * SECOND, 20 * SECOND, 5 * MINUTE)


def a_random_cluster(store: Harness, chance: random.Random) -> None:
    """Register nodes with settings of their own, of which some fall silent, and some come back."""
    nodes = []
    for number in range(chance.choice((1, 2, 3, 5))):
        node = store.store.register(
            f"node{number}", host="h", pid=1, checkin_interval=chance.choice(INTERVALS), window=chance.choice(WINDOWS)
        )
        store.store.publish(node, Capabilities(frozenset({REPORT}), workers={"default": 1}))
        nodes.append(node)
    for _ in range(chance.choice((1, 3, 9))):
        store.clock.advance(chance.choice((SECOND, 3 * SECOND, 9 * SECOND, 30 * SECOND, 3 * MINUTE)))
        for node in chance.sample(nodes, chance.randint(0, len(nodes))):
            store.store.check_in(node)
    store.clock.advance(chance.choice((timedelta(), SECOND, 7 * SECOND)))


@pytest.mark.parametrize("seed", range(40))
def test_all_say_the_same_of_which_nodes_are_alive(
    store: Harness, operations: Operations, postgres_dsn: str, seed: int
) -> None:
    """Also after an outage, and whatever the settings of the node or program that asks."""
    chance = random.Random(seed)
    a_random_cluster(store, chance)
    store.schedule(job(), once("t", when=store.clock.now() + MINUTE))
    overview = operations.overview()
    states = {node.node: node.state for node in overview.nodes}
    alive = {node for node, state in states.items() if state.is_alive}
    load = store.store.cluster_load()
    assert (load.nodes_alive, load.nodes_silent) == (len(alive), len(states) - len(alive))
    assert overview.calm.startswith(numbered(len(alive), "node alive", "nodes alive"))
    silent = {row.kind: row for row in overview.incidents}
    assert ("no-node" in silent) == (not alive)
    told = {(row.subject, row.kind) for row in overview.incidents if row.kind in ("late-node", "dead-node")}
    assert told == {(node, f"{state}-node") for node, state in states.items() if state is not NodeState.ALIVE}
    findings = {finding.check: finding for finding in admin(store.store).audit()}
    dead = {row.split(" ")[0] for row in findings["silent-node"].rows} if "silent-node" in findings else set()
    assert dead == states.keys() - alive
    why = " ".join(operations.why(key("t")))
    assert ("checked in recently" in why) == (not alive)
    assert ("works as it should" in why) == (bool(alive) and all(states[node] is NodeState.LATE for node in alive))
    asking = operations.scheduler
    assert asking._has_live_peers() == bool(alive)
    if isinstance(store, SqlHarness):
        check_view(store, postgres_dsn)


@pytest.mark.parametrize("mode", list(NodeMode))
@pytest.mark.parametrize("problems", [(), (NodeProblem("failing-thread", "thread scheduler fails"),)])
@pytest.mark.parametrize("knows", [True, False])
def test_a_node_that_does_not_work_is_named_by_why_with_the_reason(
    store: Harness, operations: Operations, mode: NodeMode, problems: Sequence[NodeProblem], knows: bool
) -> None:
    store.schedule(job(), once("t"))
    node = store.node("a")
    store.store.publish(node, Capabilities(frozenset({REPORT} if knows else {"another"}), workers={"default": 1}))
    store.store.set_node_mode("a", mode)
    store.store.check_in(node, problems=problems)
    why = " ".join(operations.why(key("t")))
    assert ("No running node knows the job type" in why) == (not knows)
    assert ("a is in standby" in why or "a is draining" in why) == (knows and mode is not NodeMode.RUNNING)
    assert ("a: thread scheduler fails" in why) == (knows and mode is NodeMode.RUNNING and bool(problems))
    assert ("unhealthy-node" in {row.kind for row in operations.incidents().incidents}) == bool(problems)
    assert ("unhealthy-node" in {row.check for row in admin(store.store).audit()}) == bool(problems)


def check_view(store: Harness, dsn: str) -> None:
    """The time of the view is the server's: all instants are moved to it, and read by the same message."""
    moved = "last_checkin = last_checkin + moved.by, back_since = back_since + moved.by"
    by = f"statement_timestamp() - '{store.clock.now().isoformat()}'::timestamptz"
    message = (
        f"BEGIN; UPDATE qrtz_scheduler_state SET {moved} FROM (SELECT {by} AS by) AS moved;"
        " SELECT instance_id, status, statement_timestamp() - pg_postmaster_start_time() FROM qrtz_node_health;"
        " ROLLBACK"
    )
    with connect_to(dsn) as user:
        read = user.execute(message.encode())
        while read.description is None:
            assert read.nextset()
        rows = read.fetchall()
    server_age = rows[0][2]
    answer = store.store.list_nodes()
    states = states_of(answer.nodes, answer.now, answer.now - server_age)
    words = {NodeState.ALIVE: "ALIVE", NodeState.LATE: "OVERDUE", NodeState.DEAD: "DEAD"}
    assert {node: status for node, status, _ in rows} == {node: words[state] for node, state in states.items()}


@pytest.mark.parametrize("own", ["1s", "1h"])
def test_a_reader_judges_by_the_settings_of_the_nodes_and_not_by_its_own(
    store: Harness, monkeypatch: pytest.MonkeyPatch, own: str
) -> None:
    theirs = SchedulerConfig(name="contract", pause_grace="1m", misfire_threshold="2m")
    monkeypatch.setattr(store.store, "_config", theirs)
    reader = Operations(Scheduler(store.store, name="contract", pause_grace=own, misfire_threshold=own))
    store.schedule(job(), once("paused", at(1)), once("late", at(1)))
    store.store.pause(NamedTriggers([key("paused")]))
    node = store.node()
    store.store.publish(node, Capabilities(frozenset({REPORT}), workers={"default": 1}))
    for minutes, paused, misfires, overdue in (
        (0.9, False, False, False),
        (2.1, True, True, False),
        (4, True, True, True),
    ):
        store.clock.set(at(60 * minutes))
        store.store.check_in(node)
        assert ("paused-overdue" in {row.kind for row in reader.incidents().incidents}) == paused
        assert ("misfire" in " ".join(reader.scheduler.why(key("late")))) == misfires
        assert ("misfire" in " ".join(reader.why(key("late")))) == misfires
        monkeypatch.setattr(store.store, "_config", SchedulerConfig(name="contract", misfire_threshold=own))
        assert ("overdue" in {finding.check for finding in admin(store.store).audit()}) == overdue
        monkeypatch.setattr(store.store, "_config", theirs)
