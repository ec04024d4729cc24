"""Expectations on a database: breaches and incidents are recorded once, whatever turns and nodes are lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from quartzpy.calendars.maintenance_window import MaintenanceWindow
from quartzpy.errors import InvalidJobError
from quartzpy.events import Event, ExpectationBroken
from quartzpy.expect import EACH_FAILURE, Breach, BreachRecord, Expect
from quartzpy.jobs.job import JobDetail
from quartzpy.jobs.join import Join
from quartzpy.jobs.rate_limit import RateLimit
from quartzpy.jobs.shared_limit import Limit
from quartzpy.matchers import GroupMatcher
from quartzpy.metrics.recorder import Recorder
from quartzpy.operations import Operations
from quartzpy.operations.telling.health_check import EVERY, LISTED_EVERY, HealthCheck
from quartzpy.states import JobMode, Outcome
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.protocol import (
    EVERYTHING,
    JobGroups,
    NamedTriggers,
    Node,
    PauseNote,
    TriggerGroups,
    TriggersOfJobs,
)
from tests.contract.harness import MINUTE, SECOND, Harness, at, every, job, job_key, key, once
from tests.database import execute
from tests.operations.test_health_check import judge_once
from tests.operations.test_incidents import a_node, of_kind

STARTS = Expect(starts_within="2m")


@pytest.fixture
def node(store: Harness, operations: Operations) -> Node:
    """A node; the first look at the tables only begins to count the time."""
    registered = a_node(store)
    assert judge_once(store, operations).turn is None
    return registered


def judge_at(store: Harness, operations: Operations, node: Node, seconds: float) -> None:
    """Move the time, let the node check in, and judge."""
    store.clock.set(at(seconds) - EVERY)
    store.store.check_in(node)
    judge_once(store, operations)


def expecting(expect: Expect, name: str = "job", **values: Any) -> JobDetail:
    return job(name, expect=expect, **values)


def lasting(store: Harness) -> list[BreachRecord]:
    return admin(store.store).lasting_breaches(100)


def run(store: Harness, node: Node, **how: Any) -> None:
    store.complete(node, *store.fire_due(node, threshold=timedelta(hours=2)), **how)


def test_a_start_that_is_missing_is_a_breach_until_a_later_fire_starts_in_time(
    store: Harness, operations: Operations, node: Node
) -> None:
    heard: list[Event] = []
    operations.scheduler.listeners.add_listener(heard.append, ExpectationBroken)
    metrics = Recorder(by_job=True)
    operations.scheduler.observers.add(metrics)
    store.schedule(expecting(STARTS), every(3600, start=at(600)))
    judge_at(store, operations, node, 65)
    judge_at(store, operations, node, 600 + 119)
    assert lasting(store) == []
    judge_at(store, operations, node, 600 + 125)
    [breach] = lasting(store)
    assert (breach.kind, breach.trigger_key, breach.scheduled_fire_time) == ("starts-late", key("every"), at(600))
    assert (breach.found_at, breach.in_a_row) == (at(725), 1)
    assert breach.what == (
        "The fire of 2026-03-02T12:10:00+00:00 of trigger DEFAULT.every has not started, and was expected to start"
        " within 2 minutes."
    )
    [incident] = of_kind(operations, "starts-late")
    assert (incident.what, incident.trigger, incident.job) == (breach.what, key("every"), job().key)
    assert incident.incident_id is not None
    assert operations.why(key("every"))[-1].startswith(breach.what)
    assert heard == [ExpectationBroken(breach)]
    labels = {"job_group": "DEFAULT", "job_name": "job", "kind": "starts-late"}
    [family] = [family for family in metrics.collect() if family.name == "quartzpy_expectation_breaches"]
    assert [(dict(sample_labels), value) for sample_labels, value in family.samples.items()] == [(labels, 1)]
    # It starts at last, which changes nothing.
    run(store, node)
    judge_at(store, operations, node, 800)
    assert lasting(store) == [breach]
    store.clock.set(at(600 + 3600))
    run(store, node)
    judge_at(store, operations, node, 600 + 3600 + 130)
    assert lasting(store) == []
    assert of_kind(operations, "starts-late") == []
    assert len(heard) == 1
    assert [over.kind for over in operations.past_incidents(kind="starts-late")] == ["starts-late"]


def test_an_expectation_of_the_trigger_holds_in_place_of_that_of_its_job(
    store: Harness, operations: Operations, node: Node
) -> None:
    long = Expect(starts_within="1h")
    store.schedule(expecting(STARTS), every(86_400, "own", start=at(600), expect=long), every(86_400, start=at(600)))
    judge_at(store, operations, node, 65)
    judge_at(store, operations, node, 600 + 125)
    assert [breach.trigger_key.name for breach in lasting(store)] == ["every"]
    assert operations.trigger(key("own")).expect == "starts within 1 h"
    assert operations.job(job().key).expect == "starts within 2 min"


def test_breaches_in_a_row_are_those_of_one_trigger(store: Harness, operations: Operations, node: Node) -> None:
    store.schedule(expecting(STARTS), every(3600, "first", start=at(600)), every(3600, "second", start=at(1800)))
    for seconds in (65, 600 + 125, 1800 + 125):
        judge_at(store, operations, node, seconds)
    assert {breach.trigger_key.name: breach.in_a_row for breach in lasting(store)} == {"first": 1, "second": 1}


def test_a_judge_that_was_away_finds_what_happened_meanwhile_once(
    store: Harness, operations: Operations, node: Node
) -> None:
    expect = Expect(runs_at_most="1m", success=1)
    store.schedule(expecting(expect), every(600, start=at(600)))
    judge_at(store, operations, node, 65)
    for number in range(1, 4):
        store.clock.set(at(600 * number))
        fired = store.fire_due(node, threshold=timedelta(hours=2))
        store.clock.advance(5 * MINUTE)
        failed = {"outcome": Outcome.FAILED, "error": "ValueError: no"} if number != 2 else {}
        store.complete(node, *fired, started_at=at(600 * number), **failed)
    judge_at(store, operations, node, 2300)
    found = {(breach.kind, breach.scheduled_fire_time, breach.in_a_row) for breach in lasting(store)}
    assert found == {(Breach.RUNS_LONG, at(1800), 3), (Breach.FAILS_OFTEN, at(1800), 2)}
    judge_at(store, operations, node, 2305)
    judge_at(store, operations, node, 4000)
    assert {(breach.kind, breach.scheduled_fire_time, breach.in_a_row) for breach in lasting(store)} == found


def test_whoever_has_lost_the_turn_records_nothing(store: Harness, operations: Operations, node: Node) -> None:
    store.schedule(expecting(STARTS), every(3600, start=at(600)))
    judge_at(store, operations, node, 65)
    store.clock.set(at(730))
    slow = admin(store.store).take_slot(EVERY, LISTED_EVERY)
    assert slow.turn is not None
    judge_at(store, operations, node, 740)
    [breach] = lasting(store)
    HealthCheck(operations.scheduler).judge(slow)
    assert lasting(store) == [breach]


@pytest.mark.parametrize("missed", ["skip", "misfire"])
def test_what_a_pause_holds_back_is_not_late(store: Harness, operations: Operations, node: Node, missed: str) -> None:
    store.schedule(expecting(STARTS), every(3600, start=at(600)))
    judge_at(store, operations, node, 65)
    operations.actions.pause(key("every"))
    for seconds in (730, 1300, 2000):
        judge_at(store, operations, node, seconds)
    operations.actions.resume(key("every"), missed=missed)
    store.misfire(node)
    run(store, node)
    for seconds in (2005, 2200, 2600):
        judge_at(store, operations, node, seconds)
    assert lasting(store) == []


def test_a_fire_that_fails_and_succeeds_when_it_is_tried_again_has_succeeded(
    store: Harness, operations: Operations, node: Node
) -> None:
    store.schedule(expecting(Expect(success=1, ends_by="12:30")), every(86_400, start=at(600)))
    judge_at(store, operations, node, 65)
    store.clock.set(at(600))
    run(store, node, outcome=Outcome.FAILED, error="ValueError: no", retry_after=MINUTE)
    judge_at(store, operations, node, 630)
    store.clock.set(at(660))
    run(store, node)
    for seconds in (700, 1805):
        judge_at(store, operations, node, seconds)
    assert lasting(store) == []


def test_the_last_fire_of_a_trigger_that_is_gone_is_judged(store: Harness, operations: Operations, node: Node) -> None:
    store.schedule(expecting(Expect(runs_at_most="10s")), once("once", at(600)))
    judge_at(store, operations, node, 65)
    store.clock.set(at(600))
    fired = store.fire_due(node)
    store.clock.advance(20 * SECOND)
    store.complete(node, *fired, started_at=at(600))
    assert store.state("once") == "gone"
    judge_at(store, operations, node, 630)
    judge_at(store, operations, node, 700)
    assert [(breach.trigger_key, breach.kind) for breach in lasting(store)] == [(key("once"), Breach.RUNS_LONG)]
    judge_at(store, operations, node, 86_400 + 700)
    assert lasting(store) == []


def test_nothing_is_written_where_nothing_is_expected(
    store: Harness, operations: Operations, node: Node, postgres_dsn: str
) -> None:
    store.schedule(job(), every(600, start=at(600)))
    judge_at(store, operations, node, 65)
    judge_at(store, operations, node, 900)
    assert execute(postgres_dsn, "SELECT count(*) FROM qrtz_expectations") == [(0,)]


# --- joins


def test_a_job_that_waits_for_others_too_long_is_an_incident_until_it_starts(
    store: Harness, operations: Operations, node: Node
) -> None:
    heard: list[Event] = []
    operations.scheduler.listeners.add_listener(heard.append, ExpectationBroken)
    for name in "abc":
        store.schedule(job(name, durable=True), once(name, at(600)))
    report = job("report", after=Join(["a", "b", "c"], within="10m"))
    store.schedule(report)
    store.schedule(job("silent", after=["a", "b"]))
    store.store.pause(NamedTriggers([key("b"), key("c")]))
    store.clock.set(at(600))
    store.complete(node, store.fire_one(node))
    judge_at(store, operations, node, 1199)
    assert lasting(store) == []
    for seconds in (1205, 1210):
        judge_at(store, operations, node, seconds)
        [breach] = lasting(store)
        assert (breach.kind, breach.job_key, breach.scheduled_fire_time) == (Breach.JOINS_LATE, report.key, at(600))
        [incident] = of_kind(operations, "joins-late")
        assert (incident.subject, incident.job, incident.trigger) == (str(report.key), report.key, None)
        assert incident.what == (
            "Job DEFAULT.report still waits for b and c of 2026-03-02T12:10Z, 10 min after the first end."
        )
        assert heard == [ExpectationBroken(breach)]
    assert operations.job(report.key).waits == (
        "It waits for b and c of 2026-03-02T12:10Z (all must succeed, at the same instant, within 10 min);"
        " a (SUCCEEDED) has ended.",
        "b does not run: its triggers are paused.",
        "c does not run: its triggers are paused.",
    )
    store.store.resume(NamedTriggers([key("b"), key("c")]))
    store.misfire(node, threshold=timedelta(seconds=1))
    run(store, node)
    judge_at(store, operations, node, 1300)
    assert lasting(store) == []
    assert of_kind(operations, "joins-late") == []


def test_a_job_that_may_wait_for_ever_by_now_is_no_incident(
    store: Harness, operations: Operations, node: Node, postgres_dsn: str
) -> None:
    for name in "ab":
        store.schedule(job(name, durable=True), once(name, at(600)))
    report = job("report", after=Join(["a", "b"], within="10m"))
    store.schedule(report)
    store.store.pause(NamedTriggers([key("b")]))
    store.clock.set(at(600))
    run(store, node)
    store.store.modify_job(report.key, lambda old: old.with_values({"after": ["a", "b"]}), keeps_data=True)
    judge_at(store, operations, node, 1300)
    assert lasting(store) == []
    assert execute(postgres_dsn, "SELECT count(*) FROM qrtz_joins WHERE due_at IS NOT NULL") == [(0,)]


@pytest.mark.parametrize("due", [-1, 0, 2, 20])
@pytest.mark.parametrize("of_job", [True, False])
@pytest.mark.parametrize("added", [True, False])
def test_the_only_fire_of_a_trigger_is_judged_however_soon_it_is_due(
    store: Harness, operations: Operations, node: Node, due: float, of_job: bool, added: bool
) -> None:
    expect = Expect(success=1.0, runs_at_most="1s")
    trigger = once("now", at(100 + due), expect=None if of_job else expect)
    work = expecting(expect) if of_job else job()
    store.clock.set(at(100))
    store.store.check_in(node)
    if added:
        store.schedule(replace(work, durable=True))
        store.add_triggers(work.key, trigger)
    else:
        store.schedule(work, trigger)
    store.clock.set(at(100 + max(due, 0)))
    [fired] = store.fire_due(node)
    store.clock.advance(3 * SECOND)
    store.complete(node, fired, started_at=at(100 + max(due, 0)), outcome=Outcome.FAILED, error="OSError: disk full")
    judge_at(store, operations, node, 130)
    found = {breach.kind: breach for breach in lasting(store)}
    assert found.keys() == {Breach.FAILS_OFTEN, Breach.RUNS_LONG}
    assert found[Breach.FAILS_OFTEN].what.endswith(" of trigger DEFAULT.now failed.")
    assert found[Breach.FAILS_OFTEN].why[:2] == ("OSError: disk full", f"Execution {fired.fire_id} ran on node a.")


def test_the_first_fire_of_an_interval_is_judged_and_a_later_success_ends_the_breach(
    store: Harness, operations: Operations, node: Node
) -> None:
    store.clock.set(at(100))
    store.store.check_in(node)
    store.schedule(expecting(Expect(**EACH_FAILURE)), every(3600, start=at(100)))
    run(store, node, outcome=Outcome.FAILED, error="OSError: disk full")
    judge_at(store, operations, node, 130)
    [told] = of_kind(operations, "fails-often")
    assert told.what.endswith(" failed.")
    assert told.why[0] == "OSError: disk full"
    judge_at(store, operations, node, 3700)
    run(store, node)
    judge_at(store, operations, node, 3800)
    assert of_kind(operations, "fails-often") == []


@pytest.mark.parametrize("ends", ["before the list", "after the list"])
def test_a_job_that_runs_after_others_is_judged(store: Harness, operations: Operations, node: Node, ends: str) -> None:
    store.schedule(job("first"), once("first", at(100)))
    last = expecting(Expect(success=1.0, runs_at_most="1m"), "last", after=["first"], durable=True)
    store.schedule(last)
    judge_at(store, operations, node, 100)
    run(store, node)
    [fired] = store.fire_due(node)
    assert fired.job_key == last.key
    if ends == "after the list":
        judge_at(store, operations, node, 170)
    store.complete(node, fired, outcome=Outcome.FAILED, error="OSError: disk full")
    judge_at(store, operations, node, 240)
    [breach] = [breach for breach in lasting(store) if breach.kind is Breach.FAILS_OFTEN]
    assert breach.job_key == last.key
    assert " of job DEFAULT.last, after others, failed." in breach.what


def test_ends_by_of_a_continuation_counts_from_its_turn(store: Harness, operations: Operations, node: Node) -> None:
    store.schedule(expecting(Expect(ends_by="12:03"), "last", durable=True))
    store.schedule(job("first", continuations=["last"]), once("first", at(100)))
    judge_at(store, operations, node, 100)
    run(store, node)
    [fired] = store.fire_due(node)
    store.clock.set(at(300))
    store.complete(node, fired)
    judge_at(store, operations, node, 370)
    [breach] = lasting(store)
    assert (breach.kind, breach.job_key) == (Breach.ENDS_LATE, fired.job_key)


def test_what_cannot_be_judged_is_refused() -> None:
    with pytest.raises(InvalidJobError, match="ends_by counts from the fire time of a schedule") as refused:
        job("last", after=["first"], expect=Expect(ends_by="06:00"))
    assert "within of a Join" in str(refused.value)


@pytest.mark.parametrize(
    ("limit", "waits", "is_late"),
    [
        (Limit(max_concurrent=1), 18, False),
        (Limit(max_concurrent=1), 40, True),
        (Limit(max_concurrent=2), 18, True),
        (Limit(rate_limit=RateLimit(1, per=18)), 18, False),
        (Limit(rate_limit=RateLimit(1, per=18)), 40, True),
        (Limit(rate_limit=RateLimit(100, per=1)), 18, True),
    ],
)
@pytest.mark.parametrize("is_shared", [True, False], ids=["shared", "own"])
def test_a_start_that_a_limit_holds_back_is_no_breach(
    store: Harness, operations: Operations, node: Node, limit: Limit, waits: float, is_late: bool, is_shared: bool
) -> None:
    store.clock.set(at(100))
    store.store.check_in(node)
    expect = Expect(starts_within="3s")
    if is_shared:
        store.store.put_limit("erp", limit)
        store.schedule(job("other", limits=["erp"], durable=True), once("other", at(100)))
        store.schedule(job(limits=["erp"], durable=True))
    else:
        own = job(max_concurrent=limit.max_concurrent, rate_limit=limit.rate_limit, durable=True)
        store.schedule(own, once("other", at(100)))
    [other] = store.fire_due(node)
    store.add_triggers(job_key(), once("t", at(101), expect=expect))
    store.clock.set(at(118))
    store.complete(node, other, started_at=at(100))
    store.clock.set(at(100 + waits))
    store.store.check_in(node)
    [fired] = store.fire_due(node)
    store.complete(node, fired, started_at=store.clock.now())
    judge_at(store, operations, node, 100 + waits + 10)
    assert bool(lasting(store)) == is_late


# --- what a pause, a mode, a limit or a drain holds back

DEFAULT_GROUP = GroupMatcher.equals("DEFAULT")
ENDS = PauseNote("the bank is closed", "ann", at(3600))


def _window(store: Harness) -> None:
    store.store.set_window("move", MaintenanceWindow("move", start=at(300), end=at(3600)))


HOLDS: dict[str, tuple[Callable[[Harness], object], Callable[[Harness], object]]] = {
    "trigger until": (lambda s: s.store.pause(NamedTriggers([key("t")]), ENDS), lambda s: None),
    "job until": (lambda s: s.store.pause(TriggersOfJobs([job_key()]), ENDS), lambda s: None),
    "trigger group until": (lambda s: s.store.pause(TriggerGroups(DEFAULT_GROUP), ENDS), lambda s: None),
    "job group until": (lambda s: s.store.pause(JobGroups(DEFAULT_GROUP), ENDS), lambda s: None),
    "everything until": (lambda s: s.store.pause(EVERYTHING, ENDS), lambda s: None),
    "window": (_window, lambda s: None),
    "trigger": (
        lambda s: s.store.pause(NamedTriggers([key("t")])),
        lambda s: s.store.resume(NamedTriggers([key("t")])),
    ),
    "trigger group": (
        lambda s: s.store.pause(TriggerGroups(DEFAULT_GROUP)),
        lambda s: s.store.resume(TriggerGroups(DEFAULT_GROUP)),
    ),
    "disabled": (
        lambda s: s.store.set_mode(job_key(), JobMode.DISABLED),
        lambda s: s.store.set_mode(job_key(), JobMode.ENABLED),
    ),
    "manual": (
        lambda s: s.store.set_mode(job_key(), JobMode.MANUAL),
        lambda s: s.store.set_mode(job_key(), JobMode.ENABLED),
    ),
}


def _turn(store: Harness, operations: Operations, node: Node, seconds: float) -> None:
    """Move the time, let the node check in and apply the time off, and judge."""
    store.clock.set(at(seconds) - EVERY)
    store.store.check_in(node)
    store.store.apply_time_off("a")
    judge_once(store, operations)


@pytest.mark.parametrize("is_last", [False, True], ids=["hourly", "last fire"])
@pytest.mark.parametrize("hold", HOLDS)
def test_the_end_of_a_pause_is_looked_at_and_the_start_that_it_delayed_is_no_breach(
    store: Harness, operations: Operations, node: Node, hold: str, is_last: bool, postgres_dsn: str
) -> None:
    begin, end = HOLDS[hold]
    expect = Expect(starts_within="2m", ends_by="12:30")
    trigger = once("t", at(600), expect=expect) if is_last else every(3600, "t", start=at(600), expect=expect)
    store.schedule(job(durable=True), trigger)
    _turn(store, operations, node, 65)
    begin(store)
    for seconds in (305, 730, 2000):
        _turn(store, operations, node, seconds)
        assert store.state("t") == "PAUSED"
    store.clock.set(at(3600))
    end(store)
    store.store.apply_time_off("a")
    store.store.apply_time_off("a")
    store.misfire(node)
    run(store, node)
    for seconds in (3665, 3700):
        _turn(store, operations, node, seconds)
    if is_last:
        # Nothing notices the resumption of a trigger that is gone: the look comes when it was to come.
        _turn(store, operations, node, 86_400 + 2005)
    assert execute(postgres_dsn, "SELECT what FROM qrtz_breaches") == []
    if not is_last:
        # The node is lost: the next fire is looked at in time, and not a day after the look during the pause.
        _turn(store, operations, node, 4200 + 125)
        assert [breach.scheduled_fire_time for breach in lasting(store)] == [at(4200)]


@pytest.mark.parametrize("state", ["node is silent", "node has left", "node is draining"])
@pytest.mark.parametrize("misfires", [True, False])
def test_a_start_that_no_node_made_is_a_breach(
    store: Harness, operations: Operations, node: Node, state: str, misfires: bool, postgres_dsn: str
) -> None:
    store.schedule(expecting(STARTS, durable=True), once("t", at(600)))
    judge_at(store, operations, node, 65)
    if state == "node has left":
        store.store.leave(node)
    elif state == "node is draining":
        operations.actions.drain("a")
    store.clock.set(at(2000))
    other = store.node("b")
    if misfires:
        store.misfire(other)
    run(store, other)
    judge_at(store, operations, other, 2070)
    found = execute(postgres_dsn, "SELECT kind, scheduled_time FROM qrtz_breaches")
    assert found == [(Breach.STARTS_LATE, at(600))]
