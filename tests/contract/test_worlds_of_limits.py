"""Random worlds of limits: whatever holds a fire back, alone or in any mixture.

Jobs have limits of their own, limits by key, limits that they share, rates, or several of these. Nodes take as much as
they have room for, end what they run in any order, hand some of it back, and die. No limit is ever exceeded, and in the
end each trigger has fired once, and nothing waits.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from datetime import datetime, timedelta
from typing import Any

import pytest

from quartzpy.jobs.job import JobDetail
from quartzpy.jobs.rate_limit import RateLimit
from quartzpy.jobs.shared_limit import Limit
from quartzpy.states import Outcome
from quartzpy.store.protocol import FiredTrigger, Node
from quartzpy.store.queries import TriggerQuery
from tests.contract.harness import SECOND, Harness, at, data_of, job, once
from tests.protocol.options import is_long

JOBS, TRIGGERS_OF_JOB, MAX_ROUNDS = 8, 6, 1_500
MAX_DEATHS = 2
"""After three deaths of nodes, the triggers of a job that ran on them are set to ERROR."""
RATES = ("30/minute", "2/second", "90/minute")


def trigger_of(execution: FiredTrigger) -> str:
    """Return the name of the trigger that an execution counts for."""
    _, of_trigger = data_of(execution)
    return str(of_trigger.get("QRTZ_RETRIED_TRIGGER_NAME", execution.trigger_name))


class World:
    """What the limits of a random world allow, what runs in it, and what has fired."""

    def __init__(self, store: Harness, chance: random.Random) -> None:
        self.store = store
        self.chance = chance
        self.nodes = [store.node(name) for name in "abc"]
        self.limits = {
            "slots": Limit(chance.choice([1, 2, 5])),
            "few": Limit(1),
            "rate": Limit(rate_limit=chance.choice(RATES)),
            "both": Limit(2, chance.choice(RATES)),
        }
        for name, limit in self.limits.items():
            store.store.put_limit(name, limit)
        self.jobs = {detail.name: detail for detail in map(self._job, range(JOBS))}
        self.triggers: list[str] = []
        for name, detail in self.jobs.items():
            triggers = [
                once(
                    f"{name}_{n}",
                    at(chance.uniform(-20, 20)),
                    priority=chance.randint(1, 9),
                    data={"customer": chance.choice("xyz")},
                )
                for n in range(TRIGGERS_OF_JOB)
            ]
            store.schedule(detail, *triggers)
            self.triggers += [trigger.name or "" for trigger in triggers]
        self.deaths = 0
        self.running: list[tuple[Node, FiredTrigger]] = []
        self.fired: list[str] = []
        self.fires_of_rate: dict[object, list[datetime]] = defaultdict(list)
        """The instants of the fires that a rate has admitted."""
        self.rates: dict[object, RateLimit] = {}

    def _job(self, number: int) -> JobDetail:
        own: dict[str, Any] = {}
        if self.chance.random() < 0.7:
            own["max_concurrent"] = self.chance.choice([1, 1, 2, 4])
            if self.chance.random() < 0.4:
                own["concurrency_key"] = "customer"
        if shared := self.chance.sample(sorted(self.limits), self.chance.choice([0, 0, 0, 1, 1, 2, 3])):
            own["limits"] = shared
        if self.chance.random() < (0.4 if shared else 0.8):
            own["rate_limit"] = self.chance.choice(RATES)
        return job(f"j{number}", durable=True, **own)

    def own_limit(self, execution: FiredTrigger) -> object:
        """Return the job and the value of its concurrency key, for which a limit of its own holds."""
        detail = self.jobs[execution.job_name]
        of_job, of_trigger = data_of(execution)
        return detail.name, {**of_job, **of_trigger}.get("customer") if detail.concurrency_key else None

    def note_rates(self, execution: FiredTrigger) -> None:
        detail = self.jobs[execution.job_name]
        rates = {name: self.limits[name].rate_limit for name in detail.limits or ()}
        for limit, rate in {**rates, self.own_limit(execution): detail.rate_limit}.items():
            if rate is not None:
                self.rates[limit] = rate
                self.fires_of_rate[limit].append(self.store.clock.now())

    def take(self, node: Node) -> None:
        limit = self.chance.choice([1, 2, 5, 50])
        fired = self.store.fire_due(node, limit=limit)
        assert len(fired) <= limit
        self.running += [(node, execution) for execution in fired]
        self.fired += map(trigger_of, fired)
        for execution in fired:
            self.note_rates(execution)
        self.check()

    def check(self) -> None:
        used: Counter[object] = Counter()
        for _, execution in self.running:
            detail = self.jobs[execution.job_name]
            used.update(detail.limits or ())
            own = self.own_limit(execution)
            used[own] += 1
            most = detail.max_concurrent
            assert most is None or used[own] <= most, detail
        for name, limit in self.limits.items():
            assert limit.max_concurrent is None or used[name] <= limit.max_concurrent, name

    def end_some(self) -> None:
        self.chance.shuffle(self.running)
        for _ in range(self.chance.randint(0, len(self.running))):
            node, execution = self.running.pop()
            self.store.complete(node, execution)

    def hand_back(self) -> None:
        """Some jobs have not begun; what repeats their fires is charged to the rates once more."""
        self.chance.shuffle(self.running)
        for node, execution in self.running[: self.chance.randint(1, 3)]:
            self.running.remove((node, execution))
            again: dict[str, Any] = {"outcome": Outcome.SNOOZED, "retry_after": timedelta(), "is_handed_back": True}
            self.store.complete(node, execution, **again)
            self.fired.remove(trigger_of(execution))

    def lose(self, node: Node) -> None:
        """A node dies, a neighbour recovers what it ran, and it starts anew."""
        place = self.nodes.index(node)
        survivor = self.nodes[place - 1]
        self.store.recover(survivor, node)
        self.running = [(owner, execution) for owner, execution in self.running if owner != node]
        self.nodes[place] = self.store.node(node.instance_id)

    def check_in(self) -> None:
        for node in self.nodes:
            self.store.store.check_in(node)

    def live(self) -> None:
        for _ in range(MAX_ROUNDS):
            if len(self.fired) == len(self.triggers) and not self.running:
                return
            node = self.chance.choice(self.nodes)
            match self.chance.randint(0, 20):
                case 0 if self.deaths < MAX_DEATHS:
                    self.deaths += 1
                    self.lose(node)
                case 0 | 1:
                    self.store.misfire(node)
                case 2 | 3 | 4 | 5 | 6:
                    self.end_some()
                case 20:
                    self.hand_back()
                case 7 | 8 | 9 | 10:
                    self.store.clock.advance(self.chance.choice([0.1, 0.5, 1]) * SECOND)
                    self.check_in()
                case _:
                    self.take(node)

    def check_rates(self) -> None:
        for limit, fires in self.fires_of_rate.items():
            rate = self.rates[limit]
            for gaps in (1, 2, 5):
                spans = [(first, first + gaps * rate.emission_interval) for first in fires]
                most = max(sum(first <= fire < until for fire in fires) for first, until in spans)
                assert most < gaps + rate.burst, (limit, rate)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Some worlds, the same ones each time; `--long` takes more."""
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", range(24 if is_long(metafunc.config) else 8))


def test_no_limit_is_exceeded_each_trigger_fires_once_and_nothing_is_left_waiting(store: Harness, seed: int) -> None:
    world = World(store, random.Random(seed))
    world.live()
    assert sorted(world.fired) == sorted(world.triggers)
    world.check_rates()
    assert not store.store.find(TriggerQuery(), 1000)
    assert not any(record.used or record.waiting for record in store.store.limits().values())
