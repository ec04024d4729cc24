"""Crontab lines: Debian's rules, the extensions of its peers, and what is refused."""

from __future__ import annotations

import copy
import pickle
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from quartzpy import CronExpression, CrontabExpression, CronTrigger, MaintenanceWindow
from quartzpy.cron_expressions.crontab import is_crontab
from quartzpy.errors import InvalidCronError, InvalidTriggerError, UnknownTimeZoneError
from quartzpy.scheduler.coercion import as_trigger
from quartzpy.triggers.cron import CRONTAB, QUARTZ
from tests.fire_times import first_fire_times

START = datetime(2026, 5, 15, 10, 20, 30, tzinfo=UTC)


def local(expression: CrontabExpression | CronExpression, start: datetime, count: int) -> list[str]:
    zone = ZoneInfo(expression.time_zone)
    return [f"{at.astimezone(zone):%d %H:%M:%S %Z}" for at in expression.upcoming(start, count)]


def days(text: str, count: int, start: datetime = START, **options: bool) -> list[str]:
    return [f"{at:%Y-%m-%d}" for at in CrontabExpression(text, **options).upcoming(start, count)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("*/15 * * * *", ["10:30:00", "10:45:00", "11:00:00"]),
        ("5,10 11 * * *", ["11:05:00", "11:10:00", "11:05:00"]),
        ("@hourly", ["11:00:00", "12:00:00", "13:00:00"]),
        ("@daily", ["00:00:00"] * 3),
        (" @every_minute ", ["10:21:00", "10:22:00", "10:23:00"]),
        ("@EVERY_SECOND", ["10:20:31", "10:20:32", "10:20:33"]),
        ("56-4/4 11 * * *", ["11:00:00", "11:04:00", "11:56:00"]),
        ("@MIDNIGHT", ["00:00:00"] * 3),
        ("*/20 * * * * *", ["10:20:40", "10:21:00", "10:21:20"]),  # six fields begin with seconds
        ("5-5 * * * *", ["11:05:00", "12:05:00", "13:05:00"]),  # croniter reads every minute
        ("5/10 11 * * *", ["11:05:00", "11:15:00", "11:25:00"]),
        ("58-1 * * * *", ["10:58:00", "10:59:00", "11:00:00"]),
        ("0 23-3/2 * * *", ["23:00:00", "01:00:00", "03:00:00"]),  # steps go on through the wrap
        ("0-30/15,40 12 * * *", ["12:00:00", "12:15:00", "12:30:00"]),
    ],
)
def test_the_times_of_a_line(text: str, expected: list[str]) -> None:
    assert [f"{at:%H:%M:%S}" for at in CrontabExpression(text).upcoming(START, 3)] == expected


@pytest.mark.parametrize("field", ["5-5 * * * *", "0 5-5 * * *", "0 0 5-5 * *", "0 0 1 5-5 *", "0 0 * * 5-5"])
def test_a_range_of_one_value_is_that_value_in_each_field(field: str) -> None:
    single = field.replace("5-5", "5")
    assert CrontabExpression(field).upcoming(START, 5) == CrontabExpression(single).upcoming(START, 5)


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("0 0 * * 0", "2026-05-17"),
        ("0 0 * * 7", "2026-05-17"),
        ("0 0 * * mon", "2026-05-18"),
        ("0 0 * * Monday", "2026-05-18"),
        ("0 0 1 january *", "2027-01-01"),
        ("0 0 1 jan *", "2027-01-01"),
        ("0 0 L * *", "2026-05-31"),
        ("0 0 L-3 * *", "2026-05-28"),
        ("0 0 LW * *", "2026-05-29"),  # the 31st is a Sunday
        ("0 0 L-2W * *", "2026-05-29"),
        ("0 0 L-1W * *", "2026-05-29"),  # the 30th is a Saturday
        ("0 0 17W * *", "2026-05-18"),
        ("0 0 W17 * *", "2026-05-18"),  # as croniter writes it
        ("0 0 * * 5#3", "2026-06-19"),
        ("0 0 * * FRI#3", "2026-06-19"),
        ("0 0 * * 5L", "2026-05-29"),
        ("0 0 * * FRIL", "2026-05-29"),
        ("0 0 * * L5", "2026-05-29"),
        ("0 0 * * 7L", "2026-05-31"),
        ("0 0 ? * mon", "2026-05-18"),
        ("@weekly", "2026-05-17"),
        ("@monthly", "2026-06-01"),
        ("@yearly", "2027-01-01"),
        ("0 0 29 2 *", "2028-02-29"),
        ("30 17 30W 2-3 *", "2027-03-30"),  # February has no day 30
    ],
)
def test_the_first_day_of_a_line(text: str, first: str) -> None:
    assert days(text, 1) == [first]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0 0 * * 5-7", ["05-15", "05-16", "05-17", "05-22"]),
        ("0 0 * * 6-1", ["05-16", "05-17", "05-18", "05-23"]),
        ("0 0 * * 7-1", ["05-17", "05-18", "05-24", "05-25"]),
        ("0 0 * * 1-7/3", ["05-17", "05-18", "05-21", "05-24"]),  # Monday, Thursday, Sunday
        ("0 0 * * mon-fri/2", ["05-15", "05-18", "05-20", "05-22"]),
        ("0 0 * * 5/2", ["05-15", "05-17", "05-22", "05-24"]),
        ("0 0 * * */7", ["05-17", "05-24", "05-31", "06-07"]),
        ("0 0 * * 5#3,L1", ["05-15", "05-25", "06-19", "06-29"]),
        ("0 0 30-2 * *", ["05-30", "05-31", "06-01", "06-02"]),
        ("0 0 1W,LW * *", ["05-29", "06-01", "06-30", "07-01"]),
    ],
)
def test_the_days_of_a_line(text: str, expected: list[str]) -> None:
    start = datetime(2026, 5, 14, 12, tzinfo=UTC)
    assert [day.removeprefix("2026-") for day in days(text, 4, start)] == expected


# --- both day fields (Debian's crontab(5))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0 0 20 * mon", ["2026-05-18", "2026-05-20", "2026-05-25"]),  # either
        ("0 0 15 * 5#2", ["2026-06-12", "2026-06-15", "2026-07-10"]),  # croniter: accepted, and never fires
        ("0 0 31 2 0", ["2027-02-07", "2027-02-14", "2027-02-21"]),  # Sundays of February
        ("0 0 */10 * mon", ["2026-06-01", "2026-08-31", "2026-09-21"]),  # "*" in front: both
        ("0 0 */1 * mon", ["2026-05-18", "2026-05-25", "2026-06-01"]),
        ("0 0 13 * */5", ["2026-09-13", "2026-11-13", "2026-12-13"]),
        ("0 0 1-31 * mon", ["2026-05-16", "2026-05-17", "2026-05-18"]),
    ],
)
def test_either_day_matches_unless_a_day_field_begins_with_a_star(text: str, expected: list[str]) -> None:
    assert days(text, 3) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0 0 13 * fri", ["2026-11-13", "2027-08-13", "2028-10-13"]),
        ("0 0 1-7 * mon", ["2026-06-01", "2026-07-06", "2026-08-03"]),
        ("0 0 L * fri", ["2026-07-31", "2027-04-30", "2027-12-31"]),
        ("0 0 * * fri", ["2026-05-22", "2026-05-29", "2026-06-05"]),
    ],
)
def test_with_day_or_false_both_must_match(text: str, expected: list[str]) -> None:
    assert days(text, 3, day_or=False) == expected
    trigger = CronTrigger.from_crontab(text, "t", day_or=False, start_time=START)
    assert [f"{at:%Y-%m-%d}" for at in first_fire_times(trigger, 3)] == expected
    again = CronTrigger.from_schedule(trigger.schedule(), name="t", start_time=START)
    assert again == trigger


def test_quartz_dialect_takes_both_day_fields_where_day_or_says_how_they_combine() -> None:
    with pytest.raises(InvalidCronError, match=r"must be '\?'; or say how they combine: day_or=True .* day_or=False"):
        CronTrigger("0 0 0 13 * FRI", "t")
    both = CronTrigger("0 0 0 13 * FRI", "t", day_or=False, start_time=START)
    assert [f"{at:%Y-%m-%d}" for at in first_fire_times(both, 2)] == ["2026-11-13", "2027-08-13"]
    either = CronTrigger("0 0 0 20 * MON", "t", day_or=True, start_time=START)
    assert [f"{at:%m-%d}" for at in first_fire_times(either, 3)] == ["05-18", "05-20", "05-25"]
    assert CronExpression("0 0 0 ? * MON", day_or=False).upcoming(START, 3) == (
        CronExpression("0 0 0 ? * MON").upcoming(START, 3)
    )
    with pytest.raises(InvalidCronError, match=r"day_or: must be True, False or None \(got 'no'\)"):
        CronTrigger("0 0 0 13 * FRI", "t", day_or="no")  # type: ignore[arg-type]


def test_nearest_workdays_may_be_in_lists_in_quartz_dialect() -> None:
    assert [f"{at:%m-%d}" for at in CronExpression("0 0 0 1W,16 * ?").upcoming(START, 4)] == [
        "05-16",
        "06-01",
        "06-16",
        "07-01",
    ]


# --- six fields, dialects


def test_six_fields_begin_with_seconds_or_end_with_them_with_seconds_last() -> None:
    first = CronTrigger.from_crontab("40 20 10 * * *", "t", start_time=START)
    last = CronTrigger.from_crontab("20 10 * * * 40", "t", start_time=START, seconds_last=True)
    assert first == last
    assert first_fire_times(first, 3) == [START.replace(second=40) + n * timedelta(days=1) for n in range(3)]
    assert CronTrigger.from_schedule(first.schedule(), name="t", start_time=START) == first
    with pytest.raises(InvalidCronError, match="seconds_last needs six fields"):
        CronTrigger.from_crontab("20 10 * * *", "t", seconds_last=True)


@pytest.mark.parametrize("text", ["30 2 * * *", "@daily", " @Daily"])
def test_five_fields_and_aliases_are_crontab_lines_without_a_word(text: str) -> None:
    assert CronTrigger(text, "t") == CronTrigger.from_crontab(text, "t")
    assert CronTrigger(text, "t").dialect == "crontab"
    assert CronTrigger("0 30 2 * * ?", "t").dialect == "quartz"
    with pytest.raises(InvalidCronError, match=r"six|6 or 7 fields"):
        CronTrigger(text, "t", dialect="quartz")


def test_an_expression_is_a_value() -> None:
    expression = CrontabExpression("0  2 * * Mon", "Europe/Berlin", day_or=False)
    assert expression == CrontabExpression("0 2 * * MON", "Europe/Berlin", day_or=False)
    assert pickle.loads(pickle.dumps(expression)) == expression == copy.copy(expression)
    assert expression.text == "0 2 * * MON"
    quartz = CronExpression("0 H 2 * * ?", seed="a")
    assert pickle.loads(pickle.dumps(quartz)) == quartz


# --- changes of the clock: one policy for both dialects


def berlin(text: str, start: str, count: int, dst: str = "once") -> list[str]:
    found = CrontabExpression(text, "Europe/Berlin", dst)  # type: ignore[arg-type]
    return local(found, datetime.fromisoformat(start), count)


def test_in_a_repeated_hour_a_fixed_time_fires_once_and_a_repeating_expression_twice() -> None:
    assert berlin("30 2 * * *", "2026-10-24T20:00Z", 2) == ["25 02:30:00 CEST", "26 02:30:00 CET"]
    fixed = CrontabExpression("30 2 * * *", "Europe/Berlin")
    assert fixed.previous_before(datetime(2026, 10, 25, 12, tzinfo=UTC)) == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    assert berlin("*/30 * * * *", "2026-10-24T23:45Z", 5) == [
        "25 02:00:00 CEST",
        "25 02:30:00 CEST",
        "25 02:00:00 CET",
        "25 02:30:00 CET",
        "25 03:00:00 CET",
    ]


def test_a_fixed_time_that_is_leapt_over_fires_at_the_end_of_the_gap() -> None:
    assert berlin("30 2 * * *", "2026-03-28T12:00Z", 2) == ["29 03:00:00 CEST", "30 02:30:00 CEST"]
    assert berlin("33 30 2 * * *", "2026-03-28T12:00Z", 1) == ["29 03:00:00 CEST"]


def test_a_rhythm_fires_no_time_that_is_leapt_over() -> None:
    assert berlin("30 1-5 * * *", "2026-03-28T23:00Z", 3) == ["29 01:30:00 CET", "29 03:30:00 CEST", "29 04:30:00 CEST"]
    assert berlin("*/20 2 * * *", "2026-03-28T12:00Z", 1) == ["30 02:00:00 CEST"]


def test_the_second_pass_of_half_an_hour_is_not_lost() -> None:
    found = CrontabExpression("*/20 * * * *", "Australia/Lord_Howe")
    times = found.upcoming(datetime(2019, 4, 6, 14, tzinfo=UTC), 9)
    assert [f"{at.astimezone(ZoneInfo(found.time_zone)):%H:%M %Z}" for at in times] == [
        *("01:20 +11", "01:40 +11", "01:40 +1030", "02:00 +1030", "02:20 +1030", "02:40 +1030"),
        *("03:00 +1030", "03:20 +1030", "03:40 +1030"),
    ]


def test_the_policy_of_quartz_holds_for_crontab_lines_too() -> None:
    assert berlin("30 2 * * *", "2026-03-28T12:00Z", 1, "quartz") == ["30 02:30:00 CEST"]
    assert berlin("30 2 * * *", "2026-10-24T20:00Z", 1, "quartz") == ["25 02:30:00 CET"]
    trigger = CronTrigger.from_crontab("30 2 * * *", "t", time_zone="Europe/Berlin", dst="quartz")
    assert trigger.cron.dst == "quartz"


@pytest.mark.parametrize("make", [CronTrigger.from_crontab, CronTrigger])
def test_a_wrong_policy_is_refused(make: type[CronTrigger]) -> None:
    with pytest.raises(InvalidCronError, match=r"dst: must be one of once, quartz \(got 'nonsense'\)"):
        make("30 2 * * *", "x", dst="nonsense")
    with pytest.raises(InvalidCronError, match="dst: must be one of"):
        make("30 2 * * *", "x", dst=["once"])  # type: ignore[arg-type]


# --- backwards


@pytest.mark.parametrize(
    ("text", "before", "expected"),
    [
        ("0 0 * * *", datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 2, 28, tzinfo=UTC)),
        ("0 3 * * *", datetime(2026, 6, 15, 12, tzinfo=UTC), datetime(2026, 6, 15, 3, tzinfo=UTC)),
        ("0 2 * * mon-fri", datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 2, 27, 2, tzinfo=UTC)),
        ("0 0 29 2 *", datetime(2026, 3, 1, tzinfo=UTC), datetime(2024, 2, 29, tzinfo=UTC)),
        ("@yearly", datetime(2026, 1, 1, tzinfo=UTC), datetime(2025, 1, 1, tzinfo=UTC)),
    ],
)
def test_times_of_day_are_found_backwards_too(text: str, before: datetime, expected: datetime) -> None:
    assert CrontabExpression(text).previous_before(before) == expected


def test_backwards_from_a_gap_in_spring() -> None:
    riga = ZoneInfo("Europe/Riga")
    before = datetime(2021, 10, 31, 3, tzinfo=riga)
    found = CrontabExpression("0 3 * * *", "Europe/Riga").previous_before(before)
    assert found == datetime(2021, 10, 30, 3, tzinfo=riga).astimezone(UTC)


def test_a_crontab_with_an_end_knows_its_last_fire_time() -> None:
    end = datetime(2026, 6, 15, 12, tzinfo=UTC)
    trigger = CronTrigger.from_crontab("0 3 * * *", "t", start_time=START, end_time=end)
    assert trigger.final_fire_time == datetime(2026, 6, 15, 3, tzinfo=UTC)


# --- hashed values


def test_a_hashed_value_follows_from_the_key_and_the_field_alone() -> None:
    """The numbers are fixed: nodes of all releases must agree on them."""
    trigger = CronTrigger("H H(0-5) * * *", "nightly", "reports", start_time=START)
    assert [f"{at:%d %H:%M:%S}" for at in first_fire_times(trigger, 2)] == HASHED_NIGHTLY
    quartz = CronTrigger("0 H H(0-5) * * ?", "nightly", "reports", start_time=START)
    assert first_fire_times(quartz, 2) == first_fire_times(trigger, 2)
    assert CrontabExpression("H H(0-5) * * *", seed="reports.nightly").upcoming(START, 2) == first_fire_times(
        trigger, 2
    )
    assert trigger.expression == "H H(0-5) * * *"
    again = CronTrigger.from_schedule(trigger.schedule(), name="nightly", group="reports", start_time=START)
    assert again == trigger
    assert first_fire_times(again, 2) == first_fire_times(trigger, 2)


HASHED_NIGHTLY = ["16 00:18:00", "17 00:18:00"]


def test_hashed_values_spread_over_the_whole_range_and_stay_in_it() -> None:
    minutes = [0] * 60
    for n in range(3_000):
        [at] = first_fire_times(CronTrigger("H * * * *", f"job-{n}", start_time=START), 1)
        minutes[at.minute] += 1
    assert min(minutes) > 20
    assert max(minutes) < 90
    for n in range(200):
        trigger = CronTrigger("H(10-19)/5 H(9-17) H * H", f"job-{n}", start_time=START, day_or=False)
        text = trigger.cron
        for at in text.upcoming(START, 4):
            assert 10 <= at.minute <= 19
            assert 9 <= at.hour <= 17
            assert at.day <= 28
        assert {at.minute % 5 for at in text.upcoming(START, 4)} == {text.upcoming(START, 1)[0].minute % 5}


def test_a_hashed_step_starts_at_a_hashed_value() -> None:
    starts = {
        first_fire_times(CronTrigger("H/15 * * * *", f"job-{n}", start_time=START), 1)[0].minute % 15
        for n in range(300)
    }
    assert starts == set(range(15))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("H * * * *", "'H' is a value that is derived from a seed"),
        ("0 H(9) * * *", "parentheses follow an 'H'"),
        ("0 (9-17) * * *", "parentheses follow an 'H'"),
    ],
)
def test_a_hash_without_a_seed_or_of_another_form_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidCronError, match=message):
        CrontabExpression(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0 H(9-27) * * *", "hours field 'H.9-27.': allowed 0-23"),
        ("0 H(17-9) * * *", "ends before it begins"),
        ("H/60 * * * *", "step must be at most 59"),
    ],
)
def test_a_hash_beyond_its_field_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidCronError, match=message):
        CronTrigger(text, "t")


def test_the_year_has_no_hash() -> None:
    with pytest.raises(InvalidCronError, match="'H' is not possible here"):
        CronTrigger("0 0 0 1 1 ? H", "t")


# --- zones


@pytest.mark.parametrize("zone", ["+02:00", timezone(timedelta(hours=2))])
@pytest.mark.parametrize("dst", ["once", "quartz"])
def test_a_zone_may_be_a_fixed_offset(zone: str, dst: str) -> None:
    for text in ("30 2 * * *", "0 30 2 * * ?"):
        trigger = CronTrigger(text, "t", time_zone=zone, dst=dst, start_time=START)
        assert trigger.time_zone == "+02:00"
        assert first_fire_times(trigger, 2) == [
            datetime(2026, 5, 16, 0, 30, tzinfo=UTC),
            datetime(2026, 5, 17, 0, 30, tzinfo=UTC),
        ]
        assert trigger.cron.previous_before(START) == datetime(2026, 5, 15, 0, 30, tzinfo=UTC)
        assert trigger.describe() == "at 02:30 (+02:00)"


def test_a_zone_may_be_a_zone_object() -> None:
    assert CronTrigger("30 2 * * *", "t", time_zone=ZoneInfo("Europe/Berlin")).time_zone == "Europe/Berlin"  # type: ignore[arg-type]
    assert CronTrigger("30 2 * * *", "t", time_zone=UTC).time_zone == "UTC"  # type: ignore[arg-type]
    assert CronTrigger("30 2 * * *", "t", time_zone=timezone(-timedelta(hours=3, minutes=30))).time_zone == "-03:30"  # type: ignore[arg-type]


def test_an_expression_takes_a_zone_object_too() -> None:
    for expression in (CronExpression, CrontabExpression):
        text = "0 30 2 ? * 2" if expression is CronExpression else "30 2 * * 1"
        found = expression(text, timezone(timedelta(hours=-8)))  # type: ignore[arg-type]
        assert found == expression(text, "-08:00")
        assert found.next_after(START) == datetime(2026, 5, 18, 10, 30, tzinfo=UTC)
        with pytest.raises(UnknownTimeZoneError, match=r"^time zone: "):
            expression(text, ["UTC"])  # type: ignore[arg-type]


def test_a_trigger_in_a_zone_of_a_fixed_offset_is_stored_and_read_back() -> None:
    trigger = CronTrigger.from_crontab("30 2 * * *", "t", time_zone=timezone(timedelta(hours=5, minutes=45)))
    assert trigger.schedule()["time_zone"] == "+05:45"
    assert CronTrigger.from_schedule(trigger.schedule(), name="t") == trigger


@pytest.mark.parametrize("zone", ["Mars/Olympus", "+19:00", "+01:60", "+1", 3, timezone(timedelta(seconds=30))])
def test_a_zone_that_there_is_not_is_refused(zone: str) -> None:
    with pytest.raises(UnknownTimeZoneError, match=r"^time zone: "):
        CronTrigger("30 2 * * *", "t", time_zone=zone)


# --- refused


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("61 * * * *", "minutes field '61': allowed 0-59"),
        ("* * * *", r"expected 5 fields \(minutes, .*\), or 6 with seconds in front \(got 4\)"),
        ("0 0 12 * * ? *", r"got 7\); CronTrigger\(...\) accepts Quartz's dialect"),
        ("R * * * *", "would differ from node to node; use 'H'"),
        ("0 r(1-5) * * *", "would differ from node to node"),
        ("@reboot", "a cluster has no reboot; trigger the job where your program starts"),
        ("@every 5m", r"write every\('5m'\)"),
        ("@never", "allowed @every_second, @every_minute, @hourly, @daily"),
        ("", r"got 0"),
        (None, "must be str"),
        ("a b c d e", "minutes field 'A': 'A' is not a name here"),
        ("*/90 * * * *", "step must be at most 59"),
        ("0 */24 * * *", "step must be at most 23"),
        ("*/0 * * * *", "step must be 1 or more"),
        ("/5 * * * *", r"write \*/5"),
        ("0 0 30 2 *", "no day of any of these months matches"),
        ("0 0 31W 4,6,9 *", "no day of any of these months matches"),
        ("0 0 31 2 */2", "no day of any of these months matches"),
        ("0 0 * * L", "5L is the last Friday of the month; Saturday is SAT"),
        ("0 0 * * 5#6", "after '#' allowed 1-5"),
        ("0 0 * * MON-FRI#1", "one day stands before '#', and a number from 1 to 5 after it"),
        ("0 0 W * *", "'W' is not possible here"),
        ("0\u00a00 * * *", r"got 4\)"),
        ("0 0 * * 8", "allowed 0-7 or SUN-SAT"),
        ("0 0 * * MOND", "'MOND' is not a name here; allowed 0-7 or SUN-SAT"),
        ("0 0 L-31 * *", "at most L-30"),
        ("0 0 1, * *", "an item of the list is empty"),
        ("0 ? * * *", "only for day-of-month and day-of-week"),
        ("5- * * * *", "a value must follow '-'"),
        ("\u0660 * * * *", "unexpected character"),
    ],
)
def test_a_wrong_line_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidCronError, match=message) as caught:
        CrontabExpression(text)
    assert caught.value.allowed or text is None
    assert 0 <= caught.value.position <= len(text or "")


def test_wrong_zones_and_dialects_are_refused() -> None:
    with pytest.raises(UnknownTimeZoneError):
        CrontabExpression("* * * * *", "Mars/Olympus")
    with pytest.raises(InvalidTriggerError, match="dialect: must be 'quartz' or 'crontab'"):
        CronTrigger("* * * * *", dialect="vixie")


@pytest.mark.parametrize(
    ("text", "after", "expected"),
    [
        ("* * * * *", "2026-05-15 10:20:00", "2026-05-15 10:20:01"),
        ("* * * * *", "2026-05-15 10:20:59", "2026-05-15 10:21:01"),
        ("* * * * * *", "2026-05-15 10:20:00", None),
        ("* 10-12 * * * *", "2026-05-15 10:10:30", "2026-05-15 10:13:00"),
        ("* * 10-12 * * *", "2026-05-15 10:10:30", "2026-05-15 13:00:00"),
        ("* * * 15 * *", "2026-05-15 10:10:30", "2026-05-16 00:00:00"),
    ],
)
def test_the_first_second_that_does_not_match(text: str, after: str, expected: str | None) -> None:
    found = CrontabExpression(text).next_invalid_after(datetime.fromisoformat(f"{after}+00:00"))
    assert (f"{found:%Y-%m-%d %H:%M:%S}" if found else None) == expected


@pytest.mark.parametrize("year", [1, 51, 9949, 9999])
def test_the_ends_of_the_calendar_are_no_error(year: int) -> None:
    at = datetime(year, 1, 1, tzinfo=UTC)
    for text in ("0 0 29 2 *", "* * * * *", "0 0 1 1 *"):
        found = CrontabExpression(text)
        assert (found.next_after(at) or datetime.max.replace(tzinfo=UTC)) > at
        assert (found.previous_before(at) or datetime.min.replace(tzinfo=UTC)) <= at


@pytest.mark.parametrize(
    ("text", "is_line"),
    [
        ("0 2 * * SUN", True),
        (" @weekly", True),
        ("@Daily ", True),
        ("0 0 2 ? * SUN", False),
        ("0 0 2 ? * SUN 2090", False),
    ],
)
def test_everything_that_takes_a_cron_text_reads_the_same_dialect(text: str, is_line: bool) -> None:
    dialect = CRONTAB if is_line else QUARTZ
    assert is_crontab(text) is is_line
    assert CronTrigger(text).dialect == dialect
    assert getattr(as_trigger(text), "dialect", None) == dialect
    kind = CrontabExpression if is_line else CronExpression
    assert isinstance(MaintenanceWindow("w", cron=text, duration="1h").expression(), kind)
