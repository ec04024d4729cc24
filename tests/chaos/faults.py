"""The faults X1 to X18, E of engines, and D1 to D7 of a day.

Each knows how to begin, how long it holds, and how it is healed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg

from tests.chaos import engines, history
from tests.chaos.stage import CLIENT, Stage, faketime_library


@dataclass(frozen=True)
class Fault:
    """One fault of a plan: all that a seed decided."""

    family: str
    name: str
    node: str
    hold: float
    values: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        values = "".join(f" {name}={value}" for name, value in self.values.items())
        return f"{self.family} {self.name} {self.node}{values} for {self.hold:.1f} s"


Act = Callable[[Stage, Fault], contextlib.AbstractContextManager[None]]
"""Begins at the beginning of the block, and heals at its end; the conductor holds between."""

ACTS: dict[str, Act] = {}
# What makes a healthy process not act, or not be heard: its runs may meet those of who took over.
ZOMBIES = frozenset({"freeze", "lock_zombie", "gate", "swizzle", "server_stop", "failover", "starve", "latency"})
DEADLY = frozenset({"kill", "kill_in_pipeline", "churn", "restart_at_once", "clock", "clock_step"})
EVERYBODY = "all"


def act(function: Callable[[Stage, Fault], Iterator[None]]) -> Act:
    made = contextmanager(function)
    ACTS[function.__name__] = made
    return made


def _links(stage: Stage, fault: Fault) -> list[str]:
    return list(stage.nodes) if fault.node == EVERYBODY else [fault.node]


@act
def kill(stage: Stage, fault: Fault) -> Iterator[None]:
    """X1: SIGKILL, and a start after the hold."""
    stage.kill(fault.node)
    yield
    stage.start(fault.node)


@act
def kill_in_pipeline(stage: Stage, fault: Fault) -> Iterator[None]:
    """X1: SIGKILL while a round trip of this kind is on its way; the round trip is delivered afterwards."""
    _make_refills(stage, fault)
    number = stage.network.tell("lose", fault.node, kind=fault.values["kind"], at="late", delay=fault.values["delay"])
    _wait_for_hit(stage, number, 3.0 * stage.tempo.slowness)
    stage.kill(fault.node)
    yield
    stage.network.tell("disarm")
    stage.start(fault.node)


def _make_refills(stage: Stage, fault: Fault) -> None:
    """Use up the stored fire times of many triggers, where a fault is about refills: they are rare otherwise."""
    if "refill" in fault.values["kind"].split("+"):
        _on_server(
            stage,
            "UPDATE qrtz_triggers SET upcoming = '{}', upcoming_is_complete = false WHERE ctid = ANY(ARRAY("
            "SELECT ctid FROM qrtz_triggers WHERE trigger_group = 'chaos' AND cardinality(upcoming) > 0"
            " FOR UPDATE SKIP LOCKED))",
        )


def _wait_for_hit(stage: Stage, number: int, seconds: float) -> bool:
    pause = threading.Event()
    for _ in range(int(seconds / 0.02)):
        if stage.network.tell("hits").get(str(number)):
            return True
        pause.wait(0.02)
    return False


@act
def freeze(stage: Stage, fault: Fault) -> Iterator[None]:
    """X2, X3: SIGSTOP and SIGCONT."""
    stage.signal(fault.node, signal.SIGSTOP)
    yield
    stage.signal(fault.node, signal.SIGCONT)


@act
def lock_zombie(stage: Stage, fault: Fault) -> Iterator[None]:
    """X4: half a round trip reaches the server, which holds the lock from then on; its node is cut off and stopped."""
    number = stage.network.tell("lose", fault.node, kind=fault.values["kind"], at="half", delay=60.0)
    _wait_for_hit(stage, number, 3.0 * stage.tempo.slowness)
    stage.network.tell("gate", fault.node)
    stage.signal(fault.node, signal.SIGSTOP)
    yield
    stage.signal(fault.node, signal.SIGCONT)
    stage.network.tell("disarm")
    stage.network.tell("heal", fault.node)
    stage.network.tell("cut", fault.node)


@act
def server_restart(stage: Stage, fault: Fault) -> Iterator[None]:
    """X5: an immediate restart, as after a crash."""
    stage.postgres.restart("immediate")
    yield


@act
def server_stop(stage: Stage, fault: Fault) -> Iterator[None]:
    """X5: the server is away for a while."""
    postmaster = stage.postgres.postmaster_pid
    assert postmaster is not None
    os.kill(postmaster, signal.SIGQUIT)
    yield
    stage.postgres.restart("immediate")


@act
def terminate(stage: Stage, fault: Fault) -> Iterator[None]:
    """X6: a part of a node's sessions is ended."""
    for pid in _sessions(stage, fault)[:: max(1, round(1 / fault.values["part"]))]:
        _on_server(stage, "SELECT pg_terminate_backend(%s)", pid)
    yield


@act
def stop_backend(stage: Stage, fault: Fault) -> Iterator[None]:
    """X7: a session of a node stands still, at best in a transaction."""
    stopped = _sessions(stage, fault, roles=["work"])[:1]
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    yield
    for pid in stopped:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def _sessions(stage: Stage, fault: Fault, roles: list[str] | None = None) -> list[int]:
    if stage.world is not None and stage.world.pooled:
        # A node has no sessions there: the pooler's are everybody's.
        theirs = _on_server(
            stage,
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'"
            " AND application_name <> %s AND pid <> pg_backend_pid() ORDER BY state = 'idle', pid",
            "chaos:conductor",
        )
        return [pid for (pid,) in theirs]
    ports = [port for node in _links(stage, fault) for port in stage.network.tell("ports", node, roles=roles)]
    found = _on_server(
        stage,
        "SELECT pid FROM pg_stat_activity WHERE client_port = ANY(%s) ORDER BY state = 'idle', pid",
        ports,
    )
    return [pid for (pid,) in found]


def _on_server(stage: Stage, sql: str, *values: Any) -> list[tuple[Any, ...]]:
    try:
        with stage.connect() as connection:
            cursor = connection.execute(sql, values)
            return cursor.fetchall() if cursor.description else []
    except psycopg.OperationalError:
        return []


@act
def cut(stage: Stage, fault: Fault) -> Iterator[None]:
    """X8: connections are reset."""
    for node in _links(stage, fault):
        stage.network.tell("cut", node, roles=fault.values["roles"])
    yield


@act
def gate(stage: Stage, fault: Fault) -> Iterator[None]:
    """X8: bytes do not pass, in one direction or both; sockets stay open."""
    for node in _links(stage, fault):
        told = {way: fault.values[way] for way in ("up", "down")}
        stage.network.tell("gate", node, roles=fault.values["roles"], **told)
    yield
    for node in _links(stage, fault):
        stage.network.tell("heal", node)


@act
def latency(stage: Stage, fault: Fault) -> Iterator[None]:
    """X8: each round trip takes longer."""
    for node in _links(stage, fault):
        stage.network.tell("latency", node, seconds=fault.values["seconds"], roles=fault.values["roles"])
    yield
    for node in _links(stage, fault):
        stage.network.tell("heal", node)


@act
def lose(stage: Stage, fault: Fault) -> Iterator[None]:
    """X9: round trips of a kind are lost before the send, after it, after the commit, or come late."""
    told = {name: fault.values[name] for name in ("times", "delay")}
    _make_refills(stage, fault)
    for kind in fault.values["kind"].split("+"):
        for node in [CLIENT] if kind == "schedule" else _links(stage, fault):
            for at in fault.values["at"].split("+"):
                stage.network.tell("lose", node, kind=kind, at=at, **told)
    yield
    stage.network.tell("disarm")
    history.append("losses", hits=stage.network.tell("hits"))


@act
def sqlstates(stage: Stage, fault: Fault) -> Iterator[None]:
    """X10, X11: statements fail with a SQLSTATE."""
    _on_server(stage, "INSERT INTO chaos_injection VALUES (%s, %s)", fault.values["sqlstate"], fault.values["chance"])
    yield
    _on_server(stage, "DELETE FROM chaos_injection")


@act
def read_only(stage: Stage, fault: Fault) -> Iterator[None]:
    """X11: new sessions are read-only, and all have to be new."""
    _on_server(stage, "ALTER DATABASE quartzpy SET default_transaction_read_only = on")
    _end_sessions(stage)
    yield
    _on_server(stage, "ALTER DATABASE quartzpy RESET default_transaction_read_only")
    _end_sessions(stage)


def _end_sessions(stage: Stage) -> None:
    """End our sessions. Those of a pooler have the name of whoever used them last."""
    pooled = stage.world is not None and stage.world.pooled
    ours = (
        "datname = current_database() AND pid <> pg_backend_pid()" if pooled else "application_name LIKE 'quartzpy:%%'"
    )
    _on_server(stage, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {ours}")


@act
def clock(stage: Stage, fault: Fault) -> Iterator[None]:
    """X12: a node's wall clock is wrong."""
    stage.kill(fault.node)
    stage.start(fault.node, **_fake(FAKETIME=fault.values["offset"]))
    yield
    stage.kill(fault.node)
    stage.start(fault.node)


@act
def clock_step(stage: Stage, fault: Fault) -> Iterator[None]:
    """X12: a running node's wall clock jumps."""
    file = stage.directory / f"{fault.node}.clock"
    file.write_text("+0\n")
    stage.kill(fault.node)
    stage.start(fault.node, **_fake(FAKETIME_TIMESTAMP_FILE=str(file), FAKETIME_NO_CACHE="1"))
    threading.Event().wait(stage.tempo.starts_within)
    file.write_text(f"{fault.values['offset']}\n")
    yield
    stage.kill(fault.node)
    stage.start(fault.node)


def _fake(**values: str) -> dict[str, str]:
    library = faketime_library()
    assert library is not None
    return {"LD_PRELOAD": library, "FAKETIME_DONT_FAKE_MONOTONIC": "1", **values}


@act
def churn(stage: Stage, fault: Fault) -> Iterator[None]:
    """X13: nodes leave and come, one after the other."""
    names = list(stage.nodes)
    for i in range(fault.values["times"]):
        name = names[i % len(names)]
        stage.leave(name)
        stage.start(name)
        threading.Event().wait(2.0 * stage.tempo.slowness)
    yield


@act
def restart_at_once(stage: Stage, fault: Fault) -> Iterator[None]:
    """X14: a node that is killed comes back with its id before anybody misses it."""
    stage.kill(fault.node)
    stage.start(fault.node)
    yield


@act
def twin(stage: Stage, fault: Fault) -> Iterator[None]:
    """X14: a second process takes the id of a living node; it has to be refused."""
    second = stage.spawn_like(fault.node)
    yield
    second.kill()
    second.wait()


@act
def starve(stage: Stage, fault: Fault) -> Iterator[None]:
    """X16: other processes take the processors."""
    hog = f"import time\nt = time.monotonic() + {fault.hold}\nwhile time.monotonic() < t: pass"
    hogs = [subprocess.Popen([sys.executable, "-c", hog]) for _ in range(fault.values["hogs"])]
    yield
    for one in hogs:
        one.kill()
        one.wait()


@act
def vandalise(stage: Stage, fault: Fault) -> Iterator[None]:
    """X17: a row is deleted by hand."""
    statements = {
        "lock": "DELETE FROM qrtz_locks WHERE lock_name = 'TRIGGER_ACCESS'",
        "state": "DELETE FROM qrtz_scheduler_state WHERE instance_id = %s",
        "fired": "DELETE FROM qrtz_fired_triggers WHERE fire_id IN (SELECT fire_id FROM qrtz_fired_triggers LIMIT 1)"
        " RETURNING trigger_group || '.' || trigger_name, scheduled_time::text",
    }
    values = [fault.node] if fault.values["row"] == "state" else []
    gone = _on_server(stage, statements[fault.values["row"]], *values)
    if gone:
        history.append("vandalised", trigger=gone[0][0], instant=gone[0][1])
    yield


@act
def worker_kill(stage: Stage, fault: Fault) -> Iterator[None]:
    """E: SIGKILL for a worker of an engine that runs a job."""
    _signal_worker(_busy_worker(stage, fault), signal.SIGKILL)
    yield


@act
def worker_freeze(stage: Stage, fault: Fault) -> Iterator[None]:
    """E: SIGSTOP and SIGCONT for a worker of an engine that runs a job."""
    pid = _busy_worker(stage, fault)
    _signal_worker(pid, signal.SIGSTOP)
    yield
    _signal_worker(pid, signal.SIGCONT)


@act
def worker_gate(stage: Stage, fault: Fault) -> Iterator[None]:
    """E: the workers of all engines do not reach the database."""
    stage.network.tell("gate", engines.LINK, up=False, down=False)
    yield
    stage.network.tell("heal", engines.LINK)
    stage.network.tell("cut", engines.LINK)


@act
def engine_restart(stage: Stage, fault: Fault) -> Iterator[None]:
    """E: the scheduler of a cluster is killed, and another one starts at its address."""
    assert stage.cluster is not None
    start = stage.cluster.kill_scheduler()
    yield
    start()


def _busy_worker(stage: Stage, fault: Fault) -> int | None:
    pause = threading.Event()
    for _ in range(100 * stage.tempo.slowness):
        pid = engines.busy_worker(stage.history, fault.values["executor"], fault.node)
        if pid is not None:
            return pid
        pause.wait(0.05)
    return None


def _signal_worker(pid: int | None, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        if pid is not None:
            os.kill(pid, number)
            history.append("worker_signal", child=pid, signal=number.name)


@act
def renew(stage: Stage, fault: Fault) -> Iterator[None]:
    """D1: the password of the nodes' role expires, and there is another one."""
    assert stage.owner is not None
    stage.owner.renew()
    yield


@act
def end_sessions(stage: Stage, fault: Fault) -> Iterator[None]:
    """D2: all sessions are ended, as by a provider's maintenance."""
    assert stage.owner is not None
    stage.owner.end_sessions()
    yield


@act
def deploy(stage: Stage, fault: Fault) -> Iterator[None]:
    """D4: a node drains and leaves, and a release is started in its place."""
    node = stage.nodes[fault.node]
    status = stage.leave(fault.node)
    history.append("deployed", name=fault.node, status=status, **fault.values)
    node.release = stage.releases[fault.values["release"]]
    stage.start(fault.node)
    yield


@act
def migrate(stage: Stage, fault: Fault) -> Iterator[None]:
    """D5: the tables are moved to the revision of the next release, while nodes of this one run."""
    assert stage.owner is not None
    stage.owner.upgrade(stage.releases["next"])
    yield


@act
def restart_pooler(stage: Stage, fault: Fault) -> Iterator[None]:
    """D6: the pooler ends, with all that is connected to it, and is started again."""
    stage.stop_pooler()
    yield
    stage.start_pooler()


@act
def failover(stage: Stage, fault: Fault) -> Iterator[None]:
    """D7: the primary is killed; then its standby is promoted, and nodes are led there."""
    stage.kill_primary()
    yield
    stage.promote_standby()


@act
def standby(stage: Stage, fault: Fault) -> Iterator[None]:
    """D7: the server that was killed becomes a standby."""
    stage.make_standby()
    yield


@act
def swizzle(stage: Stage, fault: Fault) -> Iterator[None]:
    """X18: links are cut one by one, and healed in another order."""
    for node in fault.values["cut_order"]:
        stage.network.tell("gate", node)
        threading.Event().wait(0.5)
    yield
    for node in fault.values["heal_order"]:
        stage.network.tell("heal", node)
        threading.Event().wait(0.5)
