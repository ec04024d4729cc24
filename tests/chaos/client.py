"""A client of the cluster: adds one-shots, moves triggers about, works inside transactions of its own, and poisons.

    python -m tests.chaos.client --dsn ... --seed 1 --rate 8

It is a process of its own, talks through its own link, and runs until SIGTERM.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shlex
import signal
import subprocess
import threading
import time
from datetime import timedelta
from functools import partial
from typing import Any

from sqlalchemy import create_engine, event, text
from sqlalchemy.engine import Engine

from quartzpy import JobDetail, Scheduler, SimpleTrigger, TriggerKey
from tests.chaos import history, jobs, workload
from tests.chaos.workload import MOVED, ONCE, asked, every, once, soon

POISONS = ("raise", "base", "exit", "process", "loop")


class Client:
    def __init__(
        self,
        dsn: str,
        settings: dict[str, Any],
        seed: int,
        rate: float,
        moved: int,
        poison: bool,
        slowness: int = 1,
        sparseness: int = 1,
    ) -> None:
        self.scheduler = Scheduler(dsn, **settings)
        arguments: dict[str, Any] = {"connect_timeout": 2 * slowness}
        if settings.get("pooled"):
            # Where sessions are a pooler's, what one has prepared is unknown in the next.
            arguments["prepare_threshold"] = None
        self.engine: Engine = create_engine(dsn, pool_size=4, pool_pre_ping=True, connect_args=arguments)
        if command := settings.get("password_command"):
            event.listen(self.engine, "do_connect", partial(_log_in, shlex.split(command)))
        self.random = random.Random(seed)
        self.rate, self.moved, self.poisons = rate, moved, poison
        self.slowness, self.sparseness = slowness, sparseness
        self.stop = threading.Event()
        self.count = 0
        self._prefix = f"{seed}"

    def run(self) -> None:
        threads = [
            threading.Thread(target=self._forever, args=(work, rest, random.Random(f"{self._prefix}{i}")), daemon=True)
            for i, (work, rest) in enumerate(
                (
                    (self.one_shot, 1 / self.rate),
                    (self.inside, 1.0 * self.sparseness),
                    (self.move, 0.7 * self.sparseness),
                    (self.hold, 3.0 * self.sparseness),
                    (self.poison, 2.5 * self.sparseness),
                )
            )
        ]
        for thread in threads:
            thread.start()
        conductor = os.getppid()
        while not self.stop.wait(0.5) and os.getppid() == conductor:
            pass
        self.stop.set()
        for thread in threads:
            thread.join(8 * self.slowness)

    def _forever(self, work: Any, rest: float, chance: random.Random) -> None:
        number = 0
        while not self.stop.wait(rest * chance.uniform(0.5, 1.5)):
            number += 1
            try:
                work(chance, number)
            except Exception as error:
                history.append("client_error", error=f"{type(error).__name__}: {error}"[:300])

    def one_shot(self, chance: random.Random, number: int) -> None:
        at = soon(chance.choice([1, 2, 4]))
        name = f"shot-{self._prefix}-{number}"
        recovers = number % 2 == 0
        job = JobDetail(jobs.Plain, name, ONCE, data={"ms": chance.choice([0, 50, 200])}, requests_recovery=recovers)
        trigger = SimpleTrigger(name, ONCE, start_time=at)
        flags = {"serial": False, "recovers": recovers, "policy": "exact"}
        workload.store(self.scheduler, workload.Planned(job, (trigger,), (once(at),), flags))

    def inside(self, chance: random.Random, number: int) -> None:
        """Schedule in a transaction of our own, which is committed, rolled back, or slow."""
        name = f"inside-{self._prefix}-{number}"
        key = TriggerKey(name, ONCE)
        fate = chance.choice(["commit", "commit", "roll back"])
        wait = chance.choice([0, 0, 0.8])
        at = soon(3)
        job = JobDetail(jobs.Plain, name, ONCE, data={"ms": 0})

        def work() -> None:
            with self.engine.connect() as connection:
                methods = self.scheduler.using(connection)
                methods.schedule_job(job, SimpleTrigger(name, ONCE, start_time=at))
                connection.execute(text("INSERT INTO chaos_user (name) VALUES (:name)"), {"name": name})
                time.sleep(wait)
                if fate == "commit":
                    connection.commit()
                else:
                    connection.rollback()

        flags = {"serial": False, "recovers": False, "policy": "exact"}
        op = "schedule" if fate == "commit" else "rolled_back"
        asked(op, key, work, job=name, spec=once(at), inside=True, **flags)

    def move(self, chance: random.Random, number: int) -> None:
        """Pause and resume, reschedule, or delete and store again one of the moved triggers."""
        i = chance.randrange(self.moved)
        name = f"moved-{i}"
        key = TriggerKey(name, MOVED)
        match chance.choice(["pause", "pause", "reschedule", "delete"]):
            case "pause":
                if asked("pause", key, lambda: self.scheduler.pause_trigger(key)) != "error":
                    self.stop.wait(chance.uniform(0.2, 2.5))
                self._until_ok("resume", key, lambda: self.scheduler.resume_trigger(key, missed="skip"))
            case "reschedule":
                span = timedelta(seconds=chance.choice([1, 2]) * self.sparseness)
                start = soon(2)
                trigger = SimpleTrigger(name, MOVED, interval=span, repeat_count=None, start_time=start)
                spec = every(start, span)
                asked("reschedule", key, lambda: self.scheduler.reschedule_job(key, trigger), spec=spec)
            case "delete":
                if asked("delete", key, lambda: self.scheduler.unschedule_job(key, missing_ok=True)) == "ok":
                    self.stop.wait(chance.uniform(0.2, 1.5))
                self._until_ok("store", key, lambda: None, again=self._planned(name))

    def _until_ok(self, op: str, key: TriggerKey, call: Any, again: workload.Planned | None = None) -> None:
        for _ in range(30):
            if again is not None:
                # A start that has passed would be a late trigger.
                again = self._planned(key.name)
            answer = asked(op, key, call) if again is None else workload.store(self.scheduler, again)
            if answer == "ok" or self.stop.wait(0.5):
                return

    def _planned(self, trigger: str) -> workload.Planned:
        """The moved trigger of a name, which starts soon."""
        [planned] = [p for p in workload.moved(soon(2), self.moved, self.sparseness) if p.triggers[0].name == trigger]
        return planned

    def hold(self, chance: random.Random, number: int) -> None:
        """A user's transaction that touches a trigger, waits, and is rolled back: that one is late, and no other."""
        i = chance.randrange(self.moved)
        key = TriggerKey(f"moved-{i}", MOVED)

        def work() -> None:
            with self.engine.connect() as connection:
                self.scheduler.using(connection).pause_trigger(key)
                time.sleep(chance.uniform(0.2, 1.5))
                connection.rollback()

        asked("hold", key, work)

    def poison(self, chance: random.Random, number: int) -> None:
        if not self.poisons:
            return
        kind = "result" if number == 3 else "init" if number == 5 else chance.choice(POISONS)
        name = f"poison-{kind}-{self._prefix}-{number}"
        at = soon(1)
        apart = kind in ("process", "loop")
        job_class = jobs.BadInit if kind == "init" else jobs.Poison
        job = JobDetail(
            job_class,
            name,
            "poison",
            data={"poison": kind},
            executor="cpu" if apart else None,
            timeout=timedelta(seconds=1) if kind == "loop" else None,
        )
        flags = {"serial": False, "recovers": False, "policy": "exact", "poison": kind}
        if apart:
            flags |= {"slack": workload.PROCESS_SLACK * self.slowness, "in_process": True}
        planned = workload.Planned(job, (SimpleTrigger(name, "poison", start_time=at),), (once(at),), flags)
        workload.store(self.scheduler, planned)
        if number == 1:
            self._nobody_knows(name)

    def _nobody_knows(self, name: str) -> None:
        """A type that no node has: it waits, and is no error."""
        job = JobDetail("chaos.not_known_here", f"unknown-{name}", "poison")
        trigger = SimpleTrigger(f"unknown-{name}", "poison", start_time=soon(1))
        asked("schedule_unknown", trigger.key, lambda: self.scheduler.schedule_job(job, trigger))


def _log_in(command: list[str], dialect: Any, record: Any, arguments: Any, options: dict[str, Any]) -> None:
    """Give a connection of the engine's the password that the command prints now."""
    options["password"] = subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dsn", required=True)
    parser.add_argument("--settings", required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--rate", type=float, default=8.0)
    parser.add_argument("--moved", type=int, default=6)
    parser.add_argument("--no-poison", action="store_true")
    parser.add_argument("--slowness", type=int, default=1)
    parser.add_argument("--sparseness", type=int, default=1)
    given = parser.parse_args()
    settings = json.loads(given.settings)
    client = Client(
        given.dsn,
        settings,
        given.seed,
        given.rate,
        given.moved,
        not given.no_poison,
        given.slowness,
        given.sparseness,
    )
    signal.signal(signal.SIGTERM, lambda number, frame: client.stop.set())
    client.run()


if __name__ == "__main__":
    main()
