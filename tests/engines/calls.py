"""Calls of engines, made from executions that a real store has fired."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from quartzpy.jobs.job import Job, JobDetail
from quartzpy.node.engines import worker
from quartzpy.node.engines.messages import MessageMaker, addressed
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.protocol import AvailableSlots, DispatchKey, FiredTrigger, JobEntry, Node
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.upcoming import prepare
from tests.engines import worker_jobs as jobs
from tests.waiting import LIMIT, wait_until

NAME = "engines"
MINUTE = timedelta(minutes=1)
_NUMBERS = count(1)


@dataclass
class Call:
    """A submission, and its message."""

    fired: FiredTrigger
    submission: int
    message: dict[str, Any]
    answers: list[dict[str, Any]] = field(default_factory=list)

    @property
    def fire_id(self) -> int:
        return self.fired.fire_id

    def run(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(worker.run(json.dumps(self.message)))
        self.answers.append(answer)
        return answer

    @contextmanager
    def running(self) -> Iterator[threading.Thread]:
        """Run it on another thread until its job is where it waits; the block ends with the run."""
        thread = threading.Thread(target=self.run, daemon=True)
        thread.start()
        try:
            assert jobs.AT[self.fire_id].wait(LIMIT), self.answers
            yield thread
        finally:
            jobs.GO[self.fire_id].set()
            thread.join(LIMIT)
        assert not thread.is_alive()

    @property
    def ending(self) -> dict[str, Any]:
        [answer] = self.answers
        assert list(answer) == ["ending"], answer
        ending: dict[str, Any] = answer["ending"]
        return ending

    @property
    def result(self) -> Any:
        assert self.ending["error"] is None, self.ending["error"]["traceback"]
        return None if self.ending["result"] is None else json.loads(self.ending["result"])["result"]

    @property
    def refusal(self) -> str:
        [answer] = self.answers
        assert list(answer) == ["refused"], answer
        return str(answer["refused"])


class Submitter:
    """A node of a store, without threads: it fires jobs, and submits them."""

    def __init__(self, store: SqlJobStore) -> None:
        self.store = store
        self.node = self.register("node")

    def register(self, name: str) -> Node:
        second = timedelta(seconds=1)
        return self.store.register(name, host="here", pid=1, checkin_interval=second, window=10 * second)

    def call(
        self, job_class: type[Job], *, touch_every: float = 1.0, options: dict[str, Any] | None = None, **data: Any
    ) -> Call:
        return self.calls(1, job_class, touch_every=touch_every, options=options, **data)[0]

    def calls(
        self,
        number: int,
        job_class: type[Job],
        *,
        touch_every: float = 1.0,
        options: dict[str, Any] | None = None,
        **data: Any,
    ) -> list[Call]:
        """Fire a job `number` times, and submit each."""
        job = JobDetail(job_class, f"job-{next(_NUMBERS)}", data=data, **(options or {}))
        self.store.decide(self.node, {DispatchKey(job.job_type): True})
        now = datetime.now(UTC)
        triggers = [
            SimpleTrigger(f"{job.name}-{each}", job_key=job.key, start_time=now - timedelta(seconds=1))
            for each in range(number)
        ]
        self.store.store_jobs([JobEntry(job, [prepare(trigger, now, None) for trigger in triggers])], replace=False)
        acquired = self.store.acquire(
            self.node, [AvailableSlots()], limit=number, look_ahead=MINUTE, misfire_threshold=MINUTE
        )
        submissions = self.store.submit(self.node, {fired.fire_id: False for fired in acquired.fired})
        assert len(submissions) == number
        return [
            Call(
                fired,
                submissions[fired.fire_id],
                self.message(fired, submissions[fired.fire_id], job_class, touch_every),
            )
            for fired in acquired.fired
        ]

    def message(
        self, fired: FiredTrigger, submission: int | None, job_class: type[Job], touch_every: float
    ) -> dict[str, Any]:
        common = {
            "scheduler": NAME,
            "schema": None,
            "prefix": "qrtz_",
            "touch_every": touch_every,
            "window": 60.0,
            "job_factory": None,
            "max_job_data_bytes": 65_536,
        }
        message = MessageMaker(common, None).message_of(fired, job_class, None)
        token = f"{fired.fire_id}.{fired.attempt}.{submission}"
        addressed_to: dict[str, Any] = json.loads(addressed(message, token, submission))
        return addressed_to

    def written(self, call: Call) -> dict[str, Any] | None:
        """Return the ending in the row of a call."""
        ending = self.store.submitted(self.node, [call.fire_id])[call.fire_id].ending
        return None if ending is None else json.loads(ending)

    def give_away(self, *calls: Call) -> None:
        """Make the submissions void, as a node does that gives them up."""
        settled = self.store.settle(self.node, {call.fire_id: call.submission for call in calls})
        assert settled == {call.fire_id: None for call in calls}


def until_lost(call: Call) -> None:
    """Wait until the job of a call has been told that it counts no more."""
    running = {job.fire_id: job for job in worker._process._running}
    wait_until(lambda: running[call.fire_id].lease_lost)
