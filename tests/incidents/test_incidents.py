"""The script of the prepared incidents works: one of them, in each run of the tests."""

from __future__ import annotations

import pytest

from tests.incidents.__main__ import play
from tests.incidents.scenarios import SCENARIOS


def test_there_are_fifteen() -> None:
    assert len(SCENARIOS) == 15


@pytest.mark.timeout(240)
def test_an_incident_is_seen_explained_and_mended(capsys: pytest.CaptureFixture[str]) -> None:
    assert play(["a-row-is-edited-by-hand"]) == 0
    assert "trigger-error after" in capsys.readouterr().out
