"""A calendar is refreshed on its page and over HTTP; its difference is shown before it is taken."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date

from starlette.testclient import TestClient

from quartzpy import HolidayCalendar, Scheduler, WeeklyCalendar
from quartzpy.operations import Operations
from tests.dashboard.conftest import THIS_USER
from tests.dashboard.test_actions import form_of, url_of

EVENTS = "BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART;VALUE=DATE:20400102\nEND:VEVENT\nEND:VCALENDAR\n"
STORED = HolidayCalendar({date(2040, 12, 25), date(2041, 12, 25)}, base=WeeklyCalendar())


def test_the_form_shows_the_difference_before_it_takes_it(
    open_page: Callable[..., TestClient], scheduler: Scheduler
) -> None:
    scheduler.add_calendar("target", STORED)
    client = open_page(auth=THIS_USER, read_only=False)
    url = url_of("refresh_calendar", calendar="target")
    assert url.replace("&", "&amp;") in client.get("/calendar?name=target").text
    fields = {**form_of(client.get(url).text), "years": "2040", "ics": EVENTS}
    preview = client.post(url, data={**fields, "confirmed": ""}).text
    assert "1 to add, 1 to remove" in preview
    assert "Mon 02 Jan 2040" in preview
    assert "Tue 25 Dec 2040" in preview
    unseen = client.post(url, data=fields)
    assert unseen.status_code == 422
    assert "nothing is stored yet" in unseen.text
    shown = form_of(unseen.text)
    other = client.post(url, data={**fields, "expected": shown["expected"], "years": "2040-2041"})
    assert other.status_code == 422, "it is another difference than the one that was shown"
    assert scheduler.get_calendar("target") == STORED
    wrong = client.post(url, data={**fields, "years": "soon"})
    assert wrong.status_code == 422
    assert "years: such as 2027, 2027-2029 or 2026,2027" in wrong.text
    taken = client.post(
        url, data={**fields, "expected": shown["expected"], "reason": "the list"}, follow_redirects=False
    )
    assert taken.status_code == 303
    stored = scheduler.get_calendar("target")
    assert isinstance(stored, HolidayCalendar)
    assert stored.excluded_dates == {date(2040, 1, 2), date(2041, 12, 25)}
    [entry] = Operations(scheduler).audit_log()
    assert (entry.action, entry.subject, entry.reason) == ("refresh_calendar", "calendar target", "the list")
    assert entry.after == {"added": ["2040-01-02"]}
    assert "refresh_calendar" not in open_page(read_only=True).get("/calendar?name=target").text
