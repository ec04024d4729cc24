"""Fire times that were computed by other rules of a time zone: who notices them, and when they are computed anew."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from quartzpy import CronTrigger, Job, JobDetail, JobExecutionContext, MaintenanceWindow, Scheduler
from quartzpy.keys import TriggerKey
from quartzpy.node.completer import refill_of
from quartzpy.store import node_metadata
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.protocol import Node
from quartzpy.zone_rules import rules_of
from tests.postgresql.conftest import NAME, register
from tests.postgresql.test_faults import acquire, ended
from tests.waiting import wait_until
from tests.zone_files import zone_directory

Connect = Callable[[], psycopg.Connection[Any]]

SOON = datetime.now(UTC) + timedelta(hours=17)
"""In Tokyo by the former rules: 12 hours from now. The times of day are after the present one by all rules."""
LATER = SOON + timedelta(days=3)
DAILY = f"0 0 {SOON.hour} * * ?"
WEEKLY = f"0 0 {LATER.hour} ? * {LATER:%a}".upper()
YEARLY = f"0 0 {LATER.hour} {LATER.day} {LATER.month} ?"
OF_WINDOW = f"0 {SOON.hour} * * *"
STORING = f"""
import sys
from quartzpy import AnyOf, CronTrigger, JobDetail, MaintenanceWindow, Scheduler, SimpleTrigger, WeeklyCalendar
scheduler = Scheduler(sys.argv[1], name="{NAME}")
scheduler.add_calendar("week", WeeklyCalendar(time_zone="Asia/Tokyo"), replace=True)
tokyo = dict(time_zone="Asia/Tokyo")
scheduler.schedule_job(
    JobDetail("report", "job"),
    [
        CronTrigger("{DAILY}", "daily", **tokyo),
        CronTrigger("{WEEKLY}", "weekly", **tokyo),
        CronTrigger("{YEARLY}", "yearly", **tokyo),
        CronTrigger("0 */15 * * * ?", "often", **tokyo),
        CronTrigger("{DAILY}", "berlin", time_zone="Europe/Berlin"),
        CronTrigger("{DAILY}", "utc"),
        SimpleTrigger("simple", interval=3600),
        AnyOf("both", triggers=[CronTrigger("{DAILY}", "a", **tokyo), CronTrigger("0 0 1 * * ?", "b")]),
    ],
    replace=True,
)
window = MaintenanceWindow("w", cron="{OF_WINDOW}", duration="4h", trigger_group="other", **tokyo)
scheduler.add_maintenance_window(window)
scheduler.shutdown()
"""
NEW = ("daily", "weekly", "yearly")
SAME = ("often", "berlin", "utc", "simple")
SHIFT = timedelta(hours=4)
"""By so much the fires are later by the former rules, UTC+5, than by those of this process, UTC+9."""


class Report(Job, type_name="zone-report"):
    def execute(self, context: JobExecutionContext) -> None: ...


def run_with(place: Path, program: str, *arguments: str) -> str:
    """Run a program whose time zone data is that of a directory."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, "PYTHONTZPATH": str(place)},
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout


@pytest.fixture(scope="module")
def former(tmp_path_factory: pytest.TempPathFactory) -> Path:
    zones = {"Asia/Tokyo": "<+05>-5", "Europe/Berlin": "CET-1CEST,M3.5.0,M10.5.0/3"}
    return zone_directory(tmp_path_factory.mktemp("zones"), zones, "2020a")


@pytest.fixture
def stored(postgres_dsn: str, store: SqlJobStore, former: Path) -> SqlJobStore:
    """With triggers that a program has stored by former rules of Tokyo's time."""
    run_with(former, STORING, postgres_dsn)
    return store


def times(store: SqlJobStore) -> dict[str, list[datetime | None]]:
    keys = [TriggerKey(name) for name in (*NEW, *SAME, "both")]
    return {key.name: [r.next_fire_time, *r.upcoming] for key, r in store.triggers(keys).items()}


def scheduled(expression: str, count: int, time_zone: str = "Asia/Tokyo") -> list[datetime]:
    return CronTrigger(expression, time_zone=time_zone).upcoming(count)


def test_all_fire_times_are_computed_anew_and_the_others_stay(stored: SqlJobStore) -> None:
    before = times(stored)
    node = register(stored)
    renewal = stored.renew_zones(node)
    after = times(stored)
    for name in NEW:
        assert after[name] == [at - SHIFT for at in before[name] if at is not None][:9]
    assert {name: after[name] for name in SAME} == {name: before[name] for name in SAME}
    assert {moved.key.name for moved in renewal.moved} == {*NEW, "both"}
    [daily] = [moved for moved in renewal.moved if moved.key.name == "daily"]
    assert (daily.before, daily.after) == (before["daily"][0], after["daily"][0])
    assert (daily.zone, daily.former_version) == ("Asia/Tokyo", "2020a")
    assert {at.hour for at in after["both"][1:] if at is not None} == {1, (SOON.hour - 9) % 24}
    assert not stored.renew_zones(node).moved
    assert times(stored) == after


def test_windows_begin_by_the_new_rules(stored: SqlJobStore) -> None:
    [before] = stored.windows()
    stored.renew_zones(register(stored))
    [after] = stored.windows()
    assert (after.starts_at, after.ends_at) == (before.starts_at - SHIFT, before.ends_at - SHIFT)


def test_a_window_that_is_open_ends_by_the_new_rules(stored: SqlJobStore, connect: Connect) -> None:
    connection = connect()
    connection.execute("UPDATE qrtz_maintenance_windows SET starts_at = now() - interval '1 h', is_open = true")
    connection.execute("UPDATE qrtz_maintenance_windows SET ends_at = now() + interval '10 h'")
    [before] = stored.windows()
    connection.execute(
        "INSERT INTO qrtz_paused_trigger_groups (sched_name, scope, group_name, paused_at, pause_until, window_name)"
        " SELECT sched_name, scope, group_name, now(), ends_at, window_name FROM qrtz_maintenance_windows"
    )
    stored.renew_zones(register(stored))
    [after] = stored.windows()
    assert after.ends_at == before.ends_at - SHIFT
    [(until,)] = connection.execute("SELECT pause_until FROM qrtz_paused_trigger_groups").fetchall()
    assert until == after.ends_at


def test_nodes_that_differ_change_nothing_until_the_last_one_has_the_new_rules(
    stored: SqlJobStore, connect: Connect
) -> None:
    before = times(stored)
    old, new = register(stored, "old"), register(stored, "new")
    assert stored.renew_zones(new).waits, "the other node has not said which rules it has"
    zones = {"Asia/Tokyo": "otherwise", "Europe/Berlin": rules_of("Europe/Berlin").digest}  # type: ignore[union-attr]
    facts = json.dumps({node_metadata.ZONES: zones})
    statement = "UPDATE qrtz_scheduler_state SET facts = coalesce(facts, '{}') || %s::jsonb WHERE instance_id = 'old'"
    connect().execute(statement, [facts])
    assert stored.renew_zones(new).waits
    assert times(stored) == before
    stored.leave(old)
    assert stored.renew_zones(new).moved
    assert times(stored)["daily"] == scheduled(DAILY, 9)


def test_the_doctor_says_which_fires_move_and_in_which_zone_nodes_differ(stored: SqlJobStore, connect: Connect) -> None:
    [finding] = [each for each in admin(stored).audit() if each.check == "time-zone-rules"]
    assert "Asia/Tokyo" in finding.what
    assert "Berlin" not in finding.what
    at = times(stored)["daily"][0]
    assert at is not None
    [row] = [row for row in finding.rows if "daily" in row]
    assert f"{at:%H:%M:%S}" in row
    assert f"{at - SHIFT:%H:%M:%S}" in row
    node, other = register(stored), register(stored, "other")
    stored.renew_zones(node)
    statement = "UPDATE qrtz_scheduler_state SET facts = coalesce(facts, '{}') || %s::jsonb WHERE instance_id = 'other'"
    connect().execute(statement, [json.dumps({node_metadata.ZONES: {"Asia/Tokyo": "otherwise"}})])
    assert "Asia/Tokyo" in " ".join(each.what for each in admin(stored).audit() if each.check == "tzdata")
    stored.leave(other)
    stored.renew_zones(node)
    assert not [each for each in admin(stored).audit() if each.check in ("time-zone-rules", "tzdata")]


def test_why_says_that_a_fire_moves(stored: SqlJobStore, postgres_dsn: str) -> None:
    at = times(stored)["daily"][0]
    assert at is not None
    with_client = Scheduler(postgres_dsn, name=NAME)
    told = " ".join(with_client.why("daily"))
    assert "2020a" in told
    assert (at - SHIFT).isoformat() in told
    assert "2020a" not in " ".join(with_client.why("berlin"))
    with_client.shutdown()


def test_replacing_a_trigger_by_the_same_text_renews_it(stored: SqlJobStore, postgres_dsn: str) -> None:
    client = Scheduler(postgres_dsn, name=NAME)
    client.schedule_job(JobDetail("report", "job"), CronTrigger(DAILY, "daily", time_zone="Asia/Tokyo"), replace=True)
    client.shutdown()
    assert times(stored)["daily"] == scheduled(DAILY, 9)


def test_a_program_with_former_rules_is_corrected_each_time(
    stored: SqlJobStore, postgres_dsn: str, former: Path, connect: Connect
) -> None:
    node = register(stored)
    stored.renew_zones(node)
    connect().execute("UPDATE qrtz_zone_rules SET noted_at = noted_at - interval '1 hour'")
    stored.renew_zones(node)
    assert len(stored.noted_zones()) == 2, "nothing is stored by the former rules any more"
    run_with(former, STORING.replace(DAILY, "0 30" + DAILY[3:]), postgres_dsn)
    stored.renew_zones(node)
    assert times(stored)["daily"] == scheduled("0 30" + DAILY[3:], 9)


def test_a_fire_whose_new_instant_has_passed_misfires(stored: SqlJobStore, connect: Connect) -> None:
    # The next fire is in 2 hours by the former rules: 2 hours ago by the new ones.
    now = stored.now().replace(microsecond=0)
    wall = (now + timedelta(hours=2) + timedelta(hours=5)).time()
    expression = f"{wall.second} {wall.minute} {wall.hour} * * ?"
    fires = [now + timedelta(hours=2, days=n) for n in range(9)]
    connect().execute(
        "UPDATE qrtz_triggers SET schedule = schedule || %s::jsonb, next_fire_time = %s, upcoming = %s,"
        " start_time = start_time - interval '1 day'"
        " WHERE trigger_name = 'daily'",
        [json.dumps({"expression": expression}), fires[0], fires[1:]],
    )
    node = register(stored)
    stored.renew_zones(node)
    assert times(stored)["daily"][0] == now - timedelta(hours=2)
    outcome = stored.recover_misfires(node, threshold=timedelta(seconds=60), limit=10)
    assert TriggerKey("daily") in outcome.misfired
    [misfire] = connect().execute("SELECT trigger_name FROM qrtz_misfires").fetchall()
    assert misfire == ("daily",)


@pytest.mark.parametrize("offset", ["<+12>-12", "<+05>-5"])
def test_a_node_that_starts_renews_before_it_fires(
    store: SqlJobStore, postgres_dsn: str, connect: Connect, tmp_path: Path, offset: str
) -> None:
    """By the former rules, the fire was 30 minutes ago; by the new ones, it is later today, or was missed as well."""
    run_with(zone_directory(tmp_path, {"Asia/Tokyo": offset, "Europe/Berlin": "<+01>-1"}), STORING, postgres_dsn)
    now = store.now().replace(microsecond=0)
    hours = int(offset[1:4])
    wall = now - timedelta(minutes=30) + timedelta(hours=hours)
    fires = [now - timedelta(minutes=30) + timedelta(days=n) for n in range(9)]
    connection = connect()
    connection.execute("DELETE FROM qrtz_triggers WHERE trigger_name <> 'daily'")
    for table in ("qrtz_job_details", "qrtz_triggers"):
        connection.execute(f"UPDATE {table} SET job_type = 'zone-report'".encode())
    connection.execute(
        "UPDATE qrtz_triggers SET schedule = schedule || %s::jsonb, next_fire_time = %s, upcoming = %s,"
        " start_time = start_time - interval '2 days'",
        [json.dumps({"expression": f"{wall.second} {wall.minute} {wall.hour} * * ?"}), fires[0], fires[1:]],
    )
    is_due_later = hours > 9
    expected = fires[0] + timedelta(hours=hours - 9, days=0 if is_due_later else 1)
    with Scheduler(postgres_dsn, name=NAME, checkin_interval="200ms", failure_window="20s"):
        wait_until(lambda: times(store)["daily"][0] == expected, f"a next fire at {expected}")
        assert all(at is not None and at >= expected for at in times(store)["daily"])
    [(number,)] = connection.execute("SELECT count(*) FROM qrtz_misfires").fetchall()
    assert number == (0 if is_due_later else 1)


@pytest.mark.parametrize("way", ["refill", "misfire"])
def test_while_nodes_differ_nothing_fires_twice_at_one_time_on_the_clock(
    store: SqlJobStore, postgres_dsn: str, connect: Connect, tmp_path: Path, way: str
) -> None:
    """By the rules of the other node, UTC+12, a fire comes three hours earlier than by those of this process."""
    run_with(zone_directory(tmp_path, {"Asia/Tokyo": "<+12>-12", "Europe/Berlin": "<+01>-1"}), STORING, postgres_dsn)
    connection = connect()
    connection.execute("DELETE FROM qrtz_triggers WHERE trigger_name <> 'daily'")
    register(store, "old")
    node = register(store, "new")
    assert store.renew_zones(node).waits
    now, day = store.now().replace(microsecond=0), timedelta(days=1)
    last = now - timedelta(hours=2) if way == "misfire" else now
    wall = last + timedelta(hours=12)
    connection.execute(
        "UPDATE qrtz_triggers SET schedule = schedule || %s::jsonb, next_fire_time = %s, upcoming = %s,"
        " start_time = start_time - interval '2 days'",
        [json.dumps({"expression": f"{wall.second} {wall.minute} {wall.hour} * * ?"}), last, [last + day]],
    )
    if way == "misfire":
        assert store.recover_misfires(node, threshold=timedelta(seconds=60), limit=10).misfired
        assert times(store)["daily"][1] == last + timedelta(hours=3) + day
    else:
        [fired] = acquire(store, node).fired
        store.complete(node, [replace(ended(fired), refill=refill_of(fired))])
        assert times(store)["daily"][:2] == [last + day, last + timedelta(hours=3) + 2 * day]


def test_one_node_renews_at_a_time(stored: SqlJobStore) -> None:
    first, second = register(stored, "first"), register(stored, "second")
    for node in (first, second):
        stored.renew_zones(node)
    before = times(stored)
    assert before["daily"] == scheduled(DAILY, 9)


def test_zones_of_utc_and_offsets_note_nothing(store: SqlJobStore, postgres_dsn: str, connect: Connect) -> None:
    client = Scheduler(postgres_dsn, name=NAME)
    client.schedule_job(
        JobDetail("report", "job"),
        [CronTrigger("0 0 1 * * ?", "a"), CronTrigger("0 0 1 * * ?", "b", time_zone="+02:00")],
    )
    assert store.noted_zones() == []
    client.schedule_job(JobDetail("report", "other"), CronTrigger("0 0 1 * * ?", "c", time_zone="Asia/Tokyo"))
    client.add_maintenance_window(MaintenanceWindow("w", cron=OF_WINDOW, duration="4h", time_zone="Asia/Tokyo"))
    client.shutdown()
    [noted] = store.noted_zones()
    assert noted.rules == rules_of("Asia/Tokyo")
    node: Node = register(store)
    assert store.renew_zones(node).moved == ()
    assert datetime.now(UTC) - noted.noted_at < timedelta(minutes=5)
