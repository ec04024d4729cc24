"""Rows of Quartz that are wrong, hostile, or of a scheduler that is running: the import reports them and goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from quartzpy import (
    JobDetail,
    Scheduler,
    TriggerKey,
)
from quartzpy.errors import SettingsError
from quartzpy.migrate import NoteSeverity, apply
from quartzpy.migrate.quartz import read_quartz
from quartzpy.testing import SchedulerHarness
from tests.database import connect_to
from tests.migrate.dump import load
from tests.migrate.quartz_plans import FROM, Report, plan_of, trigger_of


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
    differs = {note.subject: note.text for note in plan.notes if note.severity is NoteSeverity.DIFFERS}
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
    left_out = {note.subject: note.text for note in plan.notes if note.severity is NoteSeverity.LEFT_OUT}
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


def test_the_tables_of_quartzpy_are_no_source(postgres_dsn: str) -> None:
    with pytest.raises(SettingsError, match="the database has no jobs"):
        read_quartz(postgres_dsn)
    with Scheduler(postgres_dsn, name="ours") as scheduler:
        scheduler.add_job(JobDetail(Report, "report", durable=True))
    with pytest.raises(SettingsError, match=r"is not a table of Quartz 2\.x, but of quartzpy"):
        read_quartz(postgres_dsn)
