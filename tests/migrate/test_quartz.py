"""Imports from tables that the real Quartz 2.3.2 filled: the plan that is read from them.

The tables come from `data/quartz-2.3.2.sql`, which `dump.py` wrote; the last test makes them anew by the real Quartz.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

from quartzpy import (
    AnnualCalendar,
    CronCalendar,
    CronTrigger,
    DailyCalendar,
    DailyTimeIntervalTrigger,
    HolidayCalendar,
    JobKey,
    MonthlyCalendar,
    WeeklyCalendar,
)
from quartzpy.migrate import NoteSeverity, apply
from quartzpy.migrate.class_map import ClassMap
from quartzpy.migrate.quartz import read_quartz
from quartzpy.testing import SchedulerHarness
from tests.migrate import java_quartz
from tests.migrate.dump import FIRES, expected_fires
from tests.migrate.quartz_plans import (
    BERLIN,
    DECISIONS,
    FROM,
    UNTIL,
    instants,
    job_of,
    plan_of,
    trigger_of,
)


def test_data_written_as_properties_is_text(quartz_tables: str) -> None:
    plan = read_quartz(quartz_tables, scheduler="properties", decisions=DECISIONS)
    assert job_of(plan, "texts").data == {"region": "eu", "odd key: = #": "Grüße, \\ \t 世界\nline", "empty": ""}
    assert trigger_of(plan, "texts").trigger.data == {"region": "us"}
    assert not plan.notes


def test_data_written_by_java_serialization_keeps_its_types(quartz_tables: str) -> None:
    assert job_of(plan_of(quartz_tables), "values").data == {
        "text": "Grüße 世界 😀",
        "integer": 7,
        "long": 1 << 60,
        "short": -3,
        "boolean": True,
        "double": 0.1,
        "float": 1.5,
        "nothing": None,
        "nul": "a b",
        "date": datetime(2030, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC),
        "sql time": datetime(2030, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC),
        "decimal": Decimal("-12345678901234567890.0125"),
        "big": -123456789012345678901234567890,
        "nested": {"list": [1, 2, "three", None], "map": {"deep": False}},
        "array": ["a", "b"],
        "numbers": [1, 2],
    }


def test_what_cannot_be_read_needs_a_decision(quartz_tables: str) -> None:
    plan = plan_of(quartz_tables, ClassMap({"Jobs$Report": "migrate.Report"}), java_zone=None)
    assert {note.subject: note.text for note in plan.undecided} == {
        "calendar no zone": "it has no time zone of its own; pass the zone of its Java programs as --java-time-zone",
        "trigger times.cron over no zone": "its calendar no zone does not come over",
        "trigger times.daily": "it has no time zone of its own; pass the zone of its Java programs as --java-time-zone",
        "job reports.counter": "its class Jobs$Counter is mapped to no job type; add it to [classes] of --map",
        "job reports.hidden": "its data has entries that cannot be read; decide about them by [[data]] in --map:"
        " 'token': it is of the Java class Jobs$Token",
        "job reports.values": "its data has entries that cannot be read; decide about them by [[data]] in --map:"
        " 'nul': data['nul']: the NUL character cannot be stored",
    }
    assert [(note.severity, note.subject) for note in plan.notes if note not in plan.undecided] == [
        (NoteSeverity.DIFFERS, "calendar daily"),
        (NoteSeverity.LEFT_OUT, "trigger blobs.special"),
    ]


def test_flags_of_jobs(quartz_tables: str) -> None:
    plan = plan_of(quartz_tables)
    counter, hidden = job_of(plan, "counter"), job_of(plan, "hidden")
    assert (counter.job_type, counter.disallow_concurrent, counter.persist_data) == ("migrate.Counter", True, True)
    assert (hidden.durable, hidden.requests_recovery, hidden.disallow_concurrent) == (True, True, False)
    assert hidden.description == "Its token is of a class of its own"
    assert hidden.data == {"region": "eu"}


def test_triggers_of_all_kinds(quartz_tables: str) -> None:
    plan = plan_of(quartz_tables)
    start = datetime(2030, 3, 31, 0, 30, tzinfo=UTC)
    shared = {"group": "times", "job_key": JobKey("scheduled", "reports"), "start_time": start}
    assert trigger_of(plan, "cron offset").trigger == CronTrigger(
        "7 1/7 * ? * *", "cron offset", time_zone="+05:30", dst="quartz", misfire="do_nothing", **shared
    )
    assert trigger_of(plan, "cron short id").trigger.time_zone == "America/Los_Angeles"  # type: ignore[attr-defined]
    assert trigger_of(plan, "cron ignoring").trigger == CronTrigger(
        "30 * * * * ?",
        "cron ignoring",
        dst="quartz",
        misfire="ignore",
        priority=9,
        description="Every minute",
        end_time=datetime(2031, 1, 1, tzinfo=UTC),
        **shared,
    )
    assert trigger_of(plan, "daily").trigger == DailyTimeIntervalTrigger(
        "daily",
        interval=7,
        unit="minute",
        repeat_count=4000,
        days_of_week={1, 2, 7},
        start_time_of_day=time(1, 30, 5),
        end_time_of_day=time(18),
        time_zone=BERLIN,
        dst="quartz",
        misfire="fire_once_now",
        **shared,
    )
    assert [trigger_of(plan, f"simple {number}").trigger.misfire for number in range(7)] == [
        "smart",
        "fire_now",
        "reschedule_now_with_existing_repeat_count",
        "reschedule_now_with_remaining_repeat_count",
        "reschedule_next_with_remaining_count",
        "reschedule_next_with_existing_count",
        "ignore",
    ]


def test_calendars_of_all_kinds(quartz_tables: str) -> None:
    weekly = WeeklyCalendar(excluded_days={6}, time_zone="America/New_York")
    holidays = HolidayCalendar(
        excluded_dates={date(2030, 3, 30), date(2030, 12, 25)}, time_zone=BERLIN, description="Days off"
    )
    assert plan_of(quartz_tables).calendars == {
        "annual": AnnualCalendar(excluded_days={(2, 29), (3, 30)}, time_zone=BERLIN),
        "cron": CronCalendar(expression="* * 0-1 ? * *", time_zone=BERLIN, base=weekly),
        "daily": DailyCalendar(start=time(22, 15), end=time(23, 45, 10, 500_000), time_zone=BERLIN, base=holidays),
        "holidays": holidays,
        "monthly": MonthlyCalendar(excluded_days={1, 31}, time_zone=BERLIN),
        "no zone": DailyCalendar(start=time(1, 20), end=time(3), invert=True, time_zone=BERLIN),
        "weekly": weekly,
    }


def test_progress_comes_over(quartz_tables: str) -> None:
    progress = trigger_of(plan_of(quartz_tables), "fired on").progress
    assert progress.times_triggered == 1
    assert progress.previous_fire_time is not None
    assert progress.next_fire_time == progress.previous_fire_time + timedelta(days=1000)


def test_the_same_instants_as_quartz_in_an_hour_of_moved_clock(quartz_tables: str) -> None:
    """Quartz's triggers computed the times in Java; here a node fires the imported triggers, with a moved clock."""
    harness = SchedulerHarness(FROM, misfire_threshold=timedelta(days=30))
    plan = plan_of(quartz_tables)
    resumed = replace(
        plan,
        paused_groups=frozenset(),
        jobs=[replace(job, triggers=[replace(one, paused=None) for one in job.triggers]) for job in plan.jobs],
    )
    apply(resumed, harness._store)
    executions = harness.advance(UNTIL - FROM - timedelta(milliseconds=1))
    fired: dict[str, list[int]] = {}
    for one in executions:
        if one.scheduled_fire_time >= FROM:
            since_epoch = one.scheduled_fire_time - datetime.fromtimestamp(0, UTC)
            fired.setdefault(str(one.trigger_key), []).append(since_epoch // timedelta(milliseconds=1))
    expected = expected_fires(FIRES.read_text().splitlines())
    # A blob does not come over, and the triggers that fired in Java are overdue by years when the clock begins.
    left_out = {"blobs.special", "times.fired", "times.fired on"}
    assert {key: sorted(times) for key, times in fired.items() if key not in left_out} == {
        key: times for key, times in expected.items() if times and key not in left_out
    }
    assert sum(map(len, fired.values())) > 350


def test_tables_made_just_now_by_the_real_quartz(fresh_database: Callable[[], str]) -> None:
    """Four days around a change of the clock, for all kinds of triggers and calendars."""
    java_quartz.skip_without_java()
    dsn = fresh_database()
    java_quartz.run("Made", dsn)
    # At once: later, its last check-in is too old for a scheduler that runs.
    plan = plan_of(dsn)
    assert plan.running is not None
    since, until = "2030-03-28T23:00:00Z", "2030-04-02T01:30:00Z"
    expected = expected_fires(java_quartz.run("Fires", dsn, since, until))
    found = instants(plan, datetime.fromisoformat(since), datetime.fromisoformat(until))
    assert sum(map(len, found.values())) > 10_000
    different = {key for key, times in found.items() if times != expected[key]}
    # Quartz's DailyCalendar excludes the first millisecond of each day, too.
    assert different == {"times.cron over daily"}
    midnights = set(found["times.cron over daily"]) ^ set(expected["times.cron over daily"])
    assert {datetime.fromtimestamp(one / 1000, UTC).hour for one in midnights} == {22}
