"""`skip_next` and `skip_until`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from quartzpy import (
    CronTrigger,
    FixedDelayTrigger,
    JobDetail,
    PublicState,
    Scheduler,
    SimpleTrigger,
    Trigger,
    TriggerKey,
    WeeklyCalendar,
)
from quartzpy.errors import InvalidValueError, TriggerNotFoundError
from quartzpy.events.events import TriggerFinalized
from tests.facade import jobs
from tests.waiting import wait_until

HOUR = timedelta(hours=1)
LATER = datetime(2090, 1, 2, tzinfo=UTC)
KEY = TriggerKey("t")


def stored(client: Scheduler, trigger: Trigger) -> Scheduler:
    client.schedule_job(JobDetail(jobs.Recorded, "job", durable=True, disallow_concurrent=True), trigger)
    return client


def hourly(**how: object) -> SimpleTrigger:
    return SimpleTrigger("t", start_time=LATER, interval=HOUR, **how)  # type: ignore[arg-type]


def next_of(client: Scheduler) -> datetime | None:
    [record] = [one for one in client.triggers() if one.key == KEY]
    return record.next_fire_time


def test_the_next_fire_is_skipped_and_the_schedule_stays(client: Scheduler) -> None:
    stored(client, hourly())
    assert client.skip_next(KEY) == LATER + HOUR
    assert client.skip_next(KEY, 3) == LATER + 4 * HOUR
    assert next_of(client) == LATER + 4 * HOUR


def test_fires_before_an_instant_are_skipped(client: Scheduler) -> None:
    stored(client, CronTrigger("0 0 9 ? * MON-FRI", "t", time_zone="UTC", start_time=LATER))
    assert client.skip_until(KEY, LATER + 10 * 24 * HOUR) == datetime(2090, 1, 12, 9, tzinfo=UTC)
    # It is not moved back.
    assert client.skip_until(KEY, LATER) == datetime(2090, 1, 12, 9, tzinfo=UTC)


def test_what_the_calendar_excludes_is_no_fire_to_skip(client: Scheduler) -> None:
    client.add_calendar("workdays", WeeklyCalendar())
    # 2 January 2090 is a Monday.
    stored(client, CronTrigger("0 0 9 * * ?", "t", time_zone="UTC", start_time=LATER, calendar="workdays"))
    assert client.skip_next(KEY, 5) == datetime(2090, 1, 9, 9, tzinfo=UTC)
    assert client.skip_until(KEY, datetime(2090, 1, 14, tzinfo=UTC)) == datetime(2090, 1, 16, 9, tzinfo=UTC)


def test_a_paused_trigger_stays_paused(client: Scheduler) -> None:
    stored(client, hourly())
    client.pause_trigger(KEY)
    assert client.skip_next(KEY) == LATER + HOUR
    assert client.trigger_state(KEY) is PublicState.PAUSED
    client.resume_trigger(KEY)
    assert next_of(client) == LATER + HOUR


def test_a_trigger_whose_next_fire_follows_from_an_end_skips_too(client: Scheduler) -> None:
    stored(client, FixedDelayTrigger("10s", "t", start_time=LATER))
    assert client.skip_next(KEY, 2) == LATER + timedelta(seconds=20)
    assert client.skip_until(KEY, LATER + HOUR) == LATER + HOUR


def test_a_trigger_that_has_no_fire_left_is_complete(client: Scheduler) -> None:
    finalized: list[TriggerFinalized] = []
    client.listeners.add_listener(finalized.append, TriggerFinalized)
    stored(client, hourly(repeat_count=2))
    assert client.skip_next(KEY, 2) == LATER + 2 * HOUR
    assert client.skip_next(KEY) is None
    assert client.trigger_state(KEY) is PublicState.COMPLETE
    assert client.skip_next(KEY) is None
    wait_until(lambda: finalized)
    assert finalized == [TriggerFinalized(KEY)]


def test_what_cannot_be_skipped_is_refused(client: Scheduler) -> None:
    stored(client, hourly())
    with pytest.raises(TriggerNotFoundError, match=r"trigger DEFAULT\.other is not stored"):
        client.skip_next(TriggerKey("other"))
    for count in (0, -1, True, "2", 10_001):
        with pytest.raises(InvalidValueError, match=r"count: a number from 1 to 10,000"):
            client.skip_next(KEY, count)  # type: ignore[arg-type]
    with pytest.raises(InvalidValueError, match="instant: needs a time zone"):
        client.skip_until(KEY, datetime(2090, 1, 1))
    assert next_of(client) == LATER
