"""The network of the chaos suite does what it says: it knows round trips, and loses one where it is told to."""

from __future__ import annotations

import socket
import threading
import uuid
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from quartzpy import Job, JobDetail, JobExecutionContext, Scheduler, SimpleTrigger
from quartzpy.errors import QuartzpyError
from quartzpy.store.postgresql.connection import locks
from quartzpy.store.postgresql.schema.statement import prepare
from quartzpy.store.postgresql.steps import (
    acquire,
    complete,
    holdings,
    misfire,
    plain_completions,
    recover,
)
from tests.chaos import plans
from tests.chaos.network import Network
from tests.chaos.pipelines import Pipeline, PipelineReader, changed_nothing, kind_of
from tests.database import connect_to, libpq_url
from tests.waiting import wait_until

STATEMENTS = {
    name: prepare(name, text).sql.decode()
    for name, text in {
        "lock": locks.LOCK,
        "acquire": acquire.ACQUIRE,
        "acquire_of_one_pool": acquire.ACQUIRE_OF_ONE_POOL,
        "acquire_unlimited": acquire.ACQUIRE_UNLIMITED,
        "acquire_unlimited_of_one_pool": acquire.ACQUIRE_UNLIMITED_OF_ONE_POOL,
        "acquire_next_due": acquire.NEXT_DUE,
        "acquire_reconcile_new": acquire.RECONCILE_NEW,
        "acquire_shared": acquire.ACQUIRE_SHARED,
        "refill": holdings.REFILL,
        "settle": holdings.UNKNOWN_FIRES,
        "complete_record": complete.RECORD,
        "complete_record_but_twice": complete.RECORD_BUT_TWICE,
        "complete_leave": complete.LEAVE,
        "complete_plain": plain_completions.plain_statement(has_details=False, ends_triggers=False),
        "complete_plain_with_everything": plain_completions.plain_statement(has_details=True, ends_triggers=True),
        "misfire_move": misfire.MOVE,
        "recover_record": recover.RECORD,
        "recover_count_deaths": recover.COUNT_DEATHS,
        "recover_forget_repeated": recover.FORGET_REPEATED,
        "recover_repair": recover.REPAIR,
    }.items()
}
"""Statements of the steps, as they are sent."""


class Nothing(Job, type_name="chaos.nothing"):
    def execute(self, context: JobExecutionContext) -> None:
        pass


@pytest.fixture
def network(postgres_dsn: str, tmp_path: Path) -> Iterator[Network]:
    made = Network(postgres_dsn, ["n1"], tmp_path / "proxy.log")
    yield made
    made.close()


@pytest.fixture
def client(network: Network) -> Iterator[Scheduler]:
    made = Scheduler(network.through("n1"), name="chaos-proxy", statement_timeout="1s", lock_timeout="1s")
    yield made
    made.shutdown()


def _schedule(client: Scheduler, name: str) -> None:
    client.schedule_job(JobDetail(Nothing, name), SimpleTrigger(name, interval=timedelta(hours=1), repeat_count=3))


def _stored(dsn: str) -> int:
    with connect_to(dsn, autocommit=False) as connection:
        row = connection.execute("SELECT count(*) FROM qrtz_triggers WHERE sched_name = 'chaos-proxy'").fetchone()
    assert row is not None
    return int(row[0])


def test_round_trips_are_recognized_by_their_statements(network: Network, client: Scheduler) -> None:
    _schedule(client, "one")
    client.pause_all()
    seen = network.tell("stats")["n1"]
    assert seen["schedule"] == 1
    assert seen["pause"] >= 1


@pytest.mark.parametrize(
    ("at", "stored"),
    [
        ("before", 0),
        ("sent", 1),
        ("committed", 1),
        ("half", 0),
    ],
)
def test_a_round_trip_is_lost_at_a_chosen_point(
    network: Network,
    client: Scheduler,
    postgres_dsn: str,
    at: str,
    stored: int,
) -> None:
    # The first call connects and checks the tables.
    client.job_group_names()
    number = network.tell("lose", "n1", kind="schedule", at=at)
    with pytest.raises(QuartzpyError):
        _schedule(client, "one")
    assert len(network.tell("hits")[str(number)]) == 1
    _eventually(postgres_dsn, stored)
    # What was armed is used up.
    _schedule(client, "two")
    _eventually(postgres_dsn, stored + 1)


def test_a_round_trip_is_delayed(network: Network, postgres_dsn: str) -> None:
    """It is delivered, and commits, when its client has long given up."""
    table = f"chaos_late_{uuid.uuid4().hex[:8]}"
    with connect_to(postgres_dsn) as direct:
        direct.execute(f"CREATE TABLE {table} (x int)")
        network.tell("lose", "n1", kind="misfire", at="late", delay=0.2)
        client = psycopg.connect(libpq_url(network.through("n1")), autocommit=True, application_name="a:work")
        stored: list[int] = []

        def give_up() -> None:
            stored.append(_count(direct, table))
            _shut(client)

        patience = threading.Timer(0.5, give_up)
        patience.start()
        with pytest.raises(psycopg.Error):
            _execute(client, "BEGIN", f"INSERT INTO {table} VALUES (1) /* INSERT INTO qrtz_misfires */", "COMMIT")
        patience.join()
        client.close()
        assert stored == [0]
        wait_until(lambda: _count(direct, table) == 1)
        direct.execute(f"DROP TABLE {table}")


def _execute(connection: psycopg.Connection[Any], *statements: str) -> None:
    with connection.pipeline():
        for sql in statements:
            connection.execute(sql.encode(), prepare=False)


def _shut(connection: psycopg.Connection[Any]) -> None:
    with socket.socket(fileno=socket.dup(connection.fileno())) as end:
        end.shutdown(socket.SHUT_RDWR)


def _count(connection: psycopg.Connection[Any], table: str) -> int:
    row = connection.execute(f"SELECT count(*) FROM {table}".encode()).fetchone()
    assert row is not None
    return int(row[0])


def _eventually(dsn: str, stored: int) -> None:
    wait_until(lambda: _stored(dsn) == stored)


def test_nothing_passes_a_black_hole_until_it_is_healed(network: Network, client: Scheduler) -> None:
    client.job_group_names()
    network.tell("gate", "n1", roles=["work"])
    with pytest.raises(QuartzpyError):
        client.pause_all()
    network.tell("heal", "n1")
    client.pause_all()


def _message(kind: bytes, body: bytes) -> bytes:
    return kind + (len(body) + 4).to_bytes(4, "big") + body


def test_bytes_are_divided_into_round_trips_wherever_they_are_split() -> None:
    def statement(sql: bytes) -> list[bytes]:
        return [
            _message(b"P", b"\0" + sql + b"\0\0\0"),
            _message(b"B", b"\0\0\0\0\0\0\0\0"),
            _message(b"E", b"\0\0\0\0\0"),
        ]

    sent = [
        *statement(b"BEGIN ISOLATION LEVEL READ COMMITTED"),
        *statement(b"UPDATE x SET checkin_count = checkin_count + 1"),
        *statement(b"COMMIT"),
        _message(b"S", b""),
    ]
    data = b"".join(sent)
    for size in (1, 7, len(data)):
        reader = PipelineReader()
        found: list[Any] = []
        for place in range(0, len(data), size):
            found += reader.feed(data[place : place + size])
        [pipeline] = found
        assert pipeline.data == data
        assert (pipeline.begins, pipeline.commits, pipeline.kinds) == (True, True, {"check_in"})
        assert pipeline.commit_at is not None
        assert b"".join(pipeline.messages[: pipeline.commit_at]) == b"".join(sent[:6])


def _begun_with(*statements: str) -> Pipeline:
    """Return the round trip of a transaction with the lock and these of `STATEMENTS`, as the proxy reads it."""
    reader = PipelineReader()
    sent = b"".join(
        _message(b"P", b"\0" + sql.encode() + b"\0\0\0") + _message(b"B", b"\0\0\0\0\0\0\0\0")
        for sql in ("BEGIN", *(STATEMENTS[name] for name in ("lock", *statements)), "COMMIT")
    )
    [pipeline] = reader.feed(sent + _message(b"S", b""))
    return pipeline


@pytest.mark.parametrize(
    ("statements", "tags", "nothing"),
    [
        (["acquire", "acquire_next_due"], ["SELECT 0", "SELECT 1"], True),
        (["acquire_unlimited", "acquire_next_due"], ["SELECT 2", "SELECT 1"], False),
        # New triggers are settled first: none, or some.
        (["acquire_reconcile_new", "acquire", "acquire_next_due"], ["UPDATE 0", "SELECT 2", "SELECT 1"], False),
        (["acquire_reconcile_new", "acquire", "acquire_next_due"], ["UPDATE 3", "SELECT 0", "SELECT 1"], True),
        # With a backlog, nothing follows.
        (["acquire_unlimited"], ["SELECT 50"], False),
        (["acquire_unlimited"], ["SELECT 0"], True),
        (["complete_record"], ["SELECT 0"], False),
    ],
)
def test_a_step_that_found_nothing_is_known_by_its_answer(
    statements: list[str], tags: list[str], nothing: bool
) -> None:
    pipeline = _begun_with(*statements)
    assert changed_nothing(pipeline, ["BEGIN", "SELECT 1", *tags, "COMMIT"]) is nothing
    assert not changed_nothing(pipeline, [])


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        ("acquire", "acquire"),
        ("acquire_shared", "acquire"),
        ("acquire_unlimited", "acquire"),
        ("acquire_unlimited_of_one_pool", "acquire"),
        ("acquire_reconcile_new", "reconcile"),
        ("refill", "refill"),
        ("settle", "settle"),
        ("complete_record", "complete"),
        ("complete_plain", "complete"),
        ("complete_plain_with_everything", "complete"),
        ("complete_record_but_twice", "complete"),
        ("misfire_move", "misfire"),
        ("recover_record", "recover"),
        ("recover_repair", "other"),
        ("lock", "lock"),
    ],
)
def test_the_statements_of_the_steps_are_recognized(statement: str, kind: str) -> None:
    assert kind_of(STATEMENTS[statement]) == kind


def test_a_seed_is_always_the_same_plan() -> None:
    nodes = ["n1", "n2", "n3"]
    assert plans.plan("quick", 7, nodes) == plans.plan("quick", 7, nodes)
    assert plans.plan("quick", 7, nodes) != plans.plan("quick", 8, nodes)
    assert len({fault.family for fault in plans.plan("smoke", 1, nodes)}) == len(plans.SMOKE) == 12
    assert sum(plans.QUICK.values()) == 46
