"""Lengths of time: every form that a person may write, in every place that takes one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from quartzpy import AllOf, Jitter, RetryPolicy, SchedulerConfig, SimpleTrigger
from quartzpy.errors import InvalidTriggerError, InvalidValueError
from quartzpy.instants import MAX_SPAN, as_span
from quartzpy.jobs.job import JobDetail
from quartzpy.triggers.trigger import Trigger

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (timedelta(seconds=5), 5),
        (5, 5),
        (5.0, 5),
        (0.25, 0.25),
        ("5", 5),
        ("2.5", 2.5),
        ("500ms", 0.5),
        ("250us", 0.00025),
        ("5s", 5),
        (" 1s ", 1),
        ("5 s", 5),
        ("2m", 120),
        ("1h", 3600),
        ("1.5h", 5400),
        ("1h30m", 5400),
        ("1h 30m", 5400),
        ("1d2h3m4s5ms", 93784.005),
        ("7d", 604800),
        ("2w", 1209600),
        (0, 0),
        ("0s", 0),
        (MAX_SPAN, 3155760000),
    ],
)
def test_every_form_of_a_length_of_time(value: object, seconds: float) -> None:
    assert as_span(value, "timeout") == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "value", [None, True, "", " ", "s", "5x", "-5s", "1h-5m", "30m1h", "5s5s", "1_0s", "PT5S", float("nan"), b"5s", [5]]
)
def test_what_is_no_length_of_time_is_refused_with_the_right_forms(value: object) -> None:
    with pytest.raises(InvalidValueError, match=r"^timeout: must be a length of time.*'1h30m'.*got "):
        as_span(value, "timeout")


@pytest.mark.parametrize("value", [-1, -0.5, timedelta(-1), "36526d", 10**400, -(10**400), 1e300, "9" * 15 + "w"])
def test_a_length_of_time_out_of_range_is_refused(value: object) -> None:
    with pytest.raises(InvalidTriggerError, match=r"^interval: must be zero or more and at most 36525 days"):
        as_span(value, "interval", InvalidTriggerError)


@pytest.mark.parametrize("value", [0, "0s", timedelta(), 1e-9])
def test_zero_is_refused_where_it_has_no_meaning(value: object) -> None:
    with pytest.raises(InvalidValueError, match=r"^retention: must be above zero"):
        as_span(value, "retention", above_zero=True)


def test_reading_a_long_text_takes_no_time() -> None:
    with pytest.raises(InvalidValueError):
        as_span("1w" + " " * 100_000 + "x", "timeout")


def _every(span: Any) -> Trigger:
    return SimpleTrigger("t", start_time=START, interval=span, repeat_count=None)


@pytest.mark.parametrize("span", [90, 90.0, "90s", "1m30s", timedelta(seconds=90)])
@pytest.mark.parametrize(
    "taken",
    [
        lambda span: SimpleTrigger(interval=span, repeat_count=1).interval,
        lambda span: SimpleTrigger(misfire_threshold=span).misfire_threshold,
        lambda span: (
            SimpleTrigger(interval="10s", repeat_count=None, misfire="fire_all", catch_up_within=span).catch_up_within
        ),
        lambda span: Jitter(trigger=_every("1h"), up_to=span).up_to,
        lambda span: AllOf(triggers=(_every("1h"), _every("2h")), threshold=span).threshold,
        lambda span: RetryPolicy(delay=span).delay,
        lambda span: RetryPolicy(max_delay=span).max_delay,
        lambda span: JobDetail("a.module:function", timeout=span).timeout,
        lambda span: SchedulerConfig(idle_wait=span).idle_wait,
        lambda span: SchedulerConfig(history_retention=span).history_retention,
    ],
)
def test_wherever_a_length_of_time_is_meant_every_form_is_taken(taken: Callable[[Any], timedelta], span: Any) -> None:
    assert taken(span) == timedelta(seconds=90)
