"""No fact of a fire is forgotten: the table that says what becomes of each names all fields and columns with facts."""

from __future__ import annotations

import inspect
from dataclasses import fields

import pytest

from quartzpy.jobs.fired_trigger import FireFacts, LoadedFire
from quartzpy.store.memory.rows import FiredRow
from quartzpy.store.postgresql.schema.tables import metadata
from tests.contract.test_facts import FACTS, OF_ENGINES, REPEATS, Fate, Way

SAME = {
    "fired_time": "fire_time",
    "scheduled_time": "scheduled_fire_time",
    "limited": "max_concurrent",
    "trigger_key": "trigger_name",
    "job_key": "job_name",
    "fired": "fire_id",
    "sched_name": "job_name",
    "upcoming_instants": "upcoming",
    "upcoming_is_complete": "upcoming",
    "coalesced": "coalesced_fire_times",
    "continuations": "continues",
    "gate_key": "concurrency_key",
}
"""Names of fields and columns that stand for a fact of another name, or for all of them."""
HINT = "say in tests.contract.test_facts.FACTS what becomes of it in a retry, a recovery and the other ways"


VALUES = [*FireFacts._fields, *(name for name in inspect.signature(LoadedFire.of).parameters if name != "facts")]
"""The facts of a fire, and the functions that load its trigger, job and calendar."""


def columns_of_fires() -> list[str]:
    [table] = [one for name, one in metadata.tables.items() if name.endswith("fired_triggers")]
    return [column.name for column in table.columns]


@pytest.mark.parametrize("name", VALUES)
def test_each_value_of_a_fire_is_in_the_table(name: str) -> None:
    assert SAME.get(name, name) in FACTS, HINT


@pytest.mark.parametrize("name", columns_of_fires())
def test_each_column_of_a_fire_is_in_the_table(name: str) -> None:
    assert SAME.get(name, name) in FACTS, HINT


@pytest.mark.parametrize("name", [one.name for one in fields(FiredRow)])
def test_each_field_of_a_fire_in_memory_is_in_the_table(name: str) -> None:
    assert SAME.get(name, name) in FACTS, HINT


def test_the_table_names_nothing_else() -> None:
    names = {*VALUES, *columns_of_fires(), *(one.name for one in fields(FiredRow))}
    assert not set(FACTS) - names - {SAME.get(name) for name in names}


def test_a_fire_that_did_not_begin_loses_nothing_but_what_is_of_its_trigger() -> None:
    lost = {name for name, fact in FACTS.items() if fact.in_way(Way.HAND_BACK) is Fate.NONE}
    assert lost == {
        "previous_fire_time",
        "next_fire_time",
        "calendar_revision",
        "load_calendar",
        "cancel_requested",
        "progress",
        "progress_message",
        "recent_log",
        *OF_ENGINES,
    }
    assert all(FACTS["coalesced_fire_times"].in_way(way) is Fate.CARRIED for way in REPEATS)
