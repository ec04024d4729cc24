"""The search by a part of a name beyond the keys and groups that it looks at first."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

from quartzpy import JobDetail, Scheduler, SimpleTrigger
from quartzpy.store.sql.operations import search
from quartzpy.store.sql.store import SqlJobStore

LATER = datetime(2090, 1, 1, tzinfo=UTC)


def test_a_key_is_found_in_any_group_however_many_there_are(
    postgres_dsn: str, store: SqlJobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = Scheduler(postgres_dsn, name=store._session.scheduler)
    for group in ("a", "b", "Rare", "z_1"):
        scheduler.schedule_job(
            JobDetail("x:y", f"job-{group}", group), SimpleTrigger(f"of-{group}", group, start_time=LATER)
        )
    scheduler.shutdown()
    for name in ("FIRST_JOBS", "FIRST_TRIGGERS"):
        monkeypatch.setattr(search, name, getattr(search, name).replace("200000", "1"))
    whole = {name: getattr(search, name) for name in ("ALL_JOBS", "ALL_TRIGGERS")}
    for groups in ("1000", "4", "3", "1"):
        for name, text in whole.items():
            monkeypatch.setattr(search, name, text.replace("1000", groups))
        for part, wanted in (("rare", "Rare.of-Rare"), ("Z_1", "z_1.of-z_1"), ("of-b", "b.of-b")):
            assert [str(key) for key in store.find_keys(part, 5).triggers] == [wanted], (groups, part)
        assert [str(key) for key in store.find_keys("z_", 5).jobs] == ["z_1.job-z_1"]
        assert store.find_keys("zx1", 5).triggers == []
        assert len(store.find_keys("of", 3).triggers) == 3


def test_a_common_part_is_found_without_a_look_at_all_names(
    store: SqlJobStore, connect: Callable[[], psycopg.Connection[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    with connect() as connection:
        connection.execute(
            "INSERT INTO qrtz_job_details (sched_name, job_group, job_name, job_type, is_durable, persists_data,"
            " requests_recovery) SELECT %s, 'g', 'job-' || n, 'x', true, false, false FROM generate_series(1, 50) AS n",
            [store._session.scheduler],
        )
        connection.commit()
    asked: list[str] = []
    read_one = store._session.read_one

    def reading(text: str, **values: Any) -> Any:
        asked.append(text)
        return read_one(text, **values)

    monkeypatch.setattr(store._session, "read_one", reading)
    assert len(store.find_keys("JOB", 10).jobs) == 10
    assert search.ALL_JOBS not in asked
    assert len(store.find_keys("job-11", 10).jobs) == 1
    assert search.ALL_JOBS in asked
