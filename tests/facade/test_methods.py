"""The methods of scheduling, pausing and looking; nothing runs."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from quartzpy import (
    EVERYTHING,
    AllOf,
    AnyOf,
    CalendarIntervalTrigger,
    CronTrigger,
    DailyTimeIntervalTrigger,
    GroupMatcher,
    Jitter,
    JobDetail,
    JobKey,
    JobMode,
    PublicState,
    RecurrenceTrigger,
    Scheduler,
    SimpleTrigger,
    Trigger,
    TriggerKey,
)
from quartzpy.calendars.days import WeeklyCalendar
from quartzpy.errors import (
    CalendarInUseError,
    CalendarNotFoundError,
    IllegalStateChangeError,
    InvalidJobError,
    JobNotFoundError,
    ObjectAlreadyExistsError,
    TriggerNotFoundError,
)
from quartzpy.events.events import Event, TriggerFinalized
from tests.facade import jobs
from tests.fire_times import first_fire_times

HOUR = timedelta(hours=1)
LATER = datetime(2090, 1, 1, tzinfo=UTC)


def later(name: str, group: str = "DEFAULT", **how: object) -> SimpleTrigger:
    return SimpleTrigger(name, group, start_time=LATER, interval=HOUR, repeat_count=None, **how)  # type: ignore[arg-type]


def job(name: str = "job", group: str = "DEFAULT", **how: object) -> JobDetail:
    return JobDetail(jobs.Recorded, name, group, **how)  # type: ignore[arg-type]


def key(name: str, group: str = "DEFAULT") -> TriggerKey:
    return TriggerKey(name, group)


def test_a_job_with_several_triggers_and_their_lookups(client: Scheduler) -> None:
    detail = job(description="d", data={"a": 1}, requests_recovery=True)
    cron = CronTrigger("0 0 3 ? * MON", "cron", time_zone="Europe/Berlin", start_time=LATER)
    assert client.schedule_job(detail, [later("t"), cron]).next_fire_time == LATER
    assert client.get_job_detail(detail.key) is not None
    found = client.get_job_detail(detail.key)
    assert found is not None
    assert (found.description, found.data, found.requests_recovery, found.durable) == ("d", {"a": 1}, True, False)
    assert {trigger.name for trigger in client.triggers_of_job(detail.key)} == {"t", "cron"}
    stored = client.get_trigger(key("cron"))
    assert isinstance(stored, CronTrigger)
    assert (stored.expression, stored.time_zone, stored.job_key) == ("0 0 3 ? * MON", "Europe/Berlin", detail.key)
    record = client.trigger_record(key("t"))
    assert record is not None
    assert list(record.upcoming[:2]) == [LATER + HOUR, LATER + 2 * HOUR]
    assert client.trigger_state(key("t")) is PublicState.NORMAL
    assert client.trigger_state(key("absent")) is PublicState.NONE
    assert client.check_exists(detail.key)
    assert client.check_exists(key("t"))
    assert not client.check_exists(key("absent"))
    assert not client.check_exists(JobKey("absent", "DEFAULT"))
    assert client.get_trigger(key("absent")) is None
    assert client.get_job_detail(JobKey("absent", "absent")) is None


def test_many_jobs_are_stored_all_or_none(client: Scheduler) -> None:
    client.schedule_jobs({job("a"): [later("a")], job("b"): [later("b1"), later("b2")]})
    assert len(client.trigger_keys()) == 3
    before = list(client.jobs()), list(client.triggers())
    with pytest.raises(
        ObjectAlreadyExistsError,
        match=r"trigger DEFAULT\.b2 exists already and is different: .*job_key is .*; pass replace=True",
    ):
        client.schedule_jobs([(job("c"), [later("c")]), (job("d"), [later("b2")])])
    with pytest.raises(
        ObjectAlreadyExistsError, match=r"job DEFAULT\.a .*description is None, not 'new'; pass replace=True"
    ):
        client.schedule_jobs([(job("c"), [later("c")]), (job("a", description="new"), [later("x")])])
    assert (list(client.jobs()), list(client.triggers())) == before


def test_replacing_keeps_other_triggers_and_restarts_the_replaced_one(client: Scheduler) -> None:
    client.schedule_job(job(), [later("a"), later("b")])
    client.schedule_job(job(description="new"), later("a", priority=9), replace=True)
    assert {trigger.name: trigger.priority for trigger in client.triggers_of_job(JobKey("job", "DEFAULT"))} == {
        "a": 9,
        "b": 5,
    }
    found = client.get_job_detail(JobKey("job", "DEFAULT"))
    assert found is not None
    assert found.description == "new"


def test_a_trigger_for_a_job_that_is_stored(client: Scheduler) -> None:
    client.add_job(job(durable=True))
    client.schedule(later("t", job_key=JobKey("job", "DEFAULT")))
    assert client.trigger_keys() == {key("t")}
    with pytest.raises(JobNotFoundError, match=r"no job DEFAULT\.absent is stored"):
        client.schedule(later("u", job_key=JobKey("absent", "DEFAULT")))


def test_unscheduling_the_last_trigger_takes_a_job_that_is_not_durable_with_it(client: Scheduler) -> None:
    client.schedule_job(job("goes"), [later("a"), later("b")])
    client.schedule_job(job("stays", durable=True), later("c"))
    assert client.unschedule_job(key("a"))
    with pytest.raises(TriggerNotFoundError, match=r"trigger DEFAULT\.a is not stored"):
        client.unschedule_job(key("a"))
    assert client.unschedule_job("a", missing_ok=True) is False
    assert client.check_exists(JobKey("goes", "DEFAULT"))
    assert client.unschedule_jobs([key("b"), key("c"), key("absent")]) == {key("b"), key("c")}
    assert client.job_keys() == {JobKey("stays", "DEFAULT")}


def test_rescheduling_puts_a_trigger_in_the_place_of_another(client: Scheduler) -> None:
    client.schedule_job(job(), later("old"))
    assert client.reschedule_job(key("old"), SimpleTrigger("new", start_time=LATER + HOUR)) == LATER + HOUR
    assert client.trigger_keys() == {key("new")}
    assert client.check_exists(JobKey("job", "DEFAULT")), "it was without a trigger for no moment that counts"
    with pytest.raises(TriggerNotFoundError, match=r"trigger DEFAULT\.absent is not stored"):
        client.reschedule_job(key("absent"), later("x"))
    assert client.trigger_keys() == {key("new")}


def test_deleting_jobs(client: Scheduler) -> None:
    for name in "abc":
        client.schedule_job(job(name), later(name))
    assert client.delete_job(JobKey("a", "DEFAULT"))
    with pytest.raises(JobNotFoundError, match=r"job DEFAULT\.a is not stored"):
        client.delete_job("a")
    assert client.delete_job("a", missing_ok=True) is False
    assert client.delete_jobs([JobKey("b", "DEFAULT"), JobKey("y", "x")]) == {JobKey("b", "DEFAULT")}
    assert client.trigger_keys() == {key("c")}
    client.clear()
    assert client.trigger_keys() == set()
    assert client.job_keys() == set()


def test_pausing_by_trigger_job_group_and_all(client: Scheduler) -> None:
    client.schedule_job(job("j1", "g1"), [later("a", "x"), later("b", "y")])
    client.schedule_job(job("j2", "g2"), later("c", "x"))

    def paused() -> set[str]:
        return {k.name for k in client.trigger_keys() if client.trigger_state(k) is PublicState.PAUSED}

    client.pause_trigger(key("a", "x"))
    assert paused() == {"a"}
    client.resume_trigger(key("a", "x"))
    assert paused() == set()
    client.pause_job(JobKey("j1", "g1"))
    assert paused() == {"a", "b"}
    client.resume_job(JobKey("j1", "g1"))
    assert client.pause_trigger_group("x") == {"x"}
    assert paused() == {"a", "c"}
    assert client.paused_trigger_groups() == {"x"}
    client.schedule_job(job("j3"), later("d", "x"))
    assert paused() == {"a", "c", "d"}, "a paused group pauses what comes later"
    assert client.resume_trigger_group(GroupMatcher.starts_with("x")) == {"x"}
    assert paused() == set()
    assert client.paused_trigger_groups() == set()
    assert client.pause_job_group("g2") == {"g2"}
    client.schedule_job(job("j4", "g2"), later("e"))
    assert paused() == {"c", "e"}
    assert client.paused_job_groups() == {"g2"}
    assert client.resume_job_group("g2") == {"g2"}
    assert paused() == set()
    assert client.pause_all() == {"x", "y", "DEFAULT"}
    client.schedule_job(job("j5", "new"), later("f", "new"))
    assert paused() == {"a", "b", "c", "d", "e", "f"}
    assert client.pauses.everything
    assert client.resume_all() == {"x", "y", "DEFAULT", "new"}
    assert paused() == set()
    assert not client.pauses.everything


def test_a_group_can_be_paused_before_it_exists(client: Scheduler) -> None:
    assert client.pause_trigger_group("to-come") == {"to-come"}
    client.schedule_job(job(), later("t", "to-come"))
    assert client.trigger_state(key("t", "to-come")) is PublicState.PAUSED


@pytest.mark.parametrize(
    ("matcher", "expected"),
    [
        (None, {"abc", "abd", "xbc"}),
        ("abc", {"abc"}),
        (GroupMatcher.starts_with("ab"), {"abc", "abd"}),
        (GroupMatcher.ends_with("bc"), {"abc", "xbc"}),
        (GroupMatcher.contains("bd"), {"abd"}),
        (GroupMatcher.contains("%"), set()),
        (GroupMatcher.anything(), {"abc", "abd", "xbc"}),
    ],
)
def test_groups_and_keys_by_matcher(client: Scheduler, matcher: str | GroupMatcher | None, expected: set[str]) -> None:
    for group in ("abc", "abd", "xbc"):
        client.schedule_job(job("j", group), later("t", group))
    assert {found.group for found in client.trigger_keys(matcher)} == expected
    assert {found.group for found in client.job_keys(matcher)} == expected
    assert client.job_group_names() == client.trigger_group_names() == ["abc", "abd", "xbc"]


def test_an_error_names_what_does_not_exist(client: Scheduler) -> None:
    with pytest.raises(JobNotFoundError, match=r"job DEFAULT\.absent is not stored"):
        client.trigger_job(JobKey("absent", "DEFAULT"))
    with pytest.raises(TriggerNotFoundError, match=r"trigger DEFAULT\.absent is not stored"):
        client.reset_trigger_from_error(key("absent"))


def test_ten_thousand_triggers_are_stored_by_one_call(client: Scheduler) -> None:
    client.schedule_job(job(), [later(f"t{n}") for n in range(10_000)])
    assert client.counts()["triggers"] == {"WAITING": 10_000}


def test_a_calendar_keeps_a_trigger_from_firing_and_can_be_replaced(client: Scheduler) -> None:
    weekend = WeeklyCalendar()
    client.add_calendar("no-weekend", weekend)
    assert client.get_calendar("no-weekend") == weekend
    assert client.get_calendar("absent") is None
    assert client.calendar_names() == ["no-weekend"]
    daily = CronTrigger("0 0 12 * * ?", "daily", start_time=LATER, calendar="no-weekend")
    client.schedule_job(job(), daily)
    record = client.trigger_record(key("daily"))
    assert record is not None
    times = [record.progress.next_fire_time, *record.upcoming]
    assert all(at.weekday() < 5 for at in times if at)
    with pytest.raises(CalendarInUseError, match="'no-weekend' is in use"):
        client.delete_calendar("no-weekend")
    with pytest.raises(ObjectAlreadyExistsError, match="calendar 'no-weekend' exists already"):
        client.add_calendar("no-weekend", WeeklyCalendar({1}))

    sundays_only = WeeklyCalendar(frozenset(range(2, 8)))
    client.add_calendar("no-weekend", sundays_only, replace=True, update_triggers=True)
    record = client.trigger_record(key("daily"))
    assert record is not None
    moved = [record.progress.next_fire_time, *record.upcoming]
    assert all(at.weekday() == 6 for at in moved if at)
    client.unschedule_job(key("daily"))
    assert client.delete_calendar("no-weekend")
    assert not client.delete_calendar("no-weekend", missing_ok=True)


def test_a_calendar_that_excludes_everything_completes_its_triggers_with_an_event(client: Scheduler) -> None:
    told: list[Event] = []
    client.listeners.add_listener(told.append, TriggerFinalized)
    client.add_calendar("c", WeeklyCalendar())
    client.schedule_job(job(), CronTrigger("0 0 12 * * ?", "t", start_time=LATER, calendar="c"))
    nothing_left = WeeklyCalendar(frozenset(range(1, 8)))
    client.add_calendar("c", nothing_left, replace=True, update_triggers=True)
    assert client.trigger_state(key("t")) is PublicState.COMPLETE
    assert client.get_job_detail(job().key) is not None
    assert told == [TriggerFinalized(key("t"))]


def test_the_same_calendar_again_changes_nothing(client: Scheduler) -> None:
    client.add_calendar("c", WeeklyCalendar())
    client.add_calendar("c", WeeklyCalendar())
    with pytest.raises(ObjectAlreadyExistsError, match="calendar 'c' exists already"):
        client.add_calendar("c", WeeklyCalendar({1}))
    assert client.get_calendar("c") == WeeklyCalendar()


def test_removing_a_calendar_that_is_not_stored_raises(client: Scheduler) -> None:
    client.add_calendar("holidays", WeeklyCalendar())
    with pytest.raises(CalendarNotFoundError, match="calendar 'holiday' is not stored; did you mean 'holidays'\\?"):
        client.delete_calendar("holiday")


def test_a_replaced_calendar_leaves_pauses_alone(client: Scheduler) -> None:
    client.add_calendar("c", WeeklyCalendar())
    client.schedule_job(job(), CronTrigger("0 0 12 * * ?", "t", start_time=LATER, calendar="c"))
    client.pause_trigger(key("t"))
    client.add_calendar("c", WeeklyCalendar(frozenset({2})), replace=True, update_triggers=True)
    assert client.trigger_state(key("t")) is PublicState.PAUSED
    record = client.trigger_record(key("t"))
    assert record is not None
    assert record.progress.next_fire_time is not None
    assert record.progress.next_fire_time.weekday() != 0


KINDS = [
    SimpleTrigger("t", start_time=LATER, interval=HOUR, repeat_count=3, end_time=LATER + 9 * HOUR, priority=2),
    CronTrigger("0 0/7 3,5 ? * MON-FRI", "t", start_time=LATER, time_zone="Asia/Kathmandu", dst="quartz"),
    CronTrigger.from_crontab("*/7 3 * * 1", "t", start_time=LATER, misfire="do_nothing"),
    CronTrigger("0 0/7 * * * ?", "t", start_time=LATER, misfire="fire_all", catch_up_max=5),
    SimpleTrigger(
        "t", start_time=LATER, interval=HOUR, repeat_count=9, misfire="fire_all", catch_up_within=timedelta(days=2)
    ),
    DailyTimeIntervalTrigger(
        "t",
        interval=40,
        unit="minute",
        start_time=LATER,
        misfire="fire_all",
        catch_up_max=1,
        catch_up_within=HOUR,  # type: ignore[arg-type]
    ),
    CronTrigger.from_crontab("30 */7 3 * * 1", "t", start_time=LATER),
    CronTrigger("H H(0-6) 13 * FRI", "t", start_time=LATER, time_zone="+05:30", day_or=False),
    CalendarIntervalTrigger("t", interval=2, unit="week", time_zone="Europe/Berlin", start_time=LATER),  # type: ignore[arg-type]
    DailyTimeIntervalTrigger("t", interval=40, unit="minute", days_of_week=[2, 4], start_time=LATER, repeat_count=99),  # type: ignore[arg-type]
    RecurrenceTrigger(
        "t", rule="FREQ=MONTHLY;BYDAY=-1FR\nEXRULE:FREQ=YEARLY", time_zone="Asia/Tokyo", start_time=LATER
    ),
    AnyOf("t", triggers=[CronTrigger("0 0 8 * * ?"), SimpleTrigger(interval=HOUR, repeat_count=4)], start_time=LATER),  # type: ignore[arg-type]
    AllOf("t", triggers=[CronTrigger("0 0 12 1 * ?"), CronTrigger("0 0 12 ? * MON")], start_time=LATER),  # type: ignore[arg-type]
    Jitter("t", trigger=CronTrigger("0 0 * * * ?"), up_to=timedelta(minutes=5), start_time=LATER),
]


@pytest.mark.parametrize("trigger", KINDS, ids=lambda trigger: f"{trigger.kind}-{trigger.schedule()}"[:40])
def test_every_kind_of_trigger_comes_back_from_the_store_as_it_was(client: Scheduler, trigger: Trigger) -> None:
    client.schedule_job(job(), trigger)
    stored = client.get_trigger(key("t"))
    assert stored is not None
    assert replace(stored, job_key=None) == trigger
    record = client.trigger_record(key("t"))
    assert record is not None
    instants = [record.progress.next_fire_time, *record.upcoming]
    assert instants == first_fire_times(trigger, len(instants))
    assert len(instants) >= 4


def test_a_disabled_job_is_explained(client: Scheduler) -> None:
    job = JobDetail(jobs.Recorded, "job", durable=True)
    client.schedule_job(job, SimpleTrigger("t", start_time=LATER))
    client.set_mode(job.key, "DISABLED")
    assert client.job(job.key).mode is JobMode.DISABLED
    with pytest.raises(IllegalStateChangeError, match="is disabled; enable it first"):
        client.trigger_job(job.key)
    assert "because its job is disabled" in client.why(TriggerKey("t", "DEFAULT"))[0]
    client.set_mode(job.key, "MANUAL")
    assert "because its job runs only when it is triggered by hand" in client.why(TriggerKey("t", "DEFAULT"))[0]
    assert client.trigger_job(job.key)
    client.set_mode(job.key, "ENABLED")
    client.set_mode(EVERYTHING, "MANUAL")
    assert client.pauses.is_manual
    assert "because the scheduler is in manual mode" in client.why(TriggerKey("t", "DEFAULT"))[0]
    client.set_mode(EVERYTHING, "ENABLED")
    assert client.trigger_state(TriggerKey("t", "DEFAULT")) is PublicState.NORMAL
    with pytest.raises(JobNotFoundError):
        client.set_mode(JobKey("none", "DEFAULT"), "DISABLED")


def test_a_stored_job_is_modified_and_keeps_its_triggers(client: Scheduler) -> None:
    job = JobDetail(jobs.Recorded, "job", data={"a": 1}, max_concurrent=3)
    client.schedule_job(job, SimpleTrigger("t", start_time=LATER))
    before = client.trigger_record(TriggerKey("t", "DEFAULT"))
    assert client.modify_job(job.key, description="new", timeout=HOUR).description == "new"
    assert client.trigger_record(TriggerKey("t", "DEFAULT")) == before
    stored = client.get_job_detail(job.key)
    assert stored is not None
    assert (stored.description, stored.timeout, stored.max_concurrent, stored.data) == ("new", HOUR, 3, {"a": 1})
    assert client.modify_job(job.key, disallow_concurrent=True).max_concurrent == 1
    assert client.modify_job(job.key, max_concurrent=None).disallow_concurrent is False
    with pytest.raises(InvalidJobError, match="did you mean timeout"):
        client.modify_job(job.key, timeuot=HOUR)
    with pytest.raises(InvalidJobError, match="'name' is not a value"):
        client.modify_job(job.key, name="other")
    with pytest.raises(JobNotFoundError):
        client.modify_job(JobKey("none", "DEFAULT"), durable=True)
