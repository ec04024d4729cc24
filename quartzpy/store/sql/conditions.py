"""The conditions of queries with filters. The text of a query contains only those that are needed."""

from __future__ import annotations

from collections.abc import Iterable

from quartzpy.matchers import GroupMatcher, MatchOperator
from quartzpy.store.queries import ExecutionQuery, MisfireQuery, TriggerQuery

LIMIT = "LIMIT %(limit)s::int"
AMONG = "LIMIT %(among)s::int"
LAST = "OFFSET %(among)s::int - 1 LIMIT 1"
WALK = "SELECT {columns} FROM {source} t WHERE {scheduler} = %(sched)s {conditions} ORDER BY {order} {limit}"
"""The rows that a page examines, up to the limit AMONG, or the last of them with LAST."""
CONTAINS = "strpos({column}, %(contains)s) > 0"
AFTER_KEY = "({columns}) > (%(after_group)s, %(after_name)s)"
_GROUP = {
    MatchOperator.EQUALS: "{column} = %(group)s",
    MatchOperator.STARTS_WITH: "starts_with({column}, %(group)s)",
    MatchOperator.ENDS_WITH: "right({column}, length(%(group)s)) = %(group)s",
    MatchOperator.CONTAINS: "strpos({column}, %(group)s) > 0",
}


def all_of(conditions: Iterable[object]) -> str:
    """Join the conditions that apply, for appending to another one; those that do not apply are empty or None."""
    return "".join(f"\n   AND {condition}" for condition in conditions if condition)


def in_group(matcher: GroupMatcher | None, column: str) -> str | None:
    if matcher is None or matcher.operator is MatchOperator.ANYTHING:
        return None
    return _GROUP[matcher.operator].format(column=column)


def group_value(matcher: GroupMatcher | None) -> str | None:
    return None if matcher is None else matcher.value


def between(query: TriggerQuery | ExecutionQuery | MisfireQuery, column: str) -> list[str]:
    since = [f"{column} >= %(since)s::timestamptz"] if query.since else []
    return [*since, f"{column} < %(until)s::timestamptz"] if query.until else since


def literals(names: Iterable[str]) -> str:
    """Return names of our enumerations as SQL literals, because a partial index needs conditions without parameters."""
    return ", ".join(f"'{name}'" for name in sorted(names))
