from __future__ import annotations

from pathlib import Path

import pytest

from tests.scopes import OF_ONE_OPERATION, QUICK, TOGETHER, scope_of

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("place", [*TOGETHER, *QUICK, OF_ONE_OPERATION])
def test_each_place_exists(place: str) -> None:
    assert list(ROOT.glob(f"{place.partition('::')[0].rstrip('/')}*"))


def test_tests_that_share_a_dear_fixture_are_run_by_one_worker() -> None:
    browser = ("tests/dashboard/browser/test_live.py::test_a", "tests/dashboard/browser/test_pages.py::test_b[1]")
    assert len({scope_of(one) for one in browser}) == 1
    faults = [f"{OF_ONE_OPERATION}test_any[{name}]" for name in ("check-in-timed-out", "check-in-dead", "fire-dead")]
    assert [scope_of(one).partition("::")[2] for one in faults] == ["check-in", "check-in", "fire"]
    assert scope_of(f"{OF_ONE_OPERATION}test_without_a_fault[check-in]") == scope_of(faults[0])


def test_quick_tests_are_given_out_by_module_and_others_one_by_one() -> None:
    assert scope_of("tests/unit/test_keys.py::test_a[x]") == "tests/unit/test_keys.py"
    assert scope_of("tests/cluster/test_states.py::test_a[x]") == "tests/cluster/test_states.py::test_a[x]"
