"""The faults X1 to X18: each knows how to begin, how long it holds, and how it is healed."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from tests.chaos import proxy
from tests.chaos.stage import WINDOW, Stage, faketime_library


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
ZOMBIES = frozenset({"freeze", "lock_zombie", "gate", "swizzle", "server_stop", "starve", "latency"})
DEADLY = frozenset({"kill", "kill_in_flight", "churn", "restart_at_once", "clock", "clock_step"})
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
def kill_in_flight(stage: Stage, fault: Fault) -> Iterator[None]:
    """X1: SIGKILL while a flight of this kind is on its way; the flight is delivered afterwards."""
    number = stage.network.tell("lose", fault.node, kind=fault.values["kind"], at="late", delay=fault.values["delay"])
    _wait_for_hit(stage, number, 3.0)
    stage.kill(fault.node)
    yield
    stage.network.tell("disarm")
    stage.start(fault.node)


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
    """X4: half a flight reaches the server, which holds the lock from then on; its node is cut off and stopped."""
    number = stage.network.tell("lose", fault.node, kind=fault.values["kind"], at="half", delay=60.0)
    _wait_for_hit(stage, number, 3.0)
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
    """X8: each flight takes longer."""
    for node in _links(stage, fault):
        stage.network.tell("latency", node, seconds=fault.values["seconds"], roles=fault.values["roles"])
    yield
    for node in _links(stage, fault):
        stage.network.tell("heal", node)


@act
def lose(stage: Stage, fault: Fault) -> Iterator[None]:
    """X9: flights of a kind are lost before the send, after it, after the commit, or come late."""
    told = {name: fault.values[name] for name in ("at", "times", "delay")}
    for node in _links(stage, fault):
        for kind in fault.values["kind"].split("+"):
            stage.network.tell("lose", node, kind=kind, **told)
    yield
    stage.network.tell("disarm")


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
    _on_server(
        stage, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'quartzpy:%%'"
    )


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
    threading.Event().wait(2.5)
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
        threading.Event().wait(2.0)
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
    hog = "import time\nt = time.monotonic() + %f\nwhile time.monotonic() < t: pass" % fault.hold
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
        "fired": "DELETE FROM qrtz_fired_triggers WHERE fence IN (SELECT fence FROM qrtz_fired_triggers LIMIT 1)"
        " RETURNING trigger_group || '.' || trigger_name, scheduled_time::text",
    }
    values = [fault.node] if fault.values["row"] == "state" else []
    gone = _on_server(stage, statements[fault.values["row"]], *values)
    if gone:
        from tests.chaos import history

        history.append("vandalised", trigger=gone[0][0], instant=gone[0][1])
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


ROLES: tuple[list[str] | None, ...] = (None, ["work"], ["control"], ["jobs"])
ANSWERS: dict[str, Any] = {"at": "committed", "times": 2, "delay": 1.5}
COMMITTING = ("acquire", "fire", "complete", "check_in", "misfire", "any")


def _one_way(chance: random.Random) -> dict[str, Any]:
    up, down = chance.choice([(False, False), (False, False), (True, False), (False, True)])
    return {"up": up, "down": down, "roles": chance.choice(ROLES)}


def _x8(chance: random.Random, node: str) -> Fault:
    match chance.choice(["cut", "gate", "gate", "latency", "everybody"]):
        case "cut":
            return Fault("X8", "cut", node, 0.5, {"roles": chance.choice(ROLES)})
        case "gate":
            return Fault("X8", "gate", node, round(chance.uniform(1, 3 * WINDOW), 1), _one_way(chance))
        case "latency":
            values = {"seconds": chance.choice([0.05, 0.2, 0.3]), "roles": None}
            return Fault("X8", "latency", node, round(chance.uniform(3, 6), 1), values)
        case _:
            values = {"up": False, "down": False, "roles": None}
            return Fault("X8", "gate", EVERYBODY, round(chance.uniform(1, 2 * WINDOW), 1), values)


def _x9(chance: random.Random, node: str) -> Fault:
    at = chance.choice([point for point in proxy.POINTS if point != "half"])
    kind = chance.choice(COMMITTING) if chance.random() < 0.9 else "schedule"
    who = "client" if kind == "schedule" else node
    values = {"kind": kind, "at": at, "times": chance.choice([1, 2, 3]), "delay": 1.5}
    return Fault("X9", "lose", who, 5.0 if at == "late" else 3.0, values)


def _x1(chance: random.Random, node: str) -> Fault:
    hold = chance.choice([0.5, WINDOW + 2.0])
    if chance.random() < 0.5:
        return Fault("X1", "kill", node, hold)
    return Fault("X1", "kill_in_flight", node, hold, {"kind": chance.choice(COMMITTING), "delay": 0.5})


def _x18(chance: random.Random, nodes: list[str]) -> Fault:
    orders = {"cut_order": chance.sample(nodes, len(nodes)), "heal_order": chance.sample(nodes, len(nodes))}
    return Fault("X18", "swizzle", EVERYBODY, round(chance.uniform(1, 3), 1), orders)


def make(family: str, chance: random.Random, nodes: list[str], number: int = 0) -> Fault:
    """One fault of a family, as chance has it; `number` goes through its kinds where it has some."""
    node = chance.choice(nodes)
    match family:
        case "X1":
            return _x1(chance, node)
        case "X2":
            return Fault("X2", "freeze", node, round(chance.uniform(2.5, 4) * WINDOW, 1))
        case "X3":
            return Fault("X3", "freeze", node, 0.5 * WINDOW)
        case "X4":
            return Fault("X4", "lock_zombie", node, 2.5 * WINDOW, {"kind": chance.choice(["acquire", "complete"])})
        case "X5":
            return (
                Fault("X5", "server_restart", EVERYBODY, 0.5),
                Fault("X5", "server_stop", EVERYBODY, 3 * WINDOW),
            )[number % 2]
        case "X6":
            return Fault("X6", "terminate", node, 0.5, {"part": (0.2, 0.5, 1.0)[number % 3]})
        case "X7":
            return Fault("X7", "stop_backend", node, 3.0)
        case "X8":
            return _x8(chance, node)
        case "X9":
            return _x9(chance, node)
        case "X10":
            states = ("40001", "40P01", "57014", "53100")
            return Fault("X10", "sqlstates", EVERYBODY, 8.0, {"sqlstate": chance.choice(states), "chance": 0.2})
        case "X11":
            return (
                Fault("X11", "sqlstates", EVERYBODY, 5.0, {"sqlstate": "53100", "chance": 1.0}),
                Fault("X11", "read_only", EVERYBODY, 5.0),
            )[number % 2]
        case "X12":
            if number % 3 == 2:
                return Fault("X12", "clock_step", node, 4.0, {"offset": chance.choice(["+300", "-300"])})
            return Fault("X12", "clock", node, 8.0, {"offset": ("+1h", "-1h")[number % 3]})
        case "X13":
            return Fault("X13", "churn", EVERYBODY, 0.5, {"times": 4})
        case "X14":
            return (Fault("X14", "restart_at_once", node, 0.5), Fault("X14", "twin", node, 3.0))[number % 2]
        case "X16":
            return Fault("X16", "starve", EVERYBODY, 5.0, {"hogs": 6})
        case "X17":
            return Fault("X17", "vandalise", node, 1.0, {"row": ("fired", "state", "lock")[number % 3]})
        case "X18":
            return _x18(chance, nodes)
    raise ValueError(f"no such family of faults: {family}")


QUICK = {
    "X1": 6, "X2": 4, "X3": 3, "X4": 2, "X5": 2, "X6": 4, "X7": 1, "X8": 6, "X9": 3, "X10": 2, "X11": 2, "X12": 3,
    "X13": 1, "X14": 2, "X16": 1, "X17": 3, "X18": 1,
}  # fmt: skip
SMOKE = ("X9", "X1", "X3", "X6", "X8", "X18", "X14", "X2", "X10", "X17", "X4", "X5")
LEFT_OUT = {
    "X12 of the database": "the server of a run has the machine's clock",
    "X15": "there is no earlier release to upgrade from",
}


def left_out() -> dict[str, str]:
    """The faults that this machine cannot make, each with its reason."""
    found = dict(LEFT_OUT)
    if faketime_library() is None:
        found["X12"] = "libfaketime is not installed"
    if not Path("/proc/self").exists():
        found["X7"] = "no process of another user can be stopped here"
    return found


def plan(mode: str, seed: int, nodes: list[str], count: int | None = None) -> list[Fault]:
    """The faults of a run, in order: nothing but the seed decides."""
    chance = random.Random(seed)
    missing = left_out()
    if mode == "smoke":
        families = list(SMOKE)
    elif mode == "quick":
        families = [family for family, times in QUICK.items() for _ in range(times)]
        chance.shuffle(families)
    else:
        weights = list(QUICK.values())
        families = chance.choices(list(QUICK), weights=weights, k=count or 400)
    seen: dict[str, int] = {}
    found = []
    for family in families:
        number = seen.get(family, chance.randrange(3) if mode == "smoke" else 0)
        seen[family] = number + 1
        # Made in any case, so that a seed is the same list everywhere.
        fault = make(family, chance, nodes, number)
        if mode == "smoke" and family == "X9":
            # Of the points where an answer is lost the worst, and of each kind that decides.
            fault = Fault("X9", "lose", EVERYBODY, 4.0, {**ANSWERS, "kind": "fire+acquire+complete"})
        if family not in missing:
            found.append(fault)
    return found
