"""Every state that two nodes, a user and a few faults can reach: with all cures nothing is wrong in any of them.

Without a cure the explorer finds how the fault comes about, by one of the shortest ways: so it would have found the
fault before the cure. `--long` allows one fault more in each scope.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.protocol.explored_state import Cures, Scope
from tests.protocol.explorer import Finding, explore
from tests.protocol.options import is_long

ONE_FAULT = Scope(triggers=1, instants=1, faults=1)
TWO_FAULTS = Scope(triggers=1, instants=1, faults=2)
TWO_INSTANTS = Scope(triggers=1, instants=2, faults=1)
SERIAL = Scope(triggers=2, instants=1, faults=1, serial=True)
SERIAL_OF_ONE_NODE = Scope(triggers=3, instants=1, faults=0, serial=True, nodes=1)

LEAST_STATES = {TWO_FAULTS: 5_000, TWO_INSTANTS: 5_000, SERIAL: 20_000}
"""A change of the model that leaves most of a scope unexplored is not passed over in silence."""


def told(finding: Finding) -> Finding:
    print(finding)
    return finding


def found(scope: Scope, **cures: bool) -> Finding:
    return told(explore(scope, Cures(**cures)))


@pytest.mark.parametrize("scope", LEAST_STATES, ids=["two-faults", "two-instants", "serial"])
def test_with_all_cures_nothing_is_wrong_in_any_state(scope: Scope, pytestconfig: pytest.Config) -> None:
    finding = told(explore(replace(scope, faults=scope.faults + is_long(pytestconfig))))
    assert finding.wrong is None, finding
    assert finding.states >= LEAST_STATES[scope]


def test_after_one_fault_the_single_cures_suffice_without_comparing() -> None:
    """So that what the next test finds is what its cure is for."""
    finding = found(ONE_FAULT, compares=False)
    assert finding.wrong is None, finding


@pytest.mark.parametrize(
    ("cure", "fault"),
    [
        ("settles_by_hand", "never hears the answer of its firing"),  # C1
        ("ends_abandoned", "which the server still has"),  # C2
        ("release_answers", "the user's transaction holds the row of t0"),  # C3
    ],
)
def test_without_a_cure_one_fault_leaves_a_trigger_stuck(cure: str, fault: str) -> None:
    finding = found(ONE_FAULT, compares=False, **{cure: False})
    assert finding.wrong == "stuck: no way leads to rest", finding
    assert any(fault in step for step in finding.trace), finding
    assert len(finding.trace) <= 4, "one of the shortest ways"


def test_two_faults_need_a_node_that_compares() -> None:
    """A claim of a lost answer, whose row is held while it is settled, is nobody's but for the comparison."""
    finding = found(TWO_FAULTS, compares=False)
    assert finding.wrong == "stuck: no way leads to rest", finding
    assert any("never hears the answer" in step for step in finding.trace), finding
    assert any("holds the row" in step for step in finding.trace), finding


def test_a_node_that_compares_heals_what_the_single_cures_prevent() -> None:
    finding = found(ONE_FAULT, settles_by_hand=False, ends_abandoned=False, release_answers=False)
    assert finding.wrong is None, finding


@pytest.mark.parametrize(
    ("protection", "scope", "wrong"),
    [
        ("compares_in_turn", ONE_FAULT, "S1: instant 0 of t0 ran twice"),
        ("checks_lease", ONE_FAULT, "S5: a job body started after its epoch was recovered"),
        ("guards_epoch", TWO_FAULTS, "S4: claim 1 is of an epoch that is not registered"),
        ("guards_misfires", ONE_FAULT, "S2: instant 0 of t0 was passed over, or fired and skipped"),
        ("frees_owned", ONE_FAULT, "S4: claim 1 is of an epoch that is not registered"),
        ("forgets", ONE_FAULT, "stuck: no way leads to rest"),
        ("repairs", TWO_FAULTS, "stuck: no way leads to rest"),
        ("passes_on", SERIAL, "stuck: no way leads to rest"),
    ],
)
def test_without_a_protection_its_invariant_breaks(protection: str, scope: Scope, wrong: str) -> None:
    finding = found(scope, **{protection: False})
    assert finding.wrong == wrong, finding


def test_ends_without_the_lock_leave_nothing_behind() -> None:
    """Nothing has to be passed on, where nothing is lost: so that the next test finds what its protection is for."""
    finding = found(SERIAL_OF_ONE_NODE, passes_on=False)
    assert finding.wrong is None, finding
    assert finding.states >= 1_000


@pytest.mark.parametrize("protection", ["marks", "waits_for_none_that_ends", "looks_before_ending"])
def test_without_a_protection_an_end_leaves_a_trigger_waiting_for_it(protection: str) -> None:
    finding = found(SERIAL_OF_ONE_NODE, passes_on=False, **{protection: False})
    assert finding.wrong == "stuck: no way leads to rest", finding
    assert any("without the lock" in step for step in finding.trace), finding


def test_a_trace_calls_each_node_by_one_name() -> None:
    finding = found(ONE_FAULT, compares=False, ends_abandoned=False)
    names = {step.split("node ")[1][0] for step in finding.trace if "node " in step}
    assert len(names) == 1, finding
