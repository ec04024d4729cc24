"""How much chaos a test run plays."""

from __future__ import annotations

import pytest


def add_chaos_option(parser: pytest.Parser) -> None:
    """`--chaos=smoke` is what every run does; the others are asked for."""
    parser.addoption(
        "--chaos",
        choices=["off", "smoke", "quick", "long", "day", "engines"],
        default="smoke",
        help="the chaos run to play: smoke (12 faults), quick (46 faults, some ten minutes), long (--chaos-minutes),"
        " day (a minute of it: a password that changes, a pooler and a primary that end, deploys, a migration), or"
        " engines (a minute of workers that die)",
    )
    parser.addoption(
        "--chaos-seed", type=int, default=1, help="the seed of the chaos run; several: use the command line"
    )
    parser.addoption("--chaos-minutes", type=float, default=30.0, help="how long a long chaos run goes on")
