"""Several schedulers at once: each is asked on a thread of its own, so that one that hangs delays no other."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from queue import Empty, SimpleQueue
from typing import TypeVar

from quartzpy.instants import short
from quartzpy.operations.incidents.incident import Incident
from quartzpy.operations.operations import Operations
from quartzpy.operations.overview import Overview
from quartzpy.operations.read_context import Count
from quartzpy.store.health_findings import Severity
from quartzpy.texts import reason

PERIOD = 5.0
"""The time, in seconds, between two questions to a scheduler while somebody looks."""
DEADLINE = 5.0
"""The time, in seconds, after which a scheduler that has not answered counts as one that does not."""
_WATCHED = 60.0
"""Schedulers are asked on for so many seconds after somebody has looked."""
_FAREWELL = 1.0
NO_ANSWER = "no-answer"
"""The kind of the incident that a scheduler does not answer."""
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class FleetMember:
    """A scheduler of a fleet."""

    title: str
    open: Callable[[], AbstractContextManager[Operations]]
    """Opens a client of it, which may take long or fail."""
    dashboard: str | None = None
    """The URL of its own page."""


class FleetState(StrEnum):
    """How a scheduler of a fleet is, the worst first."""

    UNREACHABLE = "unreachable"
    ERROR = "error"
    WARNING = "warning"
    OK = "ok"


@dataclass(frozen=True, slots=True)
class FleetRow:
    """A scheduler of a fleet, as it last answered. What it has never told is None."""

    scheduler: str
    state: FleetState
    nodes: int | None
    """The nodes that are alive."""
    running: Count | None
    late: Count | None
    failed_lately: Count | None
    """The executions that failed within the last hour."""
    incidents: int | None
    """What is wrong and nobody has taken note of."""
    age: timedelta | None
    """The time since the answer."""
    dashboard: str | None
    error: str | None
    """Why it does not answer."""


@dataclass(frozen=True, slots=True)
class FleetIncident:
    """Something that is wrong with a scheduler of a fleet."""

    scheduler: str
    incident: Incident
    dashboard: str | None


class Fleet:
    """Asks schedulers again and again for their overviews while somebody looks at the answers.

    The first who looks waits until each has answered, at most for the deadline; who looks then waits for none.
    """

    def __init__(self, members: Sequence[FleetMember], *, period: float = PERIOD, deadline: float = DEADLINE) -> None:
        self.members = tuple(members)
        self._deadline = deadline
        self._watch = _Watch(period)
        self._readers = [_Reader(member, self._watch) for member in self.members]

    def rows(self) -> tuple[FleetRow, ...]:
        """Return how each scheduler is, in the order of the members."""
        return tuple(reader.row(self._deadline) for reader in self._answered())

    def incidents(self) -> tuple[FleetIncident, ...]:
        """Return what is wrong anywhere, the worst first. A scheduler that does not answer is an incident, too."""
        incidents = [
            FleetIncident(reader.member.title, incident, reader.member.dashboard)
            for reader in self._answered()
            for incident in reader.incidents(self._deadline)
        ]
        return tuple(sorted(incidents, key=lambda each: each.incident.severity.rank))

    def close(self) -> None:
        """End the threads and their sessions. One that hangs ends with the process."""
        self._watch.close()
        until = time.monotonic() + _FAREWELL
        for reader in self._readers:
            reader.thread.join(max(0.0, until - time.monotonic()))

    def _answered(self) -> list[_Reader]:
        if self._watch.look():
            for reader in self._readers:
                reader.begin()
        until = time.monotonic() + self._deadline
        for reader in self._readers:
            reader.answered.wait(max(0.0, until - time.monotonic()))
            # Nobody waits for it a second time.
            reader.answered.set()
        return self._readers


class _Watch:
    """Whether somebody looks, which the readers of one fleet share."""

    def __init__(self, period: float) -> None:
        self._period = period
        self._until = 0.0
        self._is_closed = False
        self._changed = threading.Condition()

    def look(self) -> bool:
        """Say that somebody looks. Return whether nobody did before, so that the answers are old."""
        with self._changed:
            is_first = time.monotonic() >= self._until
            self._until = time.monotonic() + max(_WATCHED, 2 * self._period)
            self._changed.notify_all()
            return is_first

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def rest(self) -> bool:
        """Wait until the next question is due and somebody looks. Return False at the end."""
        with self._changed:
            # Not all at once: their work would delay whoever looks just then.
            self._changed.wait_for(lambda: self._is_closed, self._period * random.uniform(0.7, 1.3))
            self._changed.wait_for(lambda: self._is_closed or time.monotonic() < self._until)
            return not self._is_closed


@dataclass(frozen=True, slots=True)
class _LastAnswer:
    """The last answers of a scheduler: the last overview, and why nothing newer came."""

    overview: Overview | None = None
    at: float = 0.0
    error: str | None = None


@dataclass(eq=False)
class _Reader:
    """Asks one scheduler, on a thread of its own."""

    member: FleetMember
    watch: _Watch
    answered: threading.Event = field(default_factory=threading.Event)
    answer: _LastAnswer = _LastAnswer()
    asked_at: float | None = None
    """When the question was asked to which no answer has come yet."""
    thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._run, name=f"quartzpy-fleet-{self.member.title}", daemon=True)

    def begin(self) -> None:
        """Ask for a new answer, which those who look wait for."""
        self.answered.clear()
        if self.thread.ident is None:
            self.thread.start()

    def _run(self) -> None:
        goes_on = True
        while goes_on:
            try:
                self.asked_at = time.monotonic()
                with self.member.open() as operations:
                    while goes_on:
                        self.asked_at = time.monotonic()
                        overview = operations.overview()
                        self._note(_LastAnswer(overview, time.monotonic()))
                        goes_on = self.watch.rest()
            except Exception as error:
                # A function that connects is the user's, and may raise anything.
                self._note(_LastAnswer(self.answer.overview, self.answer.at, reason(error)))
                goes_on = self.watch.rest()

    def _note(self, answer: _LastAnswer) -> None:
        self.answer, self.asked_at = answer, None
        self.answered.set()

    def error(self, deadline: float) -> str | None:
        """Return why the scheduler does not answer; None if it does."""
        asked_at = self.asked_at
        waited = 0.0 if asked_at is None else time.monotonic() - asked_at
        if waited >= deadline or (self.answer.overview is None and self.answer.error is None):
            return f"no answer for {short(timedelta(seconds=round(waited)))}"
        return self.answer.error

    def row(self, deadline: float) -> FleetRow:
        answer, error = self.answer, self.error(deadline)
        overview = answer.overview
        readable = overview if overview is not None and overview.counts else None
        worst = min((incident.severity.rank for incident in self.incidents(deadline)), default=Severity.INFO.rank)
        state = FleetState.UNREACHABLE if error is not None else _STATES[worst]
        return FleetRow(
            scheduler=self.member.title,
            state=state,
            nodes=None if readable is None else sum(node.state.is_alive for node in readable.nodes),
            running=None if readable is None else readable.number("running"),
            late=None if readable is None else readable.number("late"),
            failed_lately=None if readable is None else readable.number("failed"),
            incidents=None if overview is None else len(overview.incidents),
            age=None if overview is None else timedelta(seconds=round(time.monotonic() - answer.at, 1)),
            dashboard=self.member.dashboard,
            error=error,
        )

    def incidents(self, deadline: float) -> Sequence[Incident]:
        overview, error = self.answer.overview, self.error(deadline)
        if error is None:
            assert overview is not None, "it has answered"
            return overview.incidents
        since: datetime | None = None if overview is None else overview.now
        what = f"The scheduler {self.member.title} does not answer."
        return [Incident(Severity.ERROR, NO_ANSWER, self.member.title, what, (error,), since)]


_STATES = (FleetState.ERROR, FleetState.WARNING, FleetState.OK)
"""By the rank of the worst severity."""


def ask_each(
    members: Sequence[FleetMember], question: Callable[[FleetMember], _T], deadline: float
) -> Iterator[tuple[FleetMember, _T | str]]:
    """Ask all members at the same time. Yield each with its answer, or why it gave none, those without one last."""
    answers: SimpleQueue[tuple[FleetMember, _T | str]] = SimpleQueue()

    def ask(member: FleetMember) -> None:
        try:
            answers.put((member, question(member)))
        except Exception as error:
            # As of a reader.
            answers.put((member, reason(error)))

    for member in members:
        threading.Thread(target=ask, args=(member,), name=f"quartzpy-fleet-{member.title}", daemon=True).start()
    until, missing = time.monotonic() + deadline, list(members)
    while missing:
        try:
            member, answer = answers.get(timeout=max(0.0, until - time.monotonic()))
        except Empty:
            break
        missing.remove(member)
        yield member, answer
    for member in missing:
        yield member, f"no answer for {short(timedelta(seconds=deadline))}"
