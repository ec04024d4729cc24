"""Plays jobs with expectations on the store in memory, by its own steps, and injects failures.

What is injected is written down when it happens: the fire, and the expectations that it breaks. That list is what the
judge is compared with. The judge itself is that of production, and so are the store and its records; only the clock and
the loop of the node are here.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from itertools import count

from quartzpy.calendars.days import HolidayCalendar
from quartzpy.expect import Breach, Expect
from quartzpy.jobs.fired_trigger import FiredTrigger
from quartzpy.jobs.job import JobDetail
from quartzpy.keys import MANUAL_TRIGGERS, TriggerKey
from quartzpy.operations.telling.expectation_check import check_expectations
from quartzpy.operations.telling.health_check import EVERY
from quartzpy.states import JobMode, Missed, Outcome, TriggerState
from quartzpy.store.protocol import Acquisition, TriggersOfJobs
from quartzpy.triggers.combined import Jitter
from quartzpy.triggers.cron import CronTrigger
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.trigger import Trigger
from tests.contract.harness import RamHarness
from tests.expectations.ledger import MemoryLedger
from tests.run_by import Slots, run_all

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
THRESHOLD = MINUTE
"""The lateness that counts as a misfire."""
ZONES = ("Europe/Berlin", "America/New_York", "UTC", "Australia/Sydney")
LATE, MISSING, LONG, FAILING = "starts late", "does not start", "runs long", "fails"
INJECTED = (LATE, MISSING, LONG, FAILING)
Found = tuple[TriggerKey, datetime, Breach]


@dataclass
class Plan:
    """A job of the simulation, with what happens to it."""

    job: JobDetail
    triggers: list[Trigger]
    kind: str
    usual: timedelta
    """The usual duration of a run."""
    crontabs: dict[str, str] = field(default_factory=dict)
    """What the other monitor knows of each trigger."""
    can: tuple[str, ...] = INJECTED
    """The failures that are injected."""
    benign: str = ""
    """What happens to it that breaks nothing."""
    until: dict[str, datetime] = field(default_factory=dict)
    """The instant of another schedule, of which the monitor is not told: it is asked about the first one alone."""
    armed: list[str] = field(default_factory=list)
    """The failures of its next fires."""
    fails_first: bool = False
    """The first attempts fail now and then, and the second ones succeed."""

    @property
    def slots(self) -> Slots:
        return Slots(self.job.job_type, self.job.placement.text, group=self.job.name)


def _holidays(year: int, zone: str) -> HolidayCalendar:
    days = {date(year + after, month, day) for after in (0, 1) for month, day in ((1, 1), (4, 3), (5, 1), (12, 25))}
    days |= {date(year + after, month, 14) for after in (0, 1) for month in range(1, 13, 2)}
    return HolidayCalendar(excluded_dates=days, time_zone=zone)


class Simulation:
    """A number of jobs over a number of days, with so many injected failures."""

    def __init__(self, start: datetime, days: int, jobs: int, failures: int, seed: int = 1) -> None:
        self.random = random.Random(seed)
        self.start, self.end = start, start + days * DAY
        self.harness = RamHarness()
        self.store, self.clock = self.harness.store, self.harness.clock
        self.clock.set(start)
        self.node = self.harness.node()
        self.ledger = MemoryLedger(self.store, self.clock.now)
        self.injected: dict[Found, str] = {}
        self.happened: Counter[str] = Counter()
        self.starts: dict[TriggerKey, list[datetime]] = {}
        self.failed: list[tuple[TriggerKey, datetime]] = []
        self._events: list[tuple[datetime, int, Callable[[], None]]] = []
        self._numbers = count()
        self._down: set[str] = set()
        self._due: dict[TriggerKey, datetime] = {}
        self._expected_turn: datetime | None = None
        self.plans = {plan.job.key: plan for plan in self._plans(jobs)}
        for zone in ZONES:
            self.store.put_calendar(zone, _holidays(start.year, zone), replace=False)
        for plan in self.plans.values():
            calendar = next((trigger.calendar for trigger in plan.triggers if trigger.calendar), None)
            stored = self.store.calendars([calendar])[calendar].calendar if calendar else None
            self.harness.schedule(plan.job, *plan.triggers, calendar=stored)
        run_all(self.store, self.node, *(plan.slots for plan in self.plans.values()))
        self.ledger.list_triggers()
        for plan in self.plans.values():
            self._watch_triggers(plan)
            self._happen(plan, days)
        self._arm(failures, days)
        for number in range(1, days * 12):
            self._at(start + number * 2 * HOUR, self._purge)
        self._plan_turn()

    # --- the jobs

    def _plans(self, number: int) -> Iterator[Plan]:
        kinds = ("morning", "nightly", "interval", "gap", "jitter", "serial", "skip", "catch up", "retry", "share")
        for place in range(number):
            kind, zone = kinds[place % len(kinds)], ZONES[place // len(kinds) % len(ZONES)]
            yield self._plan(kind, f"job-{place:03}", zone)

    def _plan(self, kind: str, name: str, zone: str) -> Plan:
        pick = self.random
        hour, minute = pick.randrange(6, 20), pick.randrange(0, 50)

        def cron(number: int, expression: str, **values: object) -> CronTrigger:
            return CronTrigger(
                expression,
                f"{name}-{number}",
                time_zone=zone,
                start_time=self.start,
                **values,  # type: ignore[arg-type]
            )

        def job(expect: Expect | None, **values: object) -> JobDetail:
            # A group of its own makes that a step looks at the jobs that it is asked for.
            return JobDetail(
                f"type-{name}",
                name,
                expect=expect,
                execution_group=name,
                **values,  # type: ignore[arg-type]
            )

        starts = Expect(starts_within="2m", runs_at_most="30m")
        daily = {f"{name}-1": f"{minute} {hour} * * *"}
        match kind:
            case "morning":
                trigger = cron(1, f"0 {minute} {hour} ? * MON-FRI", calendar=zone, misfire="do_nothing")
                crontabs = {f"{name}-1": f"{minute} {hour} * * 1-5"}
                return Plan(job(starts), [trigger], kind, 12 * MINUTE, crontabs, (LATE, MISSING, LONG), "pause")
            case "nightly":
                # Of two expectations, that of the trigger holds.
                trigger = cron(1, f"0 {minute} 1 * * ?", calendar=zone, expect=Expect(ends_by="06:00"))
                crontabs = {f"{name}-1": f"{minute} 1 * * *"}
                return Plan(job(starts), [trigger], kind, 40 * MINUTE, crontabs, (MISSING, LONG, FAILING), "mode")
            case "interval":
                every = SimpleTrigger(
                    f"{name}-1", interval=12 * HOUR, start_time=self.start + hour * MINUTE, repeat_count=None
                )
                expect = Expect(starts_within="2m", success=1)
                crontabs = {f"{name}-1": f"{hour} */12 * * *"}
                return Plan(job(expect), [every], kind, 5 * MINUTE, crontabs, (LATE, MISSING, FAILING), "by hand")
            case "gap":
                crontabs = {f"{name}-1": f"{minute} 2 * * *"}
                return Plan(job(starts), [cron(1, f"0 {minute} 2 * * ?")], kind, 9 * MINUTE, crontabs, (LATE, LONG))
            case "jitter":
                jitter = Jitter(
                    f"{name}-1", trigger=cron(1, f"0 {minute} {hour} * * ?"), up_to="20m", start_time=self.start
                )
                return Plan(job(starts), [jitter], kind, 8 * MINUTE, daily, (LATE, MISSING, LONG), "pause")
            case "serial":
                two = [cron(1, f"0 {minute} {hour} * * ?"), cron(2, f"0 {minute + 5} {hour} * * ?")]
                crontabs = daily | {f"{name}-2": f"{minute + 5} {hour} * * *"}
                serial = job(Expect(starts_within="2m"), disallow_concurrent=True)
                return Plan(serial, two, kind, 11 * MINUTE, crontabs, (), "blocked")
            case "skip":
                two = [cron(1, f"0 {minute} {hour} * * ?"), cron(2, f"0 {minute + 5} {hour} * * ?")]
                crontabs = daily | {f"{name}-2": f"{minute + 5} {hour} * * *"}
                expect = Expect(starts_within="2m", ends_by="23:30")
                skipping = job(expect, max_concurrent=1, overlap_policy="skip")
                return Plan(skipping, two, kind, 11 * MINUTE, crontabs, (), "skipped")
            case "catch up":
                caught_up = cron(1, f"0 {minute} */12 * * ?", misfire="fire_all", catch_up_max=5)
                crontabs = {f"{name}-1": f"{minute} */12 * * *"}
                return Plan(job(starts), [caught_up], kind, 7 * MINUTE, crontabs, (MISSING, LONG), "pause")
            case "retry":
                expect = Expect(success=1, runs_at_most="1h")
                plan = Plan(
                    job(expect), [cron(1, f"0 {minute} {hour} * * ?")], kind, 10 * MINUTE, daily, (FAILING, LONG)
                )
                plan.fails_first = True
                return plan
            case _:
                # Two of its last 100 fires may fail, and do.
                share = job(Expect(success=0.98, starts_within="5m"))
                hourly = {f"{name}-1": f"{minute} */12 * * *"}
                return Plan(share, [cron(1, f"0 {minute} */12 * * ?")], kind, 6 * MINUTE, hourly, (LATE,), "failures")

    def _happen(self, plan: Plan, days: int) -> None:
        """Plan what breaks nothing."""
        if plan.benign in ("pause", "mode"):
            for _ in range(max(1, days // 60)):
                begin = self.start + self.random.uniform(0.1, days - 0.5) * DAY
                end = begin + self.random.uniform(0.05, 3) * DAY
                rule = self.random.choice([Missed.SKIP, Missed.ONCE, Missed.MISFIRE])
                self._at(begin, lambda plan=plan: self._pause(plan))  # type: ignore[misc]
                self._at(end, lambda plan=plan, rule=rule: self._resume(plan, rule))  # type: ignore[misc]
        if plan.benign == "by hand":
            for _ in range(max(1, days // 20)):
                at = self.start + self.random.uniform(0, days) * DAY
                self._at(at, lambda plan=plan: self._by_hand(plan))  # type: ignore[misc]
        if plan.kind == "gap" and days > 100:
            at = self.start + self.random.uniform(100, days) * DAY
            self._at(at, lambda plan=plan: self._reschedule(plan))  # type: ignore[misc]

    def _arm(self, failures: int, days: int) -> None:
        """Spread the failures over the jobs and the days, at most one for each job in three days."""
        able = [plan for plan in self.plans.values() if plan.can]
        slots = [(plan, day) for plan in able for day in range(1, max(2, days - 3), 3)]
        for plan, day in self.random.sample(slots, min(failures, len(slots))):
            kind = self.random.choice(plan.can)
            at = self.start + (day + self.random.random()) * DAY
            self._at(at, lambda plan=plan, kind=kind: plan.armed.append(kind))  # type: ignore[misc]

    # --- the loop

    def _at(self, instant: datetime, action: Callable[[], None]) -> None:
        heapq.heappush(self._events, (instant, next(self._numbers), action))

    def run(self, until: datetime | None = None) -> None:
        until = until or self.end
        while self._events and self._events[0][0] < until:
            instant, _, action = heapq.heappop(self._events)
            if instant > self.clock.now():
                self.clock.set(instant)
            action()
            self._plan_turn()

    def _plan_turn(self) -> None:
        """Plan the next turn of the judge that finds something to look at: the others find nothing due."""
        due_at = self.ledger.next_due()
        if due_at is None:
            return
        turn = max(due_at, self.clock.now())
        turn = self.start + -((self.start - turn) // EVERY) * EVERY
        if self._expected_turn is None or turn < self._expected_turn:
            self._expected_turn = turn
            self._at(turn, self._turn)

    def _turn(self) -> None:
        # Of a turn that was planned before a sooner one, nothing is left to do.
        if self._expected_turn == self.clock.now():
            self._expected_turn = None
            check_expectations(self.store, self.ledger)

    def _purge(self) -> None:
        self.store.purge_history(20 * HOUR, limit=100_000)

    def _watch_triggers(self, plan: Plan) -> None:
        """Plan the steps at which the triggers of a job become due."""
        for record in self.store.triggers([TriggerKey(trigger.name or "") for trigger in plan.triggers]).values():
            self._checkpoint(record.key, record.next_fire_time)

    def _checkpoint(self, key: TriggerKey, at: datetime | None) -> None:
        if at is not None and self._due.get(key) != at:
            self._due[key] = at
            self._at(at, lambda: self._becomes_due(key, at))

    def _becomes_due(self, key: TriggerKey, at: datetime) -> None:
        record = self.store.triggers([key]).get(key)
        if record is None:
            return
        if record.next_fire_time != at or record.state is not TriggerState.WAITING:
            self._checkpoint(key, record.next_fire_time)
            self._step(self.plans[record.job_key])
            return
        plan = self.plans[record.job_key]
        if plan.armed and plan.armed[0] in (LATE, MISSING) and at == self.clock.now():
            self._delay(plan, key, at, plan.armed.pop(0))
        self._step(plan, may_be_late=at != self.clock.now())

    def _delay(self, plan: Plan, key: TriggerKey, at: datetime, kind: str) -> None:
        """Let no node run the job for a time."""
        expect = self._expect_of(plan, key)
        within = expect.starts_within or MINUTE
        # Without a misfire a fire is late by less than the threshold.
        span = timedelta(seconds=self.random.uniform(60, 3000)) if kind == LATE else self.random.uniform(1, 3) * HOUR
        until = at + (within + span)
        if expect.ends_by is not None:
            end = expect.end_of(at, self._zone(plan, key))
            assert end is not None
            until = max(until, end + MINUTE)
            self._inject(key, at, Breach.ENDS_LATE, kind)
        if expect.starts_within is not None:
            self._inject(key, at, Breach.STARTS_LATE, kind)
        self._down.add(plan.job.job_type)
        self.store.decide(self.node, {plan.slots.dispatch_key: False})
        self._at(until, lambda: self._comes_up(plan))

    def _comes_up(self, plan: Plan) -> None:
        self._down.discard(plan.job.job_type)
        self.store.decide(self.node, {plan.slots.dispatch_key: True})
        self._step(plan)
        self._watch_triggers(plan)

    def _step(self, plan: Plan, *, may_be_late: bool = True) -> None:
        """Take the steps of a node for the triggers of a job."""
        if may_be_late:
            misfired = self.store.recover_misfires(self.node, threshold=THRESHOLD, limit=100)
            for key in misfired.misfired:
                self._checkpoint(key, self.store.triggers([key])[key].next_fire_time)
        took = self._acquire(plan)
        self._take(took)
        if took.unfilled:
            self.harness.refill(self.node, took.unfilled)
            self._take(self._acquire(plan))

    def _acquire(self, plan: Plan) -> Acquisition:
        return self.store.acquire(
            self.node, [plan.slots.of_pool], limit=100, look_ahead=timedelta(), misfire_threshold=THRESHOLD
        )

    def _take(self, took: Acquisition) -> None:
        for skip in took.skipped:
            self.happened["skipped"] += 1
            self._watch_triggers(self.plans[skip.job_key])
        for one in took.fired:
            self._runs(one)

    def _runs(self, fired: FiredTrigger) -> None:
        plan = self.plans[fired.job_key]
        key, at, now = fired.trigger_key, fired.scheduled_fire_time, self.clock.now()
        self.starts.setdefault(key, []).append(now)
        self.happened["runs"] += 1
        took = plan.usual * self.random.uniform(0.6, 1.4)
        outcome, retry_after = Outcome.SUCCEEDED, None
        is_scheduled = key.group == "DEFAULT"
        if plan.armed and plan.armed[0] in (LONG, FAILING) and is_scheduled and at == now:
            took, outcome = self._breaks(plan, key, at, plan.armed.pop(0), took)
        elif plan.fails_first and is_scheduled and self.random.random() < 0.1:
            outcome, retry_after = Outcome.FAILED, 3 * MINUTE
            self.happened["retried"] += 1
        elif plan.benign == "failures" and is_scheduled and self._may_fail(key):
            outcome = Outcome.FAILED
            self.happened["allowed failures"] += 1
        self._at(now + took, lambda: self._ends(fired, now, outcome, retry_after))
        if is_scheduled:
            self._watch_triggers(plan)

    def _may_fail(self, key: TriggerKey) -> bool:
        """Return True if the fire may fail: two of 100 may, so the next ones come after more than 100 fires."""
        return len(self.starts[key]) % 130 in (60, 61)

    def _breaks(
        self, plan: Plan, key: TriggerKey, at: datetime, kind: str, took: timedelta
    ) -> tuple[timedelta, Outcome]:
        expect = self._expect_of(plan, key)
        end = expect.end_of(at, self._zone(plan, key))
        if kind == LONG:
            if expect.runs_at_most is not None:
                took = expect.runs_at_most + self.random.uniform(0.05, 1) * HOUR
                self._inject(key, at, Breach.RUNS_LONG, kind)
            if end is not None:
                took = max(took, end - at + 10 * MINUTE)
                self._inject(key, at, Breach.ENDS_LATE, kind)
            return took, Outcome.SUCCEEDED
        if end is not None:
            self._inject(key, at, Breach.ENDS_LATE, kind)
        if expect.success is not None:
            self._inject(key, at, Breach.FAILS_OFTEN, kind)
        self.failed.append((key, at))
        return took, Outcome.FAILED

    def _inject(self, key: TriggerKey, at: datetime, breach: Breach, kind: str) -> None:
        self.injected[key, at, breach] = kind

    def _ends(self, fired: FiredTrigger, began: datetime, outcome: Outcome, retry_after: timedelta | None) -> None:
        plan = self.plans[fired.job_key]
        error = None if outcome is Outcome.SUCCEEDED else "ValueError: broken"
        self.harness.complete(self.node, fired, started_at=began, outcome=outcome, error=error, retry_after=retry_after)
        if retry_after is not None:
            self._at(self.clock.now() + retry_after, lambda: self._step(plan))
        if plan.job.max_concurrent is not None:
            self._step(plan)

    # --- what breaks nothing

    def _pause(self, plan: Plan) -> None:
        if plan.job.job_type in self._down:
            return
        if plan.benign == "mode":
            self.store.set_mode(plan.job.key, JobMode.DISABLED)
        else:
            self.store.pause(TriggersOfJobs([plan.job.key]))
        self.happened["pauses"] += 1

    def _resume(self, plan: Plan, rule: Missed) -> None:
        if plan.benign == "mode":
            self.store.set_mode(plan.job.key, JobMode.ENABLED, rule)
        else:
            self.store.resume(TriggersOfJobs([plan.job.key]), rule)
        self._at(self.clock.now() + MINUTE, self.ledger.list_triggers)
        self._step(plan)
        self._watch_triggers(plan)

    def _by_hand(self, plan: Plan) -> None:
        number = next(self._numbers)
        by_hand = SimpleTrigger(f"hand-{number}", MANUAL_TRIGGERS, start_time=self.clock.now(), repeat_count=0)
        self.harness.add_triggers(plan.job.key, by_hand)
        self.happened["by hand"] += 1
        self._step(plan)

    def _reschedule(self, plan: Plan) -> None:
        [trigger] = plan.triggers
        assert isinstance(trigger, CronTrigger)
        assert trigger.name is not None
        new = CronTrigger("0 15 17 * * ?", trigger.name, time_zone=trigger.time_zone, start_time=self.clock.now())
        plan.until = {trigger.name: self.clock.now()}
        plan.triggers = [new]
        self.harness.add_triggers(plan.job.key, new, replace=True)
        self.happened["rescheduled"] += 1
        self._watch_triggers(plan)
        self._at(self.clock.now() + MINUTE, self.ledger.list_triggers)

    # ---

    def _expect_of(self, plan: Plan, key: TriggerKey) -> Expect:
        trigger = next(trigger for trigger in plan.triggers if trigger.name == key.name)
        expect = trigger.expect or plan.job.expect
        assert expect is not None
        return expect

    def _zone(self, plan: Plan, key: TriggerKey) -> str:
        trigger = next(trigger for trigger in plan.triggers if trigger.name == key.name)
        return str(getattr(trigger, "time_zone", "UTC"))


@dataclass(frozen=True)
class Score:
    """How what was found compares with what was injected."""

    right: int
    false: int
    missed: int

    @property
    def precision(self) -> float:
        return self.right / (self.right + self.false) if self.right + self.false else 1.0

    @property
    def recall(self) -> float:
        return self.right / (self.right + self.missed) if self.right + self.missed else 1.0

    @classmethod
    def of(cls, found: set[object], injected: set[object]) -> Score:
        return cls(len(found & injected), len(found - injected), len(injected - found))


def of_judge(simulation: Simulation, until: datetime | None = None) -> tuple[Score, set[Found], set[Found]]:
    """Return the score of the judge, with what it has found and what was injected. The last two days are not over."""
    until = until or simulation.end - 2 * DAY
    found = {(key, at, kind) for key, kind, at in simulation.ledger.breaches if at < until}
    injected = {each for each in simulation.injected if each[1] < until}
    return Score.of({*found}, {*injected}), found, injected
