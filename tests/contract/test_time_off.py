"""Tests of pauses that end by themselves, and of maintenance windows."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from quartzpy.calendars.maintenance_window import MaintenanceWindow
from quartzpy.errors import InvalidValueError, ObjectAlreadyExistsError
from quartzpy.matchers import GroupMatcher
from quartzpy.states import JobMode, Missed
from quartzpy.store.protocol import (
    EVERYTHING,
    JobGroups,
    NamedTriggers,
    PauseNote,
    PauseSubjects,
    TimeOff,
    TriggerGroups,
    TriggersOfJobs,
)
from tests.contract.harness import (
    HOUR,
    MINUTE,
    START,
    Harness,
    at,
    every,
    job,
    job_key,
    key,
    names,
    once,
    stored_trigger,
)

UNTIL = PauseNote("the bank is closed", "ann", START + HOUR)
GROUP = TriggerGroups(GroupMatcher.equals("DEFAULT"))
JOB_GROUP = JobGroups(GroupMatcher.equals("DEFAULT"))
each_subject = pytest.mark.parametrize(
    "subjects",
    [NamedTriggers([key("every")]), TriggersOfJobs([job_key()]), GROUP, JOB_GROUP, EVERYTHING],
    ids=["trigger", "job", "trigger-group", "job-group", "everything"],
)


def applied(store: Harness, seconds: float) -> TimeOff:
    """Move the clock to this second of the test, and do what a node does then."""
    store.clock.set(at(seconds))
    return store.store.apply_time_off("a")


def ends_in(store: Harness) -> timedelta | None:
    """Return when a node has something to do, as it reads it after its check-in."""
    node = store.node("reader")
    read = store.store.recover(node, []).next_time_off
    store.store.leave(node)
    return read


@each_subject
def test_a_pause_ends_at_its_instant(store: Harness, subjects: PauseSubjects) -> None:
    store.schedule(job(), every(1800))
    assert ends_in(store) is None
    store.store.pause(subjects, UNTIL)
    assert ends_in(store) == HOUR
    assert not applied(store, 3599).ended
    assert store.state("every") == "PAUSED"
    outcome = applied(store, 3600)
    assert (len(outcome.ended), outcome.next_change) == (1, None)
    assert store.state("every") == "WAITING"
    assert ends_in(store) is None
    assert not store.store.pauses().groups
    assert not applied(store, 3601).ended


@each_subject
@pytest.mark.parametrize("missed", list(Missed))
def test_what_was_missed_is_treated_as_by_a_resumption(store: Harness, subjects: PauseSubjects, missed: Missed) -> None:
    node = store.node()
    store.schedule(job(), every(1500, misfire="fire_all", catch_up_max=10))
    store.fire_one(node)
    store.store.pause(subjects, replace(UNTIL, missed=missed))
    applied(store, 3600)
    store.misfire(node)
    fired = [fire.scheduled_fire_time for fire in store.fire_due(node)]
    assert fired == {Missed.MISFIRE: [at(1500)], Missed.SKIP: [], Missed.ONCE: [at(3600)]}[missed]


@each_subject
def test_the_latest_pause_of_the_same_kind_decides(store: Harness, subjects: PauseSubjects) -> None:
    store.schedule(job(), every(1800))
    store.store.pause(subjects, UNTIL)
    store.store.pause(subjects, PauseNote("for good", "bob"))
    assert ends_in(store) is None
    assert not applied(store, 3600).ended
    store.store.pause(subjects, replace(UNTIL, until=at(7200)))
    store.store.pause(subjects, replace(UNTIL, until=at(5000)))
    assert ends_in(store) == timedelta(seconds=1400)
    assert applied(store, 5000).ended
    assert store.state("every") == "WAITING"


@each_subject
def test_a_resumption_by_hand_forgets_the_end(store: Harness, subjects: PauseSubjects) -> None:
    store.schedule(job(), every(1800))
    store.store.pause(subjects, UNTIL)
    store.store.resume(subjects)
    assert (store.state("every"), ends_in(store)) == ("WAITING", None)
    store.store.pause(subjects)
    assert not applied(store, 3600).ended
    assert store.state("every") == "PAUSED"


@pytest.mark.parametrize("subjects", [GROUP, JOB_GROUP, EVERYTHING])
def test_a_trigger_that_is_paused_itself_stays_so_when_its_group_is_not_any_more(
    store: Harness, subjects: PauseSubjects
) -> None:
    store.schedule(job(), every(1800), once("before", at(9000)), once("while", at(9000)))
    store.store.pause(NamedTriggers([key("before")]), PauseNote("it is broken", "bob"))
    store.store.pause(subjects, UNTIL)
    store.store.pause(NamedTriggers([key("while")]))
    applied(store, 3600)
    assert store.states("every", "before", "while") == ["WAITING", "PAUSED", "PAUSED"]


def test_a_trigger_fires_again_when_all_its_pauses_have_ended(store: Harness) -> None:
    store.schedule(job(), once("a", at(9000)), once("b", at(9000)), once("c", at(9000)))
    store.store.pause(NamedTriggers([key("a")]), replace(UNTIL, until=at(100)))
    store.store.pause(NamedTriggers([key("b")]), replace(UNTIL, until=at(300)))
    store.store.pause(GROUP, replace(UNTIL, until=at(200)))
    store.store.pause(JOB_GROUP, replace(UNTIL, until=at(150)))
    assert store.store.pauses().until(key("a"), job_key()) == at(200)
    applied(store, 100)
    assert store.states("a", "b", "c") == ["PAUSED", "PAUSED", "PAUSED"]
    applied(store, 150)
    assert store.states("a", "b", "c") == ["PAUSED", "PAUSED", "PAUSED"]
    applied(store, 200)
    assert store.states("a", "b", "c") == ["WAITING", "PAUSED", "WAITING"]
    applied(store, 300)
    assert store.states("b") == ["WAITING"]


@pytest.mark.parametrize("subjects", [GROUP, JOB_GROUP, EVERYTHING])
def test_triggers_that_are_stored_during_the_pause_are_resumed_with_the_others(
    store: Harness, subjects: PauseSubjects
) -> None:
    store.schedule(job(), every(1800))
    store.store.pause(subjects, UNTIL)
    store.add_triggers(job_key(), once("later", at(9000)))
    assert store.state("later") == "PAUSED"
    applied(store, 3600)
    assert store.states("every", "later") == ["WAITING", "WAITING"]


def test_a_pause_of_everything_with_an_end_leaves_no_group_behind(store: Harness) -> None:
    store.schedule(job(), every(1800))
    store.schedule(job("other"), once("other", at(9000), group="g"))
    store.store.pause(TriggerGroups(GroupMatcher.equals("g")))
    store.store.pause(EVERYTHING)
    store.store.pause(EVERYTHING, UNTIL)
    applied(store, 3600)
    assert (store.state("every"), store.state("other", "g")) == ("WAITING", "PAUSED")
    assert store.store.pauses().trigger_groups == {"g"}


def test_a_mode_still_holds_what_a_pause_has_held(store: Harness) -> None:
    store.schedule(job(), once("a", at(9000)), once("b", at(9000)))
    store.store.pause(NamedTriggers([key("a")]), UNTIL)
    store.store.pause(GROUP, UNTIL)
    store.store.set_mode(job_key(), JobMode.DISABLED)
    applied(store, 3600)
    assert store.states("a", "b") == ["PAUSED", "PAUSED"]
    store.store.set_mode(job_key(), JobMode.ENABLED)
    assert store.states("a", "b") == ["WAITING", "WAITING"]


def test_the_record_of_a_trigger_says_until_when_it_is_paused(store: Harness) -> None:
    store.schedule(job(), every(1800))
    store.store.pause(NamedTriggers([key("every")]), replace(UNTIL, missed=Missed.SKIP))
    record = store.store.triggers([key("every")])[key("every")]
    assert (record.paused_until, record.pause_missed) == (at(3600), Missed.SKIP)
    store.store.pause(GROUP, UNTIL)
    [group] = store.store.pauses().groups
    assert (group.scope, group.name, group.by, group.reason, group.until) == (
        "TRIGGER",
        "DEFAULT",
        "ann",
        "the bank is closed",
        at(3600),
    )


def test_another_schedule_forgets_the_pause_and_the_same_one_keeps_it(store: Harness) -> None:
    store.schedule(job(), every(1800))
    store.store.pause(NamedTriggers([key("every")]), UNTIL)
    store.schedule(job(), every(1800, description="new"), replace=True)
    assert ends_in(store) == HOUR
    store.schedule(job(), every(60), replace=True)
    assert ends_in(store) is None


# --- maintenance windows

NIGHTLY = MaintenanceWindow("nightly", cron="0 13 * * *", duration="1h", trigger_group="DEFAULT", reason="the database")


def opened(store: Harness, window: MaintenanceWindow = NIGHTLY) -> None:
    """Store a window from 13:00 to 14:00 (the tests begin at 12:00), and open it."""
    store.store.set_window(window.name, window, by="ann")
    applied(store, 3600)


def test_nothing_fires_within_a_window_and_what_was_missed_comes_by_the_rule(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), every(1800))
    assert store.store.set_window("nightly", NIGHTLY, by="ann")
    assert ends_in(store) == HOUR - MINUTE
    for second in (0, 1800):
        applied(store, second)
        assert names(store.fire_due(node)) == ["every"]
    assert applied(store, 3600).begun == ["nightly"]
    assert store.fire_due(node) == []
    [record] = store.store.windows()
    assert (record.is_open, record.starts_at, record.ends_at, record.changed_by) == (True, at(3600), at(7200), "ann")
    [group] = store.store.pauses().groups
    assert (group.window, group.until, group.reason) == (
        "nightly",
        at(7200),
        "maintenance window nightly: the database",
    )
    applied(store, 7199)
    assert store.state("every") == "PAUSED"
    applied(store, 7200)
    assert store.state("every") == "WAITING"
    [record] = store.store.windows()
    assert (record.is_open, record.starts_at) == (False, at(3600) + timedelta(days=1))


def test_what_is_due_when_a_window_begins_does_not_fire_and_what_is_due_before_does(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), once("at", at(3600)), once("before", at(3590)), every(1, start=at(3580)))
    store.store.set_window("nightly", NIGHTLY)
    applied(store, 3540)
    assert store.states("at", "before") == ["PAUSED", "WAITING"]
    assert store.store.pauses().groups == ()
    store.clock.set(at(3590))
    assert "before" in names(store.fire_due(node))
    assert ends_in(store) == timedelta(seconds=5)
    applied(store, 3595)
    assert store.state("every") == "WAITING"
    applied(store, 3600)
    assert store.state("every") == "PAUSED"
    assert store.fire_due(node) == []


def test_executions_that_run_when_a_window_begins_go_on(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), every(3500, start=at(3500)))
    store.clock.set(at(3500))
    fired = store.fire_one(node)
    opened(store)
    assert not store.complete(node, fired).fenced


def test_a_window_leaves_pauses_by_hand_alone_and_ends_none_of_them(store: Harness) -> None:
    store.schedule(job(), once("a", at(9000)), once("b", at(9000)))
    store.store.pause(GROUP, PauseNote("for good", "bob"))
    opened(store)
    applied(store, 7200)
    assert store.states("a", "b") == ["PAUSED", "PAUSED"]
    store.store.resume(GROUP)
    store.store.pause(NamedTriggers([key("a")]))
    applied(store, 3600 + 86400)
    applied(store, 7200 + 86400)
    assert store.states("a", "b") == ["PAUSED", "WAITING"]


def test_a_window_makes_a_pause_with_an_end_longer_and_never_shorter(store: Harness) -> None:
    store.schedule(job(), once("a", at(90000)))
    store.store.pause(GROUP, replace(UNTIL, until=at(5000)))
    opened(store)
    assert store.store.pauses().groups[0].until == at(7200)
    applied(store, 7200)
    store.store.pause(GROUP, replace(UNTIL, until=at(100000)))
    applied(store, 3600 + 86400)
    assert store.store.pauses().groups[0].until == at(100000)


def test_a_window_that_is_resumed_by_hand_does_not_begin_again(store: Harness) -> None:
    store.schedule(job(), once("a", at(9000)))
    opened(store)
    store.store.resume(GROUP)
    applied(store, 3700)
    assert store.state("a") == "WAITING"
    applied(store, 7200)
    applied(store, 3600 + 86400)
    assert store.state("a") == "PAUSED"


@pytest.mark.parametrize("second", [3550, 3700], ids=["ahead", "open"])
def test_removing_a_window_resumes_what_it_pauses(store: Harness, second: float) -> None:
    store.schedule(job(), once("a", at(9000)))
    store.store.set_window("nightly", NIGHTLY)
    applied(store, second)
    assert store.state("a") == "PAUSED"
    assert store.store.set_window("nightly", None)
    applied(store, second)
    assert (store.state("a"), store.store.windows(), ends_in(store)) == ("WAITING", [], None)
    assert not store.store.set_window("nightly", None)


def test_replacing_an_open_window_by_a_longer_one_keeps_what_it_pauses(store: Harness) -> None:
    store.schedule(job(), once("a", at(9000)))
    opened(store)
    assert not store.store.set_window("nightly", NIGHTLY), "nothing has changed"
    with pytest.raises(ObjectAlreadyExistsError, match="nightly"):
        store.store.set_window("nightly", replace(NIGHTLY, duration="2h"), replace=False)
    assert store.store.set_window("nightly", replace(NIGHTLY, duration="2h"))
    applied(store, 3700)
    assert store.state("a") == "PAUSED"
    applied(store, 7200)
    assert store.state("a") == "PAUSED"
    applied(store, 10800)
    assert store.state("a") == "WAITING"


def test_a_window_that_no_node_has_seen_pauses_nothing(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), every(1800, misfire="fire_all", catch_up_max=10))
    store.store.set_window("nightly", NIGHTLY)
    assert applied(store, 8000).begun == []
    assert store.state("every") == "WAITING"
    assert names(store.fire_due(node, threshold=timedelta(days=1))) == ["every"]


def test_a_window_that_nobody_has_begun_in_time_gives_back_what_was_paused_ahead(store: Harness) -> None:
    store.schedule(job(), once("a", at(5000)))
    store.store.set_window("nightly", NIGHTLY)
    applied(store, 3550)
    assert store.state("a") == "PAUSED"
    applied(store, 8000)
    assert store.state("a") == "WAITING"
    assert store.store.pauses().groups == ()


def test_a_window_of_one_span_is_gone_when_it_is_over(store: Harness) -> None:
    store.schedule(job(), once("a", at(9000)))
    opened(store, MaintenanceWindow("move", start=at(3600), end=at(7200)))
    assert store.state("a") == "PAUSED"
    applied(store, 7200)
    applied(store, 7200)
    assert (store.state("a"), store.store.windows()) == ("WAITING", [])
    with pytest.raises(InvalidValueError, match="it ended at"):
        store.store.set_window("move", MaintenanceWindow("move", start=at(3600), end=at(7200)))


@pytest.mark.parametrize("missed", [Missed.MISFIRE, Missed.SKIP, Missed.ONCE])
@each_subject
def test_each_end_of_a_pause_is_a_resumption(store: Harness, subjects: PauseSubjects, missed: Missed) -> None:
    """Expectations are looked at anew from that instant, and do not blame what the pause has delayed."""
    store.schedule(job(), every(1800))
    store.store.pause(subjects, replace(UNTIL, missed=missed))
    applied(store, 3605)
    record = stored_trigger(store.store, key("every"))
    assert record is not None
    assert record.resumed_at == at(3605)
