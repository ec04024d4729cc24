"""The metadata that the tables share, the types of their common columns, and the sequences."""

from __future__ import annotations

from enum import StrEnum

from sqlalchemy import BigInteger, DateTime, MetaData, Sequence, String

from quartzpy.keys import MAX_NAME_LENGTH

metadata = MetaData()

Name = String(MAX_NAME_LENGTH)
Instant = DateTime(timezone=True)


def one_of(column: str, words: type[StrEnum]) -> str:
    """Return the condition that a column has one of these words."""
    return f"{column} IN ({', '.join(repr(str(word)) for word in words)})"


fire_ids = Sequence("qrtz_fire_ids", metadata=metadata, data_type=BigInteger)
"""Increasing numbers, for fire_ids and generations."""
epochs = Sequence("qrtz_epochs", metadata=metadata, data_type=BigInteger)
