"""What the filters of a query switch on in the statement of a page, and their values.

The filter `job` is the switch `of_job`, with the values `job_group` and `job_name`; `kind` is `of_kind`, with the value
`kind`. The bounds of a span and flags are switches of their own names. States and groups are not among them, because
statements read them in several ways.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from quartzpy.keys import Key
from quartzpy.matchers import GroupMatcher
from quartzpy.store.filters import Filter, filters_of
from quartzpy.store.queries import AnyQuery


def switches_of(query: AnyQuery) -> dict[str, bool]:
    """Return the switches of the filters of a query."""
    return {
        declared.name if declared.kind in (datetime, bool) else f"of_{declared.name}": value not in (None, False)
        for declared, value in _plain(query)
    }


def values_of(query: AnyQuery) -> dict[str, Any]:
    """Return the values of the filters of a query, and the number of records that it examines."""
    values: dict[str, Any] = {"among": getattr(query, "among", None)}
    for declared, value in _plain(query):
        if issubclass(declared.kind, Key):
            values |= {f"{declared.name}_group": value and value.group, f"{declared.name}_name": value and value.name}
        elif declared.kind is not bool:
            values[declared.name] = value
    return values


def _plain(query: AnyQuery) -> Iterator[tuple[Filter, Any]]:
    for declared in filters_of(type(query)):
        if declared.read_words is None and declared.kind is not GroupMatcher and not declared.is_order:
            yield declared, getattr(query, declared.field)
