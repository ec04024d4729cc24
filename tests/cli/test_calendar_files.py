"""`quartzpy refresh` on a real database."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from pathlib import Path

from quartzpy import BusinessDayTrigger, HolidayCalendar, JobDetail, TriggerKey, WeeklyCalendar
from tests.cli.conftest import Terminal
from tests.cluster.app import Quick

EVENTS = """BEGIN:VCALENDAR
BEGIN:VEVENT
DTSTART;VALUE=DATE:20400102
END:VEVENT
BEGIN:VEVENT
DTSTART:20400301T220000Z
DURATION:PT4H
END:VEVENT
END:VCALENDAR
"""


def test_a_difference_is_shown_before_it_is_taken(terminal: Terminal, tmp_path: Path) -> None:
    path = tmp_path / "closings.ics"
    path.write_text(EVENTS)
    scheduler = terminal.scheduler
    stored = HolidayCalendar({date(2040, 12, 25), date(2041, 12, 25)}, base=WeeklyCalendar())
    scheduler.add_calendar("target", stored)
    start = datetime(2040, 1, 1, tzinfo=UTC)
    monthly = BusinessDayTrigger("first", nth=1, at="18:00", calendar="target", start_time=start)
    scheduler.schedule_job(JobDetail(Quick, "report"), monthly)
    command = ("refresh", "target", "--ics", str(path), "--years", "2040")
    assert terminal.ok(*command) == (
        "~ calendar target\n"
        "    + 2040-01-02 Monday\n"
        "    - 2040-12-25 Tuesday\n"
        "    + 2040-03-01T22:00:00+00:00 to 2040-03-02T02:00:00+00:00\n"
        "  trigger DEFAULT.first: 2040-01-02T18:00:00+00:00 -> 2040-01-03T18:00:00+00:00\n"
        "  their next fire times move with --update-triggers, and otherwise after the next fire\n"
        "2 to add, 1 to remove; 1 triggers move\n"
    )
    assert terminal.run(*command, "--exit-code").status == 1
    assert scheduler.get_calendar("target") == stored, "without --apply nothing changes"
    read = json.loads(terminal.ok(*command, "--json"))
    assert (read["days_added"], read["days_removed"], read["applied"]) == (["2040-01-02"], ["2040-12-25"], False)

    done = terminal.ok(*command, "--apply", "--update-triggers", "--reason", "the list of 2040")
    assert done.endswith("stored: calendar target\n")
    calendar = scheduler.get_calendar("target")
    assert isinstance(calendar, HolidayCalendar)
    assert calendar.excluded_dates == {date(2040, 1, 2), date(2041, 12, 25)}
    assert [layer.kind for layer in calendar.chain()] == ["holiday", "spans", "weekly"]
    record = scheduler.trigger_record(TriggerKey("first"))
    assert record is not None
    assert record.next_fire_time == datetime(2040, 1, 3, 18, tzinfo=UTC)
    assert terminal.ok(*command, "--exit-code") == "nothing to change in calendar target\n"
    [entry] = json.loads(terminal.ok("audit", "--json"))["items"]
    assert (entry["action"], entry["reason"]) == ("refresh_calendar", "the list of 2040")


def test_a_new_calendar_and_wrong_requests(terminal: Terminal, tmp_path: Path) -> None:
    path = tmp_path / "closings.ics"
    path.write_text(EVENTS)
    command = ("refresh", "closings", "--ics", str(path), "--years", "2040-2041")
    assert terminal.ok(*command, "--weekends", "--zone", "Europe/Berlin", "--apply").startswith("+ calendar closings\n")
    calendar = terminal.scheduler.get_calendar("closings")
    assert isinstance(calendar, HolidayCalendar)
    assert (calendar.time_zone, len(list(calendar.chain()))) == ("Europe/Berlin", 3)
    assert terminal.run("refresh", "closings", "--years", "2040").status == 2
    assert terminal.run(*command[:-1], "2041-2040").status == 2
    assert terminal.run("refresh", "closings", "--ics", str(tmp_path / "none.ics"), "--years", "2040").status == 1
