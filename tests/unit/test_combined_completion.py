"""Combinations pass the end of an execution on to the parts that caused the fire."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import ClassVar

import pytest

from quartzpy import AllOf, AnyOf, CalendarIntervalTrigger, Jitter, Trigger
from quartzpy.states import CompletionInstruction, Outcome
from quartzpy.triggers import trigger as kinds
from quartzpy.triggers.trigger import CompletedExecution

MINUTE = timedelta(minutes=1)
START = datetime(2026, 5, 15, tzinfo=UTC)
NOOP, COMPLETE, DELETE = (
    CompletionInstruction.NOOP,
    CompletionInstruction.SET_TRIGGER_COMPLETE,
    CompletionInstruction.DELETE_TRIGGER,
)


@pytest.fixture(autouse=True)
def seen(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, CompletedExecution]]:
    """Define a kind of part that chooses, and collect what each part sees, with its interval in minutes."""
    monkeypatch.setattr(kinds, "_KINDS", dict(kinds._KINDS))
    monkeypatch.setattr(kinds, "_CHOOSING", set(kinds._CHOOSING))
    found: list[tuple[int, CompletedExecution]] = []

    @dataclass(frozen=True)
    class Choosing(CalendarIntervalTrigger):
        kind: ClassVar[str] = "choosing-part"

        def execution_complete(self, execution: CompletedExecution) -> CompletionInstruction:
            found.append((self.interval, execution))
            return CHOICES.get(self.interval, execution.instruction)

    return found


def part(interval: int) -> Trigger:
    return kinds.trigger_kind("choosing-part").from_schedule({"interval": interval, "unit": "minute"})


CHOICES = {6: COMPLETE, 10: DELETE}


def ended(minute: int, **values: object) -> CompletedExecution:
    at = START + minute * MINUTE
    execution = CompletedExecution(
        fire_id=1,
        scheduled_fire_time=at,
        next_fire_time=None,
        times_triggered=1,
        outcome=Outcome.SUCCEEDED,
        error=None,
        result=None,
        instruction=NOOP,
        coalesced_fire_times=(at,),
    )
    return replace(execution, **values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("minute", "asked", "chosen"), [(6, [6], COMPLETE), (10, [10], DELETE), (30, [6, 10], DELETE), (7, [7], NOOP)]
)
def test_any_of_asks_the_parts_whose_instant_it_was(
    seen: list[tuple[int, CompletedExecution]], minute: int, asked: list[int], chosen: CompletionInstruction
) -> None:
    trigger = AnyOf(triggers=(part(6), part(10), part(7)), start_time=START)
    assert trigger.execution_complete(ended(minute)) is chosen
    assert [interval for interval, _ in seen] == asked


def test_a_part_sees_the_choice_of_the_part_before_it(seen: list[tuple[int, CompletedExecution]]) -> None:
    AnyOf(triggers=(part(6), part(10)), start_time=START).execution_complete(ended(30))
    assert [execution.instruction for _, execution in seen] == [NOOP, COMPLETE]


def test_any_of_asks_the_parts_whose_fires_were_missed(seen: list[tuple[int, CompletedExecution]]) -> None:
    trigger = AnyOf(triggers=(part(6), part(10), part(7)), start_time=START)
    coalesced = tuple(START + minute * MINUTE for minute in (12, 18, 20))
    assert trigger.execution_complete(ended(21, coalesced_fire_times=coalesced)) is DELETE
    assert [interval for interval, _ in seen] == [6, 10]


def test_all_of_asks_all_parts(seen: list[tuple[int, CompletedExecution]]) -> None:
    trigger = AllOf(triggers=(part(10), part(6)), start_time=START, threshold=timedelta(minutes=2))
    assert trigger.execution_complete(ended(12)) is COMPLETE
    assert [interval for interval, _ in seen] == [10, 6]


def test_jitter_asks_its_part_and_shows_it_the_fire_times_without_the_delay(
    seen: list[tuple[int, CompletedExecution]],
) -> None:
    inner = AnyOf(triggers=(part(6), part(10)), start_time=START)
    trigger = Jitter("jittered", trigger=inner, up_to=timedelta(minutes=1), start_time=START)
    fired = trigger.next_after(START + 11 * MINUTE)
    assert fired is not None
    assert START + 12 * MINUTE < fired < START + 13 * MINUTE
    following = trigger.next_after(fired)
    execution = ended(0, scheduled_fire_time=fired, next_fire_time=following, coalesced_fire_times=(fired,))
    assert trigger.execution_complete(execution) is COMPLETE
    [(interval, execution)] = seen
    assert interval == 6
    assert execution.scheduled_fire_time == START + 12 * MINUTE
    assert execution.next_fire_time == START + 18 * MINUTE
    assert execution.coalesced_fire_times == (START + 12 * MINUTE,)


def test_a_choice_that_is_no_instruction_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CHOICES, 6, "END_THE_WORLD")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="END_THE_WORLD"):
        AnyOf(triggers=(part(6), part(10)), start_time=START).execution_complete(ended(30))


def test_combinations_alone_do_not_make_nodes_read_the_triggers_of_ended_executions() -> None:
    assert not kinds._CHOOSING & {"any_of", "all_of", "jitter"}
    assert "choosing-part" in kinds._CHOOSING
