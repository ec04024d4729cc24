"""What is said to those who mistake one thing for another."""

from __future__ import annotations

import copy
import pickle
from datetime import UTC, datetime, time, timedelta

import pytest

from quartzpy import AsyncScheduler, CronTrigger, JobDetail, Scheduler, every
from quartzpy.calendars.days import WeeklyCalendar
from quartzpy.cron_expressions.crontab import CrontabExpression
from quartzpy.cron_expressions.expression import CronExpression
from quartzpy.errors import CalendarNotFoundError, InvalidCronError, InvalidValueError, JobNotFoundError
from quartzpy.testing import SchedulerHarness
from quartzpy.triggers.daily_time_interval import DailyTimeIntervalTrigger
from tests.facade import jobs


@pytest.mark.parametrize("line", ["CRON_TZ=Europe/Berlin 0 2 * * *", "TZ=Europe/Berlin 0 2 * * *", " tz=X 0 0 2 * * ?"])
@pytest.mark.parametrize("read", [CronTrigger, CronTrigger.from_crontab, CronExpression, CrontabExpression])
def test_a_time_zone_in_the_text_is_an_argument(line: str, read: type[CronTrigger]) -> None:
    with pytest.raises(InvalidCronError, match=r"write '0 .*' with time_zone='(Europe/Berlin|X)'") as raised:
        read(line)
    assert raised.value.position == len(line) - len(line.lstrip())


@pytest.mark.parametrize("line", ["0 2 * * mon-fri\n", "\t0 2 * * mon-fri\r\n", "0 0 2 ? * MON-FRI\n", "@daily\n"])
def test_a_line_may_end_with_its_line_break(line: str) -> None:
    assert CronTrigger(line) == CronTrigger(line.strip())


@pytest.mark.parametrize("line", ["0 2 * *\nmon", "\n"])
def test_a_line_break_separates_no_fields(line: str) -> None:
    with pytest.raises(InvalidCronError):
        CronTrigger(line)


def test_the_refusal_of_two_question_marks_says_what_is_allowed() -> None:
    with pytest.raises(InvalidCronError, match=r"cannot both be '\?'") as raised:
        CronExpression("0 0 12 ? * ?")
    assert raised.value.allowed == "1-7 or SUN-SAT"


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("*/45 * * * * ?", "at seconds 0 and 45 of every minute"),
        ("5/40 * * * * ?", "at seconds 5 and 45 of every minute"),
        ("0 */45 * * * ?", "at minutes 0 and 45"),
        ("*/15 * * * * ?", "every 15 seconds"),
        ("* * 1 * * ?", "every second from 01:00 to 01:59:59"),
        ("* * 9-17 * * ?", "every second from 09:00 to 17:59:59"),
        ("0 * 1 * * ?", "every minute from 01:00 to 01:59"),
    ],
)
def test_a_description_says_when_exactly(expression: str, words: str) -> None:
    assert CronExpression(expression).describe() == f"{words} (UTC)"


@pytest.mark.parametrize("unit", ["seconds", "minutes", "hours", "days", "weeks"])
def test_a_unit_after_an_interval_is_an_argument(unit: str) -> None:
    trigger = every(10)
    with pytest.raises(AttributeError, match=rf"hint: every\({unit}=10\)"):
        getattr(trigger, unit)
    assert pickle.loads(pickle.dumps(trigger)) == copy.deepcopy(trigger) == trigger


def test_a_query_says_how_it_is_counted() -> None:
    scheduler = Scheduler("memory://")
    with pytest.raises(TypeError, match=r"call count\(\)"):
        len(scheduler.jobs())
    with pytest.raises(TypeError, match=r"await count\(\)"):
        len(AsyncScheduler(scheduler).jobs())  # type: ignore[arg-type]
    with pytest.raises(IndexError, match="index 3: the query selects 0 records"):
        scheduler.jobs()[3]
    with pytest.raises(InvalidValueError, match="counted from the front"):
        scheduler.jobs()["job"]  # type: ignore[call-overload]
    assert list(scheduler.jobs()) == sorted(scheduler.jobs()) == []


def test_a_calendar_that_is_not_stored_has_a_nearest_name() -> None:
    scheduler = Scheduler("memory://")
    scheduler.add_calendar("holidays", WeeklyCalendar())
    with pytest.raises(CalendarNotFoundError, match="did you mean 'holidays'"):
        scheduler.schedule_job(JobDetail(jobs.Recorded, "job"), every(10, calendar="holdays"))
    with pytest.raises(CalendarNotFoundError, match="did you mean 'holidays'"):
        scheduler.delete_calendar("holdays")


def test_an_execution_whose_job_is_gone_is_named_by_its_number() -> None:
    scheduler = SchedulerHarness()
    scheduler.schedule_job(JobDetail(jobs.Recorded, "job"), every(10, repeat_count=0))
    [record] = scheduler.advance("1s")
    with pytest.raises(JobNotFoundError) as raised:
        scheduler.run_again(record)
    assert str(raised.value) == (
        f"execution {record.fire_id} cannot run again: its job DEFAULT.job is not stored any more"
    )


def test_the_end_of_a_day_is_found_from_within_its_last_second() -> None:
    end = datetime(2026, 7, 1, 17, tzinfo=UTC)
    trigger = DailyTimeIntervalTrigger(
        "t", interval=1, unit="hour", start_time_of_day=time(9), end_time_of_day=time(17), start_time=end - timedelta(9)
    )
    assert trigger.next_after(end - timedelta(seconds=0.5)) == end
    assert trigger.next_after(end) == end + timedelta(hours=16)
    ending = DailyTimeIntervalTrigger("t", interval=1, unit="hour", start_time=end - timedelta(9), end_time=end)
    assert ending.next_after(end - timedelta(seconds=0.5)) == end
    assert ending.next_after(end) is None
