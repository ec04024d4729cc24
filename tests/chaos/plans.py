"""Which faults a run plays, in which order: nothing but its seed decides."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.chaos import engines, pair, proxy
from tests.chaos.faults import EVERYBODY, Fault
from tests.chaos.stage import faketime_library
from tests.chaos.tempo import Tempo
from tests.worlds.installed import PGBOUNCER_PACKAGE, pgbouncer

SMOKE_HOLD = 7.5
ENGINE_FAULTS, ENGINE_SMOKE_HOLD = 4, 1.5
DAY_FAULTS_A_MINUTE = 5
MANY = 400
DAY_MINUTES = 60.0
IDLE = Tempo()
"""Of a machine that has time."""
ROLES: tuple[list[str] | None, ...] = (None, ["work"], ["control"], ["jobs"])
ANSWERS: dict[str, Any] = {"kind": "acquire+refill+complete", "at": "committed+late", "times": 1, "delay": 1.5}
"""Once each: a node whose fires are lost again and again has nothing to run, and no answer to an end to lose."""
COMMITTING = ("acquire", "refill", "complete", "check_in", "misfire", "any")


def _one_way(chance: random.Random) -> dict[str, Any]:
    up, down = chance.choice([(False, False), (False, False), (True, False), (False, True)])
    return {"up": up, "down": down, "roles": chance.choice(ROLES)}


def _x8(chance: random.Random, node: str, window: float) -> Fault:
    match chance.choice(["cut", "gate", "gate", "latency", "everybody"]):
        case "cut":
            return Fault("X8", "cut", node, 0.5, {"roles": chance.choice(ROLES)})
        case "gate":
            return Fault("X8", "gate", node, round(chance.uniform(1, 3 * window), 1), _one_way(chance))
        case "latency":
            values = {"seconds": chance.choice([0.05, 0.2, 0.3]), "roles": None}
            return Fault("X8", "latency", node, round(chance.uniform(3, 6), 1), values)
        case _:
            values = {"up": False, "down": False, "roles": None}
            return Fault("X8", "gate", EVERYBODY, round(chance.uniform(1, 2 * window), 1), values)


def _x9(chance: random.Random, node: str, number: int) -> Fault:
    """In turn all kinds at once at one point, and one kind of one node at a point."""
    delay = {"delay": 1.5}
    if number % 2 == 0:
        at = ("committed", "late", "sent", "before")[number // 2 % 4]
        values = {"kind": "acquire+refill+complete+check_in+schedule", "at": at, "times": 1, **delay}
        return Fault("X9", "lose", EVERYBODY, 6.0, values)
    at = chance.choice([point for point in proxy.POINTS if point != "half"])
    values = {"kind": chance.choice(COMMITTING), "at": at, "times": chance.choice([1, 2, 3]), **delay}
    return Fault("X9", "lose", node, 5.0, values)


def _x1(chance: random.Random, node: str, window: float) -> Fault:
    hold = chance.choice([0.5, window + 2.0])
    if chance.random() < 0.5:
        return Fault("X1", "kill", node, hold)
    return Fault("X1", "kill_in_pipeline", node, hold, {"kind": chance.choice(COMMITTING), "delay": 0.5})


def _engine(chance: random.Random, node: str, number: int, executors: list[str], tempo: Tempo) -> Fault:
    """In turn the kinds, and for each of them in turn the engines."""
    kinds = ["worker_kill", "worker_freeze", "worker_kill", "worker_gate", *(["engine_restart"] * (len(executors) > 2))]
    turn, kind = divmod(number, len(kinds))
    name, values = kinds[kind], {"executor": executors[(turn + kind // 2) % len(executors)]}
    match name:
        case "worker_kill":
            return Fault("E", name, node, 0.5, values)
        case "worker_freeze":
            return Fault("E", name, node, chance.choice([2.0, engines.WINDOW + 2.0]) * tempo.slowness, values)
        case "worker_gate":
            return Fault("E", name, EVERYBODY, chance.choice([1.0, 4.0]) * tempo.slowness)
        case _:
            return Fault("E", name, EVERYBODY, 1.0)


def _x18(chance: random.Random, nodes: list[str]) -> Fault:
    orders = {"cut_order": chance.sample(nodes, len(nodes)), "heal_order": chance.sample(nodes, len(nodes))}
    return Fault("X18", "swizzle", EVERYBODY, round(chance.uniform(1, 3), 1), orders)


def make(
    family: str, chance: random.Random, nodes: list[str], number: int = 0, tempo: Tempo = IDLE, *, short: bool = False
) -> Fault:
    """One fault of a family, as chance has it; `number` goes through its kinds where it has some."""
    window = tempo.window
    node = chance.choice(nodes)
    match family:
        case "X1":
            return _x1(chance, node, window)
        case "X2":
            return Fault("X2", "freeze", node, round(chance.uniform(2.5, 4) * window, 1))
        case "X3":
            return Fault("X3", "freeze", node, 0.5 * window)
        case "X4":
            return Fault("X4", "lock_zombie", node, 2.5 * window, {"kind": chance.choice(["acquire", "complete"])})
        case "X5":
            return (
                Fault("X5", "server_restart", EVERYBODY, 0.5),
                Fault("X5", "server_stop", EVERYBODY, 3 * window),
            )[number % 2]
        case "X6":
            return Fault("X6", "terminate", node, 0.5, {"part": (0.2, 0.5, 1.0)[number % 3]})
        case "X7":
            return Fault("X7", "stop_backend", node, 3.0)
        case "X8":
            return _x8(chance, node, window)
        case "X9":
            return _x9(chance, node, number)
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
            return Fault("X12", "clock", node, 5.5 + tempo.starts_within, {"offset": ("+1h", "-1h")[number % 3]})
        case "X13":
            return Fault("X13", "churn", EVERYBODY, 0.5, {"times": 4})
        case "X14":
            return (Fault("X14", "restart_at_once", node, 0.5), Fault("X14", "twin", node, 0.5 + tempo.starts_within))[
                number % 2
            ]
        case "X16":
            return Fault("X16", "starve", EVERYBODY, 5.0, {"hogs": 6})
        case "X17":
            return Fault("X17", "vandalise", node, 1.0, {"row": ("fired", "state", "lock")[number % 3]})
        case "X18":
            return _x18(chance, nodes)
        case "E":
            return _engine(chance, node, number, engines.names(short=short), tempo)
    raise ValueError(f"no such family of faults: {family}")


QUICK = {
    "X1": 6, "X2": 4, "X3": 3, "X4": 2, "X5": 2, "X6": 4, "X7": 1, "X8": 6, "X9": 3, "X10": 2, "X11": 2, "X12": 3,
    "X13": 1, "X14": 2, "X16": 1, "X17": 3, "X18": 1,
}  # fmt: skip
# Lost answers last: a node that dies afterwards would take what they left behind with it.
SMOKE = ("X1", "X3", "X6", "X8", "X18", "X14", "X2", "X10", "X17", "X4", "X5", "X9")
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
    if pgbouncer() is None:
        found["D6"] = f"PgBouncer is not installed: apt-get install {PGBOUNCER_PACKAGE}"
    if not pair.is_possible():
        found["D7"] = f"this PostgreSQL has no {pair.COPIES}, which makes a standby"
    return found


def day(nodes: list[str], count: int, tempo: Tempo = IDLE) -> list[Fault]:
    """The faults of a day: five a minute, and a migration in the middle. Chance decides nothing.

    Until the migration, nodes of this release are deployed; then all nodes in turn become the next one, this one again,
    and so on.
    """
    found: list[Fault] = []
    deploys = 0
    for number in range(count):
        minute, turn = divmod(number, DAY_FAULTS_A_MINUTE)
        if number == count // 2:
            found.append(Fault("D5", "migrate", EVERYBODY, 0.5))
            deploys = 0
        if turn == 0:
            found.append(Fault("D1", "renew", EVERYBODY, 0.5))
        elif turn == 2:
            found.append(
                (Fault("D6", "restart_pooler", EVERYBODY, 0.5), Fault("D2", "end_sessions", EVERYBODY, 0.5))[minute % 2]
            )
        elif turn == 3 and minute % 4 == 0:
            found.append(Fault("D7", "failover", EVERYBODY, 1.0))
        elif turn == 4 and minute % 4 == 0:
            found.append(Fault("D7", "standby", EVERYBODY, 0.5))
        elif turn == 4 and minute % 4 == 2:
            found.append(Fault("D3", "server_restart", EVERYBODY, 0.5))
        else:
            is_next = number >= count // 2 and deploys // len(nodes) % 2 == 0
            values = {"release": "next" if is_next else "this"}
            found.append(Fault("D4", "deploy", nodes[deploys % len(nodes)], tempo.starts_within, values))
            deploys += 1
    return found


def plan(mode: str, seed: int, nodes: list[str], count: int | None = None, tempo: Tempo = IDLE) -> list[Fault]:
    """The faults of a run, in order: nothing but the seed decides, and the tempo how long they are."""
    missing = left_out()
    if mode == "day":
        whole = day(nodes, count or round(DAY_MINUTES * DAY_FAULTS_A_MINUTE), tempo)
        return [fault for fault in whole if fault.family not in missing]
    smoke_hold = SMOKE_HOLD * tempo.slowness
    chance = random.Random(seed)
    if mode == "smoke":
        families = list(SMOKE)
    elif mode == "engines":
        # Every fifth is one of the nodes.
        families = [
            chance.choice(["X1", "X2", "X5", "X8"]) if n % 5 == 4 else "E" for n in range(count or ENGINE_FAULTS)
        ]
    elif mode == "quick":
        families = [family for family, times in QUICK.items() for _ in range(times)]
        chance.shuffle(families)
    else:
        weights = list(QUICK.values())
        families = chance.choices(list(QUICK), weights=weights, k=count or MANY)
    seen: dict[str, int] = {}
    found = []
    for family in families:
        number = seen.get(family, chance.randrange(3) if mode == "smoke" else 0)
        seen[family] = number + 1
        # Made in any case, so that a seed is the same list everywhere.
        fault = make(family, chance, nodes, number, tempo, short=count is None)
        if mode == "smoke" and family == "X9":
            # Of the points where an answer is lost the worst, and of each kind that decides.
            fault = Fault("X9", "lose", EVERYBODY, smoke_hold, ANSWERS)
        if mode == "smoke":
            fault = replace(fault, hold=min(fault.hold, smoke_hold))
        if mode == "engines" and count is None:
            fault = replace(fault, hold=min(fault.hold, ENGINE_SMOKE_HOLD * tempo.slowness))
        if family not in missing:
            found.append(fault)
    return found
