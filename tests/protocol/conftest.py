"""Long runs have more time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.full_reads import _every_read_is_full as _every_read_is_full
from tests.protocol.options import LONG_TIMEOUT, is_long

HERE = Path(__file__).parent


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items if is_long(config) else ():
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.timeout(LONG_TIMEOUT))
