"""Each statement whose rows are decoded by name selects the columns that its decoder reads, in this order."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import psycopg
import pytest
from psycopg import pq

from quartzpy.errors import InvalidJobError
from quartzpy.jobs.job import JobDetail
from quartzpy.store.postgresql import job_pages, lookups, storing
from quartzpy.store.postgresql.admin import history
from quartzpy.store.postgresql.execution_pages import executions_text
from quartzpy.store.postgresql.schema.naming import DEFAULT_NAMES
from quartzpy.store.postgresql.schema.rows import HANDED_OVER, JobColumns, TriggerColumns
from quartzpy.store.postgresql.schema.statement import prepare
from quartzpy.store.postgresql.steps import acquire, checkin, holdings, misfire
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.postgresql.trigger_pages import triggers_text
from quartzpy.store.queries import ExecutionQuery, JobQuery, TriggerOrder, TriggerQuery
from tests.database import libpq_url

QUERIES = {"by_key": TriggerQuery(), "by_next_fire_time": TriggerQuery(order=TriggerOrder.NEXT_FIRE_TIME)}
DECODED = {
    "acquire": (acquire.ACQUIRE, HANDED_OVER),
    "acquire_unlimited": (acquire.ACQUIRE_UNLIMITED, HANDED_OVER),
    "acquire_unlimited_of_one_pool": (acquire.ACQUIRE_UNLIMITED_OF_ONE_POOL, HANDED_OVER),
    "unknown_fires": (holdings.UNKNOWN_FIRES, HANDED_OVER),
    "late": (misfire.LATE, misfire.LATE_TRIGGER),
    "jobs": (lookups.JOBS, JobColumns._fields),
    "jobs of a page": (job_pages.jobs_text(JobQuery(), None), job_pages.JOB_OF_PAGE),
    "triggers": (lookups.TRIGGERS, lookups.STORED_TRIGGER),
    "running": (lookups.RUNNING, lookups.read_running.columns),
    "nodes": (checkin.NODES, checkin.read_node.columns),
    "execution": (lookups.EXECUTION, (*lookups.read_execution.columns, "log")),
    "executions of a page": (executions_text(ExecutionQuery(), None), lookups.read_execution.columns),
    "last": (history.LAST, lookups.read_execution.columns),
    "last_of_job": (history.LAST_OF_JOB, lookups.read_execution.columns),
    "attempts": (history.ATTEMPTS, ("root", "place", *lookups.read_execution.columns)),
    **{name: (triggers_text(query, None), lookups.STORED_TRIGGER) for name, query in QUERIES.items()},
}


@pytest.mark.parametrize(("text", "columns"), DECODED.values(), ids=DECODED)
def test_a_statement_selects_the_columns_that_its_decoder_reads(
    make_store: Callable[..., SqlJobStore], postgres_dsn: str, text: str, columns: Sequence[str]
) -> None:
    make_store(name="columns")
    with psycopg.connect(libpq_url(postgres_dsn)) as connection:
        prepared = connection.pgconn.prepare(b"it", prepare("it", text, DEFAULT_NAMES).sql)
        assert prepared.status == pq.ExecStatus.COMMAND_OK, prepared.error_message
        described = connection.pgconn.describe_prepared(b"it")
        selected = [(described.fname(at) or b"").decode() for at in range(described.nfields)]
    assert selected == list(columns)


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        (storing.STORE_JOBS, JobColumns._fields),
        (storing.STORE_NEW_JOBS, JobColumns._fields),
        (storing.STORE_TRIGGERS, TriggerColumns._fields),
        (storing.STORE_NEW_TRIGGERS, TriggerColumns._fields),
    ],
)
def test_a_statement_stores_all_columns(text: str, columns: Sequence[str]) -> None:
    taken = [
        value.removesuffix("_list") for value in prepare("it", text, DEFAULT_NAMES).values if value.endswith("_list")
    ]
    assert taken == list(columns)


def test_a_job_that_is_stored_again_is_replaced_in_all_columns() -> None:
    stored = re.findall(r"(\w+) = (?:excluded|CASE)", storing.STORE_JOBS.partition("DO\n")[2])
    inserted = re.findall(r"\w+", storing.STORE_JOBS.partition("(")[2].partition(")")[0])
    # The jobs that wait for it are those that name it, whatever is stored.
    assert sorted([*stored, "sched_name", "job_group", "job_name", "joined_by"]) == sorted(inserted)


def test_the_address_of_a_row_that_was_changed_by_hand_is_checked() -> None:
    columns = JobColumns.of(JobDetail("a.job", "job", documentation_url="https://wiki.example.com/nightly"))
    assert columns.job().documentation_url == "https://wiki.example.com/nightly"
    with pytest.raises(InvalidJobError, match="an address with http:// or https:// and a host is needed"):
        columns._replace(definition='{"documentation_url": "javascript:alert(1)"}').job()
