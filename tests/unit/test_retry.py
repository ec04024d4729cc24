from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quartzpy.errors import InvalidJobError
from quartzpy.jobs.retry import RetryPolicy

S = timedelta(seconds=1)


class Own(ValueError):
    pass


@pytest.mark.parametrize(
    ("policy", "delays"),
    [
        (RetryPolicy(attempts=4, delay=10 * S), [10, 20, 40, None]),
        (RetryPolicy(attempts=4, delay=10 * S, factor=1), [10, 10, 10, None]),
        (RetryPolicy(attempts=5, delay=10 * S, factor=3, max_delay=60 * S), [10, 30, 60, 60, None]),
        (RetryPolicy(attempts=2, delay=0 * S), [0, None]),
    ],
)
def test_the_delays_grow_to_the_longest_and_end(policy: RetryPolicy, delays: list[int | None]) -> None:
    got = [policy.delay_after(attempt, Own()) for attempt in range(1, len(delays) + 1)]
    assert got == [None if delay is None else delay * S for delay in delays]


@pytest.mark.parametrize(
    ("limits", "error", "retried"),
    [
        ({}, Own(), True),
        ({"on": [ValueError]}, Own(), True),
        ({"on": ["ValueError"]}, Own(), True),
        ({"on": [f"{__name__}.Own"]}, Own(), True),
        ({"on": [Own]}, ValueError(), False),
        ({"on": [OSError]}, TimeoutError(), True),
        ({"not_on": [ValueError]}, Own(), False),
        ({"on": [Exception], "not_on": [Own]}, Own(), False),
        ({"on": [Exception], "not_on": [Own]}, ValueError(), True),
    ],
)
def test_only_the_errors_that_are_named_are_retried(limits: dict[str, Any], error: Exception, retried: bool) -> None:
    assert (RetryPolicy(**limits).delay_after(1, error) is not None) == retried


@given(
    st.builds(
        RetryPolicy,
        attempts=st.integers(2, 1000),
        delay=st.timedeltas(timedelta(), timedelta(days=1)),
        factor=st.floats(1, 100),
        max_delay=st.timedeltas(timedelta(), timedelta(days=365)),
        jitter=st.floats(0, 1),
        on=st.lists(st.sampled_from([ValueError, "x.Y", Own])),
    ),
    st.integers(1, 1000),
)
def test_it_never_waits_too_long(policy: RetryPolicy, attempt: int) -> None:
    wait = policy.delay_after(attempt, Own())
    assert wait is None or timedelta() <= wait <= policy.max_delay


@pytest.mark.parametrize(
    "wrong",
    [
        {"attempts": 1},
        {"attempts": 2.5},
        {"attempts": 10**6},
        {"delay": -S},
        {"delay": "soon"},
        {"max_delay": timedelta(days=9999)},
        {"factor": 0.5},
        {"factor": "2"},
        {"jitter": 2},
        {"on": ValueError},
        {"on": "ValueError"},
        {"on": [3]},
        {"not_on": [int]},
    ],
)
def test_wrong_values_are_refused_by_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidJobError, match=next(iter(wrong))):
        RetryPolicy(**wrong)
