"""What a declared file may say besides what it says when it is exported."""

from __future__ import annotations

import tomllib
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from quartzpy.calendars.days import HolidayCalendar, WeeklyCalendar
from quartzpy.calendars.years import years_in
from quartzpy.definitions.calendars import read_calendar
from quartzpy.definitions.files import definitions
from quartzpy.definitions.writer import _string
from quartzpy.definitions.yaml_text import parsed_yaml, written_yaml
from quartzpy.embedded.schedule_file import read_schedule
from quartzpy.errors import InvalidValueError, SettingsError
from quartzpy.expect import EACH_FAILURE, Expect
from quartzpy.jobs.join import as_join
from quartzpy.keys import JobKey
from quartzpy.triggers.cron import CronTrigger
from quartzpy.triggers.simple import SimpleTrigger

WEEKENDS = {"kind": "weekly", "excluded_days": [1, 7]}


def job(name: str, **values: Any) -> dict[str, Any]:
    return {"type": "tests.facade.jobs:Recorded", "name": name, **values}


def test_the_word_of_windows_is_one_of_triggers_too() -> None:
    for declared in ({"cron": "0 2 * * *"}, {"kind": "cron", "cron": "0 2 * * *"}, {"expression": "0 2 * * *"}):
        [(_, [trigger])] = definitions({"job": [job("a", trigger=declared)]}, "jobs.yaml").jobs
        assert isinstance(trigger, CronTrigger)
        assert trigger.expression == "0 2 * * *"
    with pytest.raises(SettingsError, match="cron and expression are the same"):
        definitions({"job": [job("a", trigger={"cron": "0 2 * * *", "expression": "0 3 * * *"})]}, "jobs.yaml")


@pytest.mark.parametrize("after", [["a", "b"], {"jobs": ["a", {"job": "b"}]}])
def test_a_name_is_that_of_a_job_of_the_own_group_if_there_is_one(after: Any) -> None:
    document = [
        job("a", group="eod"),
        job("b"),
        job("c", group="eod", after=after, continuations=["a", {"job": "b"}]),
        job("d", group="other", after="a"),
        job("e", group="eod", after="a"),
    ]
    jobs = {detail.name: detail for detail, _ in definitions({"job": document}, "jobs.yaml").jobs}
    assert as_join(jobs["c"].after).keys == (JobKey("a", "eod"), JobKey("b"))
    assert [each.key for each in jobs["c"].continuations] == [JobKey("a", "eod"), JobKey("b")]
    assert as_join(jobs["d"].after).keys == (JobKey("a"),)
    assert as_join(jobs["e"].after).keys == (JobKey("a", "eod"),)


def test_calendars_are_joined_and_made_of_countries() -> None:
    germany = {"country": "DE", "years": "2026-2027", "time_zone": "Europe/Berlin"}
    whole = read_calendar(
        {
            "kind": "joined",
            "description": "both",
            "calendars": [germany, {"country": "US-NY", "years": 2026}, WEEKENDS],
        },
        "here",
    )
    expected = HolidayCalendar.country("DE", years=[2026, 2027], time_zone="Europe/Berlin").joined(
        HolidayCalendar.country("US", subdiv="NY", years=2026), WeeklyCalendar()
    )
    assert (whole.description, [layer.rules() for layer in whole.chain()]) == (
        "both",
        [layer.rules() for layer in expected.chain()],
    )
    below = read_calendar({**germany, "base": WEEKENDS}, "here")
    assert below == HolidayCalendar.country("DE", years=[2026, 2027], time_zone="Europe/Berlin", base=WeeklyCalendar())


@pytest.mark.parametrize(
    ("table", "answer"),
    [
        ({"country": "DE"}, "here: years is missing"),
        ({"country": "DE", "years": "soon"}, "years: such as 2027, 2027-2029"),
        ({"country": "DE", "exchange": "XNYS", "years": 2026}, "country or exchange"),
        ({"country": "Atlantis", "years": 2026}, "Atlantis"),
        ({"kind": "joined"}, "here: calendars is a list"),
        ({"kind": "joined", "calendars": []}, "here: calendars is a list"),
        ({"kind": "joined", "calendars": [{"kind": "lunar"}]}, "lunar"),
        ({"kind": "joined", "calendars": [WEEKENDS], "base": WEEKENDS}, "'base' is not known"),
        ({"kind": "joined", "calendars": [WEEKENDS] * 33}, "32 calendars"),
    ],
)
def test_a_calendar_that_cannot_be_made_is_refused(table: Any, answer: str) -> None:
    with pytest.raises(InvalidValueError, match=answer):
        read_calendar(table, "here")


def test_years_are_one_or_a_range_or_a_list() -> None:
    assert years_in("2026") == [2026]
    assert years_in("2026-2028") == [2026, 2027, 2028]
    assert years_in("2026,2027, 2030-2031") == [2026, 2027, 2030, 2031]
    for wrong in ("", "2026-", "2028-2026", "26", "2026;2027", "1000-3000", None, 2026):
        with pytest.raises(InvalidValueError, match="years"):
            years_in(wrong)


def test_an_imported_cron_line_becomes_an_interval_by_one_edit(tmp_path: Path) -> None:
    path = tmp_path / "schedule.yaml"
    text = "time_zone: Europe/Berlin\njobs:\n  a:\n    command: /bin/true\n    schedule: every 15s\n"
    text += "    time_zone: Europe/Berlin\n"
    for misfire, instruction in (("do_nothing", "reschedule_next_with_remaining_count"), ("fire_once_now", "fire_now")):
        path.write_text(f"{text}    misfire: {misfire}\n")
        [(_, [trigger])] = read_schedule(path).declarations.jobs
        assert isinstance(trigger, SimpleTrigger)
        assert (trigger.interval, str(trigger.misfire)) == (timedelta(seconds=15), instruction)


@pytest.mark.parametrize("character", ["\u202e", "\u200b", "\u00a0", "\x7f", "\x1b", "\U000e0041", "\ufeff", "\u2066"])
def test_no_file_that_is_written_hides_a_character(character: str) -> None:
    text = f'a{character}"b\\'
    toml, yaml = f"x = {_string(text)}", written_yaml({"x": text, text: 1, "lines": f"a\n{character}\n"})
    assert toml.isprintable()
    assert yaml.replace("\n", "").isprintable()
    assert tomllib.loads(toml) == {"x": text}
    assert parsed_yaml(yaml, "a.yaml") == {"x": text, text: 1, "lines": f"a\n{character}\n"}


def test_dates_of_a_calendar_are_dates_in_yaml() -> None:
    document = parsed_yaml("kind: holiday\nexcluded_dates: [2026-12-24, '2026-12-31']", "a.yaml")
    calendar = read_calendar(document, "here")
    assert isinstance(calendar, HolidayCalendar)
    assert calendar.excluded_dates == {date(2026, 12, 24), date(2026, 12, 31)}


@pytest.mark.parametrize(
    ("of_file", "of_job", "is_told"),
    [(None, None, False), (True, None, True), (True, False, False), (None, True, True), (False, True, True)],
)
def test_notify_failures_of_a_file_holds_unless_the_job_says_otherwise(
    tmp_path: Path, of_file: bool | None, of_job: bool | None, is_told: bool
) -> None:
    path = tmp_path / "schedule.yaml"
    text = "" if of_file is None else f"notify_failures: {str(of_file).lower()}\n"
    text += "time_zone: UTC\njobs:\n  a:\n    command: /bin/true\n    schedule: every 15s\n"
    path.write_text(text + ("" if of_job is None else f"    notify_failures: {str(of_job).lower()}\n"))
    [(job, _)] = read_schedule(path).declarations.jobs
    assert job.expect == (Expect(**EACH_FAILURE) if is_told else None)
