"""What keeps the reads of the next fire times the same on a busy machine as on an idle one."""

from __future__ import annotations

import math

import pytest

from quartzpy.node import outlook


@pytest.fixture(autouse=True)
def _every_read_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a read may take so long that the next are partial, by a clock that tests do not move.

    Here each change is looked for at once, and a step sends what it sends on an idle machine.
    """
    monkeypatch.setattr(outlook, "DEAR_READ", math.inf)
