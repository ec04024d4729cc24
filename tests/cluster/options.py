"""How many restarts a test run plays."""

from __future__ import annotations

import pytest


def add_restart_option(parser: pytest.Parser) -> None:
    parser.addoption(
        "--restarts", type=int, default=2, help="restarts of the nodes of a program that schedules at each start"
    )
