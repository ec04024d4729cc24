"""Each incident is named on the overview, says why, and has the remedies that mend it."""

from __future__ import annotations

import inspect
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from quartzpy import Scheduler
from quartzpy.errors import StoreUnavailableError
from quartzpy.keys import JobKey
from quartzpy.operations import Actor, Incident, Operations, Role, Selection
from quartzpy.operations.incidents.kinds.clock_skew import clock_skew
from quartzpy.operations.incidents.kinds.nodes_differ import nodes_differ
from quartzpy.operations.views import cluster
from quartzpy.placement import Capabilities
from quartzpy.states import CompletionInstruction, Outcome, TriggerState
from quartzpy.store.health_findings import Severity
from quartzpy.store.node_metadata import SETTING, setting_of_nodes
from quartzpy.store.node_problems import ENGINE_UNAVAILABLE, NodeProblem
from quartzpy.store.postgresql.admin import catalogs
from quartzpy.store.postgresql.connection.session import LastReturn
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.protocol import CheckIn, NamedTriggers, Node
from quartzpy.store.records import NodeRecord
from quartzpy.triggers.cron import CronTrigger
from tests.contract.harness import HOUR, MINUTE, SECOND, START, Harness, at, every, job, job_key, key, once, serial
from tests.database import connect_to


@pytest.fixture
def node(store: Harness) -> Node:
    """A node with two workers."""
    return a_node(store)


def a_node(store: Harness, name: str = "a", workers: int = 2) -> Node:
    node = store.node(name)
    store.store.publish(node, Capabilities(frozenset({"report"}), workers={"default": workers}))
    return node


def incidents(operations: Operations) -> dict[str, Incident]:
    return {one.kind: one for one in operations.overview().incidents}


def test_a_cluster_in_order_has_none(store: Harness, operations: Operations, node: Node) -> None:
    store.schedule(job(), every(60, start=at(30)))
    assert incidents(operations) == {}


def test_a_dead_node_says_what_it_holds(store: Harness, operations: Operations, node: Node) -> None:
    store.schedule(job(), once())
    store.fire_one(node)
    store.clock.advance(30 * SECOND)
    a_node(store, "b")
    seen = incidents(operations)
    assert list(seen) == ["dead-node"]
    assert seen["dead-node"].subject == "a"
    assert "with 1 execution." in seen["dead-node"].why[0]
    assert seen["dead-node"].what == "Node a is dead: it last checked in at 2026-03-02T12:00:00+00:00."


def kinds_while(store: Harness, operations: Operations, seconds: int, *alive: Node) -> list[set[str]]:
    """Let nodes check in each second, and return the kinds of the incidents after each."""
    kinds = []
    for _ in range(seconds):
        store.clock.advance(SECOND)
        for node in alive:
            store.store.check_in(node)
        kinds.append(set(incidents(operations)))
    return kinds


def test_after_an_outage_no_node_is_late_or_dead_before_it_had_time_to_check_in(
    store: Harness, operations: Operations
) -> None:
    a, b, _ = (a_node(store, name) for name in "abc")
    store.clock.advance(MINUTE)
    store.store.check_in(a)
    assert incidents(operations) == {}
    assert operations.overview().calm == "3 nodes alive, nothing late, nothing in error"
    assert {pool.node for pool in operations.limits().pools} == {"a", "b", "c"}
    assert kinds_while(store, operations, 4, a) == [set()] * 4
    # The check-in interval and the longest wait between two attempts have passed: b was there, and c is not.
    store.store.check_in(b)
    later = kinds_while(store, operations, 10, a, b)
    assert later[:4] == [set()] * 4
    assert later[-1] == {"dead-node"}
    assert incidents(operations)["dead-node"].subject == "c"


def test_a_node_that_hung_by_itself_lets_no_other_one_live_longer(store: Harness, operations: Operations) -> None:
    a, hung = a_node(store, "a"), a_node(store, "hung")
    a_node(store, "dead")
    kinds = kinds_while(store, operations, 30, a)
    assert kinds[-1] == {"dead-node"}
    store.store.check_in(hung)
    assert incidents(operations)["dead-node"].subject == "dead"


def test_with_no_node_left_the_start_of_the_server_and_a_vain_attempt_give_them_time(
    store: Harness, operations: Operations, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_node(store)
    store.clock.advance(MINUTE)
    assert set(incidents(operations)) == {"no-node", "dead-node"}
    session = operations.scheduler._store._session  # type: ignore[attr-defined]
    for kind in ("57P03", None, "08006"):
        # Those of the session itself would let the nodes of the next tests live longer.
        monkeypatch.setattr(session, "last_return", LastReturn())
        session.last_return.failed(StoreUnavailableError("gone", sqlstate=kind))
        assert incidents(operations) == {}
        assert operations.cluster().alive == 1
    monkeypatch.setattr(session, "last_return", LastReturn())
    session.last_return.failed(StoreUnavailableError("it took too long", sqlstate="57014"))
    assert set(incidents(operations)) == {"no-node", "dead-node"}
    started = replace(store.store.list_nodes(), answers_since=store.clock.now() - 9 * SECOND)
    assert cluster.of_records(started, []).alive == 1
    started = replace(started, answers_since=store.clock.now() - 11 * SECOND)
    assert cluster.of_records(started, []).alive == 0


def test_a_full_pool_names_the_executions_that_fill_it_and_cancels_them(
    store: Harness, operations: Operations, node: Node
) -> None:
    for name in "xyz":
        store.schedule(job(name), once(name))
    fired = [*store.acquire(node, limit=2).fired]
    store.clock.advance(5 * SECOND)
    full = incidents(operations)["full-pool"]
    assert full.what == "All 2 workers of executor 'default' are busy, and 1 trigger is due."
    assert {remedy.arguments["selection"] for remedy in full.remedies} == {one.fire_id for one in fired}
    store.complete(node, fired[0])
    assert "full-pool" not in incidents(operations)


@pytest.mark.parametrize("is_reached_from_b", [False, True])
def test_an_engine_that_is_away_is_an_incident_while_triggers_for_it_are_due(
    store: Harness, operations: Operations, is_reached_from_b: bool
) -> None:
    node, other = store.node("a"), store.node("b")
    for each, workers in ((node, 0), (other, 4 if is_reached_from_b else 0)):
        can = Capabilities(frozenset({"report"}), frozenset({"default", "big"}), workers={"default": 2, "big": workers})
        store.store.publish(each, can)
    what = "executor 'big': cannot reach tcp://nowhere:8786"
    problem = NodeProblem(ENGINE_UNAVAILABLE, what, "big", START - MINUTE)

    def check_in() -> None:
        store.store.check_in(node, problems=[problem])
        store.store.check_in(other, problems=[] if is_reached_from_b else [replace(problem, what="b cannot either")])

    check_in()
    assert not incidents(operations), "nothing for it is due"
    store.schedule(job("heavy", executor="big"), once("heavy"))
    store.clock.advance(5 * SECOND)
    check_in()
    seen = incidents(operations)
    assert not seen.keys() & {"full-pool", "unhealthy-node", "late-triggers"}
    away = seen["engine-unavailable"]
    assert (away.subject, away.since) == ("big", START - MINUTE)
    assert f"Node a, {what}." in away.why
    why = [line for line in operations.scheduler.why(key("heavy")) if "workers" in line]
    if is_reached_from_b:
        assert (away.severity, away.why[-1]) == (Severity.WARNING, "1 other node reaches it.")
        assert away.what == "The engine of executor 'big' takes no jobs from 1 node, and 1 trigger is due."
        assert not why
    else:
        assert (away.severity, away.why[-1]) == (Severity.ERROR, "Node b, b cannot either.")
        assert away.what == "The engine of executor 'big' takes no jobs from 2 nodes, and 1 trigger is due."
        since = f"since {(START - MINUTE).isoformat()}"
        words = f"node a, {what}, {since}; node b, b cannot either, {since}"
        assert why == [f"No executor that can run it has workers now: {words}."]
        store.store.check_in(node)
        assert any(
            "node a, executor 'big': capacity 0; node b" in line for line in operations.scheduler.why(key("heavy"))
        )


def test_a_blocked_job_names_the_execution_that_blocks_it(store: Harness, operations: Operations, node: Node) -> None:
    store.schedule(serial("slow"), once("first"), once("second"))
    [fired] = store.fire_due(node)
    store.clock.advance(15 * SECOND)
    store.store.check_in(node)
    blocked = incidents(operations)["blocked-job"]
    assert blocked.subject == "DEFAULT.slow"
    assert f"Execution {fired.fire_id} of job DEFAULT.slow on node a: running for 15s." in blocked.why
    [remedy] = blocked.remedies
    assert (remedy.action, remedy.arguments) == ("cancel", {"selection": fired.fire_id})
    store.complete(node, fired)
    assert "blocked-job" not in incidents(operations)


def test_a_blocked_job_is_seen_however_many_wait_for_a_rate(store: Harness, operations: Operations, node: Node) -> None:
    store.schedule(job("calls", rate_limit="1/hour"), *(once(f"call{number}") for number in range(210)))
    store.schedule(serial("slow"), once("first"), once("second"))
    # A step that fires nothing may have parked some of them.
    for _ in range(5):
        store.fire_due(node)
    store.clock.advance(15 * SECOND)
    store.store.check_in(node)
    assert incidents(operations)["blocked-job"].subject == "DEFAULT.slow"


def test_a_serial_job_that_waits_for_runs_of_the_usual_length_is_no_incident(
    store: Harness, operations: Operations, node: Node
) -> None:
    def run(seconds: float) -> list[str]:
        """Let the job run, and return the kinds of the incidents of each second."""
        [fired] = store.fire_due(node)
        started, kinds = store.clock.now(), [set[str]()]
        while store.clock.now() < started + seconds * SECOND:
            kinds += kinds_while(store, operations, 1, node)
        store.complete(node, fired, started_at=started)
        return sorted(set().union(*kinds))

    store.schedule(serial("slow"), *(every(120, f"t{number}") for number in range(2)))
    assert run(60) == ["blocked-job"], "nothing tells how long it usually runs"
    assert run(60) == []
    assert run(60) == []
    assert run(89) == []
    assert run(92) == ["blocked-job"], "it runs for longer than usually"


def test_a_serial_job_whose_triggers_wait_ever_longer_is_an_incident(
    store: Harness, operations: Operations, node: Node
) -> None:
    store.schedule(serial("slow"), every(20, "often"), every(20, "often-too"))
    seen = []
    for _ in range(12):
        [fired] = store.fire_due(node)
        started = store.clock.now()
        kinds_while(store, operations, 20, node)
        seen.append("blocked-job" in incidents(operations))
        store.complete(node, fired, started_at=started)
    assert seen[1:3] == [False, False]
    assert seen[-1]


@pytest.mark.parametrize("reason", ["the contract ended", ""])
def test_a_pause_is_an_incident_once_it_is_old(store: Harness, node: Node, reason: str) -> None:
    operations = Operations(Scheduler(store.store, name="contract"))
    store.schedule(job(), every(60, start=at(30)))
    operations.actions.pause(key("every"), reason=reason)
    store.clock.advance(HOUR)
    store.store.check_in(node)
    assert incidents(operations) == {}
    assert operations.overview().calm == "1 node alive, nothing late, nothing in error, 1 paused"
    store.clock.advance(SECOND)
    assert set(incidents(operations)) == {"paused-overdue"}


def test_a_trigger_in_error_says_why_and_its_remedy_mends_it(
    store: Harness, operations: Operations, node: Node
) -> None:
    store.schedule(job(), every(60, "poisoned"))
    store.set_state(key("poisoned"), TriggerState.ERROR)
    error = incidents(operations)["trigger-error"]
    assert error.trigger == key("poisoned")
    [remedy] = error.remedies
    getattr(operations.actions, remedy.action)(**remedy.arguments, reason="the cause is gone")
    assert "trigger-error" not in incidents(operations)


def test_a_clock_change_names_the_triggers_around_it(store: Harness, operations: Operations) -> None:
    store.clock.set(datetime(2026, 3, 28, 12, tzinfo=UTC))
    a_node(store)
    store.schedule(
        job(),
        CronTrigger("0 30 2 * * ?", "in-the-gap", time_zone="Europe/Berlin"),
        CronTrigger("0 30 1 * * ?", "elsewhere", time_zone="Asia/Tokyo"),
        CronTrigger("0 0 9 * * ?", "later", time_zone="Europe/Berlin"),
    )
    change = incidents(operations)["clock-change"]
    assert change.subject == "Europe/Berlin"
    assert change.since == datetime(2026, 3, 29, 1, tzinfo=UTC)
    assert change.what.endswith("move forward by 1h at 2026-03-29T01:00:00+00:00.")
    assert change.why[0] == "Within an hour of it fire: DEFAULT.in-the-gap."
    assert [remedy.arguments["selection"] for remedy in change.remedies] == [key("in-the-gap")]
    store.clock.set(datetime(2026, 3, 27, 12, tzinfo=UTC))
    assert "clock-change" not in incidents(operations)


def test_triggers_of_a_job_that_are_paused_since_nobody_knows_when_are_one_incident(
    store: Harness, operations: Operations
) -> None:
    store.schedule(job(), *(once("late", at(60), group=group) for group in "gh"))
    store.schedule(job("other"), once("late", at(60), group="i"))
    for group in "ghi":
        store.set_state(key("late", group), TriggerState.PAUSED)
    store.clock.advance(HOUR)
    found = [one for one in operations.overview().incidents if one.kind == "paused-overdue"]
    assert len(found) == 2


def test_paused_triggers_that_miss_fires_are_resumed_by_the_remedy(
    store: Harness, operations: Operations, node: Node
) -> None:
    store.schedule(job(), every(60, "paused", start=at(60)), once("tomorrow", START + 24 * HOUR))
    operations.scheduler.pause_trigger(key("paused"), reason="maintenance")
    operations.scheduler.pause_trigger(key("tomorrow"))
    assert "paused-overdue" not in incidents(operations)
    store.clock.advance(2 * MINUTE)
    paused = incidents(operations)["paused-overdue"]
    assert paused.trigger == key("paused")
    assert paused.since == at(60)
    assert paused.why[0].endswith(": maintenance.")
    assert len(paused.why) == 1
    remedy = paused.remedies[0]
    getattr(operations.actions, remedy.action)(**remedy.arguments)
    assert store.state("paused") == "WAITING"
    assert "paused-overdue" not in incidents(operations)


def test_a_type_that_no_node_knows_is_named(store: Harness, operations: Operations, node: Node) -> None:
    store.schedule(job("invoices", job_type="invoice"), once("invoices"))
    store.clock.advance(15 * SECOND)
    store.store.check_in(node)
    unknown = incidents(operations)["unknown-type"]
    assert unknown.subject == "invoice"
    assert "Waiting: DEFAULT.invoices." in unknown.why
    [late] = operations.overview().late
    assert any("No running node knows the job type 'invoice'; import its module there" in why for why in late.why)


def test_a_job_that_no_node_can_run_names_what_each_node_lacks(
    store: Harness, operations: Operations, node: Node
) -> None:
    store.schedule(job("train", executor="gpu"), once("train"))
    store.schedule(job("fits"), once("fits"))
    store.clock.advance(15 * SECOND)
    store.store.check_in(node)
    seen = incidents(operations)["no-node-for-job"]
    assert seen.what == "No node can run job DEFAULT.train, and 1 trigger of it is due."
    assert seen.why == ("Node a has no executor 'gpu'.", "Waiting: DEFAULT.train.")
    assert seen.trigger == key("train")


def test_executions_that_ignore_their_timeout_are_named(store: Harness, operations: Operations, node: Node) -> None:
    store.schedule(job("hangs", timeout=5 * SECOND), once("hangs"))
    store.schedule(job("patient", timeout=HOUR), once("patient"))
    fired = {one.trigger_name: one.fire_id for one in store.fire_due(node)}
    store.clock.advance(14 * SECOND)
    store.store.check_in(node)
    assert "ignored-timeout" not in incidents(operations), "it may still stop"
    store.clock.advance(2 * SECOND)
    seen = incidents(operations)["ignored-timeout"]
    assert seen.what == "1 execution of job DEFAULT.hangs ignores its timeout of 5s and occupies a worker."
    assert seen.why[0] == f"Execution {fired['hangs']} of job DEFAULT.hangs on node a: running for 16s."
    assert seen.since == at(5)


def test_the_page_of_an_execution_says_that_it_ignores_its_timeout(
    store: Harness, operations: Operations, node: Node
) -> None:
    store.schedule(job("hangs", timeout=5 * SECOND), once("hangs"))
    [fired] = store.fire_due(node)
    store.clock.advance(10 * SECOND)
    assert len(operations.execution(fired.fire_id).why) == 1
    store.clock.advance(1240 * SECOND)
    assert operations.execution(fired.fire_id).why == (
        "Node a fired it 20 min ago, and it has not ended.",
        "It ignores its timeout of 5.0 s, and occupies a worker. A thread cannot be stopped from outside: restart the"
        " node to free the worker.",
    )


def test_a_misfire_is_judged_by_the_threshold_of_the_nodes(
    store: Harness, operations: Operations, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.schedule(job("train", executor="gpu"), once("train"))
    store.clock.advance(30 * SECOND)
    [late] = operations.overview().late
    assert late.why[0] == "It has been due for 30 s, and no node has fired it yet."
    name = f"{SETTING}misfire_threshold"
    facts = {"a": {name: str(3 * SECOND)}, "b": {name: str(MINUTE)}, "older": {}}
    list_nodes = SqlJobStore.list_nodes
    monkeypatch.setattr(SqlJobStore, "list_nodes", lambda store: replace(list_nodes(store), metadata=facts))
    [late] = operations.overview().late
    assert late.why[0].startswith("It is 30 s late, which is a misfire (more than 3.0 s)")
    assert late.why[0].endswith(": its default rule for misfires fires it once, at once.")


@pytest.mark.parametrize("span", [SECOND / 4, 3 * SECOND, HOUR, 30 * HOUR, 100 * 24 * HOUR + SECOND])
def test_a_published_misfire_threshold_is_read_as_it_was(span: timedelta) -> None:
    assert setting_of_nodes({"a": {f"{SETTING}pause_grace": str(span)}}, "pause_grace", HOUR) == span
    assert setting_of_nodes({"a": {f"{SETTING}pause_grace": "soon"}}, "pause_grace", HOUR) == HOUR


def test_failures_in_a_row_are_named_while_the_latest_is_retried(
    store: Harness, operations: Operations, node: Node
) -> None:
    store.schedule(job("bad"), every(60, "bad"))
    for _ in range(3):
        [fired] = store.fire_due(node)
        store.complete(node, fired, outcome=Outcome.FAILED, error="x")
        store.clock.advance(MINUTE)
    [fired] = store.fire_due(node)
    store.store.complete(node, [store.ended(fired, outcome=Outcome.FAILED, error="x", retry_after=SECOND)])
    assert "failures-in-a-row" in incidents(operations), "its retry waits"
    store.clock.advance(2 * SECOND)
    [retried] = store.fire_due(node)
    assert "failures-in-a-row" in incidents(operations), "its retry runs"
    store.complete(node, retried, outcome=Outcome.SUCCEEDED)
    assert "failures-in-a-row" not in incidents(operations), "its retry has succeeded"


def test_nodes_that_all_stand_by_are_resumed_by_the_remedy(store: Harness, operations: Operations, node: Node) -> None:
    a_node(store, "b")
    operations.actions.standby("a")
    assert "none-takes" not in incidents(operations)
    operations.actions.drain("b")
    seen = incidents(operations)["none-takes"]
    assert seen.why == ("Node a is STANDBY.", "Node b is DRAINING.")
    getattr(operations.actions, seen.remedies[0].action)(**seen.remedies[0].arguments)
    assert "none-takes" not in incidents(operations)


def test_failures_in_a_row_count_a_retried_fire_once(store: Harness, operations: Operations, node: Node) -> None:
    store.schedule(job("bad"), every(60, "bad"))
    store.schedule(job("good"), every(60, "good"))
    for _ in range(3):
        for fired in store.fire_due(node):
            if fired.trigger_name == "good":
                store.complete(node, fired, outcome=Outcome.FAILED if store.clock.now() == START else Outcome.SUCCEEDED)
            else:
                again = [store.ended(fired, outcome=Outcome.FAILED, error="x", retry_after=SECOND)]
                store.store.complete(node, again)
        store.clock.advance(2 * SECOND)
        [retried] = store.fire_due(node)
        store.complete(node, retried, outcome=Outcome.FAILED, error="Traceback\nOSError: no disk")
        store.clock.advance(58 * SECOND)
    failing = [one for one in operations.overview().incidents if one.kind == "failures-in-a-row"]
    assert [(one.subject, one.what) for one in failing] == [
        ("DEFAULT.bad", "The last 3 executions of job DEFAULT.bad failed.")
    ]
    assert failing[0].why[::2] == ("OSError: no disk", "No execution of it in the history succeeded.")
    assert failing[0].remedies[0].arguments == {"selection": retried.fire_id}


def fail(store: Harness, node: Node, times: int = 3) -> int:
    """Let the only trigger fail several times, and return the fire id of the last execution."""
    for _ in range(times):
        fired = store.fire_one(node)
        store.complete(node, fired, outcome=Outcome.FAILED)
        store.clock.advance(60 * SECOND)
    return fired.fire_id


def test_failures_in_a_row_offer_only_what_is_possible(store: Harness, operations: Operations, node: Node) -> None:
    store.schedule(job("bad"), every(60, "bad"))
    last = fail(store, node)

    def offered() -> list[str]:
        seen = operations.overview()
        assert seen.failed[0].fire_id == last
        [failing] = [one for one in seen.incidents if one.kind == "failures-in-a-row"]
        found = [remedy.action for remedy in failing.remedies]
        assert ("run_again" in found) == (last in seen.repeatable)
        return found

    assert offered() == ["run_again", "pause"]
    operations.actions.pause(key("bad"))
    assert offered() == ["run_again"], "it is paused already"
    operations.scheduler.delete_job("bad")
    assert offered() == [], "its job is gone"


def test_executions_that_were_asked_to_stop_and_claims_are_not_cancelled_again(
    store: Harness, operations: Operations, node: Node
) -> None:
    store.schedule(serial("slow"), once("first"), once("second"))
    [fired] = store.fire_due(node)
    store.clock.advance(15 * SECOND)
    store.store.check_in(node)
    operations.actions.cancel(fired.fire_id)
    blocked = incidents(operations)["blocked-job"]
    assert blocked.remedies == ()
    assert blocked.why[0].endswith("running for 15s, and asked to stop.")


def test_everything_that_is_paused_is_resumed_at_once(store: Harness, operations: Operations, node: Node) -> None:
    for name in ("one", "two"):
        store.schedule(job(name), every(60, name, start=at(60)))
    operations.scheduler.pause_all(reason="maintenance")
    store.clock.advance(2 * MINUTE)
    paused = incidents(operations)["paused-overdue"]
    assert paused.what == "Everything is paused, and fires have been missed since 2026-03-02T12:01:00+00:00."
    remedy = paused.remedies[0]
    assert remedy.label == "resume everything"
    getattr(operations.actions, remedy.action)(**remedy.arguments)
    assert not operations.groups().all_paused
    assert "paused-overdue" not in incidents(operations)


def test_a_trigger_in_error_is_one_incident_however_often_it_failed(
    store: Harness, operations: Operations, node: Node
) -> None:
    store.schedule(job("bad"), every(60, "bad"))
    for number in range(3):
        [fired] = store.fire_due(node)
        asked = CompletionInstruction.SET_TRIGGER_ERROR if number == 2 else CompletionInstruction.NOOP
        store.complete(node, fired, outcome=Outcome.FAILED, instruction=asked)
        store.clock.advance(60 * SECOND)
    about_it = [one.kind for one in operations.overview().incidents if one.subject == "DEFAULT.bad"]
    assert about_it == ["trigger-error"]


def test_a_rate_limit_makes_no_trigger_late(store: Harness, operations: Operations, node: Node) -> None:
    store.schedule(job("limited", rate_limit="1/minute"), once("a"), once("b"))
    store.complete(node, *store.fire_due(node))
    store.fire_due(node)
    store.clock.advance(15 * SECOND)
    store.store.check_in(node)
    seen = operations.overview()
    assert seen.late == ()
    assert seen.incidents == ()


def test_the_series_have_every_minute_of_the_hour(store: Harness, operations: Operations, node: Node) -> None:
    store.schedule(job(), once("a"))
    store.clock.advance(3 * SECOND)
    store.complete(node, store.fire_one(node))
    seen = operations.overview()
    assert len(seen.throughput) == len(seen.lateness) == 60
    assert (seen.throughput[-1].at, seen.throughput[-1].outcomes) == (START, {"SUCCEEDED": 1})
    assert seen.lateness[-1].p99 == 3 * SECOND
    assert seen.lateness[0].p50 is None
    assert str(seen.counts["jobs"]) == "0"


def test_tables_of_another_release_are_an_incident(postgres_dsn: str) -> None:
    operations = Operations(Scheduler(postgres_dsn, schema="has_no_tables"), actor=Actor("ann", Role.VIEWER))
    [incident] = operations.overview().incidents
    assert incident.kind == "schema"
    operations.scheduler.shutdown()


def test_nodes_that_differ_and_wrong_clocks_are_named() -> None:
    nodes = [
        NodeRecord(name, epoch, "host", 1, START, START, 1, 5 * SECOND, 20 * SECOND)
        for epoch, name in enumerate(("a", "b"), start=1)
    ]
    facts = {
        "a": {"release": "1.0", "setting misfire_threshold": "0:01:00", "clock_ahead": 0.2},
        "b": {"release": "1.1", "setting misfire_threshold": "0:01:00", "clock_ahead": -3.0},
    }
    seen = cluster.of_records(CheckIn(START, tuple(nodes), facts), [])
    assert [node.version for node in seen.nodes] == ["1.0", "1.1"]
    found = {one.kind: one for one in [*nodes_differ(seen), *clock_skew(seen)]}
    assert set(found) == {"nodes-differ", "clock-skew"}
    assert found["nodes-differ"].why == ("1.0 on a; 1.1 on b.",)
    assert found["clock-skew"].what == "The clock of node b is -3.0 s off."


def test_a_node_that_reports_problems_is_an_incident_until_it_reports_none(
    store: Harness, operations: Operations, node: Node
) -> None:
    what = "thread x does none of its work: its last 3 passes failed: disk full"
    store.store.check_in(node, problems=[NodeProblem("failing-thread", what, "x", START - SECOND)])
    seen = operations.overview()
    [incident] = seen.incidents
    assert (incident.kind, incident.subject, incident.cause) == ("unhealthy-node", node.instance_id, "failing-thread")
    assert incident.why[0] == f"T{what[1:]}."
    assert incident.since == START - SECOND
    assert not any("wrong" in line for line in seen.calm)
    [view] = operations.cluster().nodes
    assert [str(problem) for problem in view.problems] == [what]
    store.schedule(job(), once("a", START - MINUTE))
    late = incidents(operations)["late-triggers"]
    assert (late.why[0], late.cause) == (f"Node {node.instance_id}: {what}.", "failing-thread")
    store.store.check_in(node)
    assert set(incidents(operations)) == {"late-triggers"}
    assert incidents(operations)["late-triggers"].cause == ""


def test_every_remedy_names_an_action_with_arguments_that_it_takes(
    store: Harness, operations: Operations, node: Node
) -> None:
    store.schedule(serial("slow"), once("first"), once("second"))
    store.fire_due(node)
    store.schedule(job("paused"), once("paused"))
    store.store.pause(NamedTriggers([key("paused")]))
    store.schedule(job("broken"), once("broken", at(60)))
    store.set_state(key("broken"), TriggerState.ERROR)
    store.clock.advance(15 * SECOND)
    store.store.check_in(node)
    remedies = [remedy for one in operations.overview().incidents for remedy in one.remedies]
    assert {remedy.action for remedy in remedies} >= {"cancel", "resume", "reset"}
    for remedy in remedies:
        inspect.signature(getattr(operations.actions, remedy.action)).bind(**remedy.arguments)


def test_a_late_trigger_is_an_incident_that_names_who_holds_its_row(
    postgres_dsn: str, store: Harness, operations: Operations, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogs, "LONG", timedelta())
    store.schedule(job(), once("wanted"))
    with connect_to(postgres_dsn, autocommit=False, application_name="bobs-notebook") as holder:
        holder.execute("SELECT FROM qrtz_triggers WHERE trigger_name = 'wanted' FOR UPDATE")
        assert store.fire_due(node) == []
        store.clock.advance(15 * SECOND)
        store.store.check_in(node)
        overview = operations.overview()
        [late] = overview.incidents
        name = (
            f"'bobs-notebook' (process {holder.info.backend_pid}), idle in transaction, has held locks on qrtz_triggers"
        )
        assert (late.kind, late.subject, late.trigger) == ("late-triggers", "DEFAULT.job", key("wanted"))
        assert late.what == "1 trigger of job DEFAULT.job is late by up to 15s, and no node has fired it."
        assert name in late.why[0]
        assert late.why[-1] == "Waiting: DEFAULT.wanted."
        assert overview.calm == "1 node alive, 1 late, nothing in error"
        assert any(name in sentence for sentence in operations.why(key("wanted")))
        assert any(name in sentence for sentence in operations.trigger(key("wanted")).why)
        assert [lock.table for lock in operations.locks() if lock.application == "bobs-notebook"] == ["qrtz_triggers"]
    store.fire_due(node)
    assert operations.overview().calm == "1 node alive, nothing late, nothing in error"
    assert "late-triggers" not in incidents(operations)


def test_the_numbers_are_not_those_of_the_lists(store: Harness, operations: Operations) -> None:
    store.schedule(job(), *(once(f"t{number:03}", at(number / 10)) for number in range(250)))
    store.schedule(job("limited", rate_limit="1/hour"), *(once(f"held{number}") for number in range(4)))
    store.clock.advance(MINUTE)
    node = a_node(store, workers=60)
    fired = [*store.acquire(node, limit=55).fired]
    store.clock.advance(15 * SECOND)
    store.store.check_in(node)
    overview = operations.overview()
    assert (len(overview.running), str(overview.number("running", "claimed"))) == (50, str(len(fired)))
    late = 254 - len(fired) - sum(1 for one in operations.triggers() if one.state == "BLOCKED")
    assert (len(overview.late), overview.number("late").number) == (20, late)
    [unexplained] = [one for one in overview.incidents if one.kind == "late-triggers"]
    assert unexplained.what.startswith(f"{late} triggers of ")
    assert unexplained.why[-1].endswith(f" and {late - 5} more.")


def test_triggers_that_a_rate_limit_holds_back_hide_none_that_are_late(
    store: Harness, operations: Operations, node: Node
) -> None:
    """They stand before it in the order of fire times."""
    store.schedule(job("limited", rate_limit="1/hour"), *(once(f"held{number}") for number in range(4)))
    for _ in range(3):
        store.fire_due(node)
    store.schedule(job("late", executor="gpu"), once("late", at(1)))
    store.clock.advance(15 * SECOND)
    store.store.check_in(node)
    overview = operations.overview()
    assert [row.trigger.name for row in overview.late] == ["late"]
    assert str(overview.number("late")) == "1"
    until = store.clock.now() - 10 * SECOND
    assert [one.key.name for one in operations.triggers(state="WAITING", until=until)] == ["late"]


def of_kind(operations: Operations, kind: str) -> list[Incident]:
    return [incident for incident in operations.overview().incidents if incident.kind == kind]


def mend(operations: Operations, incident: Incident, number: int = 0) -> None:
    remedy = incident.remedies[number]
    getattr(operations.actions, remedy.action)(**remedy.arguments)


def end_all(store: Harness, node: Node, outcome: Outcome, error: str | None = None) -> None:
    while fired := store.fire_due(node):
        store.complete(node, *fired, outcome=outcome, error=error)


def test_a_job_that_fails_by_many_triggers_is_one_incident(store: Harness, operations: Operations) -> None:
    node = a_node(store, workers=100)
    store.schedule(job("sync", "shop"), *(every(60, f"tenant{number}") for number in range(40)))
    end_all(store, node, Outcome.SUCCEEDED)
    store.clock.advance(30 * SECOND)
    assert of_kind(operations, "failures-in-a-row") == []
    for error in ("Traceback\nValueError: feed", "Traceback\nValueError: feed", "OSError: no disk"):
        store.clock.advance(MINUTE)
        end_all(store, node, Outcome.FAILED, error)
    [failing] = of_kind(operations, "failures-in-a-row")
    assert (failing.subject, failing.job, failing.trigger) == ("shop.sync", JobKey("sync", "shop"), None)
    assert failing.what == "The last 120 executions of job shop.sync failed."
    assert failing.since == at(90)
    assert failing.why[::2] == (
        "OSError: no disk",
        "Its last success was at 2026-03-02T12:00:00+00:00.",
    )
    assert [remedy.label for remedy in failing.remedies] == ["run the last one again", "pause job"]
    store.clock.advance(MINUTE)
    end_all(store, node, Outcome.SUCCEEDED)
    assert of_kind(operations, "failures-in-a-row") == []


def test_a_job_that_fails_by_triggers_that_fire_once_is_an_incident(store: Harness, operations: Operations) -> None:
    node = a_node(store, workers=100)
    store.schedule(job("import", durable=True), *(once(f"feed{number}") for number in range(60)))
    end_all(store, node, Outcome.FAILED, "ValueError: feed")
    [failing] = of_kind(operations, "failures-in-a-row")
    assert failing.what == "The last 60 executions of job DEFAULT.import failed."
    assert [remedy.label for remedy in failing.remedies] == ["run the last one again"], "nothing is left to pause"


def test_a_job_that_fails_half_of_the_time_is_an_incident(store: Harness, operations: Operations, node: Node) -> None:
    store.schedule(job("flaky"), every(60))
    for number in range(9):
        outcome = Outcome.FAILED if number % 2 == 0 else Outcome.SUCCEEDED
        end_all(store, node, outcome, "TimeoutError: provider" if outcome is Outcome.FAILED else None)
        store.clock.advance(MINUTE)
    [failing] = of_kind(operations, "failures-in-a-row")
    assert failing.what == "5 of the last 9 executions of job DEFAULT.flaky failed."
    assert failing.why[0] == "TimeoutError: provider"
    for _ in range(3):
        end_all(store, node, Outcome.SUCCEEDED)
        store.clock.advance(MINUTE)
    assert of_kind(operations, "failures-in-a-row") == [], "it is in order again"


def test_one_trigger_that_always_fails_is_named_beside_others_of_its_job(
    store: Harness, operations: Operations, node: Node
) -> None:
    store.schedule(job("sync"), *(every(60, name) for name in ("good", "better", "best", "bad")))
    for _ in range(3):
        while fired := store.fire_due(node):
            for execution in fired:
                failed = execution.trigger_name == "bad"
                store.complete(node, execution, outcome=Outcome.FAILED if failed else Outcome.SUCCEEDED, error="x")
        store.clock.advance(MINUTE)
    [failing] = of_kind(operations, "failures-in-a-row")
    assert failing.what == "The last 3 executions of job DEFAULT.sync by trigger DEFAULT.bad failed."
    assert (failing.subject, failing.trigger) == ("DEFAULT.sync", key("bad"))


def test_each_pause_is_an_incident_whose_remedy_lifts_it(store: Harness, operations: Operations, node: Node) -> None:
    for name in ("one", "two", "three", "four"):
        store.schedule(job(name, "own"), *(every(60, f"{name}{number}", start=at(60)) for number in range(3)))
    store.schedule(job("grouped"), *(every(60, f"g{number}", group="reminders", start=at(60)) for number in range(30)))
    acting = operations.acting_as(Actor("oper", Role.ADMIN)).actions
    acting.pause(Selection.trigger_group("reminders"), reason="provider is down.")
    store.clock.advance(SECOND)
    acting.pause(JobKey("one", "own"), reason="model is wrong")
    acting.disable(JobKey("two", "own"))
    acting.pause(key("three1"), reason="noise")
    store.clock.advance(2 * MINUTE)
    end_all(store, node, Outcome.SUCCEEDED)
    paused = {incident.subject: incident for incident in of_kind(operations, "paused-overdue")}
    assert set(paused) == {"reminders", "own.one", "own.two", "DEFAULT.three1"}
    since = "since 2026-03-02T12:01:00+00:00."
    group = paused["reminders"]
    assert group.what == f"The group 'reminders' of triggers is paused, and 30 triggers of it have missed fires {since}"
    assert group.why == (
        "It was paused at 2026-03-02T12:00:00+00:00 by oper: provider is down.",
        "Triggers: reminders.g0, reminders.g1, reminders.g10, reminders.g11, reminders.g12 and 25 more.",
    )
    assert paused["own.one"].what == f"3 triggers of job own.one are paused, and have missed fires {since}"
    assert (
        paused["own.two"].what == f"Job own.two is disabled or manual, and 3 triggers of it have missed fires {since}"
    )
    assert paused["DEFAULT.three1"].what == f"Trigger DEFAULT.three1 is paused, and has missed fires {since}"
    for subject in list(paused):
        mend(operations, paused.pop(subject), -1)
        assert {incident.subject for incident in of_kind(operations, "paused-overdue")} == set(paused)
    assert not operations.groups().triggers[-1].is_paused


def test_a_full_pool_is_of_the_job_that_holds_it(store: Harness, operations: Operations) -> None:
    node = a_node(store, workers=6)
    store.schedule(job("export"), *(once(f"export{number}") for number in range(5)))
    store.schedule(job("other"), once("other", at(1)), once("waits", at(2)))
    store.clock.advance(2 * SECOND)
    for _ in range(6):
        store.fire_due(node, limit=1)
    store.clock.advance(5 * SECOND)
    store.store.check_in(node)
    [full] = of_kind(operations, "full-pool")
    assert full.job == JobKey("export")
    assert full.why[0] == "5 of 6 workers run job DEFAULT.export."
    assert [(remedy.action, remedy.label) for remedy in full.remedies] == [
        ("pause", "pause job DEFAULT.export"),
        ("cancel", "cancel all 5 executions of DEFAULT.export"),
    ]
    mend(operations, full, 1)
    assert all(row.cancel_requested for row in operations.running() if row.job == JobKey("export"))
    [full] = of_kind(operations, "full-pool")
    assert [remedy.action for remedy in full.remedies] == ["pause"], "all have been asked to stop"


def test_triggers_in_error_are_one_incident_a_cause_and_no_list_is_cut_without_a_word(
    store: Harness, operations: Operations, node: Node
) -> None:
    store.schedule(job("wrong"), *(every(60, f"t{number}", start=at(60)) for number in range(3)))
    for number in range(27):
        store.schedule(job(f"job{number:02}"), every(60, f"own{number:02}", start=at(60)))
        store.set_state(key(f"own{number:02}"), TriggerState.ERROR)
    for number in range(3):
        store.set_state(key(f"t{number}"), TriggerState.ERROR)
    in_error = of_kind(operations, "trigger-error")
    assert len(in_error) == 21
    assert in_error[-1].what.startswith("And 8 more of the same kind (trigger error): ")
    assert in_error[-1].what.endswith(" and 3 more.")
    for number in range(27):
        operations.scheduler.delete_job(f"job{number:02}")
    [wrong] = of_kind(operations, "trigger-error")
    assert (wrong.subject, wrong.what) == (
        "DEFAULT.wrong",
        "3 triggers of job DEFAULT.wrong are in ERROR and do not fire.",
    )
    mend(operations, wrong)
    assert of_kind(operations, "trigger-error") == []


def test_the_backlog_of_a_rate_limit_is_an_incident_once_it_is_old(
    store: Harness, operations: Operations, node: Node
) -> None:
    store.schedule(job("calls", rate_limit="6/minute"), *(every(4, f"calls{number}") for number in range(6)))
    for _ in range(3):
        store.fire_due(node)
    store.clock.advance(15 * SECOND)
    store.store.check_in(node)
    store.complete(node, *store.fire_due(node))
    assert not store.fire_due(node), "the trigger that has fired is due again, and parked"
    assert operations.overview().incidents == (), "it makes fires wait, as it should"
    for _ in range(60):
        store.clock.advance(5 * SECOND)
        store.complete(node, *store.fire_due(node))
    assert not store.fire_due(node)
    store.store.check_in(node)
    [backlog] = operations.overview().incidents
    assert (backlog.kind, backlog.subject) == ("rate-limit-backlog", "DEFAULT.calls")
    assert "triggers of job DEFAULT.calls wait for its rate limit (6 per minute), the first since" in backlog.what
    store.clock.advance(10 * SECOND)
    store.complete(node, *store.fire_due(node))
    store.store.check_in(node)
    assert [incident.kind for incident in operations.overview().incidents] == ["rate-limit-backlog"], (
        "no step has met the trigger again that has fired, and is late for the same reason"
    )
    mend(operations, backlog)
    assert of_kind(operations, "rate-limit-backlog") == []


@pytest.mark.parametrize("store", ["postgresql"], indirect=True)
def test_names_that_are_mixed_up_are_told_on_both_sides(store: Harness, operations: Operations) -> None:
    store.schedule(job(), every(60))
    a_node(store)
    other = Operations(Scheduler(store.store, name="contract"))
    connection = store._connection  # type: ignore[attr-defined]
    connection.execute("UPDATE qrtz_scheduler_state SET sched_name = 'acme-prod'")
    [no_node] = operations.overview().incidents[:1]
    assert no_node.why[0] == (
        "No node of the scheduler 'contract' is running, but 1 node of 'acme-prod' is (a on host). Is the name wrong?"
    )
    connection.execute("UPDATE qrtz_scheduler_state SET sched_name = 'contract'")
    connection.execute("DELETE FROM qrtz_triggers")
    connection.execute("UPDATE qrtz_job_details SET sched_name = 'acme'")
    [mixed] = other.overview().incidents
    assert mixed.what == (
        "1 node of the scheduler 'contract' has no jobs, and the jobs of 'acme' have no node."
        " Is the name of the nodes wrong?"
    )


def test_a_lost_node_stays_for_a_day_with_what_it_lost(store: Harness, operations: Operations, node: Node) -> None:
    store.schedule(job("lost"), once("lost"))
    store.schedule(job("again", requests_recovery=True), once("again"))
    store.fire_due(node)
    store.clock.advance(30 * SECOND)
    survivor = a_node(store, "b")
    store.recover(survivor, node)
    store.clock.advance(SECOND)
    store.store.check_in(survivor)
    overview = operations.overview()
    [lost] = overview.lost_nodes
    assert str(lost) == (
        "Node a was lost: it last checked in at 2026-03-02T12:00:00+00:00, and node b recovered its work at"
        " 2026-03-02T12:00:30+00:00: 1 execution was lost, 1 execution runs again."
    )
    assert (lost.host, lost.is_back) == ("host", False)
    a_node(store, "a")
    assert operations.overview().lost_nodes[0].is_back
    store.store.leave(survivor)
    assert [(end.node, end.how) for end in operations.cluster().ends] == [("b", "left"), ("a", "lost")]
    assert [end.node for end in operations.overview().lost_nodes] == ["a"]
    store.clock.advance(25 * HOUR)
    assert operations.cluster().ends == ()


def test_retries_that_are_exhausted_are_an_incident_until_a_later_fire_succeeds(
    store: Harness, operations: Operations, node: Node
) -> None:
    store.schedule(job("sync"), every(600, "sync"))
    [fired] = store.fire_due(node)
    store.complete(node, fired, outcome=Outcome.FAILED, error="OSError: no disk", retry_after=SECOND)
    assert of_kind(operations, "retries-exhausted") == []
    store.clock.advance(2 * SECOND)
    [retried] = store.fire_due(node)
    store.complete(node, retried, outcome=Outcome.FAILED, error="OSError: no disk")
    [exhausted] = of_kind(operations, "retries-exhausted")
    assert exhausted.what == "All 2 attempts at the last fire of trigger DEFAULT.sync failed, and no other follows."
    assert (exhausted.why[0], exhausted.trigger, exhausted.job) == ("OSError: no disk", key("sync"), job_key("sync"))
    assert exhausted.remedies[0].arguments == {"selection": retried.fire_id}
    store.clock.set(at(600))
    store.complete(node, *store.fire_due(node))
    assert of_kind(operations, "retries-exhausted") == []
