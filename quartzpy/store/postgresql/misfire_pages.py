"""Pages of the misfires that were handled."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from quartzpy.states import MisfireAction
from quartzpy.store.postgresql.connection.session import SqlSession
from quartzpy.store.postgresql.page_filters import switches_of, values_of
from quartzpy.store.postgresql.schema.row_reader import Reader
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.queries import MISFIRE_MARGIN, MisfireQuery, Position
from quartzpy.store.records import MisfireRecord

_SQL = SqlFile("misfire_pages.sql")
RECENT = _SQL("recent")


def misfires_text(query: MisfireQuery, after: Position | None, *, count: bool = False) -> str:
    """Return the statement of a page."""
    return _SQL(
        "page",
        **switches_of(query),
        count=count,
        examined=query.walk is not None,
        after=after is not None,
    )


def last_text(query: MisfireQuery, after: Position | None) -> str:
    """Return the statement that finds the last misfire that a page examines."""
    return _SQL("last", of_trigger=query.trigger_key is not None, after=after is not None)


def recent(session: SqlSession, within: timedelta, *, most: int) -> int:
    """Return the number of misfires that were handled within a span before now, up to one more than `most`."""
    [(number,)] = session.read_one(RECENT, within=within, most=most)
    return int(number)


def values_of_misfires(query: MisfireQuery, after: Position | None) -> dict[str, Any]:
    return {**values_of(query), "after_id": after and after[0], "margin": MISFIRE_MARGIN}


read_misfire = Reader(MisfireRecord, action=MisfireAction, missed=tuple)
