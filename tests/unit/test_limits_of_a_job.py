"""The limits of a job: names that it shares with others, and a rate of its own among them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from quartzpy import JobDetail, NoOpJob, RateLimit
from quartzpy.errors import InvalidJobError

TEN = RateLimit(10, per=timedelta(minutes=1))


@pytest.mark.parametrize(
    ("limits", "names", "rate"),
    [
        (["mail", "erp"], ("erp", "mail"), None),
        (["erp", "10/minute"], ("erp",), TEN),
        (["10/minute", TEN, "erp"], ("erp",), TEN),
        ("10/minute", (), TEN),
        (TEN, (), TEN),
        ("erp", ("erp",), None),
    ],
)
def test_a_rate_stands_among_the_limits(limits: Any, names: tuple[str, ...], rate: RateLimit | None) -> None:
    detail = JobDetail(NoOpJob, "n", limits=limits)
    assert (detail.limits, detail.rate_limit) == (names, rate)
    assert detail.with_values({"description": "the same"}).rate_limit == rate


def test_a_rate_beside_shared_limits_may_be_given_by_either_name() -> None:
    assert JobDetail(NoOpJob, "n", limits=["erp"], rate_limit="10/minute") == JobDetail(
        NoOpJob, "n", limits=["erp", "10/minute"]
    )


def test_a_rate_among_changed_limits_replaces_that_of_the_job() -> None:
    detail = JobDetail(NoOpJob, "n", limits=["erp", "10/minute"])
    changed = detail.with_values({"limits": ["5/second"]})
    assert (changed.limits, changed.rate_limit) == ((), RateLimit(5, per=timedelta(seconds=1)))
    assert detail.with_values({"limits": ["crm"]}).rate_limit == TEN


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (
            {"limits": ["10/minute", "5/second"]},
            r"limits: a job has one rate of its own \(got 10 per minute, 5 per sec",
        ),
        ({"limits": ["10/minute"], "rate_limit": "5/second"}, "limits: a job has one rate of its own"),
        ({"limits": ["10/fortnight"]}, 'limits: .*such as "10/minute"|limits: rate_limit'),
        ({"limits": [3]}, "limits: limit: 3 is no name of a limit"),
        ({"limits": 3}, r"limits: a list of names and rates is needed, such as \['erp', '10/minute'\]"),
    ],
)
def test_what_is_no_limit_is_refused(values: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidJobError, match=text):
        JobDetail(NoOpJob, "n", **values)
