"""Every state that gates can reach: no limit is exceeded, and nothing stays parked beside a free slot.

Without a guard the explorer finds how it comes about. `--long` allows one fault more in each scope.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.protocol.explored_gates import GateGuards, GateModel, GateScope
from tests.protocol.explorer import Finding, explored
from tests.protocol.options import is_long

QUIET = GateScope(triggers=4)
"""Nothing goes wrong, so nothing needs the net."""
TWO_SLOTS = GateScope(triggers=4, slots=2)
TWO_WORKERS = GateScope(triggers=4, slots=2, workers=2)
LOST = GateScope(triggers=3, faults=1, kinds=frozenset({"lost"}))
FAULTS = GateScope(triggers=3, faults=2)
FAULTS_OF_TWO_SLOTS = GateScope(triggers=4, slots=2, faults=1)
STUCK = "stuck: no way leads to rest"


def found(scope: GateScope, **guards: bool) -> Finding:
    finding = explored(GateModel(scope, GateGuards(**guards)))
    print(finding)
    return finding


@pytest.mark.parametrize("scope", [FAULTS, FAULTS_OF_TWO_SLOTS], ids=["serial", "two-slots"])
def test_with_all_guards_nothing_is_wrong_in_any_state(scope: GateScope, pytestconfig: pytest.Config) -> None:
    finding = found(replace(scope, faults=scope.faults + is_long(pytestconfig)))
    assert finding.wrong is None, finding
    assert finding.states >= 500


@pytest.mark.parametrize(
    "scope", [QUIET, TWO_SLOTS, TWO_WORKERS, LOST], ids=["serial", "two-slots", "two-workers", "lost"]
)
def test_without_a_fault_or_after_a_lost_step_nothing_needs_the_net(scope: GateScope) -> None:
    finding = found(scope, net=False)
    assert finding.wrong is None, finding


@pytest.mark.parametrize(("guard", "scope"), [("names_ends", QUIET), ("names_until_answered", LOST)])
def test_without_a_guard_a_trigger_stays_parked_beside_a_free_slot(guard: str, scope: GateScope) -> None:
    assert found(scope, net=False, **{guard: False}).wrong == STUCK


@pytest.mark.parametrize(
    ("kind", "word"), [("crash", "crashes"), ("user", "the user")], ids=["a node dies", "a user takes it away"]
)
def test_what_a_fault_leaves_beside_a_free_slot_is_found_by_the_net(kind: str, word: str) -> None:
    """A node dies between its end and its step; or a trigger goes that had the slot and waited for another node."""
    scope = replace(FAULTS, faults=1, kinds=frozenset({kind}))
    assert found(scope).wrong is None
    without = found(scope, net=False)
    assert without.wrong == STUCK, without
    assert any(word in step for step in without.trace), without


def test_a_snapshot_without_the_lock_exceeds_the_limit() -> None:
    assert found(QUIET, reads_under_lock=False).wrong == "S3: more executions than slots"
