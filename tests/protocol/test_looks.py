"""Every state that looks, floors, keys and turns can reach: nothing is left behind, or run where it cannot run.

Without a guard the explorer finds how a trigger is left to the nets: a look of an idle node, or a full read. `--long`
allows a fault in each scope.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.protocol.explored_looks import Guards, LookModel, LookScope
from tests.protocol.explorer import Finding, explored
from tests.protocol.options import is_long

BOTH, FIRST, SECOND = frozenset({0, 1}), frozenset({0}), frozenset({1})
EQUAL = LookScope(triggers=((1, 0), (2, 0)), runs=(BOTH, BOTH))
ONE_RUNS_ALL = LookScope(triggers=((1, 0), (2, 1)), runs=(BOTH, SECOND))
EACH_ITS_OWN = LookScope(triggers=((1, 0), (2, 1)), runs=(FIRST, SECOND))
ONE_TRIGGER = LookScope(triggers=((1, 0),), runs=(BOTH, FIRST), faults=1)
NETS = replace(ONE_TRIGGER, nets=True)
SCOPES = {
    "equal nodes": EQUAL,
    "one node runs all": ONE_RUNS_ALL,
    "each node its own": EACH_ITS_OWN,
    "one trigger": ONE_TRIGGER,
    "notifications may be lost": NETS,
}
LEAST_STATES = 1_000
STUCK, MISPLACED = "stuck: no way leads to rest", "a trigger was fired by a node that cannot run it"


def found(scope: LookScope, **guards: bool) -> Finding:
    finding = explored(LookModel(scope, Guards(**guards)))
    print(finding)
    return finding


@pytest.mark.parametrize("scope", SCOPES)
def test_with_all_guards_nothing_is_left_behind_in_any_state(scope: str, pytestconfig: pytest.Config) -> None:
    finding = found(replace(SCOPES[scope], faults=max(SCOPES[scope].faults, is_long(pytestconfig))))
    assert finding.wrong is None, finding
    assert finding.states >= LEAST_STATES


@pytest.mark.parametrize(
    ("guard", "scope", "wrong", "step"),
    [
        ("looks_keys_up", ONE_RUNS_ALL, MISPLACED, "node b looks and fires t0"),
        ("keys_end", replace(NETS, triggers=((1, 1),)), MISPLACED, "starts again, with fewer job types"),
        ("decides", EQUAL, STUCK, "is stored"),
        ("counts_refusals", EACH_ITS_OWN, STUCK, "says whether it runs [0]"),
        ("orders_refusals", EACH_ITS_OWN, STUCK, "looks for an earlier one"),
        ("lowers_floors", EQUAL, STUCK, "t0 is stored"),
        ("notes_changes", EQUAL, STUCK, "is notified of 1"),
        ("looks_behind", ONE_TRIGGER, STUCK, "the user resumes t0"),
    ],
)
def test_without_a_guard_a_trigger_is_left_to_the_nets_or_misplaced(
    guard: str, scope: LookScope, wrong: str, step: str
) -> None:
    finding = found(scope, **{guard: False})
    assert finding.wrong == wrong, finding
    assert any(step in label for label in finding.trace), finding
