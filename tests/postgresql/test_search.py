"""The search in more groups than its first page visits."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from quartzpy import JobDetail, Scheduler, SimpleTrigger
from quartzpy.store.postgresql.admin import admin, search
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.searches import KeySearch

LATER = datetime(2090, 1, 1, tzinfo=UTC)


def test_groups_beyond_those_that_are_visited_are_found_by_the_walk(
    postgres_dsn: str, store: SqlJobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = Scheduler(postgres_dsn, name=store._session.scheduler)
    for group in ("a", "b", "Rare", "z_1"):
        scheduler.schedule_job(
            JobDetail("x:y", f"job-{group}", group), SimpleTrigger(f"of-{group}", group, start_time=LATER)
        )
    scheduler.shutdown()
    for groups in ("1000", "4", "3", "1"):
        few = {kind: text.replace("1000", groups) for kind, text in search.NEAR.items()}
        monkeypatch.setattr(search, "NEAR", few)
        for part, wanted in (("rare", "Rare.of-Rare"), ("Z_1", "z_1.of-z_1"), ("of-b", "b.of-b")):
            found = admin(store).find_keys(KeySearch(part, 5, 100), None)
            assert [str(key) for key in found.triggers] == [wanted], (groups, part)
