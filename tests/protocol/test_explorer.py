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
THREE_FAULTS = Scope(triggers=1, instants=1, faults=3)
TWO_INSTANTS = Scope(triggers=1, instants=2, faults=2)
SERIAL = Scope(triggers=2, instants=1, faults=1, serial=True)
SERIAL_OF_TWO_INSTANTS = Scope(triggers=2, instants=2, faults=0, serial=True)
SERIAL_OF_ONE_NODE = Scope(triggers=3, instants=1, faults=0, serial=True, nodes=1)

LEAST_STATES = {THREE_FAULTS: 5_000, TWO_INSTANTS: 25_000, SERIAL: 20_000, SERIAL_OF_TWO_INSTANTS: 14_000}
"""A change of the model that leaves most of a scope unexplored is not passed over in silence."""


def told(finding: Finding) -> Finding:
    print(finding)
    return finding


def found(scope: Scope, **cures: bool) -> Finding:
    return told(explore(scope, Cures(**cures)))


@pytest.mark.parametrize("scope", LEAST_STATES, ids=["three-faults", "two-instants", "serial", "serial-of-two"])
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
        ("settles", "gives up its acquiring"),  # C1
        ("ends_abandoned", "which the server still has"),  # C2
    ],
)
def test_without_a_cure_one_fault_leaves_a_trigger_stuck(cure: str, fault: str) -> None:
    finding = found(ONE_FAULT, compares=False, **{cure: False})
    assert finding.wrong == "stuck: no way leads to rest", finding
    assert any(fault in step for step in finding.trace), finding
    assert len(finding.trace) <= 6, "one of the shortest ways"


@pytest.mark.parametrize("scope", [TWO_FAULTS, TWO_INSTANTS], ids=["two-faults", "two-instants"])
def test_comparing_at_each_check_in_is_needed_for_nothing_else(scope: Scope) -> None:
    """It heals what nobody has thought of, such as rows that were edited by hand."""
    finding = found(scope, compares=False)
    assert finding.wrong is None, finding


def test_a_node_that_compares_heals_what_the_single_cures_prevent() -> None:
    finding = found(ONE_FAULT, settles=False, ends_abandoned=False)
    assert finding.wrong is None, finding


@pytest.mark.parametrize(
    ("protection", "scope", "wrong"),
    [
        ("compares_in_turn", ONE_FAULT, "S1: instant 0 of t0 ran twice"),
        ("checks_lease", ONE_FAULT, "S5: a job body started after its epoch was recovered"),
        ("guards_epoch", TWO_FAULTS, "S4: execution 1 is of an epoch that is not registered"),
        ("guards_misfires", ONE_FAULT, "S2: instant 0 of t0 was passed over, or fired and skipped"),
        ("guards_refills", TWO_INSTANTS, "S2: instant 1 of t0 was passed over, or fired and skipped"),
        ("refills_first", TWO_INSTANTS, "S2: instant 1 of t0 was passed over, or fired and skipped"),
        ("frees_owned", ONE_FAULT, "S4: execution 1 is of an epoch that is not registered"),
        ("looks_at_gates", SERIAL, "stuck: no way leads to rest"),
    ],
)
def test_without_a_protection_its_invariant_breaks(protection: str, scope: Scope, wrong: str) -> None:
    finding = found(scope, **{protection: False})
    assert finding.wrong == wrong, finding


def test_nothing_stays_parked_where_nothing_is_lost() -> None:
    """The net is for faults; `test_gates` has what each guard of the gates is for."""
    finding = found(SERIAL_OF_ONE_NODE, looks_at_gates=False)
    assert finding.wrong is None, finding


def test_a_trace_calls_each_node_by_one_name() -> None:
    finding = found(ONE_FAULT, compares=False, ends_abandoned=False)
    [gives_up] = [step for step in finding.trace if "gives up" in step]
    [compares] = [step for step in finding.trace if "comparing" in step]
    assert gives_up.split("node ")[1][0] == compares.split("node ")[1][0], finding
