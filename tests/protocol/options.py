"""How much of the protocol a test run plays."""

from __future__ import annotations

import pytest

LONG_TIMEOUT = 3_600.0
"""Seconds, for a test of a long run."""


def add_protocol_option(parser: pytest.Parser) -> None:
    """Every run plays a sample that is the same each time; `--long` plays all of it."""
    parser.addoption(
        "--long",
        action="store_true",
        help="play all of tests/protocol: every fault at every round trip, every race, one fault deeper, thousands of"
        " random lives (half an hour or so), 5,000 executions of a limited job over four nodes, all worlds of limits,"
        " all markets and years of the business days, and costly schedules with all their steps; other runs play a"
        " sample",
    )


def is_long(config: pytest.Config) -> bool:
    return bool(config.getoption("--long"))
