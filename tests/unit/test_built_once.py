"""What is stored is built and checked once on its way in, and decoded without the checks on its way out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, timedelta, timezone
from typing import Any, ClassVar

import pytest

from quartzpy.errors import InvalidTriggerError
from quartzpy.jobs.job import JobDetail
from quartzpy.keys import JobKey
from quartzpy.scheduler.coercion import as_job_detail
from quartzpy.store.postgresql.schema.rows import TriggerColumns
from quartzpy.triggers.business_days import BusinessDayTrigger, Rolled
from quartzpy.triggers.calendar_interval import CalendarIntervalTrigger
from quartzpy.triggers.combined import AnyOf, Jitter
from quartzpy.triggers.cron import CronTrigger
from quartzpy.triggers.daily_time_interval import DailyTimeIntervalTrigger
from quartzpy.triggers.fixed_delay import FixedDelayTrigger
from quartzpy.triggers.recurrence import RecurrenceTrigger
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.trigger import _KINDS, Trigger
from quartzpy.triggers.upcoming import prepare

START = datetime(2026, 3, 29, 0, 30, tzinfo=UTC)
LATE = {"misfire": "fire_all", "catch_up_max": 3, "catch_up_within": "1h"}
COPIED: list[Trigger] = [
    SimpleTrigger("t", "g", "90s", 7, **LATE),
    SimpleTrigger("t", "g", "90s", 7, rescheduled_from=(START, 9), misfire="fire_now"),
    CronTrigger("0 0 2 ? * MON-FRI", "t", "g", time_zone="Europe/Berlin", dst="quartz"),
    CronTrigger("H H * * *", "t", "g", day_or=False, **LATE),
    CalendarIntervalTrigger("t", "g", interval=2, unit="month", time_zone="Europe/Berlin"),
    DailyTimeIntervalTrigger("t", "g", interval=1, unit="hour", start_time_of_day=time(9), days_of_week=[1, 2]),
    FixedDelayTrigger("5m", "t", "g"),
    RecurrenceTrigger("t", "g", rule="FREQ=MONTHLY;BYDAY=-1FR", time_zone="Europe/Berlin"),
    BusinessDayTrigger("t", "g", nth=[1, -1], at=["09:00", "18:00"], time_zone="Europe/Berlin", calendar="target"),
]
DERIVED: list[Trigger] = [
    AnyOf("t", "g", triggers=[CronTrigger("0 0 2 * * ?"), SimpleTrigger(interval="1h")]),
    Jitter("t", "g", trigger=CronTrigger("0 0 2 * * ?"), up_to="1s"),
    Rolled("t", "g", trigger=CronTrigger("0 0 2 * * ?"), roll="preceding", offset=2, calendar="target"),
]


def with_all(trigger: Trigger) -> Trigger:
    """The trigger with values that all kinds have, as it is stored."""
    return replace(
        trigger,
        job_key=JobKey("j", "jobs"),
        description="said",
        start_time=START,
        end_time=START + timedelta(days=400),
        priority=9,
        calendar="holidays",
        data={"n": 1},
        misfire_threshold="5s",
    )


def read(trigger: Trigger, **others: Any) -> Trigger:
    """The trigger as it is read from its row, on which `others` are different."""
    columns = TriggerColumns.of(trigger)
    return columns._replace(**{"trigger_data": '{"n": 1}', **others}).trigger()


@contextmanager
def unbuilt(monkeypatch: pytest.MonkeyPatch, cls: type) -> Iterator[None]:
    """Fail if a constructor of the class checks values."""

    def refuse(self: object) -> None:
        raise AssertionError(f"a {cls.__name__} is checked")

    with monkeypatch.context() as patched:
        patched.setattr(cls, "__post_init__", refuse)
        yield


@pytest.mark.parametrize("trigger", [*COPIED, *DERIVED], ids=lambda trigger: trigger.kind)
def test_a_stored_trigger_is_read_as_it_was_checked(trigger: Trigger) -> None:
    whole = with_all(trigger)
    for _ in range(2):
        found = read(whole)
        assert found == whole
        assert type(found.misfire) is type(whole.misfire)
        assert found.upcoming(20) == whole.upcoming(20)


@pytest.mark.parametrize("trigger", COPIED, ids=lambda trigger: trigger.kind)
def test_a_schedule_that_was_read_is_not_checked_again(trigger: Trigger, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = with_all(trigger)
    read(whole)
    with unbuilt(monkeypatch, type(trigger)), unbuilt(monkeypatch, JobKey):
        other = read(whole, trigger_name="other", priority=1)
    assert other == replace(whole, name="other", priority=1)
    assert read(whole).name == "t"


def test_fire_times_are_computed_in_utc_whatever_the_time_zone_of_the_connection() -> None:
    whole = with_all(COPIED[0])
    here = timezone(timedelta(hours=2))
    found = read(whole, start_time=START.astimezone(here), end_time=(START + timedelta(days=1)).astimezone(here))
    assert found.anchor.tzinfo is UTC
    assert found.end_time is not None
    assert found.end_time.tzinfo is UTC


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ({"schedule": '{"interval_us": 1, "repeat_count": null}'}, "interval: must be at least 1 ms"),
        ({"schedule": '{"interval_us": 1000}'}, "'repeat_count' is missing"),
        ({"misfire_instruction": "later"}, "misfire: simple triggers accept"),
        ({"kind": "sundial"}, "kind: one of"),
    ],
)
def test_what_a_release_cannot_read_is_refused_each_time(others: dict[str, Any], message: str) -> None:
    for _ in range(2):
        with pytest.raises(InvalidTriggerError, match=message):
            read(with_all(SimpleTrigger("t", "g", "90s", 7)), **others)


def test_a_kind_of_a_user_is_built_by_its_constructor(monkeypatch: pytest.MonkeyPatch) -> None:
    # The definition registers the kind, which the end of the test removes.
    monkeypatch.setitem(_KINDS, "named", SimpleTrigger)

    @dataclass(frozen=True)
    class Named(SimpleTrigger):
        kind: ClassVar[str] = "named"

        def __post_init__(self) -> None:
            super().__post_init__()
            object.__setattr__(self, "shout", (self.name or "").upper())

    stored = with_all(Named("t", "g", "90s", 7))
    assert read(stored, trigger_name="other").__dict__["shout"] == "OTHER"
    assert Named("t").anchored(START).__dict__["shout"] == "T"


@pytest.mark.parametrize("trigger", COPIED, ids=lambda trigger: trigger.kind)
def test_a_trigger_that_starts_when_it_is_stored_is_not_built_again(
    trigger: Trigger, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = START + timedelta(microseconds=700_001)
    built = replace(trigger, start_time=now)
    with unbuilt(monkeypatch, type(trigger)):
        prepared = prepare(trigger, now, None)
    assert prepared.trigger == built
    assert prepared.trigger.start_time == built.start_time


@pytest.mark.parametrize("trigger", [*COPIED, *DERIVED], ids=lambda trigger: trigger.kind)
def test_a_trigger_that_ended_before_it_is_stored_is_refused(trigger: Trigger) -> None:
    ended = replace(trigger, end_time=START)
    with pytest.raises(InvalidTriggerError, match="is before start_time"):
        ended.anchored(START + timedelta(hours=1))


def work() -> None:
    """Does nothing."""


def test_the_job_of_a_function_is_built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    checks: list[str] = []
    check = JobDetail.__post_init__

    def counted(self: JobDetail) -> None:
        checks.append(self.name)
        check(self)

    monkeypatch.setattr(JobDetail, "__post_init__", counted)
    detail = as_job_detail(work, None, "g", None, {}).with_defaults({})
    assert checks == ["work"]
    assert detail.key is detail.key
    assert detail.key == JobKey("work", "g")
