"""The metadata that nodes publish about themselves, and the entries in which the nodes of a cluster differ."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

TZDATA, RELEASE, CLOCK_AHEAD = "time zone data", "release", "clock_ahead"
"""The names of entries: the version of the time zone data, the release of quartzpy, and the seconds by which the node's
clock is ahead of the store's."""
JOB_TYPES = "job types"
"""The name of the entry with the facts of the node's job types, which is read only where it is needed."""
ZONES = "zones"
"""The name of the entry with the digests of the rules of time zones, by their names, of the zones that are used."""
SETTING = "setting "
"""The names of entries that are settings begin with this; their values are texts."""
_SPAN = re.compile(r"(?:(\d+) days?, )?(\d+):(\d\d):(\d\d(?:\.\d+)?)")
"""The text of a timedelta."""
REPORTED_CLOCK_SKEW = 1.0
"""The difference between clocks, in seconds, from which it is reported."""


@cache
def installed_release() -> str:
    """Return the release of quartzpy. Its metadata, whose file takes milliseconds to parse, does not change."""
    try:
        return version("quartzpy")
    except PackageNotFoundError:
        return "0+unknown"


def differing_values(metadata_of_nodes: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, tuple[str, ...]]]:
    """Return, for each entry in which nodes differ, its values with the nodes that have them."""
    values_of_entries: dict[str, dict[str, tuple[str, ...]]] = {}
    for node, metadata in metadata_of_nodes.items():
        for name, value in metadata.items():
            if name not in (CLOCK_AHEAD, JOB_TYPES, ZONES):
                values = values_of_entries.setdefault(name, {})
                values[str(value)] = (*values.get(str(value), ()), node)
    return {name: values for name, values in sorted(values_of_entries.items()) if len(values) > 1}


def differing_zones(metadata_of_nodes: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, tuple[str, ...]]]:
    """Return, for each time zone of which nodes have different rules, their digests with the nodes that have them."""
    return differing_values({node: metadata.get(ZONES, {}) for node, metadata in metadata_of_nodes.items()})


def setting_of_nodes(metadata_of_nodes: Mapping[str, Mapping[str, Any]], name: str, default: timedelta) -> timedelta:
    """Return a span of time that the nodes have as a setting, the shortest if they differ.

    The setting of the caller's own, `default`, counts only where no node has published one: the nodes act, and their
    settings say when.
    """
    matches = [_SPAN.fullmatch(str(metadata.get(SETTING + name))) for metadata in metadata_of_nodes.values()]
    return min((_span(match) for match in matches if match is not None), default=default)


def _span(match: re.Match[str]) -> timedelta:
    days, hours, minutes, seconds = match.groups()
    return timedelta(days=int(days or 0), hours=int(hours), minutes=int(minutes), seconds=float(seconds))


def listed_by_value(nodes_by_value: Mapping[str, tuple[str, ...]]) -> str:
    """Return each value with the first nodes that have it, as a text: `2025b on a b, 2024a on c`."""
    return ", ".join(f"{value} on {' '.join(nodes[:5])}" for value, nodes in sorted(nodes_by_value.items()))
