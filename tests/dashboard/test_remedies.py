"""The links of remedies: each leads to the confirmation of its action on what it mends."""

from __future__ import annotations

from collections.abc import Callable
from html import unescape
from typing import Any

import pytest
from starlette.testclient import TestClient

from quartzpy.dashboard.links import Links
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.operations import Selection
from tests.dashboard.conftest import THIS_USER
from tests.dashboard.scene import HOSTILE

AT_TWO, OFTEN = TriggerKey("at-two", "billing"), TriggerKey("often", "billing")


@pytest.mark.parametrize(
    ("action", "arguments", "text"),
    [
        ("reset", {"selection": AT_TWO}, "billing.at-two"),
        ("pause", {"selection": TriggerKey(HOSTILE[0])}, HOSTILE[0]),
        ("cancel", {"selection": 17}, "17"),
        ("run_again", {"selection": 17}, "17"),
        ("resume", {"selection": (AT_TWO, OFTEN), "missed": "skip"}, "2 triggers"),
        ("resume", {"selection": (AT_TWO,), "missed": "misfire"}, "billing.at-two"),
        ("resume", {"selection": Selection.everything()}, "everything"),
        ("pause", {"selection": Selection.trigger_group("billing")}, "billing"),
        ("trigger", {"job": JobKey("nightly", "billing")}, "billing.nightly"),
        ("skip_next", {"selection": AT_TWO}, "billing.at-two"),
        ("resume_node", {"node": "node-a"}, "node-a"),
    ],
)
def test_a_remedy_leads_to_the_confirmation_of_its_action(
    open_page: Callable[..., TestClient], action: str, arguments: dict[str, Any], text: str
) -> None:
    answer = open_page(auth=THIS_USER, read_only=False).get(Links("").action(action, **arguments))
    assert answer.status_code == 200, answer.text
    assert text in unescape(answer.text)
    if "missed" in arguments:
        assert (
            f'value="{arguments["missed"]}" checked' in answer.text
            or f'value="{arguments["missed"]}" selected' in answer.text
        )
