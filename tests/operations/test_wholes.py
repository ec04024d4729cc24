"""The read models of the whole: timeline, calendars, groups, limits, system and search."""

from __future__ import annotations

import threading
from datetime import date, timedelta
from datetime import time as time_of_day

import pytest

from quartzpy import DailyCalendar, HolidayCalendar, WeeklyCalendar
from quartzpy.errors import CalendarNotFoundError, InvalidValueError
from quartzpy.keys import JobKey
from quartzpy.matchers import GroupMatcher
from quartzpy.operations import Actor, Lanes, Operations, Role, Selection
from quartzpy.operations.views.search import SEARCHED
from quartzpy.placement import Capabilities
from quartzpy.states import ExecutionState, Outcome
from quartzpy.store.protocol import FiredTrigger, NamedTriggers, PauseNote, TriggerGroups
from tests.contract.harness import HOUR, MINUTE, START, Harness, SqlHarness, at, every, job, key, once, serial
from tests.database import connect_to
from tests.waiting import wait_until


def test_the_timeline_has_what_ran_what_runs_and_what_is_planned(store: Harness, operations: Operations) -> None:
    node = store.node()
    store.schedule(job("often"), every(600, "often", times=4))
    ended = store.fire_one(node)
    store.clock.advance(MINUTE)
    store.complete(node, ended)
    store.clock.advance(9 * MINUTE)
    [running] = store.fire_due(node)
    store.clock.advance(MINUTE)
    seen = operations.timeline(START, START + HOUR)
    assert [lane.name for lane in seen.lanes] == ["a", "planned"]
    assert [(bar.start, bar.end, bar.state) for bar in seen.lanes[0].bars] == [
        (at(60), at(60), ExecutionState.SUCCEEDED),
        (at(600), None, ExecutionState.PROCESSING),
    ]
    assert [bar.start for bar in seen.lanes[1].bars] == [at(1200), at(1800)]
    assert (seen.complete_since, seen.complete_until, seen.hidden_lanes) == (START, START + HOUR, 0)
    [by_job] = operations.timeline(START, START + HOUR, lanes="job").lanes
    assert by_job.name == "DEFAULT.often"
    assert [bar.fire_id for bar in by_job.bars] == [ended.fire_id, running.fire_id, None, None]
    assert operations.timeline().start == store.clock.now() - HOUR
    assert operations.timeline().by is Lanes.NODE


@pytest.mark.parametrize("by", ["job", "group"])
def test_the_timeline_has_the_lanes_with_the_most_executions_and_their_misfires(
    store: Harness, operations: Operations, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    monkeypatch.setattr("quartzpy.operations.views.timeline.MAX_LANES", 2)
    node, skip = store.node(), "reschedule_next_with_existing_count"
    for name, times in (("rare", 1), ("often", 3), ("also-often", 3), ("as-often", 3)):
        store.schedule(job(name, name), every(60, name, times=times), every(600, f"{name}-missed", misfire=skip))
    for _ in range(3):
        for fired in store.fire_due(node):
            store.complete(node, fired)
        store.clock.advance(MINUTE)
    store.clock.advance(30 * MINUTE)
    store.misfire(node)
    seen = operations.timeline(START, store.clock.now() + MINUTE, lanes=by)
    names = ["also-often", "as-often"]
    assert [lane.name for lane in seen.lanes] == [f"{name}.{name}" if by == "job" else name for name in names]
    assert [lane.number for lane in seen.lanes] == [4, 4]
    assert [[mark.text for mark in lane.marks] for lane in seen.lanes] == [["1 misfire"], ["1 misfire"]]
    assert seen.hidden_lanes == 2


def test_the_timeline_marks_misfires_and_pauses(store: Harness, operations: Operations) -> None:
    node, skip = store.node(), "reschedule_next_with_existing_count"
    for name in ("missed", "held"):
        store.schedule(job(name, "g"), every(3600, name, start=store.clock.now(), misfire=skip))
    store.clock.advance(10 * MINUTE)
    store.store.pause(NamedTriggers([key("held")]), PauseNote("maintenance", "ann"))
    store.clock.advance(20 * MINUTE)
    store.misfire(node)
    for by, names in (("job", ["g.held", "g.missed"]), ("group", ["g"])):
        seen = operations.timeline(START, START + HOUR, lanes=by)
        marks = {lane.name: [(mark.at, mark.text) for mark in lane.marks] for lane in seen.lanes}
        pause = (at(600), "trigger DEFAULT.held was paused by ann: maintenance")
        assert [mark for name in sorted(marks) for mark in marks[name]] == [pause, (at(1800), "1 misfire")]
        assert sorted(marks) == names
    [lane] = operations.timeline(START, START + HOUR, lanes="node").lanes
    assert [mark.number for mark in lane.marks] == [1]
    assert operations.timeline(START, START + HOUR, lanes="job", group="other").lanes == ()
    assert operations.timeline(START + 40 * MINUTE, START + HOUR, lanes="node").lanes == ()


def test_the_timeline_marks_the_pauses_of_operators_that_have_ended(store: Harness, operations: Operations) -> None:
    node = store.node()
    ann, bob = (operations.acting_as(Actor(name, Role.OPERATOR)).actions for name in ("ann", "bob"))
    for name in ("a", "b"):
        store.schedule(job(name, "g"), every(600, name, start=START, group="t"))
    store.schedule(job("c", "other"), every(600, "c", start=START))
    for fired in store.fire_due(node):
        store.complete(node, fired)

    def after(minutes: int) -> None:
        store.clock.advance(minutes * MINUTE)

    after(1)  # 1
    ann.pause(key("a", "t"), reason="maintenance")
    after(1)  # 2
    ann.pause(Selection.trigger_group("t"))
    after(1)  # 3
    ann.pause(JobKey("c", "other"))
    ann.pause(JobKey("c", "other"))
    after(1)  # 4
    ann.resume(Selection.trigger_group("t"))
    after(1)  # 5
    bob.pause(Selection.everything(), reason="a move")
    after(1)  # 6
    ann.resume(Selection.everything())
    after(1)  # 7
    ann.pause(Selection.job_group("g"))
    after(1)  # 8
    bob.resume(Selection.job_group("g"))
    after(1)  # 9
    ann.pause(key("c"))
    move = (300, 360, "everything was paused by bob, until ann resumed it: a move")
    groups = [(120, 240, "trigger group t was paused by ann"), move]
    last = (420, 480, "job group g was paused by ann, until bob resumed it")
    alone = (60, 240, "trigger t.a was paused by ann: maintenance")

    def marks(span: tuple[int, int], **values: str) -> dict[str, list[tuple[float, float, str]]]:
        lanes = operations.timeline(at(span[0]), at(span[1]), **values).lanes
        return {
            lane.name: [
                ((mark.at - START).total_seconds(), (mark.until - START).total_seconds(), mark.text)
                for mark in lane.marks
                if mark.until is not None
            ]
            for lane in lanes
        }

    hour, of_c = (0, 3600), (180, 360, "job other.c was paused by ann")
    assert marks(hour, lanes="job") == {"g.a": [alone, *groups, last], "g.b": [*groups, last], "other.c": [of_c, move]}
    assert marks(hour, lanes="group") == {"g": [alone, *groups, last], "other": [of_c, move]}
    assert all(found == [move] for found in marks(hour).values()), (
        "by node, only a pause of everything is one of a lane"
    )
    assert marks(hour, lanes="job", group="other") == {"other.c": [of_c, move]}
    # A pause outlasts the span, or ended before it.
    assert marks((130, 320), lanes="job")["g.b"] == groups
    [whole] = operations.timeline(at(310), at(320)).marks
    assert (whole.at, whole.until, whole.text) == (at(300), at(360), move[2])
    assert "other.c" not in marks((490, 520), lanes="job", group="g")
    assert all(not found for found in marks((490, 620), lanes="job").values())


def test_the_timeline_counts_what_it_cannot_show_one_by_one(store: Harness, operations: Operations) -> None:
    """However many executions there are: each is in a bar or in a cell of its lane, whatever the lanes are."""
    node = store.node()
    store.schedule(job("often", durable=True), every(1, "often", times=300))
    store.schedule(job("other", group="nightly"), once("other", at(400)))
    for second in range(300):
        outcome = Outcome.FAILED if second == 150 else Outcome.SUCCEEDED
        store.complete(node, *store.fire_due(node), outcome=outcome)
        store.clock.advance(timedelta(seconds=1))
    seen = operations.timeline(START, START + HOUR, lanes="job")
    often, other = seen.lanes
    assert (often.name, often.job, often.number) == ("DEFAULT.often", JobKey("often"), 300)
    assert [(bar.start, bar.state) for bar in often.bars] == [(at(150), ExecutionState.FAILED)]
    assert sum(cell.states[ExecutionState.SUCCEEDED] for cell in often.cells) == 299
    assert [(cell.start, cell.end) for cell in often.cells[:2]] == [(at(0), at(30)), (at(30), at(60))]
    assert [bar.state for bar in other.bars] == [ExecutionState.SCHEDULED]
    assert [lane.name for lane in operations.timeline(START, START + HOUR, lanes="group").lanes] == [
        "DEFAULT",
        "nightly",
    ]
    [nightly] = operations.timeline(START, START + HOUR, lanes="job", group="nightly").lanes
    assert nightly.number == 1
    [zoomed] = operations.timeline(START, at(120), lanes="node").lanes
    assert (len(zoomed.bars), zoomed.cells) == (120, ()), "each is alone in its second"


@pytest.mark.parametrize("by", Lanes)
def test_an_execution_is_counted_where_it_ended(store: Harness, operations: Operations, by: Lanes) -> None:
    """What ended after the timeline is in its last cell, if it began before its end."""
    node = store.node()
    instants = {"early": at(0), "late": at(3_500), "next": at(3_600)}
    names = {name: [f"{name}-{n}" for n in range(number)] for name, number in [("early", 3), ("late", 5), ("next", 2)]}
    store.schedule(job("long"), *(once(each, instants[name]) for name in names for each in names[name]))

    def fire(name: str) -> list[FiredTrigger]:
        store.clock.advance(instants[name] - store.clock.now())
        fired = store.fire_due(node)
        assert sorted(one.trigger_name for one in fired) == names[name]
        return fired

    def complete_at(seconds: int, *fired: FiredTrigger) -> None:
        store.clock.advance(at(seconds) - store.clock.now())
        store.complete(node, *fired)

    complete_at(315, *fire("early"))
    late = fire("late")
    complete_at(3_580, *late[:2])
    following = fire("next")
    complete_at(3_660, *late[2:], *following)
    [lane] = operations.timeline(START, START + HOUR, lanes=by).lanes
    assert [(cell.start, cell.states) for cell in lane.cells] == [
        (at(300), {ExecutionState.SUCCEEDED: 3}),
        (at(3_570), {ExecutionState.SUCCEEDED: 5}),
    ]
    assert lane.number == 8


def test_few_executions_after_a_timeline_are_looked_at(
    store: Harness, operations: Operations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quartzpy.operations.views.timeline.MAX_AFTER", 2)
    node = store.node()
    store.schedule(job("long"), *(once(f"long-{n}") for n in range(6)))
    fired = store.fire_due(node)
    for one in fired:
        store.clock.advance(MINUTE)
        store.complete(node, one)
    for by in Lanes:
        [lane] = operations.timeline(START, at(60), lanes=by).lanes
        assert lane.number == 3, "those that ended after one, two and three minutes"


def test_a_timeline_that_counts_no_more_says_from_when_it_is_complete(
    store: Harness, operations: Operations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quartzpy.operations.views.timeline.MAX_COUNTED", 5)
    node = store.node()
    store.schedule(job("often"), every(60, "often", times=10))
    for _ in range(10):
        store.complete(node, *store.fire_due(node))
        store.clock.advance(MINUTE)
    for by in Lanes:
        seen = operations.timeline(START, START + HOUR, lanes=by)
        assert (seen.complete_since, seen.lanes[0].number) == (at(300), 5)
        # Three of them ended after this timeline.
        assert operations.timeline(START, at(420), lanes=by).complete_since == at(120)


def test_a_timeline_needs_a_span_of_at_most_a_month(operations: Operations) -> None:
    with pytest.raises(InvalidValueError, match="end: must be after start"):
        operations.timeline(START, START)
    with pytest.raises(InvalidValueError, match="at least 1 second and at most 31 days"):
        operations.timeline(START, START + 32 * 24 * HOUR)
    with pytest.raises(InvalidValueError, match="lanes: must be one of node, job, group"):
        operations.timeline(START, START + HOUR, lanes="queue")


def test_a_calendar_has_the_days_that_it_excludes(store: Harness, operations: Operations) -> None:
    store.put_calendar("holidays", HolidayCalendar([date(2026, 5, 1), date(2026, 12, 25)], time_zone="Europe/Berlin"))
    store.put_calendar("weekdays", WeeklyCalendar())
    store.put_calendar("day", DailyCalendar(time_of_day(0), time_of_day(6)))
    store.schedule(job(), once("uses", at(60), calendar="holidays"))
    assert [(one.name, one.kind) for one in operations.calendars()] == [
        ("day", "daily"),
        ("holidays", "holiday"),
        ("weekdays", "weekly"),
    ]
    holidays = operations.calendar("holidays", 2026)
    assert holidays.excluded == (date(2026, 5, 1), date(2026, 12, 25))
    assert holidays.partly_excluded == ()
    assert holidays.triggers == (key("uses"),)
    assert len(operations.calendar("weekdays").excluded) == 104
    day = operations.calendar("day", 2024)
    assert (len(day.excluded), len(day.partly_excluded)) == (0, 366)
    with pytest.raises(CalendarNotFoundError, match="there is no calendar 'holidayz'; did you mean holidays"):
        operations.calendar("holidayz")
    with pytest.raises(InvalidValueError, match="year: must be a number from 1970"):
        operations.calendar("day", 1)


def test_groups_have_their_pauses(store: Harness, operations: Operations) -> None:
    store.schedule(job("a", "x"), once("a", at(60), group="x"), once("b", at(60), group="y"))
    store.store.pause(TriggerGroups(GroupMatcher.equals("x")))
    store.store.pause(TriggerGroups(GroupMatcher.equals("empty")))
    seen = operations.groups()
    assert [(one.name, one.is_paused, str(one.count), str(one.paused)) for one in seen.triggers] == [
        ("empty", True, "0", "0"),
        ("x", True, "1", "1"),
        ("y", False, "1", "0"),
    ]
    assert [one.name for one in seen.jobs] == ["x"]
    assert (seen.all_paused, seen.manual, seen.has_more) == (False, False, False)


def test_limits_have_their_headroom(store: Harness, operations: Operations) -> None:
    node = store.node()
    store.store.publish(node, Capabilities(frozenset({"report"}), workers={"default": 4}, groups={"_": 3, "*": 1}))
    store.schedule(serial("one"), once("first"), once("second"))
    store.schedule(job("limited", rate_limit="6/minute"), once("rated"))
    for _ in range(2):
        store.fire_due(node)
    seen = operations.limits()
    [of_job] = seen.jobs
    assert (of_job.job, of_job.running, of_job.headroom, of_job.blocked) == (JobKey("one"), 1, 0, 1)
    [rate] = seen.rates
    assert (rate.limit, rate.headroom, rate.next_at) == ("6 per minute", 0, at(10))
    assert [(one.executor, one.workers, one.busy, one.headroom) for one in seen.pools] == [("default", 4, 2, 2)]
    assert [(one.group, one.limit, one.running, one.headroom) for one in seen.groups] == [
        ("*", 1, None, None),
        ("_", 3, 2, 1),
    ]


def test_the_search_finds_keys_ids_nodes_and_calendars(store: Harness, operations: Operations) -> None:
    node = store.node("report-node")
    store.schedule(job("nightly-report", "billing"), once("Report-1", group="billing"), once("other", at(60)))
    store.put_calendar("reporting-days", WeeklyCalendar())
    fired = store.fire_one(node)
    seen = operations.search("report")
    assert seen.jobs == (JobKey("nightly-report", "billing"),)
    assert seen.nodes == ("report-node",)
    assert seen.calendars == ("reporting-days",)
    assert operations.search("billing.nightly-report").jobs == (JobKey("nightly-report", "billing"),)
    found = operations.search(f" {fired.fire_id} ").execution
    assert found is not None
    assert found.trigger == key("Report-1", "billing")
    first = operations.search("r", limit=1)
    assert (first.nodes, first.examined) == (("report-node",), SEARCHED)
    assert first.is_full, "it ends because it has no room, and not after 50,000 names"
    later = operations.search("r", limit=1, after=first.next_cursor)
    assert (later.nodes, later.next_cursor, later.examined) == ((), None, None), "the job was on the first page"
    assert {*first.triggers, *later.triggers} == {key("Report-1", "billing"), key("other")}
    with pytest.raises(InvalidValueError, match="after: must be the next_cursor of a page of the same query, search"):
        operations.search("r", after="nonsense")
    with pytest.raises(InvalidValueError, match="text: must be a text that is not empty"):
        operations.search("  ")


def test_the_system_has_tables_locks_and_findings(store: Harness, operations: Operations) -> None:
    seen = operations.system()
    assert (seen.scheduler, seen.findings) == ("contract", None)
    if seen.tables:
        assert {"qrtz_triggers", "qrtz_executions"} <= {one.name for one in seen.tables}
        assert all(one.size_bytes >= one.index_bytes >= 0 for one in seen.tables)
        assert seen.schema_version is not None
    assert operations.system(examine=True).findings is not None
    # The server may be at work on the tables by itself.
    assert [one for one in operations.locks() if one.application != "autovacuum worker"] == []


@pytest.mark.parametrize("store", ["postgresql"], indirect=True)
def test_a_row_that_cannot_be_decoded_is_shown_as_unreadable(store: SqlHarness, operations: Operations) -> None:
    store.schedule(job(), every(60, "fine", start=at(60)), once("odd", at(60)))
    store._connection.execute("UPDATE qrtz_triggers SET kind = 'of-the-future' WHERE trigger_name = 'odd'")
    odd = next(one for one in operations.triggers() if one.key.name == "odd")
    assert odd.unreadable is not None
    assert odd.unreadable.startswith("unreadable: ")
    assert odd.schedule == odd.unreadable
    assert operations.trigger(key("odd")).next_times[0].at == at(60)
    assert [one.key.name for one in operations.job(JobKey("job")).triggers] == ["fine", "odd"]
    assert operations.overview().now == START
    assert {run.trigger.name for run in operations.upcoming(limit=2)} == {"fine", "odd"}


@pytest.mark.parametrize("store", ["postgresql"], indirect=True)
def test_locks_name_who_waits_and_for_whom(postgres_dsn: str, store: Harness, operations: Operations) -> None:
    store.schedule(job(), once("wanted", at(60)))
    update = "UPDATE qrtz_triggers SET priority = priority WHERE trigger_name = 'wanted'"
    with (
        connect_to(postgres_dsn, autocommit=False) as holder,
        connect_to(postgres_dsn, autocommit=False, application_name="impatient") as waiter,
    ):
        holder.execute(update)
        blocker = holder.info.backend_pid
        thread = threading.Thread(target=waiter.execute, args=(update,))
        thread.start()
        try:
            # A maintenance process of the server may wait as well.
            seen = wait_until(
                lambda: [one for one in operations.locks() if one.application == "impatient"],
                "a lock that is waited for",
            )
        finally:
            holder.rollback()
            thread.join()
    [wait] = seen
    assert (wait.table, wait.granted, wait.application) == ("qrtz_triggers", False, "impatient")
    assert wait.blocked_by == (blocker,)
