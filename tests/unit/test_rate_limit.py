"""Rate limits: the values that are accepted, and the arithmetic of the generic cell rate algorithm."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quartzpy import JobDetail, RateLimit
from quartzpy.errors import InvalidJobError
from quartzpy.jobs.job import checked_defaults

START = datetime(2026, 3, 2, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MICROSECOND = timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("10/minute", RateLimit(10, per="1m")),
        ("10 / Minute", RateLimit(10, per=60)),
        ("10 per minute", RateLimit(10)),
        ("100/hour", RateLimit(100, per=timedelta(hours=1))),
        ("1/day", RateLimit(1, per="1d")),
        ("5/s", RateLimit(5, per=1)),
        ("5/30s", RateLimit(5, per="30s")),
        ("7/1h30m", RateLimit(7, per="90m")),
    ],
)
def test_a_text_is_a_limit(text: str, limit: RateLimit) -> None:
    assert JobDetail("type", "job", rate_limit=text).rate_limit == limit
    assert RateLimit.from_text(limit.as_text()) == limit


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("ten a minute", r'"10/minute", "100/hour" or "5/30s", or a RateLimit, is needed \(got \'ten a minute\'\)'),
        (10, "is needed"),
        ("10/fortnight", "per"),
        ("0/minute", "limit must be a number from 1"),
        ({"limit": 0}, "limit must be a number from 1"),
        ({"limit": True}, "limit must be a number from 1"),
        ({"limit": 5, "burst": 6}, "burst must be a number from 1 to the limit, 5"),
        ({"limit": 5, "burst": 0}, "burst must be a number"),
        ({"limit": 5, "per": 0}, "per"),
        ({"limit": 5, "per": "2 years"}, "per"),
    ],
)
def test_anything_else_is_refused_with_the_right_form(given: Any, said: str) -> None:
    with pytest.raises(InvalidJobError, match=f"rate_limit: .*{said}"):
        JobDetail("type", "job", rate_limit=RateLimit(**given) if isinstance(given, dict) else given)


@pytest.mark.parametrize("text", ["{}", "[]", '{"limit": 1, "per_us": "x", "burst": 1}', "no json"])
def test_a_stored_limit_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(InvalidJobError, match="rate_limit"):
        RateLimit.from_text(text)


def test_a_key_of_a_rate_limit_needs_no_concurrency_limit() -> None:
    assert JobDetail("type", "job", concurrency_key="customer").max_concurrent == 1
    assert JobDetail("type", "job", concurrency_key="customer", rate_limit="1/s").max_concurrent is None
    assert JobDetail("type", "job", concurrency_key="customer", rate_limit="1/s", max_concurrent=2).max_concurrent == 2


def test_a_scheduler_can_have_a_default() -> None:
    defaults = checked_defaults({"rate_limit": "5/s"})
    assert JobDetail("type", "job").with_defaults(defaults).rate_limit == RateLimit(5, per=1)
    assert JobDetail("type", "job", rate_limit="1/s").with_defaults(defaults).rate_limit == RateLimit(1, per=1)


def test_it_is_shown_as_people_say_it() -> None:
    assert str(RateLimit(10, per="1m")) == "10 per minute"
    assert str(RateLimit(5, per="30s", burst=2)) == "5 per 0:00:30, in bursts of up to 2"


limits = st.builds(
    lambda limit, per, burst: RateLimit(limit, per=per * MICROSECOND, burst=min(limit, burst)),
    st.integers(1, 50),
    st.integers(1, 10**8),
    st.integers(1, 50),
)
waits = st.lists(st.tuples(st.integers(0, 10**8), st.integers(0, 60)), max_size=40)


@given(limits, waits)
def test_no_period_has_more_fires_than_the_limit_and_its_burst_allow(
    limit: RateLimit, waits: list[tuple[int, int]]
) -> None:
    now, tat, fired = START, None, []
    for wait, wanted in waits:
        now += wait * MICROSECOND
        fires = min(wanted, limit.available(tat, now))
        if fires:
            tat = limit.after(tat, now, fires)
            fired += [now] * fires
    most = limit.limit + limit.burst - 1
    assert all(later - earlier >= limit.per for earlier, later in zip(fired, fired[most:], strict=False))


@given(limits, st.lists(st.integers(0, 10**8), min_size=1, max_size=40))
def test_a_fire_conforms_as_soon_as_the_tolerance_before_the_tat_and_not_earlier(
    limit: RateLimit, waits: list[int]
) -> None:
    tat, now = None, START
    for wait in waits:
        now += wait * MICROSECOND
        tat = limit.after(tat, now, limit.available(tat, now))
        opens = tat - limit.tolerance
        assert opens > now
        assert limit.available(tat, opens) == 1
        assert limit.available(tat, opens - MICROSECOND) == 0
        # What a step may leave behind is never corrected later.
        assert limit.bounded(tat, now) == tat


@given(limits, st.integers(0, 100))
def test_a_quiet_time_gives_back_the_whole_burst_and_no_more(limit: RateLimit, quiet: int) -> None:
    tat = limit.after(None, START, limit.available(None, START))
    assert limit.available(None, START) == limit.burst
    later = START + limit.emission_interval * (limit.burst + quiet)
    assert limit.available(tat, later) == limit.burst


def test_a_limit_that_was_raised_does_not_wait_for_the_former_one() -> None:
    tat = RateLimit(1, per="1d").after(None, START, 1)
    assert RateLimit(60, per="1m").bounded(tat, START) == START + SECOND
