"""The values of an expectation."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from typing import Any

import pytest

from quartzpy import Expect, every, job
from quartzpy.definitions.documents import read_trigger_document
from quartzpy.definitions.faults import Faults
from quartzpy.definitions.stored_documents import document_of_declared
from quartzpy.errors import InvalidJobError
from quartzpy.operations.telling.expectations import time_zone_of
from quartzpy.triggers.combined import Jitter
from quartzpy.triggers.cron import CronTrigger

ALL = Expect(starts_within="2m", ends_by="06:00", runs_at_most=timedelta(minutes=30), success=0.99)


@job(expect={"starts_within": "2m"})
def noted() -> None: ...


def test_an_expectation_has_values_of_one_type() -> None:
    assert (ALL.starts_within, ALL.ends_by) == (timedelta(minutes=2), time(6))
    assert Expect.from_text(ALL.as_text()) == ALL
    assert str(ALL) == "starts within 2 min, ends by 06:00, runs at most 30 min, 0.99 of 100 fires succeed"
    assert noted.detail("noted").expect == Expect(starts_within="2m")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "give what is expected"),
        ({"starts_within": "soon"}, "expect: starts_within"),
        ({"ends_by": 360}, 'ends_by must be a wall time without an offset, such as "06:00"'),
        ({"ends_by": "06:00+02:00"}, "without an offset"),
        ({"success": 99.5}, "success must be above 0 and at most 1"),
        ({"success": True}, "success must be above 0"),
        ({"starts_within": 5, "success_among": 20}, "of which success is the share"),
        ({"success": 1, "success_among": 0}, "success_among must be a number"),
        ({"starts_in": 5}, "'starts_in' is unknown"),
    ],
)
def test_a_wrong_value_is_named(values: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidJobError, match=said):
        Expect.of(values)


@pytest.mark.parametrize(("success", "among", "allowed"), [(1, 100, 0), (0.99, 100, 1), (0.995, 100, 0), (0.9, 20, 2)])
def test_the_failures_that_are_allowed_are_exact(success: float, among: int, allowed: int) -> None:
    assert Expect(success=success, success_among=among).failures_allowed == allowed


@pytest.mark.parametrize(
    ("scheduled", "ends_by", "end"),
    [
        (datetime(2026, 3, 2, 1, tzinfo=UTC), "06:00", datetime(2026, 3, 2, 5, tzinfo=UTC)),
        (datetime(2026, 3, 2, 5, tzinfo=UTC), "06:00", datetime(2026, 3, 2, 5, tzinfo=UTC)),
        (datetime(2026, 3, 2, 21, tzinfo=UTC), "06:00", datetime(2026, 3, 3, 5, tzinfo=UTC)),
        # The clock goes from 02:00 to 03:00, at 01:00 UTC.
        (datetime(2026, 3, 28, 23, tzinfo=UTC), "02:30", datetime(2026, 3, 29, 1, tzinfo=UTC)),
        # It goes back from 03:00 to 02:00, at 01:00 UTC.
        (datetime(2026, 10, 24, 23, tzinfo=UTC), "02:30", datetime(2026, 10, 25, 1, 30, tzinfo=UTC)),
        (datetime(2026, 10, 25, 0, 45, tzinfo=UTC), "02:30", datetime(2026, 10, 25, 1, 30, tzinfo=UTC)),
    ],
)
def test_a_wall_time_is_the_next_one_of_the_clock(scheduled: datetime, ends_by: str, end: datetime) -> None:
    assert Expect(ends_by=ends_by).end_of(scheduled, "Europe/Berlin") == end


def test_a_trigger_without_a_time_zone_has_that_of_its_parts_or_utc() -> None:
    cron = CronTrigger("0 0 2 * * ?", time_zone="Europe/Berlin")
    assert time_zone_of(Jitter("j", trigger=cron, up_to="1m")) == "Europe/Berlin"
    assert time_zone_of(every("1h")) == "UTC"


def test_the_document_of_a_trigger_has_its_expectation() -> None:
    trigger = CronTrigger("0 2 * * *", "two", dialect="crontab", expect=ALL).bound_to(noted.detail("noted").key)
    document = document_of_declared(trigger)
    assert document["expect"] == {
        "starts_within": "2m",
        "ends_by": "06:00:00",
        "runs_at_most": "30m",
        "success": 0.99,
    }
    faults = Faults()
    assert read_trigger_document(document, trigger.key, faults) == trigger
    assert faults.entries == []
