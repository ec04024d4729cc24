"""Pages of the audit log of operators' actions."""

from __future__ import annotations

from typing import Any

from quartzpy.states import ActionState
from quartzpy.store.postgresql.page_filters import switches_of, values_of
from quartzpy.store.postgresql.schema.row_reader import Reader
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.queries import ActionQuery, Position
from quartzpy.store.records import ActionRecord

_SQL = SqlFile("action_pages.sql")


def text(query: ActionQuery, after: Position | None, *, last: bool = False, count: bool = False) -> str:
    """Return the statement of a page, or of the last action that it examines; see `quartzpy.store.postgresql.pages`."""
    # A partial index has all actions that did not succeed.
    is_unsuccessful = query.state not in (None, ActionState.SUCCEEDED)
    return _SQL(
        "page",
        count=count,
        last=last,
        examined=query.walk is not None,
        **switches_of(query),
        unsuccessful=is_unsuccessful,
        after=after is not None,
    )


def values(query: ActionQuery, after: Position | None) -> dict[str, Any]:
    """Return the values of that statement, except the limit."""
    return {**values_of(query), "after_id": after and after[0]}


read_action = Reader(ActionRecord, state=ActionState)
