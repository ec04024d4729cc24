"""Imports from tables that the real Quartz 2.3.2 filled.

The tables come from `data/quartz-2.3.2.sql`, which `dump.py` wrote; the last test makes them anew by the real Quartz.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from quartzpy import (
    AnnualCalendar,
    CronCalendar,
    CronTrigger,
    DailyCalendar,
    DailyTimeIntervalTrigger,
    HolidayCalendar,
    Job,
    JobDetail,
    JobExecutionContext,
    JobKey,
    MonthlyCalendar,
    Scheduler,
    TriggerKey,
    WeeklyCalendar,
)
from quartzpy.cli.main import main
from quartzpy.config.config import SchedulerConfig
from quartzpy.errors import ObjectAlreadyExistsError, SettingsError, StoreUnavailableError
from quartzpy.migrate import ImportedJob, ImportedTrigger, ImportPlan, Severity, apply
from quartzpy.migrate.class_map import ClassMap, load_class_map
from quartzpy.migrate.quartz import read_quartz
from quartzpy.migrate.slices import HELD
from quartzpy.operations.actor import Actor, Role
from quartzpy.states import TriggerState
from quartzpy.store.protocol import JobStore, PauseNote
from quartzpy.store.queries import ActionQuery
from quartzpy.store.sql.store import SqlJobStore
from quartzpy.testing import SchedulerHarness
from quartzpy.triggers.trigger import TriggerProgress
from tests.cli.test_commands import quartzpy
from tests.database import Server, connect_to
from tests.migrate import java_quartz
from tests.migrate.dump import FIRES, HOUR, expected_fires, load


class Report(Job, type_name="migrate.Report"):
    def execute(self, context: JobExecutionContext) -> None:
        return None


class Counter(Report, type_name="migrate.Counter"):
    pass


# One worker runs all of them, so that the tables of Quartz are loaded once.
pytestmark = pytest.mark.xdist_group("quartz-tables")

CLASSES = {"Jobs$Report": "migrate.Report", "Jobs$Counter": "migrate.Counter"}
DECISIONS = ClassMap(
    CLASSES, {("job", "reports.hidden", "token"): {}, ("job", "reports.values", "nul"): {"value": "a b"}}
)
BERLIN = "Europe/Berlin"
FROM, UNTIL = (datetime.fromisoformat(one) for one in HOUR)


@pytest.fixture(scope="module")
def quartz_tables(postgres_server: Server) -> Iterator[str]:
    with postgres_server.temporary("quartzpy_quartz") as dsn:
        load(dsn)
        yield dsn


def plan_of(dsn: str, decisions: ClassMap = DECISIONS, java_zone: str | None = BERLIN) -> ImportPlan:
    return read_quartz(dsn, scheduler="serialized", decisions=decisions, java_zone=java_zone)


def trigger_of(plan: ImportPlan, name: str, group: str = "times") -> ImportedTrigger:
    return plan.triggers()[TriggerKey(name, group)]


def job_of(plan: ImportPlan, name: str) -> JobDetail:
    return next(one.job for one in plan.jobs if one.job.name == name)


def instants(plan: ImportPlan, since: datetime, until: datetime) -> dict[str, list[int]]:
    """The fire times of the imported triggers, in milliseconds."""
    found: dict[str, list[int]] = {}
    for key, one in plan.triggers().items():
        progress, times = one.progress, found.setdefault(str(key), [])
        calendar = None if one.trigger.calendar is None else plan.calendars[one.trigger.calendar]
        while progress.next_fire_time is not None and progress.next_fire_time < until:
            if progress.next_fire_time >= since:
                times.append((progress.next_fire_time - datetime.fromtimestamp(0, UTC)) // timedelta(milliseconds=1))
            progress = one.trigger.triggered(progress, calendar)
    return found


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
        (Severity.DIFFERS, "calendar daily"),
        (Severity.LEFT_OUT, "trigger blobs.special"),
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


def test_states_and_pauses_come_over(quartz_tables: str, postgres_dsn: str) -> None:
    store = SqlJobStore(postgres_dsn, SchedulerConfig(name="imported"))
    plan = plan_of(quartz_tables)
    assert {one.trigger.key for one in plan.triggers().values() if one.paused} == {
        TriggerKey("one", "alone"),
        TriggerKey("held", "night"),
    }
    outcome = apply(plan, store)
    try:
        records = store.triggers(list(plan.triggers()))
        assert len(outcome.added) == len(plan.jobs) + len(records) == 5 + 36
        assert {key for key, record in records.items() if record.state is TriggerState.PAUSED} == {
            TriggerKey("one", "alone"),
            TriggerKey("held", "night"),
        }
        assert store.paused_trigger_groups() == {"night"}
        assert {key: record.progress for key, record in records.items()} == {
            key: one.progress for key, one in plan.triggers().items()
        }
        for key, record in records.items():
            # What SQL advances the trigger by agrees with what follows the imported progress.
            one = plan.triggers()[key]
            calendar = None if one.trigger.calendar is None else plan.calendars[one.trigger.calendar]
            assert list(record.upcoming) == one.trigger.following(one.progress, calendar, 8)
        assert apply(plan, store).added == frozenset()
        assert store.triggers(list(plan.triggers())) == records
    finally:
        store.close()


def moved_on(plan: ImportPlan, key: TriggerKey) -> ImportPlan:
    """The plan as the source would give it after one more fire of a trigger."""
    one = plan.triggers()[key]
    fired = replace(one, progress=one.trigger.triggered(one.progress))
    return replace(
        plan,
        jobs=[
            replace(job, triggers=[fired if each.trigger.key == key else each for each in job.triggers])
            for job in plan.jobs
        ],
    )


def test_a_rehearsal_is_held_and_the_second_import_takes_over(quartz_tables: str, postgres_dsn: str) -> None:
    store = SqlJobStore(postgres_dsn, SchedulerConfig(name="imported"))
    key, other = TriggerKey("simple 0", "times"), TriggerKey("simple 4", "times")
    plan = plan_of(quartz_tables)
    try:
        apply(plan, store, held=True)
        assert {record.state for record in store.triggers(list(plan.triggers())).values()} == {TriggerState.PAUSED}
        # Meanwhile the operator paused another trigger here, for a reason of his own.
        store.resume_triggers([other])
        store.pause_triggers([other], PauseNote("not yet", "me"))
        later = moved_on(plan, key)
        counter = next(job for job in later.jobs if job.job.name == "counter")
        counted = replace(counter, job=replace(counter.job, data={"count": 17}))
        later = replace(later, jobs=[counted if job is counter else job for job in later.jobs])
        outcome = apply(later, store)
        assert outcome.advanced == {key}
        records = store.triggers(list(plan.triggers()))
        paused = {key for key, record in records.items() if record.state is TriggerState.PAUSED}
        assert paused == {TriggerKey("one", "alone"), TriggerKey("held", "night"), other}
        assert records[key].progress == later.triggers()[key].progress
        assert HELD not in {record.pause_reason for record in records.values()}
        found = store.job(JobKey("counter", "reports"))
        assert found is not None
        assert found.data == {"count": 17}
    finally:
        store.close()


def changed(plan: ImportPlan, key: TriggerKey, **values: object) -> ImportPlan:
    """The plan with other values of an imported trigger, or of the trigger itself."""

    def of(one: ImportedTrigger) -> ImportedTrigger:
        if one.trigger.key != key:
            return one
        own = {name: value for name, value in values.items() if hasattr(one, name)}
        rest = {name: value for name, value in values.items() if name not in own}
        return replace(one, trigger=replace(one.trigger, **rest), **own)  # type: ignore[arg-type]

    return replace(plan, jobs=[replace(job, triggers=[of(one) for one in job.triggers]) for job in plan.jobs])


@pytest.fixture(params=["memory", "postgresql"])
def any_store(request: pytest.FixtureRequest) -> Iterator[JobStore]:
    if request.param == "memory":
        yield SchedulerHarness(FROM)._store
        return
    store = SqlJobStore(request.getfixturevalue("postgres_dsn"), SchedulerConfig(name="imported"))
    yield store
    store.close()


def states(store: JobStore, *names: str) -> list[tuple[str, str | None]]:
    records = store.triggers([TriggerKey(name, "times") for name in names])
    return [
        (str(records[TriggerKey(name, "times")].state), records[TriggerKey(name, "times")].pause_reason)
        for name in names
    ]


def test_pauses_follow_the_source_until_the_user_decides(quartz_tables: str, any_store: JobStore) -> None:
    first, second, third = (TriggerKey(f"simple {number}", "times") for number in (0, 4, 5))
    plan = changed(plan_of(quartz_tables), first, paused="paused in Quartz")
    apply(plan, any_store, held=True)
    names = [key.name for key in (first, second, third)]
    assert states(any_store, *names) == [("PAUSED", "paused in Quartz"), ("PAUSED", HELD), ("PAUSED", HELD)]
    # In the source, the first was resumed, the second paused, and the schedule of the third changed.
    later = changed(plan_of(quartz_tables), second, paused="paused in Quartz")
    later = changed(later, third, interval=timedelta(minutes=7))
    apply(later, any_store, held=True)
    assert states(any_store, *names) == [("PAUSED", HELD), ("PAUSED", "paused in Quartz"), ("PAUSED", HELD)]
    any_store.pause_triggers([third], PauseNote("not this one", "me"))
    assert apply(later, any_store).resumed >= {first}
    assert states(any_store, *names) == [("WAITING", None), ("PAUSED", "paused in Quartz"), ("PAUSED", "not this one")]
    # The user's pause stands, even if the schedule changes again.
    apply(changed(later, third, interval=timedelta(minutes=8)), any_store)
    assert states(any_store, third.name) == [("PAUSED", "not this one")]


def test_an_import_never_turns_a_trigger_back(quartz_tables: str) -> None:
    harness = SchedulerHarness(FROM, misfire_threshold=timedelta(days=30))
    plan, key = plan_of(quartz_tables), TriggerKey("simple 0", "times")
    apply(plan, harness._store)
    harness.advance(timedelta(minutes=10))
    before = harness.get_trigger(key), harness._store.trigger(key).progress  # type: ignore[union-attr]
    outcome = apply(plan, harness._store)
    assert not outcome.advanced
    assert not outcome.added
    assert (harness.get_trigger(key), harness._store.trigger(key).progress) == before  # type: ignore[union-attr]


def test_a_trigger_that_fired_once_and_ended_is_not_imported_again(quartz_tables: str) -> None:
    harness = SchedulerHarness(FROM, misfire_threshold=timedelta(days=30))
    plan, key = plan_of(quartz_tables), TriggerKey("simple once", "times")
    apply(plan, harness._store)
    assert sum(one.trigger_key == key for one in harness.advance(timedelta(minutes=30))) == 1
    apply(plan, harness._store)
    assert not any(one.trigger_key == key for one in harness.advance(timedelta(minutes=30)))


def test_a_failed_import_stores_nothing(quartz_tables: str, postgres_dsn: str) -> None:
    store = SqlJobStore(postgres_dsn, SchedulerConfig(name="imported"))
    plan = plan_of(quartz_tables)
    last = next(job for job in plan.jobs if job.job.name == "scheduled")
    one = last.triggers[0]
    bad = replace(
        one, trigger=replace(one.trigger, name="bad", job_key=JobKey("missing")), progress=TriggerProgress(FROM)
    )
    try:
        with pytest.raises(Exception, match="missing"):
            apply(
                replace(plan, jobs=[*plan.jobs, replace(last, job=replace(last.job, name="other"), triggers=[bad])]),
                store,
            )
        assert store.calendar_names() == []
        assert store.triggers(list(plan.triggers())) == {}
        assert store.paused_trigger_groups() == set()
    finally:
        store.close()


def test_jobs_of_others_are_not_replaced(quartz_tables: str) -> None:
    harness = SchedulerHarness(FROM)
    harness.add_job(JobDetail(Report, "scheduled", "reports", durable=True))
    with pytest.raises(
        ObjectAlreadyExistsError, match=r"job reports\.scheduled is stored already, and not by an import"
    ):
        apply(plan_of(quartz_tables), harness._store)
    assert harness.trigger_keys() == set()


def test_a_running_source_is_refused_unless_all_is_held(quartz_tables: str) -> None:
    plan = replace(plan_of(quartz_tables), running="its node n1 checked in 3 s ago")
    with pytest.raises(SettingsError, match=r"still runs \(its node n1 checked in 3 s ago\)"):
        apply(plan, SchedulerHarness(FROM)._store)
    apply(plan, SchedulerHarness(FROM)._store, held=True)
    apply(plan, SchedulerHarness(FROM)._store, while_running=True)


def test_an_error_and_a_running_node_are_reported(fresh_database: Callable[[], str]) -> None:
    dsn = fresh_database()
    load(dsn)
    with connect_to(dsn) as connection:
        connection.execute("UPDATE qrtz_triggers SET trigger_state = 'ERROR' WHERE trigger_name = 'simple 1'")
        connection.execute("UPDATE qrtz_triggers SET trigger_state = 'COMPLETE' WHERE trigger_name = 'simple 2'")
        connection.execute("UPDATE qrtz_triggers SET trigger_state = 'BLOCKED' WHERE trigger_name = 'simple 3'")
        connection.execute("UPDATE qrtz_triggers SET trigger_state = 'PAUSED_BLOCKED' WHERE trigger_name = 'simple 4'")
        connection.execute("UPDATE qrtz_triggers SET priority = 0 WHERE trigger_name = 'simple 5'")
        connection.execute(
            "INSERT INTO qrtz_paused_trigger_grps VALUES ('serialized', '_$_ALL_GROUPS_PAUSED_$_');"
            "INSERT INTO qrtz_fired_triggers (sched_name, trigger_name, trigger_group, instance_name, state, job_name,"
            " job_group, requests_recovery) VALUES"
            " ('serialized', 'simple 0', 'times', 'n1', 'EXECUTING', 'scheduled', 'reports', true)"
        )
        connection.execute(
            "UPDATE qrtz_scheduler_state SET last_checkin_time = extract(epoch FROM clock_timestamp()) * 1000 - 2000"
        )
    plan = plan_of(dsn)
    assert trigger_of(plan, "simple 1").paused == "in ERROR in Quartz"
    assert "simple 2" not in {key.name for key in plan.triggers()}
    assert trigger_of(plan, "simple 3").paused is None
    assert trigger_of(plan, "simple 4").paused == "paused in Quartz"
    assert trigger_of(plan, "simple 5").trigger.priority == 0
    assert plan.paused_groups == {"night"}
    differs = {note.subject: note.text for note in plan.notes if note.severity is Severity.DIFFERS}
    assert differs["pauses"].startswith("all groups are paused in Quartz")
    assert differs["job reports.scheduled"] == (
        "it is running on the Quartz node n1; the execution does not come over; Quartz would run it again if its node"
        " died"
    )
    assert plan.running is not None
    assert plan.running.endswith("s ago")


def test_a_name_that_cannot_be_one_here_is_left_out(fresh_database: Callable[[], str]) -> None:
    dsn = fresh_database()
    load(dsn)
    with connect_to(dsn) as connection:
        for table in ("triggers", "simple_triggers"):
            connection.execute(f"UPDATE qrtz_{table} SET trigger_name = E'simple\\n1' WHERE trigger_name = 'simple 1'")
        connection.execute("UPDATE qrtz_job_details SET job_name = E'a\\nb' WHERE job_name = 'values'")
    plan = plan_of(dsn)
    left_out = {note.subject: note.text for note in plan.notes if note.severity is Severity.LEFT_OUT}
    assert set(left_out) == {"job reports.a\\nb", "trigger times.simple\\n1", "trigger blobs.special"}
    assert "control character U+000A" in left_out["job reports.a\\nb"]


def test_rows_that_quartz_did_not_write_do_not_end_the_import(fresh_database: Callable[[], str]) -> None:
    dsn = fresh_database()
    load(dsn)
    changes = {
        "job_details SET job_data = (SELECT calendar FROM qrtz_calendars LIMIT 1)": "job_name = 'values'",
        "job_details SET job_data = substr(job_data, 1, 90)": "job_name = 'hidden'",
        "calendars SET calendar = (SELECT job_data FROM qrtz_job_details WHERE job_name = 'counter')": (
            "calendar_name = 'cron'"
        ),
        "cron_triggers SET cron_expression = 'often'": "trigger_name = 'cron quarter'",
        "cron_triggers SET time_zone_id = 'Moon/Sea'": "trigger_name = 'cron offset'",
        "simprop_triggers SET str_prop_3 = '1,2'": "trigger_name = 'daily'",
        "triggers SET misfire_instr = 99": "trigger_name = 'simple 1'",
        "triggers SET trigger_type = 'LUNAR'": "trigger_name = 'simple 2'",
    }
    with connect_to(dsn) as connection:
        for change, where in changes.items():
            connection.execute(f"UPDATE qrtz_{change} WHERE {where}")
    expected = {
        "job reports.values": "its data is no JobDataMap",
        "job reports.hidden": "the Java serialization cannot be read",
        "calendar cron": "it is of the Java class org.quartz.JobDataMap",
        "trigger times.cron over cron": "its calendar cron does not come over",
        "trigger times.cron quarter": "its cron expression 'often': expected 6 or 7 fields",
        "trigger times.cron offset": "Moon/Sea",
        "trigger times.daily": "it is not what Quartz writes: ValueError",
        "trigger times.simple 1": "its misfire instruction 99 is none of Quartz's",
        "trigger times.simple 2": "it is of the kind LUNAR",
    }
    notes = {note.subject: note.text for note in plan_of(dsn).notes}
    assert {subject for subject in expected if expected[subject] not in notes.get(subject, "")} == set()


CYCLE = bytes.fromhex(
    "aced0005737200156f72672e71756172747a2e4a6f62446174614d61709fb083e8bfa9b0cb020000787200266f72672e7175"
    "6172747a2e7574696c732e537472696e674b65794469727479466c61674d61708208e8c3fbc55d280200015a0013616c6c6f"
    "77735472616e7369656e74446174617872001d6f72672e71756172747a2e7574696c732e4469727479466c61674d617013e6"
    "2ead28760ace0200025a000564697274794c00036d617074000f4c6a6176612f7574696c2f4d61703b787001737200116a61"
    "76612e7574696c2e486173684d61700507dac1c31660d103000246000a6c6f6164466163746f724900097468726573686f6c"
    "6478703f4000000000000c77080000001000000002740005706c61696e740001787400056379636c657371007e00053f4000"
    "000000000c77080000001000000001740005616761696e71007e000a787800"
)
"""The Java serialization of a JobDataMap with the entries `plain` and `cycle`, a map that contains itself."""


def test_hostile_rows_are_reported_and_do_not_end_the_import(fresh_database: Callable[[], str]) -> None:
    dsn = fresh_database()
    load(dsn)
    with connect_to(dsn) as connection:
        connection.execute("UPDATE qrtz_job_details SET job_data = %s WHERE job_name = 'values'", [CYCLE])
        for change in (
            # No fire time that a date can have, and an end that Java programs use for "never".
            f"triggers SET next_fire_time = {2**62} WHERE trigger_name = 'simple 1'",
            f"triggers SET end_time = {2**63 - 1} WHERE trigger_name = 'simple 2'",
            "triggers SET trigger_name = NULL WHERE trigger_name = 'simple 3'",
            "triggers SET job_name = NULL WHERE trigger_name = 'simple 4'",
            "triggers SET start_time = NULL, misfire_instr = NULL, priority = NULL WHERE trigger_name = 'simple 5'",
            "cron_triggers SET cron_expression = NULL WHERE trigger_name = 'cron quarter'",
            "simple_triggers SET repeat_interval = NULL WHERE trigger_name = 'simple 0'",
            f"simple_triggers SET repeat_interval = {2**62} WHERE trigger_name = 'simple 6'",
            "scheduler_state SET last_checkin_time = NULL",
            "job_details SET job_class_name = NULL WHERE job_name = 'counter'",
        ):
            connection.execute(f"UPDATE qrtz_{change}")
        connection.execute(
            "INSERT INTO qrtz_fired_triggers (sched_name, entry_id, instance_name, job_name, job_group, state)"
            " VALUES ('serialized', '1', 'n', E'a\nb', NULL, 'EXECUTING')"
        )
        connection.execute(
            "INSERT INTO qrtz_paused_trigger_grps VALUES ('serialized', E'a\nb'), ('serialized', repeat('x', 201))"
        )
        connection.execute(
            "INSERT INTO qrtz_calendars SELECT sched_name, repeat('x', 201), calendar FROM qrtz_calendars"
            " WHERE calendar_name = 'weekly'"
        )
    plan = plan_of(dsn)
    notes = {note.subject: note.text for note in plan.notes}
    expected = {
        "job reports.values": "'cycle': it is nested too deep, or contains itself",
        "trigger times.simple 1": "it is not what Quartz writes: OverflowError",
        "trigger times.None": "trigger_name is NULL",
        "trigger times.simple 4": "job_name is NULL",
        "trigger times.cron quarter": "cron expression 'None'",
        "trigger times.simple 0": "it is not what Quartz writes: TypeError",
        "trigger times.simple 6": "it is not what Quartz writes: OverflowError",
        "job reports.counter": "its class is NULL",
        "a paused group": "trigger group: 201 characters, at most 200",
        "job None.a\nb": "it is running on the Quartz node n",
        f"calendar {'x' * 201}": "calendar name: 201 characters, at most 200",
    }
    assert {one: notes.get(one) for one in expected if expected[one] not in notes.get(one, "")} == {}
    assert trigger_of(plan, "simple 2").trigger.end_time is None
    assert trigger_of(plan, "simple 5").trigger.start_time is None
    assert plan.paused_groups == {"night"}
    assert plan.running is None
    harness = SchedulerHarness(FROM)
    with pytest.raises(SettingsError, match="objects need a decision"):
        apply(plan, harness._store)
    assert not list(harness.jobs()), "nothing is stored unless it is to be left out"
    outcome = apply(plan, harness._store, skip_undecided=True)
    assert TriggerKey("cron half past two", "times") in outcome.added


def many(plan: ImportPlan, count: int) -> ImportPlan:
    """A plan of `count` triggers of two jobs, one of which has but a few."""
    [one, *_] = plan.jobs
    [first, *_] = one.triggers
    triggers = [
        replace(first, trigger=replace(first.trigger, name=f"many {number}"), paused=None) for number in range(count)
    ]
    few = replace(one.job, name="few")
    return replace(
        plan,
        jobs=[
            ImportedJob(one.job, triggers[:-3]),
            ImportedJob(few, [replace(one, trigger=replace(one.trigger, job_key=few.key)) for one in triggers[-3:]]),
        ],
        notes=[],
    )


def test_a_large_plan_is_stored_in_slices_and_an_aborted_import_is_continued(
    quartz_tables: str, any_store: JobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quartzpy.migrate.slices.SLICE", 10)
    plan = many(plan_of(quartz_tables), 45)
    done: list[tuple[int, int]] = []

    def progress(stored: int, total: int) -> None:
        done.append((stored, total))
        if len(done) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        apply(plan, any_store, progress=progress, actor=Actor("ann", Role.ADMIN), reason="moving")
    assert done == [(10, 51), (20, 51), (30, 51)]
    stored = any_store.triggers(list(plan.triggers()))
    assert len(stored) == 27
    assert any_store.owned(plan.owner).triggers == set(stored)
    assert len(apply(plan, any_store, dry_run=True).added) == 45 - 27 + 1
    outcome = apply(plan, any_store)
    assert (outcome.kept, len(outcome.added)) == (27, 45 - 27 + 1)
    after = any_store.triggers(list(plan.triggers()))
    assert len(after) == 45
    assert {key: after[key].generation for key in stored} == {key: stored[key].generation for key in stored}
    assert any_store.owned(plan.owner).triggers == set(after)
    complete, aborted = any_store.find_actions(ActionQuery(), None)
    assert (aborted.actor, aborted.action, aborted.reason, str(aborted.state), aborted.count) == (
        *("ann", "import", "moving"),
        *("FAILED", 30),
    )
    assert (aborted.subject, complete.subject) == (plan.source,) * 2
    assert (str(complete.state), complete.after["triggers kept"]) == ("SUCCEEDED", 27)


def test_a_repeated_import_stores_nothing_again(quartz_tables: str, any_store: JobStore) -> None:
    plan = plan_of(quartz_tables)
    apply(plan, any_store, skip_undecided=True)
    before = any_store.triggers(list(plan.triggers()))
    apply(plan, any_store, skip_undecided=True)
    after = any_store.triggers(list(plan.triggers()))
    assert {key: (one.generation, one.progress) for key, one in after.items()} == {
        key: (one.generation, one.progress) for key, one in before.items()
    }


MAP = """
[classes]
"Jobs$Report" = "migrate.Report"
"Jobs$Counter" = false

[[data]]
job = "reports.hidden"
entry = "token"
value = { renewed = true }

[[data]]
job = "reports.values"
entry = "nul"
drop = true
"""


def test_the_command_prints_a_plan_and_applies_it(quartz_tables: str, postgres_dsn: str, tmp_path: Path) -> None:
    (tmp_path / "map.toml").write_text(MAP)
    source = quartz_tables.replace("postgresql+psycopg://", "jdbc:postgresql://")
    who, _, place = source.removeprefix("jdbc:postgresql://").rpartition("@")
    user, _, password = who.partition(":")
    command = (
        *("import", "quartz", "--from", f"jdbc:postgresql://{place}?user={user}&password={password}"),
        *("--sched-name", "serialized", "--map", str(tmp_path / "map.toml"), "--java-time-zone", BERLIN),
        *("--dsn", postgres_dsn, "--name", "imported"),
    )
    plan = quartzpy(*command)
    assert plan.returncode == 0, plan.stderr
    assert "left out: job reports.counter: its class Jobs$Counter is mapped to false" in plan.stdout
    assert "4 new jobs, 34 new triggers, 7 new or changed calendars" in plan.stdout
    assert plan.stdout.endswith("Nothing was changed; --apply stores this plan.\n")
    assert quartzpy("jobs", "--dsn", postgres_dsn, "--name", "imported").stdout.count("reports.") == 0
    assert quartzpy(*command, "--apply").stdout.endswith("Stored.\n")
    assert quartzpy("jobs", "--dsn", postgres_dsn, "--name", "imported").stdout.count("reports.") == 4
    again = quartzpy(*command, "--apply", "--json")
    assert '"new_triggers": 0' in again.stdout


def test_an_aborted_command_says_how_it_is_continued(
    quartz_tables: str,
    postgres_dsn: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "map.toml").write_text(MAP)
    command = [
        *("import", "quartz", "--from", quartz_tables, "--sched-name", "serialized", "--java-time-zone", BERLIN),
        *("--map", str(tmp_path / "map.toml"), "--dsn", postgres_dsn, "--name", "aborted", "--apply", "--limit", "0"),
    ]
    stored = 0
    store_slice = SqlJobStore.exclusively

    def failing(store: SqlJobStore, work: Callable[[JobStore], Any]) -> Any:
        nonlocal stored
        stored += 1
        if stored == 3:
            raise StoreUnavailableError("the database is gone")
        return store_slice(store, work)

    monkeypatch.setattr("quartzpy.migrate.slices.SLICE", 10)
    with monkeypatch.context() as context:
        context.setattr(SqlJobStore, "exclusively", failing)
        with pytest.raises(SystemExit) as ended:
            main(command)
    assert ended.value.code == 3
    said = capsys.readouterr().err
    assert re.search(r"not complete: [1-9]\d* of \d+ jobs and triggers are stored; the same command continues it", said)
    with pytest.raises(SystemExit) as ended:
        main([*command, "--json"])
    assert ended.value.code == 0
    outcome = json.loads(capsys.readouterr().out)["outcome"]
    assert outcome["new_triggers"] + outcome["triggers_kept"] == 34
    assert outcome["triggers_kept"] > 0
    with pytest.raises(SystemExit):
        main([*command, "--skip-undecided"])
    printed = capsys.readouterr().out
    assert re.search(r"\(3\d more; --limit shows more, --json all\)", printed)
    assert re.search(r"\(\d+ more left out; --limit shows more, --json all\)", printed)
    assert len(printed.splitlines()) < 20


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--prefix", "QRTZ_; DROP"], "--prefix: letters, digits"),
        (["--sched-name", "typo"], "--sched-name: 'typo' is not in the tables; they have properties, serialized"),
        ([], "--sched-name: the database has several schedulers: properties, serialized"),
        (["--sched-name", "serialized", "--apply"], "objects need a decision"),
    ],
)
def test_what_the_command_refuses(quartz_tables: str, postgres_dsn: str, options: list[str], message: str) -> None:
    done = quartzpy("import", "quartz", "--from", quartz_tables, "--dsn", postgres_dsn, *options)
    assert done.returncode == 2
    assert message in done.stderr


def test_the_tables_of_quartzpy_are_no_source(postgres_dsn: str) -> None:
    with pytest.raises(SettingsError, match="the database has no jobs"):
        read_quartz(postgres_dsn)
    with Scheduler(postgres_dsn, name="ours") as scheduler:
        scheduler.add_job(JobDetail(Report, "report", durable=True))
    with pytest.raises(SettingsError, match=r"is not a table of Quartz 2\.x, but of quartzpy"):
        read_quartz(postgres_dsn)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[clases]\n"a" = "b"', "unknown table 'clases'; did you mean classes?"),
        ('[classes]\n"a" = 7', "the name of a job type, or false"),
        ('[[data]]\njob = "g.n"\nentry = "x"', "needs either value, or drop = true"),
        ('[[data]]\nentry = "x"\ndrop = true', "needs entry, and either job or trigger"),
        ('[[data]]\njob = "g.n"\nentri = "x"', "unknown key 'entri'; did you mean entry?"),
    ],
)
def test_a_wrong_map_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "map.toml"
    path.write_text(text)
    with pytest.raises(SettingsError) as error:
        load_class_map(path)
    assert message in str(error.value)


def test_tables_made_just_now_by_the_real_quartz(fresh_database: Callable[[], str]) -> None:
    """Four days around a change of the clock, for all kinds of triggers and calendars."""
    java_quartz.skip_without_java()
    dsn = fresh_database()
    java_quartz.run("Made", dsn)
    since, until = "2030-03-28T23:00:00Z", "2030-04-02T01:30:00Z"
    expected = expected_fires(java_quartz.run("Fires", dsn, since, until))
    plan = plan_of(dsn)
    assert plan.running is not None
    found = instants(plan, datetime.fromisoformat(since), datetime.fromisoformat(until))
    assert sum(map(len, found.values())) > 10_000
    different = {key for key, times in found.items() if times != expected[key]}
    # Quartz's DailyCalendar excludes the first millisecond of each day, too.
    assert different == {"times.cron over daily"}
    midnights = set(found["times.cron over daily"]) ^ set(expected["times.cron over daily"])
    assert {datetime.fromtimestamp(one / 1000, UTC).hour for one in midnights} == {22}
