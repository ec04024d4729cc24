"""The metadata that the tables share, the types of their common columns, and the sequences."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sqlalchemy
from sqlalchemy import BigInteger, DateTime, MetaData, Sequence, String, Text, text

from quartzpy.keys import MAX_NAME_LENGTH

metadata = MetaData()

# Names and keys are compared by their bytes: an index of another collation is slower, has to be rebuilt when the
# operating system changes its rules, and has another order than Python.
COLLATION = "C"
Name = String(MAX_NAME_LENGTH, collation=COLLATION)
Key = Text(collation=COLLATION)


def word(length: int) -> String:
    """Return the type of an indexed column that has one of few words, or an identifier."""
    return String(length, collation=COLLATION)


Instant = DateTime(timezone=True)
# Begins an index by which rows are read in an order, and never looked up by their key: in a table of one page such an
# index is as good as the key, and a session keeps the plan when the table has grown. Only what writes the scheduler so
# is served by it. The conditions of partial indexes are expressions for the same reason.
BY_SCHEDULER = text("(sched_name || '')")


def one_of(column: str, words: Iterable[str]) -> str:
    """Return the condition that a column has one of these words.

    The words are one constant. PostgreSQL reads the conditions of a table anew for each statement that writes it, and
    would build the array of `IN` anew, too.
    """
    return f"{column} = ANY ('{{{','.join(words)}}}')"


def are_instants(*columns: str) -> str:
    """Return the condition that all instants of a row are of the years 1 to 9999, which Python can represent."""
    names = ", ".join(columns)
    return f"least({names}) >= {FIRST_INSTANT} AND greatest({names}) < {AFTER_LAST_INSTANT}"


def are_all_instants(column: str) -> str:
    """Return the condition that an array has only such instants, and no NULL."""
    return f"({FIRST_INSTANT} <= ALL ({column}) AND {AFTER_LAST_INSTANT} > ALL ({column})) IS TRUE"


def filled_to(percent: int) -> dict[str, Any]:
    """Return the option of a table that fills its pages to that percentage at first.

    SQLAlchemy has the option since 2.1. In the statement of 2.0 it follows the access method.
    """
    if sqlalchemy.__version__.startswith("2.0."):
        return {"postgresql_using": f"heap WITH (fillfactor = {percent})"}
    return {"postgresql_with": {"fillfactor": str(percent)}}


IS_RATE_LIMIT = (
    "rate_limit IS NULL OR (int8range '[1,1000000]' @> (rate_limit ->> 'limit')::bigint"
    " AND int8range '[1,1000000]' @> (rate_limit ->> 'burst')::bigint"
    " AND int8range '[1,3155760000000000]' @> (rate_limit ->> 'per_us')::bigint) IS TRUE"
)
"""The condition that the column `rate_limit` has values with which the steps can compute."""
IS_FOLLOWED = "jsonb_typeof(continuations) = 'array'"
"""The same of the column `continuations`."""
IS_DEFINITION = "jsonb_typeof(definition) = 'object'"
"""The same of the column `definition`."""
IS_AWAITED = (
    "after IS NULL OR (jsonb_typeof(after -> 'jobs') = 'array' AND jsonb_typeof(after -> 'outcomes') = 'array'"
    " AND (after ->> 'needed')::int BETWEEN 1 AND 100 AND after ->> 'per' = ANY ('{instant,day}')"
    " AND after ->> 'time_zone' IS NOT NULL"
    " AND coalesce((after ->> 'within_us')::bigint, 1) BETWEEN 1 AND 3155760000000000) IS TRUE"
)
"""The same of the column `after`."""
FIRST_INSTANT = "timestamptz '0001-01-01 00:00:00+00'"
AFTER_LAST_INSTANT = "timestamptz '10000-01-01 00:00:00+00'"

fire_ids = Sequence("qrtz_fire_ids", metadata=metadata, data_type=BigInteger)
"""Increasing numbers, for fire_ids and generations."""
epochs = Sequence("qrtz_epochs", metadata=metadata, data_type=BigInteger)
