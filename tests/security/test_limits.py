"""Everything that is stored has a limit, one more than it is refused with the limit's name, and nothing takes long."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from random import Random
from typing import Any

import pytest

from quartzpy import (
    CronTrigger,
    GroupMatcher,
    JobDetail,
    JobKey,
    Scheduler,
    SimpleTrigger,
    TriggerKey,
    errors,
)
from quartzpy.calendars.days import HolidayCalendar, WeeklyCalendar
from quartzpy.calendars.times import CronCalendar
from quartzpy.config.config import SchedulerConfig
from quartzpy.instants import zone
from quartzpy.job_data import MAX_BYTES, decode, encode
from quartzpy.node.workers.error_handling import MAX_ERROR_LENGTH, describe
from quartzpy.texts import quoted, reason, visible
from quartzpy.triggers.calendar_interval import CalendarIntervalTrigger, IntervalUnit
from quartzpy.triggers.combined import AllOf
from tests.facade import jobs
from tests.fuzz.values import Point

LATER = datetime(2090, 1, 1, tzinfo=UTC)


def detail(**values: Any) -> JobDetail:
    return JobDetail(jobs.Recorded, "j", **values)


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth - 1):
        value = [value]
    return value


def bomb() -> Any:
    """Ten lists, each ten times the one below: 11 lists in memory, 10^10 values as JSON."""
    value: Any = ["lol"]
    for _ in range(10):
        value = [value] * 10
    return value


def cron_of(length: int) -> str:
    """An expression of so many characters, an even number."""
    rest = "0 0 10 * * ?"
    return f"{','.join(['0'] * ((length - len(rest)) // 2))},{rest}"


LIMITS: dict[str, tuple[Callable[[], Any], Callable[[], Any], type[Exception], str]] = {
    "a name of 200 characters": (
        lambda: JobKey("é" * 200, "g"),
        lambda: JobKey("é" * 201, "g"),
        errors.InvalidKeyError,
        "job name: 201 characters, at most 200",
    ),
    "a job's description of 1,000": (
        lambda: detail(description="x" * 1_000),
        lambda: detail(description="x" * 1_001),
        errors.InvalidJobError,
        "description: 1001 characters, at most 1000",
    ),
    "a trigger's description of 1,000": (
        lambda: SimpleTrigger("t", description="x" * 1_000),
        lambda: SimpleTrigger("t", description="x" * 1_001),
        errors.InvalidTriggerError,
        "description: 1001 characters, at most 1000",
    ),
    "a calendar's description of 1,000": (
        lambda: WeeklyCalendar(description="x" * 1_000),
        lambda: WeeklyCalendar(description="x" * 1_001),
        errors.InvalidCalendarError,
        "description: 1001 characters, at most 1000",
    ),
    "a cron expression of 250": (
        lambda: CronTrigger(cron_of(250), "t"),
        lambda: CronTrigger(cron_of(252), "t"),
        errors.InvalidCronError,
        "252 characters without needless blanks, at most 250",
    ),
    "a crontab of 250": (
        lambda: CronTrigger.from_crontab("0" + ",0" * 120 + " * * * *", "t"),
        lambda: CronTrigger.from_crontab("0" + ",0" * 125 + " * * * *", "t"),
        errors.InvalidCronError,
        "crontab: 259 characters, at most 250",
    ),
    "a cron calendar of 250": (
        lambda: CronCalendar(cron_of(250)),
        lambda: CronCalendar(cron_of(252)),
        errors.InvalidCalendarError,
        "expression: 252 characters, at most 250",
    ),
    "100,000 excluded dates": (
        lambda: HolidayCalendar(frozenset(date.fromordinal(n) for n in range(1, 100_001))),
        lambda: HolidayCalendar(frozenset(date.fromordinal(n) for n in range(1, 100_002))),
        errors.InvalidCalendarError,
        "excluded_dates: 100001 dates, at most 100000",
    ),
    "data of 1 MiB, whatever the setting": (
        lambda: encode({"a": "x" * (MAX_BYTES - 9)}),
        lambda: encode({"a": "x" * (MAX_BYTES - 8)}),
        errors.InvalidJobDataError,
        "data: 1048577 bytes, at most 1048576, whatever the settings are",
    ),
    "the setting of data's size": (
        lambda: SchedulerConfig(max_job_data_bytes=1_048_576),
        lambda: SchedulerConfig(max_job_data_bytes=1_048_577),
        errors.SettingsError,
        "max_job_data_bytes=1048577 must be from 2 to 1048576",
    ),
    "data 32 deep": (
        lambda: encode({"a": nested(32)}),
        lambda: encode({"a": nested(33)}),
        errors.InvalidJobDataError,
        "nested deeper than 32",
    ),
    "stored data 32 deep": (
        lambda: decode('{"a": ' + "[" * 31 + "1" + "]" * 31 + "}"),
        lambda: decode('{"a": ' + "[" * 32 + "1" + "]" * 32 + "}"),
        errors.InvalidJobDataError,
        "stored data cannot be read: data is nested deeper than 32",
    ),
    "a whole number of 4,300 digits": (
        lambda: encode({"a": 10**4_299 - 1}),
        lambda: encode({"a": 10**5_000}),
        errors.InvalidJobDataError,
        "data['a']: a whole number of more than 4,300 digits cannot be stored",
    ),
    "a limit of an execution group": (
        lambda: SchedulerConfig(execution_groups={"a": 1_000_000}),
        lambda: SchedulerConfig(execution_groups={"a": 10**5_000}),
        errors.SettingsError,
        "execution_groups: the limit of 'a' must be at most 1000000 (got <int>)",
    ),
}


@pytest.mark.parametrize("limit", LIMITS)
def test_a_limit_is_kept_to_the_last_character(limit: str) -> None:
    at_the_limit, beyond, error, message = LIMITS[limit]
    at_the_limit()
    with pytest.raises(error) as caught:
        beyond()
    assert message in str(caught.value)


UNSTORABLE = {
    "a NUL in a job's description": (lambda: detail(description="a\0"), "description: the NUL character at position 1"),
    "a surrogate in a job's description": (lambda: detail(description="\ud800"), "description: not valid Unicode text"),
    "a NUL in a trigger's description": (lambda: SimpleTrigger("t", description="\0"), "description: the NUL"),
    "a trigger's description that is no text": (
        lambda: SimpleTrigger("t", description=5),  # type: ignore[arg-type]
        "description: must be str (got int)",
    ),
    "a NUL in a calendar's description": (lambda: WeeklyCalendar(description="\0"), "description: the NUL character"),
    "a NUL in a key of data": (lambda: encode({"a\0": 1}), "the NUL character cannot be stored in a key"),
    "an instant beyond the years of UTC": (
        lambda: encode({"a": datetime.max.replace(tzinfo=timezone(timedelta(hours=-5)))}),
        "data['a']: 9999-12-31 23:59:59.999999-05:00 is not within the years 1 to 9999 in UTC",
    ),
    "a start beyond the years of UTC": (
        lambda: SimpleTrigger("t", start_time=datetime.min.replace(tzinfo=timezone(timedelta(hours=5)))),
        "start_time: must be within the years 1 to 9999 in UTC",
    ),
    "a time whose zone has no offset without a date": (
        lambda: encode({"a": datetime(2026, 1, 1, tzinfo=zone("Europe/Berlin")).timetz()}),
        "data['a']: the zone of a time without a date has no offset",
    ),
    "a NUL in what a matcher compares": (lambda: GroupMatcher.contains("\0"), "matcher: the group: the NUL character"),
    "a zone of 500 parts": (lambda: zone("Europe/" * 500), "is not known"),
    "a zone that is no text": (
        lambda: CronTrigger("0 0 0 * * ?", time_zone=["UTC"]),  # type: ignore[arg-type]
        "time zone: must be a name such as 'Europe/Berlin', an offset such as '+02:00'",
    ),
    "an expression that is no text": (lambda: CronTrigger(["0"]), "must be str (got list)"),  # type: ignore[arg-type]
    "a label with an escape": (lambda: SchedulerConfig(labels=("\x1b",)), "labels: a label: control character U+001B"),
    "an execution group with a NUL": (lambda: SchedulerConfig(execution_groups={"\0": 1}), "execution_groups: a group"),
    "a span of 10^400 days": (
        lambda: SchedulerConfig.of({"idle_wait": "9" * 400 + "d"}),
        "idle_wait: must be a length of time",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", UNSTORABLE)
def test_what_a_database_cannot_store_is_refused_before_it_is_asked(what: str) -> None:
    act, message = UNSTORABLE[what]
    with pytest.raises(errors.InvalidValueError) as caught:
        act()
    assert message in str(caught.value)


def test_data_that_is_larger_than_memory_is_refused_at_once() -> None:
    shared: dict[str, Any] = {"x" * 100_000: [0] * 1_000}
    for data in ({"a": bomb()}, {"b": [shared] * 1_000}, {"c": [0] * 2_000_000}):
        began = time.thread_time()
        with pytest.raises(errors.InvalidJobDataError, match="has more than 1048576 bytes, which no setting allows"):
            encode(data)
        assert time.thread_time() - began < 5


@pytest.mark.parametrize("value", [1e22, -1e300, 1e16, -0.0, 1e-7, 5e-324, 1.5, 9007199254740993.0])
def test_a_float_comes_back_from_a_database_as_a_float(client: Scheduler, value: float) -> None:
    client.schedule_job(detail(data={"f": value}), SimpleTrigger("t", start_time=LATER))
    stored = client.get_job_detail(JobKey("j", "DEFAULT"))
    assert stored is not None
    assert repr(stored.data) == repr({"f": value})


@pytest.mark.parametrize(
    "stored",
    [
        '{"a": {"$decimal": "x"}}', '{"a": {"$timedelta": 1e400}}', '{"a": {"$timedelta": 99999999999999999999999}}',
        '{"a": NaN}', '{"a": Infinity}', "null", "[" * 100_000, '{"a": ' + "9" * 5_000 + "}", '{"a": {"$bytes": "é"}}',
        '{"a": {"$date": 5}}', '{"a": {"$uuid": 5}}', '{"a": {"$float": []}}', '{"a": {"$enum": []}}',
        '{"a": {"$enum": 1}}',
        '{"a": {"$dataclass": ["tests.fuzz.values:Point", {"nobody": 1}]}}', '{"a": {"$dataclass": [[], {}]}}',
        '{"' + "x" * 5_000_000 + '": 1}',
    ],
    ids=range(17),
)  # fmt: skip
def test_tampered_data_is_an_error_of_ours_and_a_short_one(stored: str) -> None:
    with pytest.raises(errors.InvalidJobDataError) as caught:
        decode(stored)
    assert str(caught.value).startswith("stored data cannot be read: ")
    assert len(str(caught.value)) < 400


class Angry:
    def __repr__(self) -> str:
        raise RuntimeError("no")


def test_whatever_a_value_is_its_place_in_a_message_is_short_and_on_one_line() -> None:
    for value in ("x" * 10**6, bomb(), 10**6_000, Angry(), {"k" * 500: "\x1b[2J"}, Decimal(1), "a\nb\u202e", Point(1)):
        shown = quoted(value)
        assert len(shown) <= 203
        assert shown.isprintable()
    assert quoted("a\nb") == "'a\\nb'"
    assert reason(ValueError("x" * 10**6)).endswith("...")
    assert visible("tüv\x1b") == "tüv\\x1b"


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


def test_what_the_history_keeps_of_an_error_is_bounded_and_can_be_stored() -> None:
    for error in (ValueError("x" * 10_000_000), ValueError("\0\ud800"), Unprintable()):
        kept = describe(error)
        assert len(kept) <= MAX_ERROR_LENGTH + 100
        assert "\0" not in kept
        kept.encode()


NEVER = [
    lambda: CronTrigger("0 0 0 30 2 ?", "t"),
    lambda: CronTrigger("0 0 0 31 4,6,9,11 ?", "t"),
    lambda: CronTrigger("0 0 0 29 2 ? 2101", "t"),
    lambda: CronTrigger("0 0 0 * * ? 1970", "t", start_time=LATER),
    lambda: CronTrigger("0 0 0 ? 2 MON#5 2101", "t", start_time=LATER, time_zone="Europe/Berlin"),
]


@pytest.mark.parametrize("make", NEVER)
def test_an_expression_that_never_fires_is_refused_at_once(client: Scheduler, make: Callable[[], CronTrigger]) -> None:
    client.schedule_job(detail(durable=True), SimpleTrigger("first", start_time=LATER))
    began = time.thread_time()
    with pytest.raises(errors.TriggerNeverFiresError, match=r"will never fire.*it was not stored"):
        client.schedule(make().bound_to(JobKey("j", "DEFAULT")))
    assert time.thread_time() - began < 0.5
    assert client.trigger_keys() == {TriggerKey("first", "DEFAULT")}


def every(seconds: int) -> CalendarIntervalTrigger:
    return CalendarIntervalTrigger(interval=seconds, unit=IntervalUnit.SECOND)


def test_nested_triggers_that_never_agree_share_one_search_limit() -> None:
    """Each level needs as many tries as the ones below together: they must not multiply without end."""
    at_once = timedelta(0)
    whole = AllOf("t", start_time=LATER, threshold=at_once, triggers=(every(2), every(7)))
    for seconds in (11, 13, 17, 19, 23):
        whole = AllOf("t", start_time=LATER, threshold=at_once, triggers=(whole, every(seconds)))
    began = time.thread_time()
    with pytest.raises(errors.ScheduleTooCostlyError):
        whole.next_after(LATER)
    assert time.thread_time() - began < 5


def test_triggers_that_are_put_into_one_another_and_agree_are_found() -> None:
    inner = AllOf("t", start_time=LATER, threshold=timedelta(0), triggers=(every(2), every(7)))
    whole = AllOf("t", start_time=LATER, threshold=timedelta(0), triggers=(inner, every(11)))
    assert whole.next_after(LATER) == LATER + timedelta(seconds=2 * 7 * 11)
    assert whole.next_after(LATER) == LATER + timedelta(seconds=2 * 7 * 11), "no search has less because of another"


def test_the_longest_keys_of_the_widest_characters_fit_the_indexes(client: Scheduler) -> None:
    random = Random(1)

    def widest() -> str:
        return "".join(chr(random.randrange(0x20000, 0x2A6D0)) for _ in range(200))

    job = JobDetail(jobs.Recorded, widest(), widest())
    trigger = SimpleTrigger(widest(), widest(), start_time=LATER)
    client.schedule_job(job, trigger)
    assert client.job_keys() == {job.key}
    client.pause_trigger_group(trigger.group)
    assert client.paused_trigger_groups() == {trigger.group}


HOSTILE = [
    "'; DROP TABLE qrtz_triggers; --",
    "%",
    "_",
    "\\",
    "a%b_c\\d",
    "$1",
    ":name",
    "{0}",
    "%(x)s",
    "</script>",
    "NULL",
]


def test_names_groups_data_and_matchers_are_literal_whatever_they_hold(client: Scheduler) -> None:
    for text in HOSTILE:
        client.schedule_job(
            JobDetail(jobs.Recorded, text, text, description=text, data={text: text}),
            SimpleTrigger(text, text, start_time=LATER, description=text, data={text: [text]}),
        )
    client.schedule_job(JobDetail(jobs.Recorded, "aXbYcZd", "aXbYcZd"), SimpleTrigger("x", "aXbYcZd", start_time=LATER))
    for text in HOSTILE:
        job = client.get_job_detail(JobKey(text, text))
        assert job is not None
        assert (job.description, job.data) == (text, {text: text})
        assert client.job_keys(text) == {JobKey(text, text)}
        for matcher in (GroupMatcher.starts_with(text), GroupMatcher.contains(text), GroupMatcher.ends_with(text)):
            assert client.trigger_keys(matcher) == {
                TriggerKey(other, other) for other in HOSTILE if matcher.matches(other)
            }
        client.pause_trigger_group(GroupMatcher.equals(text))
    assert client.paused_trigger_groups() == set(HOSTILE)
