"""Random graphs of joins, continuations and batches, and the few lines that say what they start.

`Model` is told which ends were recorded and which definitions changed, and says what must have been started, once for
each occasion. `Life` makes a graph, lets nodes run it, die, retry and skip, and deletes and redefines jobs meanwhile.
Both are compared when nothing is left to do: what was started, and what still waits.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from quartzpy.job_data import BATCH, JOINED, decode
from quartzpy.jobs.continuation import Continuation
from quartzpy.jobs.internal_entries import BatchKey, batch_entry, nominal_fire, repeats
from quartzpy.jobs.job import JobDetail
from quartzpy.jobs.join import ON, Join, occasion_of_instant
from quartzpy.keys import CONTINUATIONS, MANUAL_TRIGGERS, JobKey, TriggerKey
from quartzpy.node.opened_gates import gates_of
from quartzpy.states import JoinState, Outcome, TriggerState
from quartzpy.store.protocol import BatchEntry, FiredTrigger, JobEntry
from quartzpy.store.queries import JoinQuery, TriggerQuery
from quartzpy.triggers.simple import SimpleTrigger
from tests.contract.harness import SECOND, Harness, every, job, job_key, once

FINAL = (Outcome.SUCCEEDED, Outcome.SUCCEEDED, Outcome.SUCCEEDED, Outcome.FAILED, Outcome.CANCELLED)
ZONE = "Asia/Tokyo"


@dataclass
class BatchOfModel:
    total: int
    outcomes: tuple[Outcome, ...]
    succeeded: int = 0
    others: int = 0


@dataclass
class Model:
    """What ends start: by the job, and the instant or the name of the batch."""

    after: dict[JobKey, Join] = field(default_factory=dict)
    links: dict[JobKey, Sequence[Continuation]] = field(default_factory=dict)
    ended: defaultdict[tuple[JobKey, str], dict[JobKey, Outcome]] = field(default_factory=lambda: defaultdict(dict))
    batches: dict[tuple[JobKey, str], BatchOfModel] = field(default_factory=dict)
    states: dict[tuple[JobKey, str], JoinState] = field(default_factory=dict)
    starts: Counter[tuple[JobKey, str]] = field(default_factory=Counter)

    def end(
        self, job: JobKey, instant: datetime, outcome: Outcome, *, counts: bool = True, continues: bool = True
    ) -> None:
        for link in self.links.get(job, ()) if counts or continues else ():
            if link.key in self.links and outcome in link.outcomes:
                self.starts[link.key, occasion_of_instant(instant)] += 1
        for waiting, join in self.after.items() if counts else ():
            if job in join.keys:
                place = waiting, join.occasion(instant)
                if outcome in join.outcomes or self.ended[place].get(job) not in join.outcomes:
                    self.ended[place][job] = outcome
                self.decide(place, join)

    def decide(self, place: tuple[JobKey, str], join: Join) -> None:
        is_met = sum(self.ended[place].get(up) in join.outcomes for up in join.keys) >= join.needed
        if self.states.get(place) is not JoinState.FIRED:
            self.states[place] = JoinState.FIRED if is_met else JoinState.WAITING
            self.starts[place[0], occasion_of_instant(join.instant(place[1]))] += is_met

    def end_of_batch(self, place: tuple[JobKey, str], *, succeeded: bool) -> None:
        batch = self.batches[place]
        if self.states[place] is JoinState.WAITING:
            batch.succeeded, batch.others = batch.succeeded + succeeded, batch.others + (not succeeded)
            if batch.succeeded + batch.others == batch.total:
                is_met = (Outcome.FAILED if batch.others else Outcome.SUCCEEDED) in batch.outcomes
                self.states[place] = JoinState.FIRED if is_met else JoinState.UNMET
                self.starts[place] += is_met

    def define(self, job: JobDetail) -> None:
        self.after.pop(job.key, None)
        self.links[job.key] = job.continuations
        if isinstance(job.after, Join):
            self.after[job.key] = job.after
        for place in self._waiting(job.key):
            if place not in self.batches:
                join = self.after.get(job.key)
                if join is None or join.per != ("instant" if "T" in place[1] else "day"):
                    self.states[place] = JoinState.UNMET
                elif any(up in self.ended[place] for up in join.keys):
                    self.decide(place, join)
                else:
                    self.states[place] = JoinState.UNMET

    def delete(self, job: JobKey) -> None:
        self.after.pop(job, None)
        self.links.pop(job, None)
        self.states |= dict.fromkeys(self._waiting(job), JoinState.UNMET)

    def _waiting(self, job: JobKey) -> list[tuple[JobKey, str]]:
        return [place for place, state in self.states.items() if place[0] == job and state is JoinState.WAITING]


class Life:
    """A random graph, and what happens to it."""

    def __init__(self, store: Harness, seed: int) -> None:
        self.store, self.random, self.model = store, random.Random(seed), Model()
        self.nodes = [store.node("a"), store.node("b")]
        self.running: dict[int, tuple[int, FiredTrigger, bool, bool]] = {}
        """By fire: its node, and whether at its fire it was waited for, and had continuations."""
        self.past: list[FiredTrigger] = []
        self.skipped: set[int] = set()
        self.observed: Counter[tuple[JobKey, str]] = Counter()
        self.numbers = 0
        self.log: list[str] = []
        self.sources = [f"s{n}" for n in range(self.random.randint(1, 3))]
        self.others = [f"j{n}" for n in range(self.random.randint(2, 5))]
        # The upper ones follow the lower ones only, so that there is no circle.
        self.order = [*self.sources, *self.others]
        for name in reversed(self.order):
            self.store_job(name, after=False)
        for name in self.others:
            self.store_job(name)
        for name in self.sources:
            store.add_triggers(job_key(name), every(10, name, times=3, misfire="ignore"))

    # --- definitions

    def store_job(self, name: str, *, after: bool = True) -> None:
        place = self.order.index(name)
        values: dict[str, Any] = {}
        targets = [other for other in self.order[place + 1 :] if other in self.others]
        if targets and self.random.random() < 0.4:
            values["continuations"] = [
                Continuation(target, self.random.choice([(Outcome.SUCCEEDED,), (Outcome.SUCCEEDED, Outcome.FAILED)]))
                for target in self.random.sample(targets, k=self.random.randint(1, min(2, len(targets))))
            ]
        lower = [other for other in self.order[:place] if job_key(other) in self.model.links]
        if after and lower and self.random.random() < 0.7:
            values["after"] = self.join_of(lower)
        if self.random.random() < 0.3:
            values["requests_recovery"] = True
        if self.random.random() < 0.2:
            values |= {"max_concurrent": 1, "overlap_policy": self.random.choice(["block", "skip"])}
        detail = job(name, durable=True, **values)
        self.log.append(f"store {name} {values}")
        self.store.schedule(detail, replace=True)
        self.model.define(detail)

    def join_of(self, lower: list[str]) -> Join:
        names = self.random.sample(lower, k=self.random.randint(1, min(3, len(lower))))
        need: Any = self.random.choice(["all", "all", "any", len(names)])
        on: Any = self.random.choice(["success", "success", "end", "failure"])
        if self.random.random() < 0.2:
            return Join(names, need=need, on=on, per="day", time_zone=ZONE)
        return Join(names, need=need, on=on)

    def store_batch(self) -> None:
        stored = [name for name in self.order if job_key(name) in self.model.links]
        if not stored:
            return
        self.numbers += 1
        of, then = job_key(self.random.choice(stored)), job_key(self.random.choice(stored))
        on: Any = self.random.choice(list(ON))
        total = self.random.randint(1, 3)
        batch = BatchKey(then, f"batch{self.numbers}")
        self.log.append(f"batch {batch} of {total} {of} on {on}")
        triggers = [
            self.store.prepare(
                once(f"{batch.name}-{n}", self.store.clock.now(), data=batch_entry(batch), misfire="ignore"), of
            )
            for n in range(total)
        ]
        self.store.store.store_jobs([JobEntry(None, triggers)], replace=False, batch=BatchEntry(batch, total, ON[on]))
        self.model.batches[batch] = BatchOfModel(total, ON[on])
        self.model.states[batch] = JoinState.WAITING

    # --- what happens

    def step(self) -> None:
        weights = {
            self.fire: 8,
            self.end: 9,
            self.kill: 1.2,
            self.pass_time: 3,
            self.store_batch: 1,
            self.redefine: 1.2,
            self.delete_job: 0.6,
            self.store_again: 1,
            self.delete_trigger: 0.6,
            self.run_again: 1,
        }
        [happens] = self.random.choices(list(weights), list(weights.values()))
        happens()

    def fire(self) -> None:
        node = self.random.randrange(2)
        for fired in self.store.fire_due(self.nodes[node]):
            data = _data(fired)
            counts = any(fired.job_key in join.keys for join in self.model.after.values()) or BATCH in data
            self.running[fired.fire_id] = node, fired, counts, bool(self.model.links[fired.job_key])
            self.log.append(f"fire {fired.fire_id} {fired.trigger_key} of {fired.job_key}")
            if fired.trigger_key.group == CONTINUATIONS:
                self.observe(fired.job_key, data, fired.scheduled_fire_time)
        self.note_skipped()

    def observe(self, job: JobKey, data: dict[str, Any], scheduled: datetime) -> None:
        """Note that something was started by others."""
        joined = data.get(JOINED)
        if joined is not None and (job, joined["occasion"]) in self.model.batches:
            self.observed[job, joined["occasion"]] += 1
        else:
            nominal = nominal_fire(TriggerKey("any", CONTINUATIONS), scheduled, data)[1]
            self.observed[job, occasion_of_instant(nominal)] += 1

    def end(self, *, always: Outcome | None = None) -> None:
        if not self.running:
            return
        node, _, *flags = self.random.choice(list(self.running.values()))
        # What is recorded together is looked at together; see `FiredTrigger.joins` and `continues`.
        together = [one for one in self.running.values() if [one[0], *one[2:]] == [node, *flags]]
        chosen = self.random.sample(together, k=self.random.randint(1, len(together)))
        completions = []
        for _, fired, counts, continues in chosen:
            del self.running[fired.fire_id]
            self.past.append(fired)
            outcome = always or self.random.choice(FINAL)
            retry = SECOND if outcome is Outcome.FAILED and self.random.random() < 0.5 else None
            self.log.append(f"end {fired.fire_id} {fired.job_key} {outcome} {retry}")
            completions.append(
                self.store.ended(
                    fired, outcome=outcome, error="no" if outcome is Outcome.FAILED else None, retry_after=retry
                )
            )
            if retry is None or fired.job_key not in self.model.links:
                self.note_end(fired, outcome, counts=counts, continues=continues)
        answer = self.store.store.complete(self.nodes[node], completions)
        assert not answer.deferred
        assert not answer.fenced
        if self.random.random() < 0.2:
            # The answer was lost.
            self.store.store.complete(self.nodes[node], completions)
        self.store.look_at(self.nodes[node], gates_of(completions))

    def note_end(self, fired: FiredTrigger, outcome: Outcome, *, counts: bool = True, continues: bool = True) -> None:
        self.model.end(fired.job_key, _nominal(fired), outcome, counts=counts, continues=continues)
        batch = _batch(fired.trigger_key.group, _data(fired))
        if batch is not None and batch.job in self.model.links:
            self.model.end_of_batch(batch, succeeded=outcome is Outcome.SUCCEEDED)

    def kill(self) -> None:
        node = self.random.randrange(2)
        dead = [fired for of, fired, *_ in self.running.values() if of == node]
        self.log.append(f"kill {node}")
        self.store.recover(self.nodes[1 - node], self.nodes[node])
        late = self.store.store.complete(self.nodes[node], [self.store.ended(fired) for fired in dead])
        assert set(late.fenced) == {fired.fire_id for fired in dead}
        for fired in dead:
            del self.running[fired.fire_id]
            self.past.append(fired)
            if not (fired.job_detail.requests_recovery and fired.job_key in self.model.links):
                self.note_end(fired, Outcome.TERMINATED)
        self.store.store.subtract_node_deaths({fired.job_key for fired in dead})
        self.nodes[node] = self.store.node(f"{'ab'[node]}{len(self.log)}")

    def pass_time(self) -> None:
        self.store.clock.advance(timedelta(seconds=self.random.choice([0.01, 1, 7])))

    def redefine(self) -> None:
        stored = [name for name in self.others if job_key(name) in self.model.links]
        if stored:
            self.store_job(self.random.choice(stored))

    def store_again(self) -> None:
        gone = [name for name in self.order if job_key(name) not in self.model.links]
        if gone:
            self.store_job(self.random.choice(gone), after=gone[0] in self.others)

    def delete_job(self) -> None:
        name = self.random.choice(self.order)
        key = job_key(name)
        if key not in self.model.links:
            return
        self.log.append(f"delete job {name}")
        self.model.delete(key)
        for record in self.store.store.find(TriggerQuery(job_key=key), None):
            self.note_deletion(record)
        self.store.store.delete_jobs([key])

    def delete_trigger(self) -> None:
        records = self.store.store.find(TriggerQuery(), None)
        if records:
            record = self.random.choice(records)
            self.log.append(f"delete trigger {record.key}")
            self.note_deletion(record)
            self.store.store.delete_triggers([record.key])

    def note_deletion(self, record: Any) -> None:
        trigger = record.trigger
        data = trigger.data or {}
        if record.progress.previous_fire_time is not None or record.state is TriggerState.COMPLETE:
            return
        if record.key.group == CONTINUATIONS:
            self.observe(trigger.job_key, data, trigger.start_time)
        self.note_left(record.key.group, data)

    def run_again(self) -> None:
        past = [fired for fired in self.past if fired.job_key in self.model.links]
        if past:
            fired = self.random.choice(past)
            self.numbers += 1
            self.log.append(f"run again {fired.fire_id} {fired.job_key}")
            data = repeats(fired.trigger_key, fired.scheduled_fire_time, _data(fired))
            now = self.store.clock.now()
            trigger = SimpleTrigger(
                f"again{self.numbers}", MANUAL_TRIGGERS, job_key=fired.job_key, start_time=now, data=data
            )
            self.store.add_triggers(fired.job_key, trigger)

    def note_skipped(self) -> None:
        """Skipped fires of what follows others are starts; those of batches are ends without success."""
        self.store.store.purge_history(timedelta(days=1), limit=100)
        for record in self.store.history():
            if record.outcome is Outcome.SKIPPED and record.fire_id not in self.skipped:
                self.skipped.add(record.fire_id)
                data = dict(record.trigger_data or {})
                self.log.append(f"skipped {record.trigger_key} of {record.job_key}")
                if record.trigger_key.group == CONTINUATIONS:
                    self.observe(record.job_key, data, record.scheduled_fire_time)
                self.note_left(record.trigger_key.group, data)

    def note_left(self, group: str, data: dict[str, Any]) -> None:
        batch = _batch(group, data)
        if batch is not None and batch.job in self.model.links:
            self.model.end_of_batch(batch, succeeded=False)

    # --- the end

    def run_out(self) -> None:
        for _ in range(200):
            self.store.clock.advance(timedelta(seconds=1))
            self.fire()
            while self.running:
                self.end(always=Outcome.SUCCEEDED)
            waiting = [
                record
                for record in self.store.store.find(TriggerQuery(), None)
                if record.state is not TriggerState.COMPLETE
            ]
            if not waiting:
                break
        else:
            raise AssertionError(f"still there: {[(record.key, record.state) for record in waiting]}")

    def differences(self) -> list[str]:
        said = {(row.job_key, row.occasion): row.state for row in self.store.store.find(JoinQuery(), None)}
        found = [
            f"{place}: started {self.observed[place]} times and not {self.model.starts[place]}"
            for place in sorted(self.observed.keys() | self.model.starts.keys())
            if self.observed[place] != self.model.starts[place]
        ]
        return found + [
            f"{place}: {said.get(place)} and not {self.model.states.get(place)}"
            for place in sorted(said.keys() | self.model.states.keys())
            if said.get(place) is not self.model.states.get(place)
        ]


def _data(fired: FiredTrigger) -> dict[str, Any]:
    return dict(decode(fired.trigger_data) or {}) if fired.trigger_data else {}


def _nominal(fired: FiredTrigger) -> datetime:
    coalesced = fired.coalesced_fire_times
    return coalesced[-1] if coalesced else nominal_fire(fired.trigger_key, fired.scheduled_fire_time, _data(fired))[1]


def _batch(group: str, data: dict[str, Any]) -> BatchKey | None:
    entry = data.get(BATCH)
    if entry is None or group == MANUAL_TRIGGERS:
        return None
    return BatchKey(JobKey(entry["job_name"], entry["job_group"]), entry["batch"])


def lived(store: Harness, seed: int, steps: int = 40) -> Life:
    """Live one life to its end."""
    life = Life(store, seed)
    for _ in range(steps):
        life.step()
    life.run_out()
    return life
