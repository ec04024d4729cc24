"""A trigger that was moved during a read, and then waits before the instant of that read, is found."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from quartzpy.store.postgresql.connection import next_due
from quartzpy.store.postgresql.connection.next_due import NextDueCache

POOLS = ("",)


@pytest.mark.parametrize(("moved_by", "begins"), [(-0.05, False), (0.05, True), (None, True)])
def test_the_next_read_finds_what_was_moved(
    moved_by: float | None, begins: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(next_due, "EXPENSIVE_READ", 0.001)
    expected, at = NextDueCache(), datetime.now(UTC)
    expected.note_read(expected.next_read(POOLS, 0), POOLS, 0, at, [None], 1.0)
    assert expected.next_read(POOLS, 0).sinces == (at,)
    moved_to = None if moved_by is None else at + timedelta(seconds=moved_by)
    expected.note_waiting(moved_to)
    [since] = expected.next_read(POOLS, 0).sinces
    assert since == (at if begins else moved_to)
