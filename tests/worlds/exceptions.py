"""What a world cannot do: the tests that are left out there, each with its reason."""

from __future__ import annotations

from collections.abc import Mapping

LEFT_OUT: Mapping[str, Mapping[str, str]] = {}
"""By the world's name and the beginning of the test's id."""


def reason(world: str, nodeid: str) -> str | None:
    """Why a test is left out in a world; None if it is not."""
    for beginning, why in LEFT_OUT.get(world, {}).items():
        if nodeid.startswith(beginning):
            return why
    return None
