"""The facts that nodes publish about themselves, and the subjects in which nodes of one cluster differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

TZDATA, RELEASE, CLOCK_AHEAD = "time zone data", "release", "clock_ahead"
"""The names of facts: the version of the time zone data, the release of quartzpy, and the seconds by which the node's
clock is ahead of the store's."""
MOST_SKEW = 1.0
"""The difference between clocks, in seconds, from which it is reported."""


def differences(of_nodes: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, tuple[str, ...]]]:
    """Return, for each subject on which nodes differ, its values with the nodes that have them."""
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for node, facts in of_nodes.items():
        for subject, value in facts.items():
            if subject != CLOCK_AHEAD:
                values = found.setdefault(subject, {})
                values[str(value)] = (*values.get(str(value), ()), node)
    return {subject: values for subject, values in sorted(found.items()) if len(values) > 1}


def described(values: Mapping[str, tuple[str, ...]]) -> str:
    return ", ".join(f"{value} on {' '.join(nodes[:5])}" for value, nodes in sorted(values.items()))
