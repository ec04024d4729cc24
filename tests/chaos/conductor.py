"""The conductor: sets the stage, plays a plan of faults over the workload, lets all come right, takes the records."""

from __future__ import annotations

import contextlib
import json
import random
import re
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psycopg

from quartzpy import Scheduler
from quartzpy.errors import QuartzpyError
from tests.chaos import engines, faults, history, plans, workload
from tests.chaos.audit import AUDIT, Auditor
from tests.chaos.checker import Report, check
from tests.chaos.faults import Fault
from tests.chaos.records import SECOND, Records
from tests.chaos.stage import Stage
from tests.chaos.tempo import Tempo
from tests.database import libpq_url
from tests.worlds import current

MOVED = 6
SLOW_MACHINE = 60.0
"""How much longer than on a machine that has time it may take until a run is at rest, in seconds."""


@dataclass(frozen=True)
class Mode:
    """How long the parts of a run are, in seconds."""

    name: str
    nodes: int
    quiet: float
    liveness: float
    rate: float
    shots: float
    warm_up: float
    ends_within: float = 6.0
    """How long what runs when the faults are over may go on."""
    every: float = 0.0
    """From the beginning of a fault to that of the next one, at least."""


MODES = ("smoke", "quick", "long", "day", "engines")


def mode_of(name: str, tempo: Tempo) -> Mode:
    """The parts of a run in a world of this tempo."""
    slowness = tempo.slowness
    rate, shots = 1.0 / slowness, 8.0 / tempo.sparseness
    warm_up = 3.0 * slowness
    match name:
        case "smoke":
            return Mode(name, 3, 1.5 * slowness, 13.0 * slowness, 0.5 * rate, 0.5 * shots, warm_up)
        case "quick":
            return Mode(name, 3, tempo.recovered_within + 2, 30.0 * slowness, rate, shots, warm_up)
        case "long":
            return Mode(name, 5, 2.0 * slowness, 30.0 * slowness, rate, shots, warm_up)
        case "engines":
            return Mode(name, 2, 0.5 * slowness, 11.0 * slowness, rate, 0, 2.0 * slowness, ends_within=30.0)
        case "day":
            every = 60 / plans.DAY_FAULTS_A_MINUTE * slowness
            return Mode(name, 3, 0.5 * slowness, 20.0 * slowness, 0.5 * rate, 0.5 * shots, warm_up, every)
    raise ValueError(f"no such mode: {name}")


OUTAGES = ("server_stop",)
# What a job raises is its own affair.
LOGGED = re.compile(rb"^[-0-9]+ [:,0-9]+ (?:WARNING|ERROR|CRITICAL) +(?!quartzpy\.runtime\.attempt)", re.M)
END = {
    "triggers": """
        SELECT trigger_group || '.' || trigger_name AS trigger, trigger_state AS state, next_fire_time::text AS next,
               error
          FROM qrtz_triggers""",
    "fired": """
        SELECT trigger_group || '.' || trigger_name AS trigger, scheduled_time::text AS instant, fire_id,
               instance_id AS instance FROM qrtz_fired_triggers""",
    "executions": """
        SELECT fire_id, trigger_group || '.' || trigger_name AS trigger, scheduled_time::text AS instant, job_name AS
        job,
               outcome, attempt, instance_id AS instance, fired_time::text AS fired, ended_at::text AS ended,
               left(error, 4000) AS error, log
          FROM qrtz_executions""",
    "misfires": """
        SELECT trigger_group || '.' || trigger_name AS trigger, action, missed::text[] AS missed FROM qrtz_misfires""",
    "fenced": "SELECT job, fire_id, kind FROM chaos_fenced ORDER BY id",
}


class Conductor:
    """Plays one run."""

    def __init__(
        self,
        mode: Mode,
        seed: int,
        directory: Path,
        *,
        plan: Sequence[Fault],
        say: Callable[[str], None],
        **options: Any,
    ) -> None:
        self.mode, self.seed, self.directory, self.say = mode, seed, directory, say
        self.plan = list(plan)
        self.tempo = Tempo.of(current.world)
        self.minutes: float | None = options.get("minutes")
        self.poison: bool = options.get("poison", True)
        self.sabotage: str | None = options.get("sabotage")
        self.engines = engines.names(short=self.minutes is None) if mode.name == "engines" else []
        self.pause = threading.Event()
        self.outages: dict[str, dict[str, Any]] = {}

    def run(self) -> Report:
        """All of it; the checker's report."""
        stage = Stage(
            self.directory,
            nodes_of(self.mode),
            sabotage=self.sabotage,
            owned=self.mode.name == "day",
            engines=self.engines,
        )
        try:
            end = self._play(stage)
        finally:
            stage.close()
        end["world"] = None if current.world is None else current.world.name
        (self.directory / "end.json").write_text(json.dumps(end))
        return check(Records.of(history.read(stage.history), end), self.tempo.limits)

    def _play(self, stage: Stage) -> dict[str, Any]:
        history.append("clock", wall=_wall_minus_boottime() + history.now_ns())
        auditor = Auditor(stage.connect, self.tempo.slowness)
        auditor.start()
        try:
            self._open(stage)
            self._faults(stage)
            heal_everything(stage)
            history.append("liveness")
            self.say("liveness: no faults from here")
            self.pause.wait(self.mode.liveness)
            with contextlib.suppress(TimeoutError):
                # The rules excuse nothing in this phase, but a machine that was slow has left more behind for it.
                _until(lambda: not _rows(stage, AUDIT["overdue"]), SLOW_MACHINE, "the cluster to catch up")
            return self._close(stage)
        finally:
            auditor.stop()

    def _open(self, stage: Stage) -> None:
        slowness, sparseness = self.tempo.slowness, self.tempo.sparseness
        for name in stage:
            stage.start(name)
        _until(lambda: len(stage.scheduler.nodes().nodes) >= len(stage.nodes), 60 * slowness, "nodes to join")
        start = workload.soon(2)
        # Nothing is broken yet, but a machine that starts many programs at once may take longer than the lock timeout.
        if self.mode.name == "engines":
            plan = [*workload.on_engines(start, self.engines, slowness)]
        else:
            declared = workload.declared(start, self.mode.rate, slowness, sparseness)
            plan = [*declared, *workload.moved(start, MOVED, sparseness)]
        for planned in plan:
            _until(partial(_is_stored, stage.scheduler, planned), 30 * slowness, f"{planned.job} to be stored")
        if self.mode.shots:
            stage.start_client(self.seed, rate=self.mode.shots, moved=MOVED, poison=self.poison)
        self.pause.wait(self.mode.warm_up)

    def _faults(self, stage: Stage) -> None:
        until = None if self.minutes is None else time.monotonic() + self.minutes * 60
        beside = None
        if self.mode.name == "long":
            # A second lane, of faults that do not touch processes.
            chance = random.Random(f"beside {self.seed}")
            second = [
                plans.make(chance.choice(["X6", "X8", "X9"]), chance, list(stage.nodes), n, self.tempo)
                for n in range(len(self.plan))
            ]
            beside = threading.Thread(target=self._lane, args=(stage, second, until, chance), daemon=True)
            beside.start()
        self._lane(stage, self.plan, until, None)
        if beside is not None:
            self.pause.set()
            beside.join()
            self.pause = threading.Event()

    def _lane(self, stage: Stage, plan: Sequence[Fault], until: float | None, chance: random.Random | None) -> None:
        for number, fault in enumerate(plan):
            if until is not None and time.monotonic() > until:
                return
            if chance is not None and self.pause.wait(chance.uniform(2, 10)):
                return
            begun = time.monotonic()
            self.one(stage, number, fault)
            if chance is None:
                self.pause.wait(max(self.mode.quiet, begun + self.mode.every - time.monotonic()))

    def one(self, stage: Stage, number: int, fault: Fault) -> None:
        """Begin a fault, hold, heal; into the journal."""
        self.say(f"{number + 1:3} {fault}")
        begun = history.now_ns()
        with faults.ACTS[fault.name](stage, fault):
            injected = history.now_ns()
            before = _noise(stage) if fault.name in OUTAGES else None
            self.pause.wait(fault.hold)
            healing = history.now_ns()
            if before is not None:
                self._count_noise(fault.name, (healing - injected) / SECOND, before, _noise(stage))
        history.append(
            "fault",
            number=number,
            family=fault.family,
            name=fault.name,
            victim=fault.node,
            values=fault.values,
            begun=begun,
            injected=injected,
            healing=healing,
            healed=history.now_ns(),
        )

    def _count_noise(self, name: str, seconds: float, before: dict[str, int], after: dict[str, int]) -> None:
        """How often the nodes connected, and what they logged, while the server was away."""
        counted = self.outages.setdefault(name, {"seconds": 0.0, **dict.fromkeys(before, 0)})
        counted["seconds"] = round(counted["seconds"] + seconds, 1)
        for what, count in after.items():
            counted[what] += count - before[what]

    def _close(self, stage: Stage) -> dict[str, Any]:
        stage.stop_client()
        scheduler = stage.scheduler
        for _ in range(20):
            if workload.asked("pause_all", "*", scheduler.pause_all) == "ok":
                break
            self.pause.wait(0.5)
        checked_at = history.now_ns()
        with contextlib.suppress(TimeoutError):
            _until(
                lambda: not _rows(stage, END["fired"]),
                self.tempo.recovered_within + self.mode.ends_within * self.tempo.slowness + SLOW_MACHINE,
                "what runs to end",
            )
        self.pause.wait(1.0)
        end: dict[str, Any] = {name: _rows(stage, sql) for name, sql in END.items()}
        end["effects"] = _rows_of(stage.effects_dsn, "SELECT job, fire_id FROM chaos_effects ORDER BY id")
        end["counters"] = _counters(scheduler)
        end["alive"] = {name: node.runs for name, node in stage.nodes.items()}
        end["pipelines"] = stage.network.tell("stats")
        end["outages"] = self.outages
        end["lost_pipelines"] = stage.network.tell("lost")
        end["statuses"] = _leave(stage)
        end["checked_at"] = checked_at
        return end


def nodes_of(mode: Mode) -> list[str]:
    return [f"n{i}" for i in range(1, mode.nodes + 1)]


def heal_everything(stage: Stage) -> None:
    """Take back whatever a fault may have left behind."""
    for name in stage:
        stage.signal(name, signal.SIGCONT)
    stage.network.heal_all()

    def undone() -> bool:
        try:
            with stage.connect() as connection:
                connection.execute("DELETE FROM chaos_injection")
                connection.execute("ALTER DATABASE quartzpy RESET default_transaction_read_only")
        except psycopg.Error:
            return False
        return True

    _until(undone, 30 * stage.tempo.slowness, "the server to answer")


def _noise(stage: Stage) -> dict[str, int]:
    logs = [stage.directory / f"{name}.log" for name in stage]
    logged = sum(len(LOGGED.findall(log.read_bytes())) for log in logs if log.exists())
    connects = stage.network.tell("connects")
    return {"connects": sum(connects.get(name, 0) for name in stage), "log_lines": logged}


def _leave(stage: Stage) -> dict[str, int | None]:
    statuses: dict[str, int | None] = {}

    def one(name: str) -> None:
        statuses[name] = stage.leave(name)

    threads = [threading.Thread(target=one, args=(name,)) for name in stage]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return statuses


def _counters(scheduler: Scheduler) -> dict[str, int]:
    found = {}
    for key in scheduler.job_keys(workload.GROUP):
        detail = scheduler.get_job_detail(key) if key.name.startswith("counter-") else None
        if detail is not None:
            found[key.name] = int((detail.data or {}).get("n", 0))
    return found


def _rows(stage: Stage, sql: str) -> list[dict[str, Any]]:
    return _rows_of(libpq_url(stage.dsn), sql)


def _rows_of(dsn: str, sql: str) -> list[dict[str, Any]]:
    with psycopg.connect(dsn, autocommit=True, connect_timeout=5, row_factory=psycopg.rows.dict_row) as connection:
        connection.execute("SET timezone = 'UTC'")
        return connection.execute(sql).fetchall()


def _is_stored(scheduler: Scheduler, planned: workload.Planned) -> bool:
    return workload.store(scheduler, planned) == "ok"


def _until(reached: Callable[[], bool], seconds: float, what: str) -> None:
    """Raises TimeoutError: not within this time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(QuartzpyError, psycopg.Error):
            if reached():
                return
        time.sleep(0.1)
    raise TimeoutError(f"waited {seconds} s for {what}")


def _wall_minus_boottime() -> int:
    return time.clock_gettime_ns(time.CLOCK_REALTIME) - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
