"""The values of limits that jobs share, and their names on jobs."""

from __future__ import annotations

from datetime import timedelta

import pytest

from quartzpy import JobDetail, Limit, RateLimit
from quartzpy.errors import InvalidJobError, InvalidLimitError

TEN_A_MINUTE = RateLimit(10, per=timedelta(minutes=1))


@pytest.mark.parametrize(
    ("value", "limit", "text"),
    [
        (5, Limit(5), "5"),
        ("5", Limit(5), "5"),
        (0, Limit(0), "0"),
        ("10/min", Limit(rate_limit=TEN_A_MINUTE), "10 per minute"),
        (TEN_A_MINUTE, Limit(rate_limit=TEN_A_MINUTE), "10 per minute"),
        ("5, 10/minute", Limit(5, "10/minute"), "5, 10 per minute"),
        (" 5 ,10/m", Limit(5, TEN_A_MINUTE), "5, 10 per minute"),
    ],
)
def test_a_limit_is_a_number_a_rate_or_both(value: object, limit: Limit, text: str) -> None:
    assert Limit.of(value) == limit
    assert str(limit) == text
    assert Limit.of(str(limit)) == limit


@pytest.mark.parametrize(
    "value", ["", "many", "5 connections", -1, 10_001, True, None, 1.5, "5,", ",5", "0/minute", "5, 5"]
)
def test_what_is_none_is_refused_with_words_that_show_one(value: object) -> None:
    with pytest.raises(InvalidLimitError, match=r"^limit: .*(such as 5|number from|10/minute)"):
        Limit.of(value)


def test_a_job_names_each_of_its_limits_once() -> None:
    assert JobDetail("report", "report", limits=["erp", "crm", "erp"]).limits == ("crm", "erp")
    assert JobDetail("report", "report", limits="erp").limits == ("erp",)
    assert JobDetail("report", "report").limits == ()


@pytest.mark.parametrize("limits", [["e,p"], [""], [5], 5, {"erp": 5}, [f"l{n}" for n in range(9)], ["x" * 61]])
def test_what_names_no_limits_is_refused(limits: object) -> None:
    with pytest.raises(InvalidJobError, match=r"^limits: "):
        JobDetail("report", "report", limits=limits)  # type: ignore[arg-type]
