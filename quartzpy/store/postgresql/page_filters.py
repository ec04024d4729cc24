"""What the filters of a query switch on in the statement of a page, and their values.

The filter `job` is the switch `of_job`, with the values `job_group` and `job_name`; `kind` is `of_kind`, with the value
`kind`. A group is `in_group`, and several groups are `group_like`, with the values `group` and `operator`. The bounds
of a span and flags are switches of their own names. States are not among them: statements read them in several ways.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from quartzpy.keys import Key
from quartzpy.matchers import GroupMatcher, MatchOperator
from quartzpy.store.filters import Filter, filters_of
from quartzpy.store.postgresql.lookups import group_matcher
from quartzpy.store.queries import AnyQuery


def switches_of(query: AnyQuery) -> dict[str, bool]:
    """Return the switches of the filters of a query."""
    switches: dict[str, bool] = {}
    for declared, value in _plain(query):
        if declared.kind is GroupMatcher:
            group = group_matcher(value)
            in_group = group is not None and group.operator is MatchOperator.EQUALS
            switches |= {"in_group": in_group, "group_like": group is not None and not in_group}
        else:
            name = declared.name if declared.kind in (datetime, bool) else f"of_{declared.name}"
            switches[name] = value not in (None, False)
    return switches


def values_of(query: AnyQuery) -> dict[str, Any]:
    """Return the values of the filters of a query, and the number of records that it examines."""
    values: dict[str, Any] = {"among": getattr(query, "among", None)}
    for declared, value in _plain(query):
        if issubclass(declared.kind, Key):
            values |= {f"{declared.name}_group": value and value.group, f"{declared.name}_name": value and value.name}
        elif declared.kind is GroupMatcher:
            values |= {"operator": value and value.operator, "group": value and value.value}
        elif declared.kind is not bool:
            values[declared.name] = value
    return values


def _plain(query: AnyQuery) -> Iterator[tuple[Filter, Any]]:
    for declared in filters_of(type(query)):
        if declared.read_words is None and not declared.is_order:
            yield declared, getattr(query, declared.field)
