"""Whether the fires of a trigger did what is expected of them. Pure functions of records and an instant.

Which instants are due is not computed here: the row of the trigger says which fire is next, whatever pauses, calendars,
changes of clocks, jitter and misfires have made of the schedule. An instant that the row has passed was fired, and has
a record, or was left out by a rule, and nothing is expected of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Self

from quartzpy.expect import Breach, Expect, JudgedBreach
from quartzpy.jobs.job import JobDetail
from quartzpy.jobs.rate_limit import RateLimit
from quartzpy.keys import CONTINUATIONS, RECOVERING_JOBS, RETRYING_JOBS, JobKey, TriggerKey
from quartzpy.operations.incidents.kinds.failures_in_a_row import how_it_ran
from quartzpy.states import MisfireAction, Outcome, TriggerState
from quartzpy.store.records import ExecutionRecord, MisfireRecord, RunningRecord, TriggerRecord
from quartzpy.texts import error_summary, instant_text, numbered
from quartzpy.triggers.combined import Combination
from quartzpy.triggers.trigger import Trigger

MAX_REST = timedelta(days=1)
"""The longest time between two looks at a trigger. What changes its next fire or its expectation causes one before."""
SHORTEST_POLL, MAX_POLL = timedelta(seconds=5), timedelta(minutes=1)
"""The times between two looks at a fire whose end is not known in advance."""
MAX_OPEN = 100
"""The number of fires of a trigger that are watched until their ends; the oldest ones are dropped."""
_MICROSECOND = timedelta(microseconds=1)
_PAUSED = frozenset({TriggerState.PAUSED, TriggerState.PAUSED_BLOCKED})
_HELD_BACK = _PAUSED | {TriggerState.ERROR, TriggerState.COMPLETE}


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What is judged already of a trigger, and what is not over: its checkpoint."""

    created: datetime
    """Nothing is expected of fires that were due before."""
    since: datetime
    """The last scheduled instant whose fire has begun and was looked at."""
    fires: tuple[tuple[datetime, bool], ...] = ()
    """The scheduled instants of fires that are not judged to the end, and whether each has been counted as a run."""
    outcomes: str = ""
    """The last runs, the oldest first: S for a success, F for a failure."""
    backlog_until: datetime | None = None
    """A fire that was late began then; those that were due by then are late for the same reason."""
    misfire_id: int = 0
    """The last misfire that was looked at."""
    expect: Expect | None = None
    """What was expected at the last look. It holds for the last fire of a trigger that is gone by its end."""
    zone: str = "UTC"
    job_key: JobKey | None = None
    next: datetime | None = None
    """The next fire at the last look; a sooner one is looked at when it is noticed."""
    resumed: datetime | None = None
    """The last resumption at the last look; another one is looked at when it is noticed."""
    held: datetime | None = None
    """The fire that a pause held back at the last look. Of a trigger that is gone since, nothing else says so."""

    def as_json(self) -> str:
        """Return the stored form."""
        return json.dumps(
            {
                "created": self.created.isoformat(),
                "since": self.since.isoformat(),
                "fires": [[at.isoformat(), counted] for at, counted in self.fires],
                "outcomes": self.outcomes,
                "backlog_until": None if self.backlog_until is None else self.backlog_until.isoformat(),
                "misfire_id": self.misfire_id,
                "expect": None if self.expect is None else json.loads(self.expect.as_text()),
                "zone": self.zone,
                "job": None if self.job_key is None else [self.job_key.group, self.job_key.name],
                "next": None if self.next is None else self.next.isoformat(),
                "resumed": None if self.resumed is None else self.resumed.isoformat(),
                "held": None if self.held is None else self.held.isoformat(),
            }
        )

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the checkpoint with this stored form; that of a new one has no more than its beginning."""
        stored: dict[str, Any] = json.loads(text)
        backlog, expect, job = stored.get("backlog_until"), stored.get("expect"), stored.get("job")
        following, resumed, held = stored.get("next"), stored.get("resumed"), stored.get("held")
        created = datetime.fromisoformat(stored["created"])
        return cls(
            created,
            datetime.fromisoformat(stored["since"]) if "since" in stored else created,
            tuple((datetime.fromisoformat(at), bool(counted)) for at, counted in stored.get("fires", ())),
            stored.get("outcomes", ""),
            None if backlog is None else datetime.fromisoformat(backlog),
            stored.get("misfire_id", 0),
            None if expect is None else Expect.from_json(expect),
            stored.get("zone", "UTC"),
            None if job is None else JobKey(job[1], job[0]),
            None if following is None else datetime.fromisoformat(following),
            None if resumed is None else datetime.fromisoformat(resumed),
            None if held is None else datetime.fromisoformat(held),
        )

    @property
    def reads_from(self) -> datetime:
        """The scheduled instant from which on executions are read."""
        return min((at for at, _ in self.fires), default=self.since)


@dataclass(frozen=True, slots=True)
class ExpectationFacts:
    """What the store says about a trigger with an expectation, and about its fires since the checkpoint."""

    trigger_key: TriggerKey
    job_key: JobKey
    zone: str = "UTC"
    trigger: TriggerRecord | None = None
    """None if the trigger is gone: its last fire is still judged."""
    job: JobDetail | None = None
    ended: Sequence[ExecutionRecord] = ()
    """The executions of the trigger that have ended."""
    running: Sequence[RunningRecord] = ()
    """Its executions that run, and those of its retries."""
    misfires: Sequence[MisfireRecord] = ()
    repeats: Mapping[TriggerKey, ExecutionRecord | None] = field(default_factory=dict)
    """The triggers that repeat its executions: of each the execution, or None while it is only stored."""
    busy_until: Callable[[datetime, datetime], datetime | None] = lambda since, until: None
    """Returns the end of the last time between two instants at which the job was at its limit."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What a look at a trigger has found."""

    checkpoint: Checkpoint
    due_at: datetime
    """The instant of the next look."""
    broken: tuple[JudgedBreach, ...] = ()
    """What was not kept. The same may be found again by a later look; it is recorded once."""
    met: Mapping[Breach, datetime] = field(default_factory=dict)
    """The last fire that kept each expectation."""


def time_zone_of(trigger: Trigger) -> str:
    """Return the time zone of a trigger, or the first one of its parts; UTC if none has one."""
    return _zone_of(trigger) or "UTC"


def _zone_of(trigger: Trigger) -> str | None:
    named = getattr(trigger, "time_zone", None)
    if isinstance(named, str):
        return named
    parts = trigger.parts if isinstance(trigger, Combination) else ()
    return next((zone for part in parts if (zone := _zone_of(part)) is not None), None)


def repeated_by(record: ExecutionRecord, job: JobDetail | None) -> TriggerKey | None:
    """Return the trigger that repeats an execution which has ended: its retry, or its recovery; None if none does."""
    if record.retry_at is not None:
        return TriggerKey(f"retry_{record.attempt}_{record.fire_id}", RETRYING_JOBS)
    if record.outcome is Outcome.TERMINATED and job is not None and job.requests_recovery:
        return TriggerKey(f"recover_{(record.instance_id or '')[:150]}_{record.fire_id}", RECOVERING_JOBS)
    return None


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One execution of a fire."""

    began: datetime
    ended: datetime | None
    outcome: Outcome | None
    error: str | None
    record: ExecutionRecord | None = None


@dataclass(frozen=True, slots=True)
class _Fire:
    """A fire, with all its attempts so far."""

    at: datetime
    attempts: tuple[_Attempt, ...]
    is_over: bool
    """True if no attempt runs or will follow."""

    @property
    def last(self) -> _Attempt:
        return self.attempts[-1]

    @property
    def succeeded_at(self) -> datetime | None:
        return self.last.ended if self.last.outcome is Outcome.SUCCEEDED else None


class _Fires:
    """The fires of a trigger since the checkpoint, by their scheduled instants."""

    def __init__(self, facts: ExpectationFacts) -> None:
        self._facts = facts
        self._ended = {record.scheduled_fire_time: record for record in facts.ended}
        self._running = {
            (record.trigger_key, record.scheduled_fire_time): record
            for record in facts.running
            if record.state == "EXECUTING"
        }
        self._of_repeats = {key: record for (key, _), record in self._running.items()}
        self.instants = sorted({*self._ended, *(at for key, at in self._running if key == facts.trigger_key)})

    def fire(self, at: datetime) -> _Fire | None:
        """Return the fire of an instant; None if it is not known any more, or was skipped."""
        record = self._ended.get(at)
        if record is None:
            running = self._running.get((self._facts.trigger_key, at))
            return None if running is None else _Fire(at, (_of_running(running),), is_over=False)
        if record.outcome is Outcome.SKIPPED:
            return None
        attempts = [_of_ended(record)]
        while (key := repeated_by(record, self._facts.job)) is not None:
            if key in self._of_repeats:
                return _Fire(at, (*attempts, _of_running(self._of_repeats[key])), is_over=False)
            if key not in self._facts.repeats:
                break
            following = self._facts.repeats[key]
            if following is None:
                return _Fire(at, tuple(attempts), is_over=False)
            record = following
            attempts.append(_of_ended(record))
        return _Fire(at, tuple(attempts), is_over=True)


def _of_ended(record: ExecutionRecord) -> _Attempt:
    began = record.started_at or record.fire_time or record.scheduled_fire_time
    return _Attempt(began, record.ended_at, record.outcome, record.error, record)


def _of_running(record: RunningRecord) -> _Attempt:
    return _Attempt(record.fire_time, None, None, None)


def judge(expect: Expect, checkpoint: Checkpoint, facts: ExpectationFacts, now: datetime) -> CheckResult:
    """Judge the fires of a trigger since its checkpoint."""
    return _Look(expect, checkpoint, facts, now).judgement()


class _Look:
    """One look at a trigger."""

    def __init__(self, expect: Expect, checkpoint: Checkpoint, facts: ExpectationFacts, now: datetime) -> None:
        self._expect, self._checkpoint, self._facts, self._now = expect, checkpoint, facts, now
        self._zone = facts.zone
        self._trigger = facts.trigger
        self._backlog = checkpoint.backlog_until
        self._outcomes = checkpoint.outcomes
        self._broken: list[JudgedBreach] = []
        self._met: dict[Breach, datetime] = {}
        self._looks: list[datetime] = [now + MAX_REST]
        self._resumed, self._held = checkpoint.resumed, checkpoint.held
        if self._trigger is not None:
            due = self._trigger.next_fire_time
            self._resumed = self._trigger.resumed_at
            self._held = due if self._trigger.state in _PAUSED and due is not None and due <= now else None

    def judgement(self) -> CheckResult:
        for misfire in sorted(self._facts.misfires, key=lambda misfire: misfire.misfire_id):
            if misfire.misfire_id > self._checkpoint.misfire_id:
                self._misfire(misfire)
        fires = _Fires(self._facts)
        watched = dict(self._checkpoint.fires)
        new = [at for at in fires.instants if at > self._checkpoint.since]
        still = []
        for at in sorted({*watched, *new}):
            fire = fires.fire(at)
            if fire is None:
                continue
            if at not in watched:
                self._start(at, fire.attempts[0].began)
            counted = self._count(fire, watched.get(at, False))
            is_judged = self._durations(fire)
            is_judged = self._end(fire) and is_judged
            if not (is_judged and counted):
                still.append((at, counted))
        self._next_fire()
        misfire_ids = [misfire.misfire_id for misfire in self._facts.misfires]
        checkpoint = replace(
            self._checkpoint,
            since=max([self._checkpoint.since, *new]),
            fires=tuple(still[-MAX_OPEN:]),
            outcomes=self._outcomes,
            backlog_until=self._backlog,
            misfire_id=max([self._checkpoint.misfire_id, *misfire_ids]),
            expect=self._expect,
            zone=self._zone,
            job_key=self._facts.job_key,
            next=None if self._trigger is None else self._trigger.next_fire_time,
            resumed=self._resumed,
            held=self._held,
        )
        return CheckResult(checkpoint, min(self._looks), tuple(self._broken), self._met)

    # --- starts

    def _begins(self, at: datetime, until: datetime) -> datetime:
        """Return the instant from which on the fire of an instant could start, as far as it had to wait by rule."""
        begins = max(at, self._checkpoint.created)
        if self._resumed is not None and self._resumed > at:
            begins = max(begins, self._resumed)
        if self._trigger is None:
            # The instant of the resumption is gone with the trigger.
            return begins if self._held is None or at < self._held else until
        return begins

    def _is_late(self, at: datetime, until: datetime) -> bool:
        """Return True if a fire that had not started at `until` is late, and not only held back by a rule."""
        within = self._expect.starts_within
        assert within is not None
        if until - self._begins(at, until) <= within:
            return False
        busy = self._facts.busy_until(at, until)
        return busy is None or until - max(busy, self._begins(at, until)) > within

    def _in_backlog(self, at: datetime, until: datetime) -> bool:
        """Return True if a fire is late because one before it was; what is due until `until` is late as well."""
        is_part = self._backlog is not None and at <= self._backlog
        self._backlog = until if self._backlog is None else max(self._backlog, until)
        return is_part

    def _start(self, at: datetime, began: datetime) -> None:
        within = self._expect.starts_within
        if within is None:
            return
        if not self._is_late(at, began):
            self._keeps(Breach.STARTS_LATE, at)
        elif not self._in_backlog(at, began):
            self._breaks(
                Breach.STARTS_LATE,
                at,
                f"started {_span(began - at)} late, and was expected to start within {_span(within)}",
                f"It was due at {instant_text(at)}, and started at {instant_text(began)}.",
            )

    def _misfire(self, misfire: MisfireRecord) -> None:
        """Judge a fire that no node made in time, as its misfire instruction was applied."""
        at, handled = misfire.scheduled_fire_time, misfire.handled_at
        what = {
            MisfireAction.SKIPPED: "it was skipped",
            MisfireAction.ENDED: "it was skipped",
            MisfireAction.CATCHING_UP: "the missed fires are made up for",
        }.get(misfire.action, "one fire replaced it")
        why = (
            f"No node started it before {instant_text(handled)}. Then {what}, as the misfire instruction"
            f" {misfire.misfire} says."
        )
        if at > self._checkpoint.created:
            within = self._expect.starts_within
            if within is not None and self._is_late(at, handled) and not self._in_backlog(at, handled):
                self._breaks(
                    Breach.STARTS_LATE, at, f"did not start, and was expected to start within {_span(within)}", why
                )
            end = self._expect.end_of(at, self._zone)
            if end is not None and end <= handled and not self._was_held(at, handled):
                self._breaks(Breach.ENDS_LATE, at, f"had not run by {instant_text(end)}", why)
        if misfire.action is MisfireAction.CATCHING_UP:
            self._backlog = handled if self._backlog is None else max(self._backlog, handled)

    def _next_fire(self) -> None:
        """Judge the fire that is due next, and say when to look at it."""
        trigger = self._trigger
        at = None if trigger is None else trigger.next_fire_time
        if trigger is None or at is None:
            return
        state = trigger.state
        within, end = self._expect.starts_within, self._expect.end_of(at, self._zone)
        if at > self._now:
            self._looks.append(at + (SHORTEST_POLL if within is None else within))
            if end is not None:
                self._looks.append(max(end, at + SHORTEST_POLL))
            return
        if state in _HELD_BACK:
            # Its resumption is noticed.
            return
        is_caught_up = trigger.catch_up_until is not None and at <= trigger.catch_up_until
        if is_caught_up or at <= self._checkpoint.since or state is TriggerState.BLOCKED or within is None:
            self._looks.append(self._now + MAX_POLL)
        elif self._is_late(at, self._now):
            self._looks.append(self._now + MAX_POLL)
            if not self._in_backlog(at, self._now):
                self._breaks(
                    Breach.STARTS_LATE,
                    at,
                    f"has not started, and was expected to start within {_span(within)}",
                    f"It is due since {instant_text(at)}.",
                )
        else:
            self._looks.append(max(self._begins(at, self._now) + within, self._now + timedelta(seconds=1)))
        if is_caught_up or at <= self._checkpoint.since or end is None:
            return
        self._looks.append(max(end, self._now + SHORTEST_POLL))
        if end <= self._now and end > self._checkpoint.created and not self._was_held(at, self._now):
            self._breaks(
                Breach.ENDS_LATE,
                at,
                f"had not ended by {instant_text(end)}",
                f"It is due since {instant_text(at)}, and has not started.",
            )

    # --- the course of a fire

    def _was_held(self, at: datetime, began: datetime) -> bool:
        """Return True if a pause held the fire back."""
        if self._trigger is None and self._held is not None and at >= self._held:
            return True
        return self._resumed is not None and at < self._resumed <= began

    def _durations(self, fire: _Fire) -> bool:
        """Judge how long the executions of a fire took, and return True if that is decided."""
        most = self._expect.runs_at_most
        if most is None:
            return True
        for attempt in fire.attempts:
            took = (attempt.ended or self._now) - attempt.began
            if took > most:
                ran = "has been running for" if attempt.ended is None else "ran for"
                self._breaks(
                    Breach.RUNS_LONG,
                    fire.at,
                    f"{ran} {_span(took)}, and was expected to run at most {_span(most)}",
                    f"It started at {instant_text(attempt.began)}.",
                )
                return True
        if fire.is_over:
            self._keeps(Breach.RUNS_LONG, fire.at)
            return True
        # Until then, it does not matter whether it has ended.
        is_running = fire.last.ended is None
        self._looks.append(fire.last.began + most + _MICROSECOND if is_running else self._now + MAX_POLL)
        return False

    def _end(self, fire: _Fire) -> bool:
        """Judge whether a fire ended in time, and return True if that is decided."""
        end = self._expect.end_of(fire.at, self._zone)
        if end is None:
            return True
        succeeded = fire.succeeded_at
        if succeeded is not None and succeeded <= end:
            self._keeps(Breach.ENDS_LATE, fire.at)
            return True
        if fire.is_over and fire.last.outcome is Outcome.CANCELLED:
            # Somebody did not want it to run on.
            return True
        if succeeded is None and self._now < end:
            self._looks.append(end)
            return False
        began = fire.attempts[0].began
        is_part = self._backlog is not None and fire.at <= self._backlog and end <= began
        if end > self._checkpoint.created and not is_part and not self._was_held(fire.at, began):
            if succeeded is not None:
                why = f"It ended at {instant_text(succeeded)}."
            elif fire.is_over:
                why = f"Its last execution failed at {instant_text(fire.last.ended or end)}{_because(fire.last)}."
            else:
                why = "It is still running, or is to be tried again."
            where = self._where(fire.last)
            self._breaks(Breach.ENDS_LATE, fire.at, f"had not ended successfully by {instant_text(end)}", why, *where)
        return True

    def _count(self, fire: _Fire, counted: bool) -> bool:
        """Count a fire that is over as a success or a failure, once, and return True if it is counted."""
        if self._expect.success is None:
            return True
        if counted:
            return True
        if not fire.is_over:
            waited = self._now - fire.last.began
            self._looks.append(self._now + min(max(SHORTEST_POLL, waited / 2), MAX_POLL))
            return False
        if fire.last.outcome in (Outcome.CANCELLED, Outcome.SKIPPED):
            return True
        failed = fire.last.outcome is not Outcome.SUCCEEDED
        among = self._expect.success_among
        self._outcomes = (self._outcomes + ("F" if failed else "S"))[-among:]
        failures, allowed = self._outcomes.count("F"), self._expect.failures_allowed
        if failures <= allowed:
            self._keeps(Breach.FAILS_OFTEN, fire.at)
        elif failed:
            others = numbered(len(self._outcomes) - 1, "fire", "fires")
            self._breaks(
                Breach.FAILS_OFTEN,
                fire.at,
                f"failed, as did {failures - 1} of the {others} before it" if failures > 1 else "failed",
                error_summary(fire.last.error) or "No error was recorded.",
                *self._where(fire.last),
                f"Of {among} fires, {allowed} may fail." if among > 1 else "None may fail.",
            )
        return True

    # ---

    def _where(self, attempt: _Attempt) -> tuple[str, ...]:
        record = attempt.record
        return how_it_ran(None if record is None else record.fire_id, record, self._facts.job, {})

    def _keeps(self, kind: Breach, at: datetime) -> None:
        self._met[kind] = max(at, self._met.get(kind, at))

    def _breaks(self, kind: Breach, at: datetime, what: str, *why: str) -> None:
        key = self._facts.trigger_key
        of = f"job {self._facts.job_key}, after others," if key.group == CONTINUATIONS else f"trigger {key}"
        sentence = f"The fire of {instant_text(at)} of {of} {what}."
        self._broken.append(JudgedBreach(kind, key, self._facts.job_key, at, sentence, why))


def _because(attempt: _Attempt) -> str:
    error = error_summary(attempt.error)
    return f": {error.rstrip('.')}" if error else ""


def _span(span: timedelta) -> str:
    seconds = round(span.total_seconds(), 3 if span < timedelta(seconds=10) else 0)
    if seconds < 120:
        return f"{seconds:g} s"
    minutes = seconds / 60
    return f"{minutes:.0f} minutes" if minutes < 120 else f"{minutes / 60:.1f} hours"


def busy_until(
    executions: Sequence[ExecutionRecord],
    running: Sequence[RunningRecord],
    limit: int,
    since: datetime,
    until: datetime,
) -> datetime | None:
    """Return the end of the last time between two instants at which as many executions ran as a job may have.

    None if there was no such time. `executions` and `running` are those of the job.
    """
    changes: list[tuple[datetime, int]] = []
    for record in executions:
        if record.ended_at is not None and record.outcome is not Outcome.SKIPPED:
            changes += [(record.fire_time or record.scheduled_fire_time, 1), (record.ended_at, -1)]
    for running_record in running:
        if running_record.fire_time < until:
            changes += [(running_record.fire_time, 1), (until, -1)]
    number, last = 0, None
    for at, change in sorted(changes, key=lambda each: (each[0], each[1])):
        was_full = number >= limit
        number += change
        if was_full and number < limit and at > since and at <= until:
            last = at
    return last


def rate_opens(rate: RateLimit, fires: Iterable[datetime], since: datetime, until: datetime) -> datetime | None:
    """Return the instant at which a rate let the next fire go after these, if it is between two instants.

    None if it held nothing back. An instant after `until` counts as `until`: the fire still waits.
    """
    due: datetime | None = None
    for at in sorted(fire for fire in fires if fire < until):
        due = rate.after(due, at, 1)
    opens = None if due is None else due - rate.tolerance
    return None if opens is None or opens <= since else min(opens, until)
