"""Names of triggers: one that has none takes the name of its job when it is bound to it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from quartzpy import AnyOf, CronTrigger, Jitter, JobKey, SimpleTrigger, TriggerKey
from quartzpy.errors import InvalidKeyError, InvalidTriggerError
from quartzpy.triggers.trigger import Trigger

JOB = JobKey("report", "billing")
NOON = CronTrigger("0 0 12 * * ?")


@pytest.mark.parametrize(
    ("trigger", "number", "key"),
    [
        (NOON, 1, TriggerKey("report", "billing")),
        (NOON, 2, TriggerKey("report-2", "billing")),
        (CronTrigger("0 0 12 * * ?", group="noon"), 1, TriggerKey("report", "noon")),
        (CronTrigger("0 0 12 * * ?", "noon"), 2, TriggerKey("noon", "DEFAULT")),
        (SimpleTrigger("once", "noon"), 1, TriggerKey("once", "noon")),
    ],
)
def test_an_unnamed_trigger_takes_its_jobs_name_and_group(trigger: Trigger, number: int, key: TriggerKey) -> None:
    bound = trigger.bound_to(JOB, number)
    assert (bound.key, bound.job_key) == (key, JOB)
    assert bound.bound_to(JOB, 7) == bound


def test_the_key_of_an_unnamed_trigger_raises() -> None:
    assert NOON.name is None
    with pytest.raises(InvalidKeyError, match="this cron trigger has no name yet: it takes the name and group of its"):
        _ = NOON.key
    with pytest.raises(InvalidTriggerError, match=r"trigger without a name \(cron\): start_time is not set yet"):
        _ = NOON.anchor


def test_unnamed_triggers_that_say_the_same_are_equal() -> None:
    assert CronTrigger("0 0 12 * * ?") == CronTrigger("0 0 12 * * ?")


def test_a_numbered_name_is_checked() -> None:
    with pytest.raises(InvalidKeyError, match="trigger name: 202 characters, at most 200"):
        NOON.bound_to(JobKey("x" * 200), 2)


def test_the_parts_of_a_trigger_are_named_with_it_so_that_jitter_follows_from_the_name() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    parts = (Jitter(trigger=NOON, up_to="1h"), SimpleTrigger(interval="1d", repeat_count=None))
    named = AnyOf("report", "billing", triggers=parts, start_time=start, job_key=JOB)
    bound = AnyOf(triggers=parts, start_time=start).bound_to(JOB)
    assert bound == named
    assert bound.upcoming(6, start + timedelta(days=1)) == named.upcoming(6, start + timedelta(days=1))
