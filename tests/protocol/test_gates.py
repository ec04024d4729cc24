"""Every state that gates can reach: no limit is exceeded, and nothing stays parked beside a free place.

Without a guard the explorer finds how it comes about. `--long` allows one fault more in each scope.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.protocol.explored_gates import GateGuards, GateModel, GateScope, Needs
from tests.protocol.explorer import Finding, explored
from tests.protocol.options import is_long

OWN, BOTH, SHARED = Needs(), Needs(shares=True), Needs(own=None, shares=True)
QUIET = GateScope(triggers=(OWN,) * 4)
"""Nothing goes wrong, so nothing needs the net."""
TWO_SLOTS = replace(QUIET, slots=2)
TWO_WORKERS = replace(QUIET, slots=2, workers=2)
MIXED = GateScope(triggers=(BOTH, BOTH, SHARED, SHARED))
"""A job with a limit of its own shares another one with a job without."""
MIXED_TWO = replace(MIXED, shared_slots=2, workers=2)
MIXED_JOBS = replace(MIXED, triggers=(BOTH, Needs("other", shares=True), BOTH, SHARED), shared_slots=2)
MIXED_THREE = replace(MIXED, nodes=3, shared_slots=2)
ELSEWHERE = replace(MIXED, triggers=(BOTH, Needs(shares=True, only=1), Needs(None, shares=True, only=0), SHARED))
"""Gates open at nodes that do not run what is parked there."""
QUIETS = {
    "serial": QUIET,
    "two-slots": TWO_SLOTS,
    "two-workers": TWO_WORKERS,
    "mixed": MIXED,
    "mixed-two": MIXED_TWO,
    "mixed-jobs": MIXED_JOBS,
    "mixed-three-nodes": MIXED_THREE,
    "elsewhere": ELSEWHERE,
}
LOST = GateScope(triggers=(OWN,) * 3, faults=1, kinds=frozenset({"lost"}))
FAULTS = GateScope(triggers=(OWN,) * 3, faults=2)
WITH_FAULTS = {
    "serial": FAULTS,
    "two-slots": replace(TWO_SLOTS, faults=1),
    "mixed": replace(MIXED, faults=1),
    "mixed-two": replace(MIXED_TWO, faults=1),
    "mixed-three-nodes": GateScope(triggers=(BOTH, BOTH, SHARED), nodes=3, faults=1),
    "elsewhere": replace(ELSEWHERE, faults=1, kinds=frozenset({"lost", "user"})),
}
STUCK = "stuck: no way leads to rest"


def found(scope: GateScope, **guards: bool) -> Finding:
    finding = explored(GateModel(scope, GateGuards(**guards)))
    print(finding)
    return finding


@pytest.mark.parametrize("scope", WITH_FAULTS.values(), ids=WITH_FAULTS)
def test_with_all_guards_nothing_is_wrong_in_any_state(scope: GateScope, pytestconfig: pytest.Config) -> None:
    finding = found(replace(scope, faults=scope.faults + is_long(pytestconfig)))
    assert finding.wrong is None, finding
    assert finding.states >= 500


@pytest.mark.parametrize(
    "scope",
    [*QUIETS.values(), LOST, replace(MIXED, faults=1, kinds=frozenset({"lost"}))],
    ids=[*QUIETS, "lost", "mixed-lost"],
)
def test_without_a_fault_or_after_a_lost_step_nothing_needs_the_net(scope: GateScope) -> None:
    finding = found(scope, net=False)
    assert finding.wrong is None, finding


@pytest.mark.parametrize(
    ("guard", "scope"),
    [
        ("names_ends", QUIET),
        ("names_ends", MIXED),
        ("names_shared", MIXED),
        ("names_until_answered", LOST),
    ],
)
def test_without_a_guard_a_trigger_stays_parked_beside_a_free_place(guard: str, scope: GateScope) -> None:
    assert found(scope, net=False, **{guard: False}).wrong == STUCK


@pytest.mark.parametrize("triggers", [(OWN,) * 3, (BOTH, BOTH, SHARED)], ids=["own", "mixed"])
@pytest.mark.parametrize(
    ("kind", "word"), [("crash", "crashes"), ("user", "the user")], ids=["a node dies", "a user takes it away"]
)
def test_what_a_fault_leaves_beside_a_free_place_is_found_by_the_net(
    kind: str, word: str, triggers: tuple[Needs, ...]
) -> None:
    """A node dies between its end and its step; or a trigger goes that had the place and waited for another node."""
    scope = GateScope(triggers=triggers, faults=1, kinds=frozenset({kind}))
    assert found(scope).wrong is None
    without = found(scope, net=False)
    assert without.wrong == STUCK, without
    assert any(word in step for step in without.trace), without


@pytest.mark.parametrize("scope", [QUIET, MIXED], ids=["own", "mixed"])
def test_a_snapshot_without_the_lock_exceeds_the_limit(scope: GateScope) -> None:
    assert found(scope, reads_under_lock=False).wrong == "S3: more executions than slots"
