"""The facts that nodes publish about themselves, and the subjects in which nodes of one cluster differ."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

TZDATA, RELEASE, CLOCK_AHEAD = "time zone data", "release", "clock_ahead"
"""The names of facts: the version of the time zone data, the release of quartzpy, and the seconds by which the node's
clock is ahead of the store's."""
SETTING = "setting "
"""The names of facts that are settings begin with this; their values are texts."""
MISFIRE_THRESHOLD = f"{SETTING}misfire_threshold"
_SPAN = re.compile(r"(?:(\d+) days?, )?(\d+):(\d\d):(\d\d(?:\.\d+)?)")
"""The text of a timedelta."""
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


def misfire_threshold(of_nodes: Mapping[str, Mapping[str, Any]]) -> timedelta | None:
    """Return the misfire threshold by which the nodes judge, the shortest if they differ; None if none has one."""
    found = [_SPAN.fullmatch(str(facts.get(MISFIRE_THRESHOLD))) for facts in of_nodes.values()]
    return min((_span(match) for match in found if match is not None), default=None)


def _span(match: re.Match[str]) -> timedelta:
    days, hours, minutes, seconds = match.groups()
    return timedelta(days=int(days or 0), hours=int(hours), minutes=int(minutes), seconds=float(seconds))


def described(values: Mapping[str, tuple[str, ...]]) -> str:
    return ", ".join(f"{value} on {' '.join(nodes[:5])}" for value, nodes in sorted(values.items()))
