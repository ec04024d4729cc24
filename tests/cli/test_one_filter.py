"""A filter costs three places: the field of a query, its condition in SQL, and its condition in memory."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from starlette.testclient import TestClient

from quartzpy import Job, JobDetail, JobExecutionContext, Scheduler, SimpleTrigger
from quartzpy.dashboard import create_app
from quartzpy.dashboard.api.reads import READS, of_list
from quartzpy.dashboard.pages import PAGES, PageEntry, list_page
from quartzpy.operations.lists.history import MISFIRES
from quartzpy.operations.lists.table import LISTS
from quartzpy.store.filters import filtered
from quartzpy.store.memory import pages
from quartzpy.store.postgresql import misfire_pages
from quartzpy.store.postgresql.schema import sql_files
from quartzpy.store.queries import MisfireQuery, Position
from quartzpy.store.records import MisfireRecord
from tests.cli.conftest import Terminal
from tests.dashboard.conftest import LOCAL
from tests.waiting import wait_until

# One: the field of the query.


@dataclass(frozen=True, slots=True, kw_only=True)
class WithInstruction(MisfireQuery):
    """Selects misfires, also by the instruction of the trigger."""

    instruction: str | None = filtered(str, "The misfire instruction", hint="do_nothing")


# Two: the condition in the statement of its page.
SQL = r"""
\if :of_instruction
   AND misfire_instruction = :'instruction'
\endif
"""
BEFORE = "   -- include: in_span\n"

# Three: the condition in memory.


def in_memory(query: MisfireQuery, record: MisfireRecord) -> bool:
    return getattr(query, "instruction", None) in (None, record.misfire)


class Report(Job):
    def execute(self, context: JobExecutionContext) -> None: ...


@pytest.fixture(autouse=True)
def one_more_filter(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    read, find = pkgutil.get_data, pages.misfires

    def changed(package: str, path: str) -> bytes | None:
        data = read(package, path)
        if path != "misfire_pages.sql" or data is None:
            return data
        return data.replace(BEFORE.encode(), f"{SQL.lstrip()}{BEFORE}".encode(), 1)

    def misfires(tables: Any, query: MisfireQuery, limit: int | None, after: Position | None) -> list[MisfireRecord]:
        return [record for record in find(tables, query, limit, after) if in_memory(query, record)]

    monkeypatch.setattr(pkgutil, "get_data", changed)
    sql_files._statements.cache_clear()
    monkeypatch.setattr(misfire_pages, "_SQL", sql_files.SqlFile("misfire_pages.sql"))
    monkeypatch.setattr(pages, "misfires", misfires)
    for module in ("quartzpy.operations.operations", "quartzpy.scheduler.methods.queries"):
        monkeypatch.setattr(f"{module}.MisfireQuery", WithInstruction)
    spec = replace(MISFIRES, query=WithInstruction)
    monkeypatch.setitem(LISTS, "misfires", spec)
    reads = [read for read in READS if read.path != "/misfires"]
    monkeypatch.setattr("quartzpy.dashboard.api.app.READS", (*reads, of_list(spec)))
    monkeypatch.setattr("quartzpy.dashboard.api.openapi.READS", (*reads, of_list(spec)))
    entries = [entry for entry in PAGES if entry.path != "/misfires"]
    monkeypatch.setattr("quartzpy.dashboard.app.PAGES", [*entries, PageEntry("/misfires", list_page(spec))])
    yield
    sql_files._statements.cache_clear()


def miss(scheduler: Scheduler) -> None:
    """Let triggers with two instructions misfire."""
    start = datetime.now(UTC) - timedelta(days=1)
    triggers = [
        SimpleTrigger(name, start_time=start, interval="7d", repeat_count=None, misfire=misfire)
        for name, misfire in (
            ("now", "reschedule_now_with_existing_repeat_count"),
            ("next", "reschedule_next_with_existing_count"),
        )
    ]
    scheduler.schedule_job(JobDetail(Report, "report"), triggers)
    scheduler.start()
    wait_until(lambda: scheduler.misfires().count() == 2)


def test_a_filter_costs_three_places(terminal: Terminal) -> None:
    miss(terminal.scheduler)
    assert "The misfire instruction." in terminal.ok("misfires", "--help")
    word = next(iter(terminal.scheduler.misfires())).misfire
    shown = terminal.ok("misfires", "--instruction", word, "--columns", "instruction")
    assert shown.split() == ["INSTRUCTION", word]
    assert "no misfire matches --instruction none" in terminal.run("misfires", "--instruction", "none").err

    client = TestClient(create_app(terminal.scheduler), **LOCAL)
    answer = client.get(f"/api/v1/misfires?instruction={word}").json()
    assert [item["instruction"] for item in answer["items"]] == [word]
    described = client.get("/api/v1/openapi.json").json()["paths"]["/misfires"]["get"]["parameters"]
    assert "The misfire instruction." in [one["description"] for one in described]
    page = client.get(f"/misfires?instruction={word}").text
    assert f'name="instruction" value="{word}" placeholder="do_nothing"' in page
    assert page.count('id="misfire-') == 1


def test_it_selects_in_memory_as_well() -> None:
    with Scheduler("memory://") as memory:
        miss(memory)
        word = next(iter(memory.misfires())).misfire
        page = memory._query(WithInstruction, instruction=word).page(10)
        assert [record.misfire for record in page] == [word]
