"""A number that Python does not write as text is refused in words, like any other wrong value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from quartzpy import (
    AnyOf,
    CalendarIntervalTrigger,
    CommandJob,
    DailyTimeIntervalTrigger,
    JobDetail,
    RecurrenceTrigger,
    SimpleTrigger,
    cron,
)
from quartzpy.errors import QuartzpyError

HUGE = 10**5_000
WRONG: list[Callable[[Any], Any]] = [
    *(
        lambda value, name=name: JobDetail(CommandJob, "j", **{name: value})
        for name in (
            "durable",
            "requests_recovery",
            "max_concurrent",
            "overlap_policy",
            "retry",
            "pause_after_failures",
        )
    ),
    *(
        lambda value, name=name: SimpleTrigger("t", **{name: value})
        for name in (
            "priority",
            "misfire",
            "catch_up_max",
            "repeat_count",
            "interval",
            "start_time",
            "description",
            "calendar",
        )
    ),
    *(
        lambda value, name=name: DailyTimeIntervalTrigger("t", **{"interval": 1, "unit": "hour", name: value})
        for name in ("interval", "unit", "repeat_count", "start_time_of_day", "dst")
    ),
    *(
        lambda value, name=name: CalendarIntervalTrigger("t", **{"interval": 1, "unit": "day", name: value})
        for name in ("interval", "unit")
    ),
    lambda value: RecurrenceTrigger("t", rule=value),
    lambda value: AnyOf("t", triggers=value),
    lambda value: SimpleTrigger("t", interval="1h").ending_after(-value),
    lambda value: SimpleTrigger("t", interval="1h").upcoming(-value),
    lambda value: SimpleTrigger("t", interval="1h").upcoming(value),
    lambda value: cron.daily_at(value),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_a_huge_number_is_refused_in_words(number: int) -> None:
    with pytest.raises(QuartzpyError):
        WRONG[number](HUGE)
