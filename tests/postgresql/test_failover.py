"""A failover to another server, on two real ones: the second is promoted from a copy of the first."""

from __future__ import annotations

import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import pytest
from sqlalchemy import make_url
from starlette.testclient import TestClient

from quartzpy import Job, JobDetail, JobExecutionContext, JobKey, Scheduler, SimpleTrigger
from quartzpy.cli.main import cli
from quartzpy.dashboard import create_app
from quartzpy.embedded import EmbeddedPostgres
from quartzpy.errors import StoreUnavailableError
from quartzpy.events.events import DatabaseFailedOver, Event
from quartzpy.store.postgresql import migrations, schema_version
from quartzpy.store.postgresql.connection.listen import Listener
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.protocol import EVERYTHING
from tests.waiting import wait_until

MakeStore = Callable[..., SqlJobStore]
SOON = timedelta(seconds=40)
QUICK = {"checkin_interval": "200ms", "lock_timeout": "1s", "failure_window": "2s", "connect_timeout": "2s"}


class Quick(Job):
    def execute(self, context: JobExecutionContext) -> None: ...


class Pair(NamedTuple):
    """A primary, and a standby that has what the primary had at the start."""

    primary: EmbeddedPostgres
    standby: EmbeddedPostgres

    @property
    def dsn(self) -> str:
        """Both, the primary first."""
        url = make_url(self.primary.dsn)
        hosts = ",".join(f"127.0.0.1:{one.port}" for one in self)
        return f"postgresql+psycopg://{url.username}:{url.password}@{hosts}/{url.database}"

    def promote(self) -> None:
        assert self.standby._files.pg_ctl("-w", "promote").returncode == 0, self.standby._files.log_tail()

    def stop_primary(self) -> None:
        assert self.primary._files.pg_ctl("-m", "fast", "-w", "stop").returncode == 0

    def start_primary(self) -> None:
        """On the port that it had."""
        assert self.primary._files.pg_ctl("-w", "start").returncode == 0


@pytest.fixture
def pair() -> Iterator[Pair]:
    # Not under the tests' own directory, which is closed to the user that runs the server.
    with tempfile.TemporaryDirectory(prefix="quartzpy-pair-") as directory:
        Path(directory).chmod(0o755)
        primary = EmbeddedPostgres(Path(directory, "a"), durable=False)
        with primary:
            migrations.upgrade(primary.dsn)
        wait_until(lambda: not Path(directory, "a", "data", "postmaster.pid").exists(), "the primary to stop")
        # Nobody minds a file of the server's watcher that goes meanwhile.
        subprocess.run(["cp", "-a", f"{directory}/a", f"{directory}/b"], check=False)
        Path(directory, "b", "data", "standby.signal").touch()
        with primary, EmbeddedPostgres(Path(directory, "b"), durable=False) as standby:
            yield Pair(primary, standby)


def hear(listener: Listener) -> None:
    while not listener.wait(0.1):
        pass


def pause_often(store: SqlJobStore) -> None:
    for _ in range(1_000):
        store.pause(EVERYTHING)


def port_of(store: SqlJobStore) -> int:
    found = store._session.read_one("SELECT inet_server_port()")[0][0]
    assert isinstance(found, int)
    return found


def test_a_failover_is_noticed_at_the_next_connection_and_the_old_primary_is_not_believed(
    pair: Pair, make_store: MakeStore
) -> None:
    store = make_store(pair.dsn, **QUICK)
    told: list[Event] = []
    store.open(told.append)
    listener = store.subscribe()
    assert listener is not None
    assert port_of(store) == pair.primary.port
    pair.promote()
    # Both say that they can be written; what is connected stays where it is.
    assert port_of(store) == pair.primary.port
    assert told == []
    pair.stop_primary()
    with pytest.raises(StoreUnavailableError):
        hear(listener)
    listener.close()
    assert port_of(store) == pair.standby.port
    [event] = told
    assert isinstance(event, DatabaseFailedOver)
    assert (event.previous_timeline, event.timeline) == (1, 2)
    assert event.system_identifier == event.previous_system_identifier
    assert event.place == f"127.0.0.1:{pair.standby.port}"
    # The old primary comes back first in the list, and still takes itself for one.
    pair.start_primary()
    assert port_of(make_store(pair.primary.dsn)) == pair.primary.port
    store._connections.drop_idle()
    assert port_of(store) == pair.standby.port
    assert len(told) == 1
    assert pair.standby._files.pg_ctl("-m", "fast", "-w", "stop").returncode == 0
    with pytest.raises(StoreUnavailableError, match="timeline 1, which a failover to timeline 2"):
        port_of(store)


def test_idle_connections_to_the_old_primary_are_dropped(pair: Pair, make_store: MakeStore) -> None:
    store = make_store(pair.dsn, **QUICK)
    listener = store.subscribe()
    assert listener is not None
    with store._connections.checked_out() as first:
        pair.promote()
        # A new connection, by somebody else, finds the new primary; this one is in use meanwhile.
        url = make_url(pair.standby.dsn)
        store._connections._servers.connect(
            host=url.host, port=url.port, user=url.username, password=url.password, dbname=url.database
        ).close()
        assert not store._connections.is_current(first)
    assert first.closed
    with pytest.raises(StoreUnavailableError, match="no longer the primary"):
        listener.wait(0.1)
    listener.close()
    assert port_of(store) == pair.standby.port


def test_a_node_continues_with_the_new_primary(pair: Pair) -> None:
    failed_over = threading.Event()
    scheduler = Scheduler(pair.dsn, **QUICK)
    scheduler.listeners.add_listener(lambda event: failed_over.set(), DatabaseFailedOver)
    with scheduler:
        scheduler.schedule_job(JobDetail(Quick, "before", durable=True), SimpleTrigger("t"))
        assert scheduler.wait_until_recorded(1, SOON)
        pair.promote()
        pair.stop_primary()
        assert failed_over.wait(SOON.total_seconds())
        # What is asked meanwhile is answered, or says that it was not done.
        while True:
            try:
                scheduler.schedule_job(JobDetail(Quick, "after", durable=True), SimpleTrigger("later"), replace=True)
                break
            except StoreUnavailableError:
                continue
        assert scheduler.wait_until_recorded(2, SOON)
        assert scheduler.get_job_detail(JobKey("after", "DEFAULT")) is not None


def test_a_server_that_turned_read_only_is_left(pair: Pair, make_store: MakeStore) -> None:
    store = make_store(pair.primary.dsn, **QUICK)
    with store._connections.checked_out() as before:
        pass
    with pair.primary._connect("postgres") as connection:
        connection.execute("ALTER SYSTEM SET default_transaction_read_only = on")
        connection.execute("SELECT pg_reload_conf()")
    with pytest.raises(StoreUnavailableError) as caught:
        pause_often(store)
    assert caught.value.sqlstate == "25006"
    assert before.closed
    with pair.primary._connect("postgres") as connection:
        connection.execute("SET default_transaction_read_only = off")
        connection.execute("ALTER SYSTEM RESET default_transaction_read_only")
        connection.execute("SELECT pg_reload_conf()")
    for _ in range(1_000):
        try:
            store.pause(EVERYTHING)
            break
        except StoreUnavailableError:
            continue
    assert store.pauses().everything


def test_a_standby_can_be_read_and_says_that_it_cannot_be_written(pair: Pair) -> None:
    reader = Scheduler(pair.standby.dsn, start_timeout="100ms")
    assert list(reader.jobs()) == []
    page = TestClient(create_app(reader), base_url="http://127.0.0.1", client=("127.0.0.1", 50_000))
    for path in ("/", "/jobs", "/triggers", "/executions", "/incidents", "/nodes", "/api/v1/overview"):
        assert page.get(path).status_code == 200, path
    with pytest.raises(StoreUnavailableError, match="standby"):
        reader.start()
    reader.shutdown()


def test_several_hosts_work_wherever_a_url_is_taken(pair: Pair, capsys: pytest.CaptureFixture[str]) -> None:
    url = make_url(pair.primary.dsn)
    ports = f"{pair.standby.port},{pair.primary.port}"
    standby_first = f"postgresql://{url.username}:{url.password}@/{url.database}?host=127.0.0.1,127.0.0.1&port={ports}"
    assert migrations.current(pair.dsn) == schema_version.HEAD
    migrations.upgrade(standby_first, "elsewhere")
    migrations.check(standby_first, "elsewhere")
    for arguments in (["db", "current"], ["jobs"], ["nodes", "--schema", "elsewhere"]):
        cli.main(args=[*arguments, "--dsn", standby_first], prog_name="quartzpy", standalone_mode=False)
    assert schema_version.HEAD in capsys.readouterr().out


def test_the_time_to_connect_counts_for_each_host(pair: Pair, make_store: MakeStore) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        # It takes the connection, and says nothing.
        url = make_url(pair.primary.dsn)
        hosts = f"127.0.0.1:{silent.getsockname()[1]},127.0.0.1:{pair.primary.port}"
        store = make_store(
            f"postgresql://{url.username}:{url.password}@{hosts}/{url.database}", **{**QUICK, "connect_timeout": "2s"}
        )
        assert port_of(store) == pair.primary.port
