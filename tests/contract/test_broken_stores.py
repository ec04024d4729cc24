"""The contract tests find what they are for: a store that breaks the contract fails them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from quartzpy.store.memory.store import RamJobStore
from quartzpy.store.protocol import Completion, CompletionOutcome, Node
from quartzpy.store.queries import Position, RecordQuery, TriggerOrder, TriggerQuery
from tests.contract import test_complete, test_lookups
from tests.contract.harness import Harness, ManualClock


class OfAnybody(RamJobStore):
    """Takes an execution's end from whoever brings it."""

    def complete(self, node: Node, completions: Any, *, wakes_others: bool = False) -> CompletionOutcome:
        owners = {row.fire_id: Node(row.instance_id, row.epoch) for row in self.list_running()}
        one: Completion
        for one in completions:
            outcome = super().complete(owners.get(one.fired.fire_id, node), [one])
        return outcome


class WithoutOrder(RamJobStore):
    """Lists triggers by key, whatever order is asked for."""

    def find(self, query: RecordQuery[Any], limit: int | None, after: Position | None = None) -> list[Any]:
        assert isinstance(query, TriggerQuery)
        return super().find(replace(query, order=TriggerOrder.KEY), limit, after)


class BrokenHarness(Harness):
    def __init__(self, broken: type[RamJobStore]) -> None:
        clock = ManualClock()
        super().__init__(broken(clock), clock)

    def set_state(self, trigger: Any, state: Any) -> None:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("broken", "test"),
    [
        (OfAnybody, test_complete.test_only_the_epoch_that_fired_can_complete),
        (WithoutOrder, test_lookups.test_triggers_are_listed_by_fire_time_those_without_one_last),
    ],
)
def test_a_store_that_breaks_the_contract_fails(broken: type[RamJobStore], test: Callable[[Harness], None]) -> None:
    test(BrokenHarness(RamJobStore))
    with pytest.raises(AssertionError):
        test(BrokenHarness(broken))
