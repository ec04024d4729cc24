"""A cluster that gets into trouble, and an operator who looks at it as the page and the commands do."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from quartzpy import JobDetail, Scheduler, Trigger
from quartzpy.errors import QuartzpyError
from quartzpy.operations import Actor, Incident, Operations, Overview, Role
from quartzpy.store.postgresql import migrations
from tests.cluster.nodes import ROOT, Cluster
from tests.database import execute
from tests.incidents import app

SEEN_WITHIN = 10.0
"""The time within which an incident has to be seen, in seconds after its cause can be told from ordinary work."""
CALM_WITHIN = 30.0
POLLED_EVERY = 0.2
SETTINGS: dict[str, Any] = {
    "name": "incidents",
    "workers": 4,
    "checkin_interval": "500ms",
    "lock_timeout": "1s",
    "failure_window": "3s",
    "idle_wait": "2s",
}
T = TypeVar("T")


class Stage(Cluster):
    """The nodes, the client of the test, and the operator's view."""

    def __init__(self, dsn: str, directory: Path, **settings: Any) -> None:
        migrations.upgrade(dsn)
        super().__init__(dsn, directory, app=f"{app.__name__}:make_scheduler", **{**SETTINGS, **settings})
        self.operations = Operations(self.client, actor=Actor("ann", Role.ADMIN))
        self.root = ROOT
        self.fix = directory / "fixed"
        self.environment = {app.FIX_VARIABLE: str(self.fix)}
        self.seen: list[tuple[str, float]] = []
        """What was seen, and how many seconds after it could be."""

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Return what the tables say, on a connection of the test's own."""
        return execute(self.dsn, statement)

    def look(self) -> Overview:
        return self.operations.overview()

    def store(self, job: JobDetail, *triggers: Trigger) -> None:
        self.client.schedule_job(job, list(triggers), replace=True)

    def sees(self, kind: str, *, visible_after: timedelta = timedelta(), within: float = SEEN_WITHIN) -> Incident:
        """Return the first incident of this kind, which has to be seen in time.

        Raises:
            AssertionError: it was not seen in time.
        """
        began = time.monotonic()
        limit = began + visible_after.total_seconds() + within
        while time.monotonic() < limit:
            looked = self.look()
            for incident in looked.incidents:
                if incident.kind == kind:
                    self.seen.append((kind, max(0.0, time.monotonic() - began - visible_after.total_seconds())))
                    return incident
            time.sleep(POLLED_EVERY)
        kinds = [incident.kind for incident in looked.incidents]
        raise AssertionError(f"{kind} was not seen within {within:g} s; there were {kinds or 'no incidents'}")

    def until(self, reached: Callable[[], T], what: str, seconds: float = CALM_WITHIN) -> T:
        """Return the first true answer of `reached`."""
        limit = time.monotonic() + seconds
        while not (answer := reached()):
            assert time.monotonic() < limit, f"waited {seconds:g} s for {what}; {self.summary()}"
            time.sleep(POLLED_EVERY)
        return answer

    def summary(self) -> str:
        with suppress(Exception):
            return "; ".join(incident.what for incident in self.look().incidents) or "no incidents"
        return "the database did not answer"

    def is_calm(self) -> bool:
        return not self.look().incidents

    def calms(self, within: float = CALM_WITHIN) -> None:
        self.until(self.is_calm, "an overview without incidents", within)

    def mend(self, incident: Incident, label: str) -> None:
        """Take the action that the incident offers under a label that begins so."""
        remedies = [remedy for remedy in incident.remedies if remedy.label.startswith(label)]
        assert remedies, f"{incident.kind} offers {[remedy.label for remedy in incident.remedies]}, not {label!r}"
        getattr(self.operations.actions, remedies[0].action)(**remedies[0].arguments, reason="mended by the test")

    def start_with(self, name: str, environment: Mapping[str, str] | None = None, **settings: Any) -> None:
        """Start a node and wait until it has joined. `environment` is added to that of its process."""
        self.launch(name, environment={**self.environment, **(environment or {})}, **settings)
        self.wait_for_nodes([name])

    def start_with_name(self, instance: str, name: str) -> None:
        """Start a node of another scheduler, as a wrong `--name` does."""
        self.launch(instance, environment=self.environment, name=name)
        other = self.client_named(name)
        try:
            self.until(lambda: other.nodes().nodes, f"node {instance} of {name} to join")
        finally:
            other.shutdown()

    def age_pauses(self) -> None:
        """Make every pause two hours old: nobody is told of a pause that has just been made on purpose."""
        aged = "paused_at = paused_at - interval '2 hours'"
        self.rows(f"UPDATE qrtz_triggers SET {aged} WHERE paused_at IS NOT NULL RETURNING trigger_name")

    @staticmethod
    def rest(seconds: float) -> None:
        """Let time pass in which nothing may happen."""
        time.sleep(seconds)

    @staticmethod
    def answers(operations: Operations) -> bool:
        try:
            operations.overview()
        except QuartzpyError:
            return False
        return True

    def client_named(self, name: str) -> Scheduler:
        """Return a client of another scheduler in the same tables."""
        return Scheduler(self.dsn, **{**self.settings, "name": name})


def instants_of(rows: Iterable[tuple[Any, ...]]) -> list[datetime]:
    return [row[0] for row in rows]
