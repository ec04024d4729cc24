"""The contract tests of engines find what they are for: an engine that breaks the contract fails them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import ClassVar

import pytest

from quartzpy.job_data import MAX_BYTES
from quartzpy.jobs.context import Progress
from quartzpy.jobs.job import new_instance
from quartzpy.node.engines.protocol import Abilities, Call, Engine, EngineEvents, Found
from quartzpy.node.engines.remote_job import RemoteJob
from tests.contract import test_engines
from tests.contract.engine_harness import EngineHarness, Stand, stand_of


class RunningJob(RemoteJob):
    """A job on a thread, and those who want to hear of its end."""

    def __init__(self, call: Call) -> None:
        super().__init__(json.loads(call.message))
        self.watchers: list[EngineEvents] = []

    def report_progress(self, progress: Progress) -> None: ...

    def add_log(self, text: str) -> None: ...


class SoundEngine:
    """Runs calls on threads that all engines of the process share, as the engines of several nodes share a cluster."""

    abilities = Abilities(repeats=False, can_stop=True, can_find=True, can_adopt=True)
    running: ClassVar[dict[str, RunningJob]] = {}

    def start(self, events: EngineEvents) -> None:
        self.events = events

    def capacity(self) -> int | None:
        return 4

    def submit(self, call: Call) -> None:
        job = self.running[call.token] = RunningJob(call)
        job.watchers.append(self.events)
        threading.Thread(target=self.run, args=(call, job), daemon=True).start()

    def run(self, call: Call, job: RunningJob) -> None:
        ending = job.run(new_instance, MAX_BYTES)
        self.running.pop(call.token, None)
        for events in job.watchers:
            self.tell(events, call, json.dumps({"ending": vars(ending)}))

    def tell(self, events: EngineEvents, call: Call, answer: str) -> None:
        events.ended(call.token, answer)

    def stop(self, token: str, *, kill: bool = False) -> bool:
        if (job := self.running.get(token)) is not None and not kill:
            job.stop()
        return False

    def find(self, tokens: Collection[str]) -> Mapping[str, Found]:
        return {token: Found.RUNNING if token in self.running else Found.GONE for token in tokens}

    def adopt(self, call: Call) -> bool:
        if (job := self.running.get(call.token)) is None:
            return False
        if self.events not in job.watchers:
            job.watchers.append(self.events)
        return True

    def close(self, timeout: float) -> None: ...


class RunsTwice(SoundEngine):
    def submit(self, call: Call) -> None:
        super().submit(call)
        super().submit(call)


class LosesEnds(SoundEngine):
    """Loses each third end."""

    number = 0

    def tell(self, events: EngineEvents, call: Call, answer: str) -> None:
        self.number += 1
        if self.number % 3:
            super().tell(events, call, answer)


class ReportsEarly(SoundEngine):
    def submit(self, call: Call) -> None:
        super().submit(call)
        self.events.ended(call.token, json.dumps({"ending": {"result": None}}))


class IgnoresStop(SoundEngine):
    def stop(self, token: str, *, kill: bool = False) -> bool:
        return False


class PretendsToStop(SoundEngine):
    def stop(self, token: str, *, kill: bool = False) -> bool:
        return True


class ForgetsTokens(SoundEngine):
    def find(self, tokens: Collection[str]) -> Mapping[str, Found]:
        return dict.fromkeys(tokens, Found.GONE)


class AdoptsTwice(SoundEngine):
    """Takes what it adopts for what it has to run."""

    def adopt(self, call: Call) -> bool:
        if call.token not in self.running:
            return False
        self.submit(call)
        return True


class BrokenHarness(EngineHarness):
    setting = "sound:4"

    def __init__(self, engine: type[SoundEngine], seconds: float = EngineHarness.seconds) -> None:
        self._engine = engine
        self.seconds = seconds
        self.watched_for = 0.0 if engine is SoundEngine else EngineHarness.seconds

    def new_engine(self) -> Engine:
        return self._engine()


@pytest.mark.parametrize(
    ("broken", "test"),
    [
        (RunsTwice, test_engines.test_each_of_many_calls_runs_once_and_ends_once),
        (LosesEnds, test_engines.test_each_of_many_calls_runs_once_and_ends_once),
        (ReportsEarly, test_engines.test_no_end_is_told_before_the_job_has_ended),
        (IgnoresStop, test_engines.test_what_an_engine_says_about_a_stop_is_so),
        (PretendsToStop, test_engines.test_what_an_engine_says_about_a_stop_is_so),
        (ForgetsTokens, test_engines.test_a_call_is_found_while_it_runs_and_not_after_its_end),
        (AdoptsTwice, test_engines.test_a_call_that_is_adopted_does_not_run_again),
    ],
)
def test_an_engine_that_breaks_the_contract_fails(
    broken: type[SoundEngine], test: Callable[[Stand], None], tmp_path: Path
) -> None:
    with stand_of(BrokenHarness(SoundEngine), tmp_path) as stand:
        test(stand)
    with stand_of(BrokenHarness(broken, seconds=0.5), tmp_path) as stand, pytest.raises(AssertionError):
        test(stand)
    for token in stand.calls:
        stand.open(token)
