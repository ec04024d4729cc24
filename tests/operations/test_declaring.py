"""A file of declarations that an operator applies: each change is recorded in the audit log."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest

from quartzpy.calendars.days import HolidayCalendar, WeeklyCalendar
from quartzpy.calendars.registry import calendar_to_json
from quartzpy.calendars.times import CronCalendar
from quartzpy.errors import CalendarNotFoundError, ForbiddenError, InvalidValueError
from quartzpy.operations import Actor, Operations, Role
from quartzpy.scheduler import rehearsal
from quartzpy.scheduler.sync import Declarations
from tests.contract.harness import REPORT, every, job


def declared(**values: Any) -> Declarations:
    one = job("declared", data={"region": "eu", "api_token": "s3cr3t"}, **values)
    return Declarations([(one, [every(60, "declared", calendar="closed")])], {"closed": WeeklyCalendar({1})})


def test_every_change_of_a_file_is_recorded_with_the_values_before_and_after(operations: Operations) -> None:
    operations.actions.apply(declared(), owner="app", reason="the new release")
    rows = operations.audit_log()
    assert {(row.action, row.reason, str(row.state), row.count) for row in rows} == {
        ("apply", "the new release", "SUCCEEDED", 1)
    }
    assert {row.subject: (row.before, row.after) for row in rows} == {
        "calendar closed": (None, {"kind": "weekly"}),
        "job DEFAULT.declared": (None, {"type": REPORT}),
        "trigger DEFAULT.declared": (None, {"schedule": "every 1m"}),
    }
    operations.actions.apply(declared(), owner="app")
    assert len(operations.audit_log()) == 3, "nothing has changed"
    changed = declared(description="moved", max_concurrent=2)
    new = Declarations(
        [(replace(one, data={"region": "us", "api_token": "n3w"}), triggers) for one, triggers in changed.jobs],
        changed.calendars,
    )
    operations.actions.apply(new, owner="other")
    rows = {row.subject: row for row in operations.audit_log(limit=3)}
    assert rows["job DEFAULT.declared"].before == {
        "description": None,
        "data": {"region": "eu", "api_token": "[redacted]"},
        "max_concurrent": None,
    }
    assert rows["job DEFAULT.declared"].after == {
        "description": "moved",
        "data": {"region": "us", "api_token": "[redacted]"},
        "max_concurrent": 2,
    }
    assert rows["calendar closed"].after == {"owner": "other"}
    operations.actions.apply(Declarations([]), owner="other", prune=True)
    rows = {row.subject: row for row in operations.audit_log(limit=3)}
    assert rows["job DEFAULT.declared"].after is None
    assert rows["job DEFAULT.declared"].before["mode"] == "ENABLED"
    assert rows["trigger DEFAULT.declared"].before["state"] == "WAITING"
    assert rows["calendar closed"].before == {"kind": "weekly", "time_zone": "UTC", "excluded_days": [1]}


def test_a_file_that_cannot_be_applied_is_recorded_as_one_failure(operations: Operations) -> None:
    with pytest.raises(CalendarNotFoundError):
        operations.actions.apply(Declarations(declared().jobs), owner="app")
    [row] = operations.audit_log()
    assert (row.subject, str(row.state)) == ("owner app", "FAILED")
    assert row.error is not None
    assert "neither declared nor stored" in row.error
    with pytest.raises(ForbiddenError, match="only an admin may do this"):
        operations.acting_as(Actor("bob", Role.OPERATOR)).actions.apply(declared(), owner="app")
    assert str(operations.audit_log(limit=1)[0].state) == "REFUSED"
    assert not list(operations.scheduler.jobs())


def test_a_long_value_is_recorded_in_part(operations: Operations) -> None:
    long = HolidayCalendar({date(2026, 1, 1) + timedelta(days=number) for number in range(2000)})
    operations.actions.apply(Declarations([], {"closed": HolidayCalendar()}), owner="app")
    operations.actions.apply(Declarations([], {"closed": long}), owner="app")
    [row] = operations.audit_log(limit=1)
    assert len(row.after["excluded_dates"]) < 1000


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_calendar_that_is_too_costly_for_its_triggers_is_refused_and_changes_nothing(
    operations: Operations, monkeypatch: pytest.MonkeyPatch, dry_run: bool
) -> None:
    operations.actions.apply(declared(), owner="app")
    before = list(operations.triggers())
    monkeypatch.setattr(rehearsal, "_STEPS_OF_DEPENDANTS", 100)
    halves = CronCalendar("0-29 * * * * ?", base=CronCalendar("30-59 * * * * ?"))
    with pytest.raises(InvalidValueError, match=r"closed.* is too costly for .*not found within 100 steps"):
        operations.definitions.put_calendar("closed", calendar_to_json(halves), dry_run=dry_run)
    assert operations.definitions.calendar("closed").document["kind"] == "weekly"
    assert list(operations.triggers()) == before
