"""Hundreds of inputs for each parser; longer runs by `python -m tests.fuzz`."""

from __future__ import annotations

import time

import pytest

from quartzpy.errors import InvalidValueError
from tests.fuzz.runner import LIMIT, Outcome, Target, fuzz
from tests.fuzz.targets import TARGETS

_INPUTS = {
    "fires": 60,
    "events": 10,
    "body": 40,
    "declared-yaml": 200,
    "declared-toml": 300,
    "recurrence": 300,
    "schedule": 300,
    "config": 300,
}
SEED = 9


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_a_parser_takes_anything_and_raises_nothing_but_our_errors(name: str) -> None:
    outcome = fuzz(TARGETS[name], _INPUTS.get(name, 600), SEED)
    assert not outcome.faults, str(outcome) + "".join(
        f"\ninput {n}: {given}\n{fault}" for n, given, fault in outcome.faults
    )
    # A fuzzer whose inputs are all refused, or all accepted, looks at half of the parser.
    assert outcome.accepted > outcome.inputs / 50
    assert outcome.refused > outcome.inputs / 50


def _sabotaged(run: object) -> Outcome:
    return fuzz(Target("sabotaged", lambda random: random.randrange(100), run), 200, SEED)  # type: ignore[arg-type]


def test_the_fuzzer_finds_a_foreign_error_and_a_slow_input_and_counts_ours_as_refusals() -> None:
    def foreign(given: int) -> None:
        if given == 7:
            raise KeyError(given)

    def slow(given: int) -> None:
        if given == 7:
            until = time.thread_time() + 2 * LIMIT
            while time.thread_time() < until:
                pass

    def ours(given: int) -> None:
        raise InvalidValueError("no")

    assert {given for _, given, _ in _sabotaged(foreign).faults} == {"7"}
    assert "KeyError" in _sabotaged(foreign).faults[0][2]
    assert {given for _, given, _ in _sabotaged(slow).faults} == {"7"}
    refused = _sabotaged(ours)
    assert (refused.refused, refused.accepted, refused.faults) == (200, 0, [])


def test_a_seed_makes_the_same_inputs() -> None:
    seen: list[list[object]] = [[], [], []]
    for inputs, seed in zip(seen, (1, 1, 2), strict=True):
        fuzz(Target("recorded", TARGETS["cron"].make, inputs.append), 50, seed)
    assert seen[0] == seen[1] != seen[2]
