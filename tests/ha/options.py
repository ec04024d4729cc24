"""The option that asks for failovers of a real cluster, and the line that says whether they are run."""

from __future__ import annotations

from functools import cache

import pytest

from tests.ha.parts import Parts, find_parts

HOW = "`python -m tests.ha.install` installs what it can"


def add_ha_option(parser: pytest.Parser) -> None:
    parser.addoption(
        "--ha",
        action="store_true",
        help="Run the failovers of a Patroni cluster too (about ten minutes); its parts must be installed.",
    )


@cache
def parts_here() -> tuple[Parts | None, list[str]]:
    """As `find_parts`, looked for once."""
    return find_parts()


def why_not(config: pytest.Config) -> str | None:
    """Why the failovers are not run; None where they are."""
    if not config.getoption("--ha"):
        return "not run: --ha asks for it"
    parts, missing = parts_here()
    return None if parts is not None else f"not run: {', '.join(missing)} missing; {HOW}"


def header(config: pytest.Config) -> str:
    """The line at the head of a test run."""
    reason = why_not(config)
    if reason is not None:
        return f"failovers of a Patroni cluster: {reason}"
    parts, _ = parts_here()
    assert parts is not None
    return f"failovers of a Patroni cluster: run with {parts.versions()}"
