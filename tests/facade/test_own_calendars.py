"""A calendar of an application in a cluster: nodes that know its class fire its triggers, others leave them alone."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import ClassVar

import pytest

from quartzpy import JobDetail, PublicState, Scheduler, WholeDayCalendar, every
from quartzpy.calendars.calendar import CALENDAR_KINDS
from quartzpy.errors import UnsupportedKindError
from quartzpy.store.postgresql.schema import rows
from tests.database import connect_to
from tests.facade import jobs
from tests.waiting import wait_until

KIND = "test-leap-days"


@dataclass(frozen=True)
class NoLeapDays(WholeDayCalendar):
    kind: ClassVar[str] = KIND

    since: date = date(2000, 1, 1)

    def excludes_day(self, day: date) -> bool:
        return (day.month, day.day) == (2, 29) and day >= self.since


@pytest.fixture
def url(postgres_dsn: str) -> str:
    """A database: the in-memory store belongs to one process, which has the calendar itself."""
    return postgres_dsn


def test_a_node_leaves_triggers_to_others_until_it_knows_the_class_of_their_calendar(
    make_scheduler: Callable[..., Scheduler],
    postgres_dsn: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    scheduler = make_scheduler()
    calendar = NoLeapDays(date(2024, 1, 1), time_zone="Europe/Berlin")
    scheduler.add_calendar("no-leap-days", calendar)
    assert scheduler.get_calendar("no-leap-days") == calendar
    scheduler.schedule_job(JobDetail(jobs.Recorded, "job"), every("1s", name="often", calendar="no-leap-days"))
    with connect_to(postgres_dsn) as user:
        # The stored fire times would last for a while without the calendar.
        user.execute("UPDATE qrtz_triggers SET upcoming = '{}'")
    monkeypatch.delitem(CALENDAR_KINDS, KIND)
    rows.calendar_from_text.cache_clear()
    with pytest.raises(UnsupportedKindError, match="no class of the kind 'test-leap-days' is defined in this process"):
        scheduler.get_calendar("no-leap-days")
    with caplog.at_level(logging.WARNING):
        scheduler.start()
        wait_until(lambda: "left to other nodes" in caplog.text)
    assert "import the module that defines it" in caplog.text
    assert scheduler.trigger_state("often") is PublicState.NORMAL
    monkeypatch.setitem(CALENDAR_KINDS, KIND, NoLeapDays)
    scheduler.shutdown()
    knowing = make_scheduler()
    knowing.start()
    assert jobs.next_run().trigger_key.name == "often"
