"""The rules of a zone as values, and what other rules change of a trigger that is stored."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from quartzpy import CronTrigger, SimpleTrigger
from quartzpy.triggers.renewal import renewed
from quartzpy.triggers.trigger import Trigger, TriggerProgress
from quartzpy.triggers.upcoming import look_ahead
from quartzpy.zone_rules import ZoneRules, _changes, rules_of, tzdata_version, zones_in
from tests.zone_files import zone_directory

HOUR = timedelta(hours=1)


def rules(posix: str, place: Path) -> ZoneRules:
    """Return the rules of a zone that a POSIX text describes."""
    with (zone_directory(place, {"Test": posix}) / "Test").open("rb") as file:
        return ZoneRules("Test", "1", tuple(_changes(ZoneInfo.from_file(file))))


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def test_the_rules_of_a_zone_are_its_offsets() -> None:
    berlin = rules_of("Europe/Berlin")
    assert berlin is not None
    assert berlin.version == tzdata_version()
    place = ZoneInfo("Europe/Berlin")
    for text in ("2026-03-29T00:59:59", "2026-03-29T01:00:00", "2026-10-25T00:59:59", "2026-10-25T01:00:00"):
        assert berlin.offset_at(at(text)) == at(text).astimezone(place).utcoffset()
    assert ZoneRules.from_text("Europe/Berlin", "", berlin.as_text()).digest == berlin.digest
    assert rules_of("Europe/Paris").digest == berlin.digest  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["UTC", "+02:00", "Nowhere/At_All"])
def test_what_never_changes_or_is_not_known_has_no_rules(name: str) -> None:
    assert rules_of(name) is None


@pytest.mark.parametrize(
    ("former", "new", "instant", "same"),
    [
        ("<+03>-3", "<+01>-1", "2026-11-29T10:00", "2026-11-29T12:00"),
        ("<+01>-1", "<+03>-3", "2026-11-29T12:00", "2026-11-29T10:00"),
        ("<+01>-1", "<+01>-1", "2026-11-29T12:00", "2026-11-29T12:00"),
        # The clock shows 02:30, which the new rules skip: the end of the gap.
        ("<+01>-1", "CET-1CEST,M3.5.0,M10.5.0/3", "2026-03-29T01:30", "2026-03-29T01:00"),
        # The end of a gap of the former rules is the first time that they skip.
        ("CET-1CEST,M3.5.0,M10.5.0/3", "<+01>-1", "2026-03-29T01:00", "2026-03-29T01:00"),
        ("CET-1CEST,M3.5.0,M10.5.0/3", "<+01>-1", "2026-06-01T10:00", "2026-06-01T11:00"),
    ],
)
def test_a_time_on_the_clock_keeps_its_place(former: str, new: str, instant: str, same: str, tmp_path: Path) -> None:
    moved = rules(former, tmp_path / "former").same_wall_time(at(instant), rules(new, tmp_path / "new"))
    assert moved == at(same)


def test_zones_are_found_in_what_is_stored() -> None:
    stored = {"triggers": [{"time_zone": "Asia/Tokyo"}, {"schedule": {"rule": "EXDATE;TZID=Europe/Rome:2026"}}], "n": 1}
    assert zones_in(stored) == {"Asia/Tokyo", "Europe/Rome"}


def test_a_version_that_nobody_says_is_a_digest_of_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    versions = set()
    for number, (zones, version) in enumerate(
        [({"Europe/Berlin": "<+01>-1"}, None), ({"Europe/Berlin": "<+02>-2"}, None), ({}, "2031a")]
    ):
        place = zone_directory(tmp_path / str(number), zones, version)
        monkeypatch.setattr("zoneinfo.TZPATH", (str(place),))
        versions.add(tzdata_version.__wrapped__())
    assert "2031a" in versions
    assert len(versions) == 3


# --- what is stored


DAILY = CronTrigger("0 0 13 * * ?", "daily", time_zone="Europe/Berlin", start_time=at("2026-11-01T00:00"))
"""Fires at 12:00 UTC in winter, by the rules of this process."""


def by_other_rules(trigger: Trigger, shift: timedelta, next_at: str) -> tuple[TriggerProgress, list[datetime]]:
    """Return the progress and the upcoming fire times of a trigger that were computed with another offset."""
    progress = TriggerProgress(at(next_at), at(next_at) - timedelta(days=1), 7)
    own = TriggerProgress(at(next_at) - shift)
    return progress, [instant + shift for instant in look_ahead(trigger, own, None).instants]


def renew(trigger: Trigger, shift: timedelta, next_at: str, now: str) -> tuple[datetime | None, list[datetime]] | None:
    progress, upcoming = by_other_rules(trigger, shift, next_at)
    to = renewed(trigger, progress, upcoming, None, now=at(now), shift=lambda instant: instant - shift)
    if to is None:
        return None
    assert to.progress.previous_fire_time == progress.previous_fire_time
    assert to.progress.times_triggered == 7
    return to.progress.next_fire_time, list(to.upcoming.instants)


@pytest.mark.parametrize(
    ("shift", "next_at", "now", "expected"),
    [
        # It has fired at 10:00 on the 29th, and the new instant of that fire comes later that day.
        (-2 * HOUR, "2026-11-30T10:00", "2026-11-29T10:30", "2026-11-30T12:00"),
        (-2 * HOUR, "2026-11-29T10:00", "2026-11-29T09:30", "2026-11-29T12:00"),
        (2 * HOUR, "2026-11-29T14:00", "2026-11-29T11:00", "2026-11-29T12:00"),
        # The new instant has passed: the fire is late.
        (2 * HOUR, "2026-11-29T14:00", "2026-11-29T13:00", "2026-11-29T12:00"),
        # Nobody has fired it, and by the new rules it is not due yet.
        (-2 * HOUR, "2026-11-29T10:00", "2026-11-29T11:00", "2026-11-29T12:00"),
        # It is late by both.
        (-2 * HOUR, "2026-11-29T10:00", "2026-11-29T13:00", "2026-11-29T10:00"),
    ],
)
def test_a_fire_keeps_its_time_on_the_clock(shift: timedelta, next_at: str, now: str, expected: str) -> None:
    answer = renew(DAILY, shift, next_at, now)
    assert answer is not None
    following, upcoming = answer
    assert following == at(expected)
    days = [at("2026-11-30T12:00") + timedelta(days=n) for n in range(9)]
    assert upcoming == [day for day in days if day.date() > at(expected).date()][:8]


def test_what_is_right_is_left_alone() -> None:
    assert renew(DAILY, timedelta(), "2026-11-29T12:00", "2026-11-29T10:00") is None
    quarter = CronTrigger("0 */15 * * * ?", "q", time_zone="Europe/Berlin", start_time=at("2026-11-01T00:00"))
    assert renew(quarter, 2 * HOUR, "2026-11-29T12:15", "2026-11-29T12:10") is None
    simple = SimpleTrigger("s", interval=HOUR, start_time=at("2026-11-01T00:00"))
    assert renew(simple, timedelta(), "2026-11-29T12:00", "2026-11-29T11:10") is None
