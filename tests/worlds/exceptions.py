"""What a world cannot do: the tests that are left out there, each with its reason."""

from __future__ import annotations

from collections.abc import Mapping

LEFT_OUT: Mapping[str, Mapping[str, str]] = {
    "pgbouncer": {
        "tests/facade/test_lost_answers.py::test_each_instant_runs_once_though_the_answer_to_a_step_is_lost": (
            "the test's proxy knows a step by its prepared statement, and there are none behind a pooler"
        )
    },
}
"""By the world's name and the beginning of the test's id."""


def reason(world: str, nodeid: str) -> str | None:
    """Why a test is left out in a world; None if it is not."""
    for beginning, why in LEFT_OUT.get(world, {}).items():
        if nodeid.startswith(beginning):
            return why
    return None
