"""What nodes record of what is wrong: each incident once, with its times, whatever nodes and answers are lost."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import timedelta

import pytest

from quartzpy.errors import (
    ForbiddenError,
    IllegalStateChangeError,
    InvalidValueError,
    ObjectNotFoundError,
    QuartzpyError,
)
from quartzpy.expect import BreachRecord, Expect
from quartzpy.operations import Actor, Incident, Operations, Remedy, Role
from quartzpy.operations.actions.audit_log import undoing
from quartzpy.operations.telling import health_check
from quartzpy.operations.telling.expectation_check import Ledger
from quartzpy.operations.telling.health_check import CONFIRMED_EVERY, EVERY, LISTED_EVERY, HealthCheck
from quartzpy.states import Outcome, TriggerState
from quartzpy.store.health_findings import Severity
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.postgresql.admin.records import HealthRun
from quartzpy.store.protocol import JobStore, Node
from quartzpy.store.records import IncidentRecord
from tests.contract.harness import MINUTE, SECOND, Harness, at, every, job, key, once
from tests.database import execute
from tests.operations.test_incidents import a_node, of_kind


@pytest.fixture
def node(store: Harness) -> Node:
    return a_node(store)


@pytest.fixture
def judge(operations: Operations) -> HealthCheck:
    return HealthCheck(operations.scheduler)


def judge_once(store: Harness, operations: Operations) -> HealthRun:
    """Let the time of a turn pass, and judge."""
    store.clock.advance(EVERY)
    turn = admin(store.store).take_slot(EVERY, LISTED_EVERY)
    if turn.turn is not None:
        HealthCheck(operations.scheduler).judge(turn)
    return turn


def recorded(store: Harness) -> list[IncidentRecord]:
    return admin(store.store).open_incidents(100)


def break_trigger(store: Harness, name: str = "bad") -> None:
    store.schedule(job(name), every(3600, name, start=at(3600)))
    store.set_state(key(name), TriggerState.ERROR)


@pytest.fixture
def begun(store: Harness, operations: Operations, node: Node) -> None:
    """The first look at the tables only begins to count the time."""
    assert judge_once(store, operations).turn is None


@pytest.mark.usefixtures("begun")
def test_an_incident_is_recorded_with_its_times_and_is_over_when_it_is_mended(
    store: Harness, operations: Operations, node: Node
) -> None:
    break_trigger(store)
    judge_once(store, operations)
    [record] = recorded(store)
    opened = store.clock.now()
    assert (record.kind, record.subject, record.severity) == ("trigger-error", "DEFAULT.bad", Severity.ERROR)
    assert record.what == record.began_as == "Trigger DEFAULT.bad is in ERROR and does not fire."
    assert (record.trigger_key, record.job_key) == (key("bad"), job("bad").key)
    assert (record.opened_at, record.confirmed_at, record.closed_at) == (opened, opened, None)
    [shown] = of_kind(operations, "trigger-error")
    assert (shown.incident_id, shown.opened_at) == (record.incident_id, opened)
    store.store.check_in(node)
    operations.actions.reset(key("bad"))
    judge_once(store, operations)
    assert recorded(store) == []
    [over] = operations.past_incidents()
    assert (over.incident_id, over.began_at, over.closed_at) == (record.incident_id, opened, store.clock.now())
    assert over.lasted == EVERY
    assert operations.overview().over == (over,)


@pytest.mark.usefixtures("begun")
def test_the_same_incident_that_comes_again_is_another_one(store: Harness, operations: Operations, node: Node) -> None:
    ids = set()
    break_trigger(store)
    for _ in range(3):
        store.store.check_in(node)
        judge_once(store, operations)
        ids.add(recorded(store)[0].incident_id)
        operations.actions.reset(key("bad"))
        judge_once(store, operations)
        store.set_state(key("bad"), TriggerState.ERROR)
    assert len(ids) == len(operations.past_incidents()) == 3


def versions(dsn: str) -> list[tuple[object, ...]]:
    """What tells whether a row of the incidents was written."""
    return execute(dsn, "SELECT id, xmin::text, ctid::text FROM qrtz_incidents ORDER BY id")


@pytest.mark.usefixtures("begun")
def test_an_incident_that_lasts_is_written_once_a_minute(
    store: Harness, operations: Operations, node: Node, postgres_dsn: str
) -> None:
    break_trigger(store)
    judge_once(store, operations)
    written = versions(postgres_dsn)
    for _ in range(CONFIRMED_EVERY // EVERY - 1):
        store.store.check_in(node)
        judge_once(store, operations)
        assert versions(postgres_dsn) == written
    store.store.check_in(node)
    judge_once(store, operations)
    assert versions(postgres_dsn) != written
    [record] = recorded(store)
    assert record.confirmed_at == store.clock.now() == record.opened_at + CONFIRMED_EVERY


@pytest.mark.usefixtures("begun")
def test_another_cause_is_written_at_once(store: Harness, operations: Operations, node: Node) -> None:
    def fail_with(error: str, times: int) -> IncidentRecord:
        for _ in range(times):
            store.complete(node, store.fire_one(node), outcome=Outcome.FAILED, error=error)
            store.clock.advance(SECOND)
            store.store.check_in(node)
        judge_once(store, operations)
        [record] = recorded(store)
        return record

    store.schedule(job("fails"), every(1, "fails", start=store.clock.now()))
    before = fail_with("ValueError: a", 3)
    after = fail_with("KeyError: 'b'", 4)
    assert after.incident_id == before.incident_id
    assert (before.cause, after.cause) == ("ValueError: a", "KeyError: 'b'")
    assert after.confirmed_at > before.confirmed_at


@pytest.mark.usefixtures("begun")
def test_a_calm_cluster_writes_only_when_the_next_judgement_is_due(
    store: Harness, operations: Operations, node: Node, postgres_dsn: str
) -> None:
    rows = "SELECT due_at, xmin::text FROM qrtz_health_runs"
    before = execute(postgres_dsn, rows)
    store.clock.advance(EVERY / 2)
    assert admin(store.store).take_slot(EVERY, LISTED_EVERY).turn is None
    assert execute(postgres_dsn, rows) == before
    store.store.check_in(node)
    store.clock.advance(EVERY / 2)
    assert judge_once(store, operations).turn is not None
    assert execute(postgres_dsn, rows) != before
    assert versions(postgres_dsn) == []


@pytest.mark.usefixtures("begun")
def test_a_turn_tells_whether_anything_is_expected_so_that_a_calm_cluster_asks_no_more(
    store: Harness, operations: Operations, node: Node, postgres_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[JobStore] = []

    def count(store: JobStore, _: Ledger) -> Sequence[BreachRecord]:
        asked.append(store)
        return []

    # At first nothing was ever listed.
    assert judge_once(store, operations).expects
    with monkeypatch.context() as patched:
        patched.setattr(health_check, "check_expectations", count)
        turns = [judge_once(store, operations) for _ in range(int(LISTED_EVERY / EVERY) - 1)]
        assert (asked, any(turn.expects for turn in turns)) == ([], False)
        assert judge_once(store, operations).expects
        assert len(asked) == 1
    store.schedule(job("expecting", expect=Expect(starts_within="2m")), every(3600, "expecting", start=at(7200)))
    # Now it is listed, and looked at.
    assert judge_once(store, operations).expects
    assert not judge_once(store, operations).expects
    execute(postgres_dsn, "UPDATE qrtz_expectations SET due_at = '2000-01-01Z'")
    assert judge_once(store, operations).expects


@pytest.mark.usefixtures("begun")
def test_of_nodes_that_come_at_once_one_judges(store: Harness, operations: Operations) -> None:
    store.clock.advance(EVERY)
    turns: list[HealthRun] = []
    barrier = threading.Barrier(4)

    def take() -> None:
        barrier.wait()
        turns.append(admin(store.store).take_slot(EVERY, LISTED_EVERY))

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(turn.turn is None for turn in turns) == [False, True, True, True]
    assert all(timedelta() < turn.next_in <= EVERY for turn in turns)


@pytest.mark.usefixtures("begun")
def test_two_that_judge_at_once_record_an_incident_once(
    store: Harness, operations: Operations, judge: HealthCheck
) -> None:
    break_trigger(store)
    store.clock.advance(EVERY)
    turn = admin(store.store).take_slot(EVERY, LISTED_EVERY)
    both = threading.Barrier(2)
    errors: list[BaseException] = []

    def one() -> None:
        both.wait()
        try:
            judge.judge(turn)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=one) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # An answer that was lost is asked again: what is recorded stays as it is.
    judge.judge(turn)
    assert errors == []
    assert len(recorded(store)) == 1


@pytest.mark.usefixtures("begun")
def test_a_node_that_dies_between_its_turn_and_its_record_leaves_it_to_the_next(
    store: Harness, operations: Operations, node: Node, judge: HealthCheck
) -> None:
    break_trigger(store)
    store.clock.advance(EVERY)
    late = admin(store.store).take_slot(EVERY, LISTED_EVERY)
    assert late.turn is not None
    store.store.check_in(node)
    assert judge_once(store, operations).turn is not None
    [record] = recorded(store)
    operations.actions.reset(key("bad"))
    break_trigger(store, "other")
    # It lives after all, and judges when the turn is another one's.
    judge.judge(late)
    assert recorded(store) == [record]


def test_a_failed_judgement_records_nothing_and_the_next_one_does(
    store: Harness, operations: Operations, node: Node, begun: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_trigger(store)
    with monkeypatch.context() as patched:
        patched.setattr("quartzpy.operations.incidents.kinds.clock_change.clock_changes", lambda changes: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            judge_once(store, operations)
    assert recorded(store) == []
    store.store.check_in(node)
    judge_once(store, operations)
    assert len(recorded(store)) == 1


@pytest.mark.usefixtures("begun")
def test_the_time_in_which_nobody_judged_is_recorded(store: Harness, operations: Operations, node: Node) -> None:
    judge_once(store, operations)
    due = store.clock.now() + EVERY
    store.clock.advance(90 * SECOND)
    a_node(store, "b")
    judge_once(store, operations)
    [gap] = [one for one in operations.past_incidents() if one.kind == "not-judged"]
    assert (gap.began_at, gap.closed_at) == (due, store.clock.now())
    assert gap.what == (
        "No node judged what was wrong from 2026-03-02T12:00:15+00:00 until 2026-03-02T12:01:45+00:00: none was"
        " running, or none could reach the database."
    )


@pytest.mark.usefixtures("begun")
def test_a_clock_that_was_set_back_delays_no_judgement(
    store: Harness, operations: Operations, node: Node, postgres_dsn: str
) -> None:
    break_trigger(store)
    judge_once(store, operations)
    operations.actions.reset(key("bad"))
    store.clock.advance(-timedelta(hours=1))
    assert judge_once(store, operations).turn is not None
    [over] = operations.past_incidents()
    assert over.closed_at == over.began_at, "an end is never before the beginning"


@pytest.mark.usefixtures("begun")
def test_incidents_are_purged_with_the_history_once_they_are_over(
    store: Harness, operations: Operations, node: Node
) -> None:
    break_trigger(store, "bad")
    break_trigger(store, "worse")
    judge_once(store, operations)
    operations.actions.reset(key("bad"))
    store.store.check_in(node)
    judge_once(store, operations)
    assert len(operations.past_incidents()) == len(recorded(store)) == 1
    store.clock.advance(timedelta(days=7, seconds=1))
    store.store.purge_history(timedelta(days=8), limit=10)
    assert len(operations.past_incidents()) == 1
    store.store.purge_history(timedelta(days=7), limit=10)
    assert list(operations.past_incidents()) == []
    assert len(recorded(store)) == 1


@pytest.mark.usefixtures("begun")
def test_incidents_that_are_over_are_found_by_span_kind_and_text_page_by_page(
    store: Harness, operations: Operations, node: Node
) -> None:
    for name in "abc":
        store.store.check_in(node)
        break_trigger(store, name)
        judge_once(store, operations)
        operations.actions.reset(key(name))
        judge_once(store, operations)
    every_one = [row.subject for row in operations.past_incidents()]
    assert every_one == ["DEFAULT.c", "DEFAULT.b", "DEFAULT.a"]
    first = operations.past_incidents(limit=2)
    second = operations.past_incidents(limit=2, after=first.next_cursor)
    assert [row.subject for row in [*first, *second]] == every_one
    ends = {row.subject: row.closed_at for row in operations.past_incidents()}
    begins = {row.subject: row.began_at for row in operations.past_incidents()}

    def subjects(**filters: object) -> list[str]:
        return [row.subject for row in operations.past_incidents(**filters)]  # type: ignore[arg-type]

    assert subjects(since=ends["DEFAULT.b"]) == ["DEFAULT.c", "DEFAULT.b"]
    assert subjects(until=begins["DEFAULT.b"]) == ["DEFAULT.a"]
    assert subjects(kind="trigger-error") == every_one
    assert subjects(kind="dead-node") == []
    assert subjects(contains="default.B") == ["DEFAULT.b"]
    assert subjects(contains="in error") == every_one
    with pytest.raises(QuartzpyError, match="since"):
        operations.past_incidents(since=store.clock.now().replace(tzinfo=None))


def test_each_incident_has_an_identity_of_its_own() -> None:
    one = Incident(Severity.ERROR, "trigger-error", "a", "It is.", lasting="x")
    assert one.identity == Incident(Severity.INFO, "trigger-error", "b", "It was.", lasting="x").identity
    others = [("dead-node", "a"), ("trigger-error", "a"), ("trigger-error", "y")]
    identities = {Incident(Severity.ERROR, kind, subject, "").identity for kind, subject in others}
    assert len({one.identity, *identities}) == 4


@pytest.mark.usefixtures("begun")
def test_a_pause_and_late_triggers_keep_their_identity_while_more_triggers_are_concerned(
    store: Harness, operations: Operations, node: Node
) -> None:
    for name in "abc":
        store.schedule(job(name), once(name, at(MINUTE.total_seconds() + 30 * ord(name) - 30 * ord("a"))))
    operations.actions.pause([key("a"), key("b"), key("c")], reason="deploy")
    seen = set()
    while store.clock.now() < at(180):
        store.clock.advance(20 * SECOND)
        store.store.check_in(node)
        seen |= {(one.kind, one.identity) for one in operations.overview().incidents}
    assert len(seen) == 1, seen


# --- taking note of an incident


def shown(operations: Operations) -> list[str]:
    return [one.kind for one in operations.overview().incidents if one.kind != "late-triggers"]


@pytest.fixture
def broken(store: Harness, operations: Operations, node: Node, begun: None) -> int:
    """The number of an incident that is recorded."""
    break_trigger(store)
    store.store.check_in(node)
    judge_once(store, operations)
    [record] = recorded(store)
    return record.incident_id


def test_an_acknowledged_incident_is_listed_apart_with_who_why_and_until_when(
    store: Harness, operations: Operations, broken: int
) -> None:
    until = store.clock.now() + MINUTE
    ann = operations.acting_as(Actor("ann", Role.OPERATOR))
    result = ann.actions.acknowledge(broken, until, reason="the supplier is told")
    assert result.text == (
        f"Incident {broken} is acknowledged until 2026-03-02T12:01:10+00:00:"
        " Trigger DEFAULT.bad is in ERROR and does not fire."
    )
    assert shown(operations) == []
    [noted] = operations.overview().acknowledged
    assert noted.acknowledgement is not None
    note = noted.acknowledgement
    assert (note.by, note.reason, note.until, note.at) == ("ann", "the supplier is told", until, store.clock.now())
    assert operations.incidents().acknowledged == (noted,)
    [entry, *_] = operations.audit_log()
    assert (entry.action, entry.subject, entry.reason) == (
        "acknowledge",
        f"incident {broken}",
        "the supplier is told",
    )
    assert undoing(entry) == Remedy("unacknowledge", {"incident": broken}, "Show again")
    operations.actions.unacknowledge(broken)
    assert shown(operations) == ["trigger-error"]
    assert operations.overview().acknowledged == ()


def test_it_comes_back_when_its_time_is_over(store: Harness, operations: Operations, node: Node, broken: int) -> None:
    operations.actions.acknowledge(broken, store.clock.now() + 10 * SECOND, reason="later")
    store.clock.advance(9 * SECOND)
    store.store.check_in(node)
    assert shown(operations) == []
    store.clock.advance(SECOND)
    assert shown(operations) == ["trigger-error"]


def test_it_comes_back_when_it_opens_anew(store: Harness, operations: Operations, node: Node, broken: int) -> None:
    operations.actions.acknowledge(broken, reason="known")
    for _ in range(20):
        store.store.check_in(node)
        judge_once(store, operations)
        assert shown(operations) == []
    operations.actions.reset(key("bad"))
    store.store.check_in(node)
    judge_once(store, operations)
    assert operations.overview().acknowledged == ()
    [over] = operations.past_incidents()
    assert over.acknowledgement is not None, "what was noted stays with what was"
    store.set_state(key("bad"), TriggerState.ERROR)
    store.store.check_in(node)
    judge_once(store, operations)
    assert shown(operations) == ["trigger-error"]


@pytest.mark.usefixtures("begun")
def test_it_comes_back_with_another_cause_or_a_higher_severity(
    store: Harness, operations: Operations, node: Node, postgres_dsn: str
) -> None:
    def fail_with(error: str, times: int) -> None:
        for _ in range(times):
            store.complete(node, store.fire_one(node), outcome=Outcome.FAILED, error=error)
            store.clock.advance(SECOND)
            store.store.check_in(node)
        judge_once(store, operations)

    store.schedule(job("fails"), every(1, "fails", start=store.clock.now()))
    fail_with("ValueError: a", 3)
    [record] = recorded(store)
    operations.actions.acknowledge(record.incident_id, reason="known")
    fail_with("ValueError: a", 2)
    assert shown(operations) == []
    fail_with("KeyError: 'b'", 6)
    assert shown(operations) == ["failures-in-a-row"], "the commonest error is another one"
    operations.actions.acknowledge(record.incident_id, reason="known as well")
    assert shown(operations) == []
    execute(postgres_dsn, "UPDATE qrtz_incidents SET acknowledged_severity = 'info'")
    assert shown(operations) == ["failures-in-a-row"]


def test_what_cannot_be_acknowledged_is_refused(
    store: Harness, operations: Operations, node: Node, broken: int
) -> None:
    actions = operations.actions
    with pytest.raises(InvalidValueError, match="reason: say why"):
        actions.acknowledge(broken)
    with pytest.raises(InvalidValueError, match="until: must be in the future"):
        actions.acknowledge(broken, store.clock.now(), reason="late")
    with pytest.raises(InvalidValueError, match=r"incident: must be a whole number .*\(got 'x'\)"):
        actions.acknowledge("x", reason="why")  # type: ignore[arg-type]
    with pytest.raises(ObjectNotFoundError, match=f"incident {broken + 1} is not recorded"):
        actions.acknowledge(broken + 1, reason="why")
    with pytest.raises(ObjectNotFoundError):
        operations.incident(broken + 1)
    with pytest.raises(IllegalStateChangeError, match=f"nobody has acknowledged incident {broken}"):
        actions.unacknowledge(broken)
    with pytest.raises(ForbiddenError):
        operations.acting_as(Actor("eve")).actions.acknowledge(broken, reason="why")
    operations.actions.reset(key("bad"))
    store.store.check_in(node)
    judge_once(store, operations)
    for act in (lambda: actions.acknowledge(broken, reason="why"), lambda: actions.unacknowledge(broken)):
        with pytest.raises(IllegalStateChangeError, match=f"incident {broken} is over"):
            act()
    assert operations.incident(broken).closed_at == store.clock.now()


def test_acknowledged_incidents_take_no_place_from_others(
    store: Harness, operations: Operations, node: Node, begun: None
) -> None:
    for number in range(25):
        break_trigger(store, f"bad{number:02}")
    store.store.check_in(node)
    judge_once(store, operations)
    assert len(operations.overview().incidents) == 21
    for record in recorded(store)[:5]:
        operations.actions.acknowledge(record.incident_id, reason="known")
    overview = operations.overview()
    assert (len(overview.incidents), len(overview.acknowledged)) == (20, 5)
    assert not any(one.subject.endswith("more") for one in overview.incidents)
