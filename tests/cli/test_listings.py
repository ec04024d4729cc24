"""Listings and sheets: filters, pages, columns, zones, and what an empty answer says."""

from __future__ import annotations

import json
import re
import sys
from datetime import UTC, datetime, timedelta

import pytest

from quartzpy import CronTrigger, Job, JobDetail, JobExecutionContext, SimpleTrigger, TriggerKey, WeeklyCalendar
from quartzpy.cli.formatter import width_of
from quartzpy.cli.main import main
from quartzpy.errors import StoreUnavailableError
from quartzpy.operations import Operations
from tests.cli.conftest import Terminal
from tests.cluster.app import Quick
from tests.database import connect_to

LATER = datetime(2090, 1, 1, tzinfo=UTC)
HOSTILE = ("<script>alert('x')</script>", "a.b'\"; DROP TABLE", "報告 \u05d0\u05d1\u05d2", "x" * 200, "%s {} \\n")


def later(name: str, group: str = "DEFAULT", **values: object) -> SimpleTrigger:
    return SimpleTrigger(name, group, start_time=LATER, **values)  # type: ignore[arg-type]


def test_the_pages_of_a_listing_have_each_row_once(terminal: Terminal) -> None:
    terminal.scheduler.schedule_job(JobDetail(Quick, "job"), [later(f"t{n}") for n in range(7)])
    names, cursor = [], []
    while True:
        done = terminal.run("triggers", "--limit", "3", *cursor)
        names += [line.split()[0] for line in done.out.splitlines()[1:]]
        if "--after" not in done.err:
            break
        cursor = ["--after", done.err.split("--after ")[1].strip()]
    assert names == [f"DEFAULT.t{n}" for n in range(7)]
    page = json.loads(terminal.ok("triggers", "--limit", "3", "--json"))
    assert len(page["items"]) == 3
    assert page["next_cursor"]
    assert terminal.run("triggers", "--after", "nonsense").status == 2


def test_json_says_after_how_many_records_a_page_stopped_its_search(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quartzpy.operations.views.jobs.EXAMINED", 2)
    for number in range(3):
        terminal.scheduler.add_job(JobDetail(Quick, f"job{number}", durable=True))
    page = json.loads(terminal.ok("jobs", "--contains", "job2", "--json"))
    assert (page["items"], page["examined"]) == ([], 2)
    rest = json.loads(terminal.ok("jobs", "--contains", "job2", "--json", "--after", page["next_cursor"]))
    assert ([one["key"]["name"] for one in rest["items"]], rest["examined"]) == (["job2"], None)


def test_what_finds_nothing_does_not_read_the_whole_overview(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would take ten times as long as the search."""
    monkeypatch.setattr(Operations, "overview", None)
    assert "has no triggers" in terminal.run("triggers", "--contains", "nothing").err
    assert "has 0 jobs" in terminal.run("jobs", "--contains", "nothing").err
    assert terminal.run("health", "--ready").out == "no node is running\n"


def test_filters_select_and_an_empty_answer_says_what_there_is(terminal: Terminal) -> None:
    terminal.scheduler.schedule_job(JobDetail(Quick, "job", "eu.west"), [later("a", "eu.west"), later("b", "us")])
    terminal.scheduler.pause_trigger(TriggerKey("b", "us"), reason="closed", by="ann")
    assert "eu.west.a" in terminal.ok("triggers", "--group", "eu*")
    assert "us.b" not in terminal.ok("triggers", "--group", "eu*")
    assert "us.b" in terminal.ok("triggers", "--state", "paused", "--job", "eu.west.job", "--contains", "b")
    done = terminal.run("triggers", "--state", "ERROR", "--group", "eu*")
    assert (done.status, done.out) == (0, "")
    name = terminal.scheduler.name
    assert done.err == (
        f"no trigger matches --group eu* --state ERROR; the scheduler '{name}' has triggers: 1 PAUSED, 1 WAITING\n"
    )
    assert "no job matches --mode DISABLED" in terminal.run("jobs", "--mode", "disabled").err
    assert "has no executions in its history" in terminal.run("executions", "--state", "FAILED").err
    assert f"the scheduler '{name}' has no misfires" in terminal.run("misfires").err
    assert "no fire matches --until 1m" in terminal.run("upcoming", "--until", "1m").err
    assert "nothing fires within the next hour" in terminal.run("upcoming").err
    wrong = terminal.run("triggers", "--job", "eu.west.jobb")
    assert (wrong.status, "did you mean eu.west.job?" in wrong.err) == (5, True)
    assert "must be an instant such as" in terminal.run("triggers", "--since", "soonish").err


def test_a_listing_that_has_searched_a_part_says_how_to_go_on(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quartzpy.operations.views.triggers.EXAMINED", 2)
    terminal.scheduler.schedule_job(JobDetail(Quick, "job"), [later(name) for name in ("a", "b", "rare")])
    done = terminal.run("triggers", "--contains", "rare")
    assert done.out == ""
    assert re.fullmatch(r"searched 2, found 0; go on with: --after \S+\n", done.err)
    cursor = done.err.split("--after ")[1].strip()
    assert "DEFAULT.rare" in terminal.ok("triggers", "--contains", "rare", "--after", cursor)


def test_columns_and_zone_are_chosen(terminal: Terminal) -> None:
    daily = CronTrigger(
        "0 30 2 * * ?", "daily", time_zone="Europe/Berlin", start_time=datetime(2090, 10, 28, tzinfo=UTC)
    )
    terminal.scheduler.schedule_job(JobDetail(Quick, "job"), daily)
    text = terminal.ok("triggers", "--columns", "next,trigger", "--zone", "Europe/Berlin")
    assert text.splitlines() == [
        "NEXT (Europe/Berlin)  TRIGGER",
        "2090-10-28 02:30:00   DEFAULT.daily",
    ]
    assert "2090-10-28 00:30:00" in terminal.ok("triggers", "--columns", "next", "--zone", "UTC")
    assert "PAUSE REASON" in terminal.ok("triggers", "--columns", "all")
    assert "'nxt' is unknown; did you mean next?" in terminal.run("triggers", "--columns", "nxt").err
    assert "did you mean 'Europe/Berlin'?" in terminal.run("triggers", "--zone", "Europe/Berln").err


def test_hostile_names_are_harmless_and_fit_the_terminal(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in HOSTILE:
        terminal.scheduler.schedule_job(
            JobDetail(Quick, name, name, description="\x1b[31mred\nsecond"), later(name, name)
        )
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    for columns in (60, 80, 120):
        monkeypatch.setenv("COLUMNS", str(columns))
        for command in ("triggers", "jobs"):
            text = terminal.ok(command)
            assert "\x1b" not in text
            assert max(map(width_of, text.splitlines())) <= columns, text
    assert "\x1b" not in terminal.ok("jobs", "--columns", "all")
    for name in HOSTILE:
        assert terminal.ok("show", "trigger", name, "--group", name).startswith(f"trigger {name}.{name}")
    assert "\\x1b[31mred\\nsecond" in terminal.ok("show", "job", HOSTILE[0], "--group", HOSTILE[0])


def test_a_key_with_dots_is_found_by_what_is_stored(terminal: Terminal) -> None:
    for name, group in (("c", "a.b"), ("b.c", "x"), ("dotted.name", "DEFAULT")):
        terminal.scheduler.schedule_job(JobDetail(Quick, name, group), later(name, group))
    for text, key in (("a.b.c", "a.b.c"), ("x.b.c", "x.b.c"), ("dotted.name", "DEFAULT.dotted.name")):
        assert terminal.ok("show", "job", text).startswith(f"job {key}")
    terminal.scheduler.schedule_job(JobDetail(Quick, "b.c", "a"), later("b.c", "a"))
    done = terminal.run("show", "job", "a.b.c")
    assert done.status == 2
    assert "name one of them by its group: --group a.b c or --group a b.c" in done.err
    assert terminal.ok("show", "job", "b.c", "--group", "a").startswith("job a.b.c")


class Reporting(Job):
    def execute(self, context: JobExecutionContext) -> None:
        context.log.info("read the file")
        if context.job_data.get("fail"):
            raise ValueError("no such region")


def test_sheets_show_what_is_known(terminal: Terminal) -> None:
    scheduler = terminal.scheduler
    scheduler.schedule_job(
        JobDetail(
            Reporting, "report", "eu", data={"fail": True, "api_token": "s3cr3t"}, capture_logs="INFO", durable=True
        ),
        SimpleTrigger("once", "eu"),
    )
    scheduler.start()
    assert scheduler.wait_until_recorded(1, timedelta(seconds=20))
    [record] = scheduler.executions()
    scheduler.standby()
    details = terminal.ok("show", "execution", str(record.fire_id))
    assert re.search(r"job +eu\.report", details)
    assert "ValueError: no such region" in details
    assert "read the file" in details
    job = terminal.ok("show", "job", "eu.report")
    assert re.search(r"api_token +\[redacted\]", job)
    assert "s3cr3t" not in job
    assert "Last runs (1 FAILED)" in job
    listed = terminal.ok("executions", "--job", "eu.report", "--state", "failed", "--since", "1h")
    assert "ValueError: no such region" in listed
    node = scheduler.instance_id
    assert node is not None
    assert terminal.ok("show", "node", node).startswith(f"node {node}  alive")
    missing = terminal.run("show", "node", f"{node}x")
    assert (missing.status, "did you mean" in missing.err) == (5, True)
    assert terminal.run("show", "execution", "99999999").status == 5
    assert terminal.ok("why", "eu.report") == "The job has no triggers.\n", "the name of a job explains its triggers"
    assert "FAILED: ValueError" in terminal.ok("why", "eu.once"), "it has ended"
    scheduler.schedule_job(JobDetail(Quick, "other"), later("tomorrow"))
    assert "did you mean DEFAULT.tomorrow?" in terminal.run("why", "tomorow").err


def test_calendars_groups_limits_and_locks(terminal: Terminal, postgres_dsn: str) -> None:
    scheduler = terminal.scheduler
    assert "has no calendars" in terminal.run("calendars").err
    assert "has no groups" in terminal.run("groups").err
    assert "no limit is in use" in terminal.run("limits").err
    scheduler.add_calendar("workdays", WeeklyCalendar(description="no weekends"))
    scheduler.schedule_job(
        JobDetail(Quick, "job", "eu"), [later("a", "eu", calendar="workdays", interval="1d"), later("b", "eu")]
    )
    scheduler.pause_trigger_group("eu")
    assert re.search(r"^workdays +weekly +UTC +no weekends", terminal.ok("calendars"), re.MULTILINE)
    details = terminal.ok("show", "calendar", "workdays", "--year", "2026")
    assert re.search(r"used by +eu\.a\n", details)
    assert "2026-01  ..##.....##.....##.....##.....#   9 of 31" in details
    assert terminal.run("show", "calendar", "workday").status == 5
    groups = terminal.ok("groups")
    assert re.search(r"^eu +triggers +2 +PAUSED +- +2 +0", groups, re.MULTILINE)
    assert re.search(r"^eu +jobs +1 +- ", groups, re.MULTILINE)
    scheduler.pause_all()
    assert "everything is paused: `quartzpy resume --everything` ends that" in terminal.run("groups").err
    with connect_to(postgres_dsn, autocommit=False) as connection:
        connection.execute("LOCK TABLE qrtz_calendars IN EXCLUSIVE MODE")
        [lock] = [one for one in json.loads(terminal.ok("locks", "--json")) if "calendars" in one["table"]]
        assert (lock["granted"], lock["pid"]) == (True, connection.info.backend_pid)
        assert str(connection.info.backend_pid) in terminal.ok("locks")
    scheduler.start()
    assert re.search(rf"^pool +default +{scheduler.instance_id} +10 +0 +10", terminal.ok("limits"), re.MULTILINE)


def test_a_watched_listing_repeats_until_it_is_interrupted_and_survives_an_outage(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal.scheduler.schedule_job(JobDetail(Quick, "job"), later("t"))
    rounds: list[float] = []
    triggers = Operations.triggers

    def fail(*_: object, **__: object) -> None:
        raise StoreUnavailableError("the server is starting up")

    def rest(seconds: float) -> None:
        rounds.append(seconds)
        monkeypatch.setattr(Operations, "triggers", fail if len(rounds) == 1 else triggers)
        if len(rounds) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("quartzpy.cli.listing.rest", rest)
    with pytest.raises(SystemExit) as ended:
        main(["triggers", "--watch=5s", "--json"])
    assert ended.value.code == 0
    assert rounds == [5.0, 5.0, 5.0]
    written = capsys.readouterr()
    assert [len(json.loads(line)["items"]) for line in written.out.splitlines()] == [1, 1]
    assert written.err == "StoreUnavailableError: the server is starting up\n"
