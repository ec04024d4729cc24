"""`scheduler.sync`: the store is made to hold what a program declares."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from quartzpy import (
    CronTrigger,
    JobDetail,
    JobKey,
    MaintenanceWindow,
    RecurrenceTrigger,
    RetryPolicy,
    Scheduler,
    SimpleTrigger,
    TriggerKey,
)
from quartzpy.budget import Budget
from quartzpy.calendars.days import DayOfWeek, WeeklyCalendar
from quartzpy.calendars.times import CronCalendar
from quartzpy.errors import (
    CalendarInUseError,
    CalendarNotFoundError,
    InvalidJobError,
    InvalidKeyError,
    InvalidTriggerError,
    JobNotFoundError,
    LimitNotFoundError,
    QuartzpyError,
    ScheduleTooCostlyError,
    TriggerNeverFiresError,
)
from quartzpy.events import events
from quartzpy.expect import Expect
from quartzpy.scheduler import rehearsal
from quartzpy.states import PublicState
from tests.facade import functions, jobs

HOUR = timedelta(hours=1)
LATER = datetime.now(UTC).replace(microsecond=0) + 24 * HOUR
OWNER = "app"


def hourly(name: str = "hourly", **values: Any) -> CronTrigger:
    return CronTrigger("0 0 * * * ?", name, **values)


def once(name: str = "once", **values: Any) -> SimpleTrigger:
    return SimpleTrigger(name, start_time=LATER, **values)


def report(**values: Any) -> JobDetail:
    return JobDetail(jobs.Recorded, "report", data={"region": "eu"}, **values)


def state(client: Scheduler) -> Any:
    return [(record.trigger.key, record.generation, record.progress, record.state) for record in client.triggers()]


def test_what_is_declared_is_stored_and_a_second_time_nothing_happens(client: Scheduler) -> None:
    declared = [(report(), [hourly(), once()]), (JobDetail(jobs.Recorded, "kept", durable=True), [])]
    first = client.sync(declared, owner=OWNER)
    assert str(first).splitlines() == [
        "+ job DEFAULT.report",
        "+ trigger DEFAULT.hourly",
        "+ trigger DEFAULT.once",
        "+ job DEFAULT.kept",
        "0 unchanged",
    ]
    before = state(client)
    second = client.sync(declared, owner=OWNER)
    assert (bool(second), str(second)) == (False, "4 unchanged")
    assert state(client) == before


def test_jobs_are_declared_in_the_forms_of_schedule_job(client: Scheduler) -> None:
    plan = client.sync([(functions.without_parameters, "0 0 2 * * ?"), (jobs.Recorded, HOUR)], owner=OWNER)
    assert [(change.sign, change.key.name) for change in plan.changes] == [
        ("+", "without_parameters"),
        ("+", "without_parameters"),
        ("+", "Recorded"),
        ("+", "Recorded"),
    ]
    assert not client.sync([(functions.without_parameters, "0 0 2 * * ?"), (jobs.Recorded, HOUR)], owner=OWNER)
    [again, _] = client.schedule_jobs([(functions.without_parameters, ["0 0 2 * * ?"]), (jobs.Recorded, [HOUR])])
    assert again.key == JobKey("without_parameters")
    with pytest.raises(InvalidJobError, match="the function or the Job subclass comes first"):
        client.sync([("plain", "0 0 2 * * ?")], owner=OWNER)  # type: ignore[list-item]


def test_what_did_not_change_keeps_its_times_and_its_pause(client: Scheduler) -> None:
    client.sync([(report(), [hourly(), once()])], owner=OWNER)
    client.pause_trigger(TriggerKey("hourly", "DEFAULT"))
    before = client.trigger_record(TriggerKey("hourly", "DEFAULT"))
    plan = client.sync([(report(), [hourly(), once(priority=9)])], owner=OWNER)
    assert str(plan).splitlines() == ["~ trigger DEFAULT.once (priority)", "2 unchanged"]
    assert client.trigger_record(TriggerKey("hourly", "DEFAULT")) == before
    assert client.trigger_state(TriggerKey("hourly", "DEFAULT")) is PublicState.PAUSED
    changed = client.get_trigger(TriggerKey("once", "DEFAULT"))
    assert changed is not None
    assert changed.priority == 9


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"description": "x"}, "description"),
        ({"durable": True}, "durable"),
        ({"max_concurrent": 3}, "max_concurrent"),
        ({"retry": RetryPolicy()}, "retry"),
        ({"timeout": HOUR}, "timeout"),
    ],
)
def test_a_change_of_a_job_is_named_and_its_triggers_stay(
    client: Scheduler, changed: dict[str, Any], what: str
) -> None:
    client.sync([(report(), hourly())], owner=OWNER)
    before = state(client)
    plan = client.sync([(report(**changed), hourly())], owner=OWNER)
    assert str(plan).splitlines() == [f"~ job DEFAULT.report ({what})", "1 unchanged"]
    assert state(client) == before


def test_data_is_compared_unless_the_job_keeps_it_itself(client: Scheduler) -> None:
    client.sync([(report(), hourly())], owner=OWNER)
    other = JobDetail(jobs.Recorded, "report", data={"region": "us"})
    assert "job DEFAULT.report (data)" in str(client.sync([(other, hourly())], owner=OWNER, apply=False))
    keeping = JobDetail(jobs.Recorded, "keeping", data={"count": 1}, persist_data=True)
    client.sync([(keeping, hourly("k"))], owner=OWNER)
    again = JobDetail(jobs.Recorded, "keeping", data={"count": 0}, persist_data=True)
    assert not client.sync([(again, hourly("k"))], owner=OWNER)


def test_a_plan_alone_changes_nothing(client: Scheduler) -> None:
    plan = client.sync([(report(), hourly())], owner=OWNER, apply=False)
    assert len(plan.changes) == 2
    assert (list(client.jobs()), list(client.triggers())) == ([], [])


COSTLY = RecurrenceTrigger("costly", rule="\n".join(["RRULE:FREQ=YEARLY", *["EXRULE:FREQ=DAILY"] * 490]))
REFUSED: dict[str, tuple[Any, type[Exception]]] = {
    "runs after nobody": ([(report(after=["nobody"]), None)], JobNotFoundError),
    "continues with nobody": ([(report(continuations=["nobody"]), hourly())], JobNotFoundError),
    "shares a limit that is not stored": ([(report(limits=["db"]), hourly())], LimitNotFoundError),
    # The error names the start, which is otherwise the instant of the plan and then that of its application.
    "never fires": ([(report(), CronTrigger("0 0 0 1 1 ? 2001", "past", start_time=LATER))], TriggerNeverFiresError),
    "never fires by its calendar": ([(report(), hourly(calendar="all", start_time=LATER))], TriggerNeverFiresError),
    "costs too much": ([(report(), COSTLY)], ScheduleTooCostlyError),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_plan_refuses_what_its_application_refuses_and_neither_changes_anything(
    client: Scheduler, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(Budget.__init__, "__defaults__", (10_000,))
    declared, error = REFUSED[name]
    everything = {"all": WeeklyCalendar(set(DayOfWeek))}
    said = []
    for apply in (False, True):
        with pytest.raises(error) as caught:
            client.sync(declared, owner=OWNER, calendars=everything, apply=apply)
        said.append(str(caught.value))
        assert (list(client.jobs()), list(client.triggers()), client.calendar_names()) == ([], [], [])
    assert said[0] == said[1]


HALVES = CronCalendar("0-29 * * * * ?", base=CronCalendar("30-59 * * * * ?"))
"""It excludes each second, and a search finds that out only when it is given up."""
REPLACING: dict[str, Callable[[Scheduler], object]] = {
    "add_calendar": lambda client: client.add_calendar("hours", HALVES, replace=True),
    "add_calendar for triggers": lambda client: client.add_calendar(
        "hours", HALVES, replace=True, update_triggers=True
    ),
    "sync": lambda client: client.sync([], calendars={"hours": HALVES}, owner=OWNER),
    "plan": lambda client: client.sync([], calendars={"hours": HALVES}, owner=OWNER, apply=False),
}


@pytest.mark.parametrize("door", REPLACING)
def test_a_calendar_that_is_too_costly_for_its_triggers_is_refused_and_changes_nothing(
    client: Scheduler, monkeypatch: pytest.MonkeyPatch, door: str
) -> None:
    client.add_calendar("hours", WeeklyCalendar())
    client.schedule_job(report(), [hourly(f"h{n}", calendar="hours") for n in range(3)])
    before = state(client)
    monkeypatch.setattr(rehearsal, "_STEPS_OF_DEPENDANTS", 1_000)
    with pytest.raises(QuartzpyError, match=r"hours.* is too costly for .*not found within .* it was not stored"):
        REPLACING[door](client)
    assert client.get_calendar("hours") == WeeklyCalendar()
    assert state(client) == before


def test_what_the_triggers_of_a_calendar_do_is_computed_before_the_lock(
    client: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.add_calendar("hours", WeeklyCalendar())
    client.schedule_job(report(), [hourly(f"h{n}", calendar="hours") for n in range(3)])
    computed: list[bool] = []
    original = rehearsal._followed
    is_locked = False

    def followed(*given: Any) -> Any:
        computed.append(is_locked)
        return original(*given)

    together = client._store.together

    def locked(work: Any, **options: Any) -> Any:
        def inside(store: Any) -> Any:
            nonlocal is_locked
            is_locked = True
            return work(store)

        return together(inside, **options)

    monkeypatch.setattr(rehearsal, "_followed", followed)
    monkeypatch.setattr(client._store, "together", locked)
    client.sync([], calendars={"hours": WeeklyCalendar(set(DayOfWeek))}, owner=OWNER)
    assert computed == [False] * 3
    assert {record.next_fire_time.minute for record in client.triggers() if record.next_fire_time} == set()


def test_the_plan_is_announced_before_it_is_carried_out(client: Scheduler) -> None:
    told: list[Any] = []

    def announce(plan: Any) -> None:
        told.append(str(plan))
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        client.sync([(report(), hourly())], owner=OWNER, announce=announce)
    assert "+ job DEFAULT.report" in told[0]
    assert list(client.jobs()) == []


def test_pruning_removes_what_its_owner_no_longer_declares_and_nothing_else(client: Scheduler) -> None:
    client.schedule_job(JobDetail(jobs.Recorded, "by-hand"), once("by-hand"))
    client.sync([(JobDetail(jobs.Recorded, "other"), once("others"))], owner="somebody else")
    client.sync([(report(), [hourly(), once()]), (JobDetail(jobs.Recorded, "old"), once("old"))], owner=OWNER)
    kept = client.sync([(report(), hourly())], owner=OWNER)
    assert not kept, "without prune all stays"
    plan = client.sync([(report(), hourly())], owner=OWNER, prune=True)
    assert [str(change) for change in plan.changes] == [
        "- trigger DEFAULT.old",
        "- trigger DEFAULT.once",
        "- job DEFAULT.old",
    ]
    assert {key.name for key in client.trigger_keys()} == {"hourly", "others", "by-hand"}
    assert {key.name for key in client.job_keys()} == {"report", "other", "by-hand"}


def test_an_object_that_was_replaced_by_hand_has_no_owner(client: Scheduler) -> None:
    client.sync([(report(), [hourly(), once()])], owner=OWNER)
    client.reschedule_job(TriggerKey("once", "DEFAULT"), once(priority=1))
    assert not client.sync([(report(), hourly())], owner=OWNER, prune=True)
    assert client.check_exists(TriggerKey("once", "DEFAULT"))
    taken_over = client.sync([(report(), [hourly(), once(priority=1)])], owner=OWNER)
    assert [str(change) for change in taken_over.changes] == ["~ trigger DEFAULT.once (owner)"]


def test_a_trigger_of_another_kind_takes_the_place(client: Scheduler) -> None:
    client.sync([(report(), hourly("t"))], owner=OWNER)
    assert "~ trigger DEFAULT.t (kind)" in str(client.sync([(report(), once("t"))], owner=OWNER))
    assert isinstance(client.get_trigger(TriggerKey("t", "DEFAULT")), SimpleTrigger)


def test_all_of_it_happens_or_nothing(client: Scheduler) -> None:
    client.sync([(report(), [hourly(), once()])], owner=OWNER)
    before = state(client)
    wrong = once("new", calendar="none")
    with pytest.raises(CalendarNotFoundError):
        client.sync([(report(), [hourly(), wrong])], owner=OWNER, prune=True)
    assert state(client) == before


@pytest.mark.parametrize(
    ("declared", "error", "said"),
    [
        ([(report(), [hourly(), hourly()])], InvalidTriggerError, "trigger DEFAULT.hourly is declared twice"),
        (
            [(report(), hourly("a")), (report(), hourly("b"))],
            InvalidTriggerError,
            "job DEFAULT.report is declared twice",
        ),
        ([(report(), [])], InvalidTriggerError, "has no trigger and is not durable"),
        (
            [
                (report(continuations=["last"]), [hourly()]),
                (JobDetail(jobs.Recorded, "last", durable=True, expect=Expect(ends_by="06:00")), []),
            ],
            InvalidJobError,
            "ends_by counts from the fire time of a schedule, and job DEFAULT.last runs after others",
        ),
    ],
)
def test_a_wrong_declaration_is_refused(client: Scheduler, declared: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        client.sync(declared, owner=OWNER)
    with pytest.raises(InvalidKeyError, match="owner"):
        client.sync([], owner="")


def test_many_nodes_may_do_it_at_once(make_scheduler: Callable[..., Scheduler], url: str) -> None:
    first = make_scheduler()
    first.start()
    several = [first] if url == "memory://" else [first, *(make_scheduler() for _ in range(3))]
    declared = [(report(), [SimpleTrigger("now"), hourly()])]
    plans = []

    def sync(scheduler: Scheduler) -> None:
        plans.append(scheduler.sync(declared, owner=OWNER, prune=True))

    threads = [threading.Thread(target=sync, args=[one]) for one in several * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(plans) == len(threads)
    assert jobs.next_run().trigger_key.name == "now"
    assert first.wait_until_recorded(1, timedelta(seconds=60))
    sync(first)
    assert jobs.nothing_ran(), "a declared trigger that has ended is not stored anew"
    states = [first.trigger_state(TriggerKey(name, "DEFAULT")) for name in ("now", "hourly")]
    assert states == [PublicState.COMPLETE, PublicState.NORMAL]


def test_listeners_hear_of_what_was_done(client: Scheduler) -> None:
    seen: list[events.Event] = []
    client.listeners.add_listener(seen.append)
    client.sync([(report(), hourly())], owner=OWNER)
    client.sync([], owner=OWNER, prune=True)
    assert [event.method for event in seen] == ["job_added", "job_scheduled", "job_unscheduled", "job_deleted"]
    assert client.get_job_detail(JobKey("report", "DEFAULT")) is None


@pytest.mark.parametrize("what", ["trigger", "description"])
def test_what_a_job_keeps_in_its_data_outlives_a_change_of_the_rest(client: Scheduler, what: str) -> None:
    def declared(change: bool) -> list[tuple[JobDetail, list[SimpleTrigger]]]:
        job = JobDetail(
            jobs.Recorded,
            "counting",
            data={"n": 0},
            persist_data=True,
            description="new" if change and what == "description" else None,
        )
        return [(job, [once(priority=9 if change and what == "trigger" else 5)])]

    client.sync(declared(False), owner=OWNER)
    client.modify_job(JobKey("counting", "DEFAULT"), data={"n": 11})
    assert client.sync(declared(True), owner=OWNER)
    kept = client.get_job_detail(JobKey("counting", "DEFAULT"))
    assert kept is not None
    assert kept.data == {"n": 11}
    assert not client.sync(declared(True), owner=OWNER), "its owner is known"


# --- calendars

MONDAYS = WeeklyCalendar({DayOfWeek.MONDAY})
NO_DAY = WeeklyCalendar(())


def test_calendars_are_stored_before_the_triggers_that_use_them_and_removed_after_them(client: Scheduler) -> None:
    declared = [(report(), [hourly(calendar="holidays")])]
    calendars = {"holidays": MONDAYS, "spare": NO_DAY}
    first = client.sync(declared, calendars=calendars, owner=OWNER)
    assert str(first).splitlines()[:2] == ["+ calendar holidays", "+ calendar spare"]
    assert client.get_calendar("holidays") == MONDAYS
    assert str(client.sync(declared, calendars=calendars, owner=OWNER)) == "4 unchanged"
    planned = client.sync([], owner=OWNER, prune=True, apply=False)
    assert [str(change) for change in planned.changes] == [
        "- trigger DEFAULT.hourly",
        "- job DEFAULT.report",
        "- calendar holidays",
        "- calendar spare",
    ]
    assert client.calendar_names() == ["holidays", "spare"]
    client.sync([], owner=OWNER, prune=True)
    assert client.calendar_names() == []


def test_a_changed_calendar_moves_the_triggers_that_use_it(client: Scheduler) -> None:
    declared = [(report(), [hourly(calendar="holidays")])]
    client.sync(declared, calendars={"holidays": NO_DAY}, owner=OWNER)
    [before] = client.triggers()
    assert before.next_fire_time is not None
    closed = WeeklyCalendar({DayOfWeek.of(before.next_fire_time.date())}, description="closed")
    plan = client.sync(declared, calendars={"holidays": closed}, owner=OWNER)
    assert str(plan) == "~ calendar holidays (excluded_days, description)\n2 unchanged"
    [after] = client.triggers()
    assert after.next_fire_time is not None
    assert after.next_fire_time > before.next_fire_time
    assert client.sync(declared, calendars={"holidays": NO_DAY}, owner=OWNER, existing="keep").changes == ()
    assert client.get_calendar("holidays") == closed


def test_a_calendar_that_a_trigger_still_uses_is_not_removed(client: Scheduler) -> None:
    declared = [(report(), [hourly(calendar="holidays")])]
    client.sync(declared, calendars={"holidays": NO_DAY}, owner=OWNER)
    client.schedule_job(JobDetail(jobs.Recorded, "by-a-program"), hourly("of-a-program", calendar="holidays"))
    before = state(client)
    for apply in (False, True):
        with pytest.raises(
            CalendarInUseError, match=r"'holidays' is no longer declared, but trigger DEFAULT\.of-a-program uses it"
        ):
            client.sync([], owner=OWNER, prune=True, apply=apply)
    assert state(client) == before, "the trigger that is no longer declared is kept as well"
    client.unschedule_job(TriggerKey("of-a-program"))
    with pytest.raises(CalendarInUseError, match=r"trigger DEFAULT\.hourly uses it"):
        client.sync(declared, owner=OWNER, prune=True)
    client.sync([(report(), [hourly()])], owner=OWNER, prune=True)
    assert client.calendar_names() == [], "the trigger that used it has no calendar any more"


def test_a_calendar_of_another_owner_or_of_a_program_is_taken_over_and_not_removed(client: Scheduler) -> None:
    client.add_calendar("ours", NO_DAY)
    client.sync([], calendars={"theirs": NO_DAY}, owner="others")
    plan = client.sync([], calendars={"ours": NO_DAY}, owner=OWNER, prune=True)
    assert str(plan).splitlines() == ["~ calendar ours (owner)", "0 unchanged"]
    assert client.calendar_names() == ["ours", "theirs"]
    client.add_calendar("ours", MONDAYS, replace=True)
    assert not client.sync([], owner=OWNER, prune=True), "a program has replaced it, so it is no longer owned"


def test_a_trigger_whose_calendar_is_unknown_is_refused_in_the_plan(client: Scheduler) -> None:
    for apply in (False, True):
        with pytest.raises(
            CalendarNotFoundError, match=r"DEFAULT.hourly: its calendar 'holidys' is neither declared nor"
        ):
            client.sync(
                [(report(), [hourly(calendar="holidys")])], calendars={"holidays": NO_DAY}, owner=OWNER, apply=apply
            )
    assert client.calendar_names() == []


NIGHTLY = MaintenanceWindow("nightly", cron="0 2 * * *", duration="1h")


def test_windows_are_declared_changed_and_pruned(client: Scheduler) -> None:
    plan = client.sync([], owner="one", windows=[NIGHTLY])
    assert str(plan) == "+ window nightly\n0 unchanged"
    assert not client.sync([], owner="one", windows=[NIGHTLY], prune=True)
    changed = client.sync([], owner="one", windows=[replace(NIGHTLY, duration="2h")])
    assert str(changed) == "~ window nightly (duration)\n0 unchanged"
    [record] = client.maintenance_windows()
    assert (record.window.duration, record.changed_by) == (timedelta(hours=2), "owner one")
    assert not client.sync([], owner="two", windows=[], prune=True), "it is not theirs"
    assert not client.sync([], owner="one", prune=True), "a declaration that says nothing of windows"
    client.add_maintenance_window(replace(NIGHTLY, name="by-hand"))
    over = MaintenanceWindow("nightly", start=datetime(2026, 1, 1, tzinfo=UTC), end=datetime(2026, 1, 2, tzinfo=UTC))
    assert str(client.sync([], owner="two", windows=[over], prune=True)) == "1 unchanged", "it is not theirs"
    gone = client.sync([], owner="one", windows=[over, replace(over, name="move")])
    assert str(gone) == "- window nightly\n1 unchanged"
    client.sync([], owner="one", windows=[NIGHTLY])
    assert str(client.sync([], owner="one", windows=[], prune=True)) == "- window nightly\n0 unchanged"
    assert [record.window.name for record in client.maintenance_windows()] == ["by-hand"]
