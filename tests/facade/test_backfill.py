"""`backfill`: a job is run for instants of its schedule that are past."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from quartzpy import (
    CronTrigger,
    Job,
    JobDetail,
    JobExecutionContext,
    Scheduler,
    SimpleTrigger,
    TriggerKey,
    WeeklyCalendar,
)
from quartzpy.errors import IllegalStateChangeError, InvalidValueError, TriggerNotFoundError
from quartzpy.scheduler.past_fires import PastFires
from quartzpy.testing.scheduler import SchedulerHarness

KEY = TriggerKey("daily")
MONDAY = datetime(2026, 1, 5, tzinfo=UTC)
DAY = timedelta(days=1)
seen: list[tuple[datetime, str, object]] = []


class Report(Job, type_name="backfill:report"):
    def execute(self, context: JobExecutionContext) -> None:
        seen.append((context.nominal_fire_time, context.execution_key, context.job_data.get("region")))


@pytest.fixture(autouse=True)
def _nothing_seen() -> None:
    seen.clear()


def daily(**how: object) -> CronTrigger:
    return CronTrigger("0 0 6 * * ?", "daily", time_zone="UTC", data={"region": "eu"}, **how)  # type: ignore[arg-type]


def mornings(count: int) -> list[datetime]:
    return [MONDAY + day * DAY + timedelta(hours=6) for day in range(count)]


def test_a_job_is_run_once_for_each_instant_in_order() -> None:
    scheduler = SchedulerHarness()
    scheduler.schedule_job(JobDetail(Report, "report", disallow_concurrent=True), daily())
    before = scheduler.trigger_record(KEY)
    handles = scheduler.backfill(KEY, MONDAY, MONDAY + 3 * DAY)
    records = scheduler.run_pending()
    assert [at for at, _, _ in seen] == mornings(3)
    assert [key for _, key, _ in seen] == [
        f"DEFAULT.daily@{at.isoformat(timespec='milliseconds')}" for at in mornings(3)
    ]
    assert {region for _, _, region in seen} == {"eu"}
    assert [record.trigger_key for record in records] == [handle.key for handle in handles]
    after = scheduler.trigger_record(KEY)
    assert before is not None
    assert after is not None
    assert (after.progress, after.generation) == (before.progress, before.generation)


def test_a_dry_run_tells_the_instants_and_the_end_is_not_among_them(client: Scheduler) -> None:
    client.schedule_job(JobDetail(Report, "report"), daily())
    assert client.backfill_times(KEY, mornings(1)[0], mornings(3)[-1]) == mornings(2)
    assert client.trigger_keys() == {KEY}


def test_the_calendar_of_the_trigger_is_heeded(client: Scheduler) -> None:
    client.add_calendar("workdays", WeeklyCalendar())
    client.schedule_job(JobDetail(Report, "report"), daily(calendar="workdays"))
    found = client.backfill_times(KEY, MONDAY, MONDAY + 8 * DAY)
    assert [at.isoweekday() for at in found] == [1, 2, 3, 4, 5, 1]


def test_an_interval_has_no_instants_before_its_start(client: Scheduler) -> None:
    hourly = SimpleTrigger("daily", start_time=MONDAY + DAY, interval=timedelta(hours=1))
    client.schedule_job(JobDetail(Report, "report"), hourly)
    found = client.backfill_times(KEY, MONDAY, MONDAY + DAY + timedelta(hours=2))
    assert found == [MONDAY + DAY, MONDAY + DAY + timedelta(hours=1)]
    assert client.backfill(KEY, MONDAY, MONDAY + DAY) == []


def test_what_cannot_be_backfilled_is_refused_and_nothing_is_stored(client: Scheduler) -> None:
    client.schedule_job(JobDetail(Report, "report"), daily())
    with pytest.raises(InvalidValueError, match=r"has more than max_runs=2 fire times"):
        client.backfill(KEY, MONDAY, MONDAY + 9 * DAY, max_runs=2)
    with pytest.raises(InvalidValueError, match="until: must be after since"):
        client.backfill(KEY, MONDAY, MONDAY)
    with pytest.raises(InvalidValueError, match="since: needs a time zone"):
        client.backfill(KEY, datetime(2026, 1, 1), MONDAY)
    with pytest.raises(InvalidValueError, match="max_runs: a number from 1 to 10,000"):
        client.backfill(KEY, MONDAY, MONDAY + DAY, max_runs=0)
    with pytest.raises(TriggerNotFoundError, match="other is not stored"):
        client.backfill("other", MONDAY, MONDAY + DAY)
    client.pause_all()
    with pytest.raises(IllegalStateChangeError, match="everything is paused"):
        client.backfill(KEY, MONDAY, MONDAY + DAY)
    client.resume_all()
    client.set_mode("report", "DISABLED")
    with pytest.raises(IllegalStateChangeError, match="is disabled"):
        client.backfill(KEY, MONDAY, MONDAY + DAY)
    assert client.trigger_keys() == {KEY}


@pytest.mark.parametrize(
    ("schedule", "span"),
    [
        ("0 0 6 * * ?", DAY),
        ("0 * * * * ?", timedelta(hours=12)),
        ("0/10 * * * * ?", timedelta(hours=1)),
        ("* * * * * ?", timedelta(minutes=10)),
    ],
)
def test_the_longest_span_is_told_that_does_not_have_too_many_fires(schedule: str, span: timedelta) -> None:
    spans = [timedelta(minutes=10), timedelta(hours=1), timedelta(hours=12), DAY]
    past = PastFires(CronTrigger(schedule, "often", time_zone="UTC", start_time=MONDAY))
    assert past.longest_span(MONDAY, spans, max_runs=1_000) == span
    assert len(past.between(MONDAY - span, MONDAY, max_runs=1_000)) <= 1_000


def test_no_span_is_told_where_each_has_too_many_fires() -> None:
    often = SimpleTrigger("often", interval=timedelta(milliseconds=50), repeat_count=None, start_time=MONDAY)
    assert PastFires(often).longest_span(MONDAY + DAY, [timedelta(minutes=1), DAY], max_runs=1_000) is None
