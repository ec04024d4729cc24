"""The schema and the prefix of the names of the tables."""

from __future__ import annotations

import re

from quartzpy.errors import SettingsError
from quartzpy.texts import quoted

DEFAULT_TABLE_PREFIX = "qrtz_"
# The longest name that follows it has 38 characters, and PostgreSQL keeps 63.
_TABLE_PREFIX = re.compile(r"[a-z_][a-z0-9_]{0,19}")
_SCHEMA = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")


def checked_schema(schema: object) -> str | None:
    """Return the name of the schema that holds the tables, or None.

    The name is always quoted in SQL, so reserved words (`order`) and upper case (`Mixed`) are allowed.

    Raises:
        SettingsError: `schema` is not a valid name, or PostgreSQL reserves it.
    """
    if schema is None:
        return None
    if not (isinstance(schema, str) and _SCHEMA.fullmatch(schema)):
        raise SettingsError(
            "schema: must consist of at most 63 letters (a-z, A-Z), digits and _, and must not begin with a digit"
            f" (got {quoted(schema)})"
        )
    if schema.startswith("pg_") or schema == "information_schema":
        raise SettingsError(f"schema: PostgreSQL reserves the name {schema!r}")
    return schema


def checked_table_prefix(prefix: object) -> str:
    """Return the prefix for the names of the tables.

    Raises:
        SettingsError: names with the prefix would not be valid without quotes, or would be too long.
    """
    if not (isinstance(prefix, str) and _TABLE_PREFIX.fullmatch(prefix)) or prefix.startswith("pg_"):
        raise SettingsError(
            "table_prefix: from 1 to 20 lower-case letters, digits and _, no digit first, not pg_..."
            f" (got {quoted(prefix)})"
        )
    return prefix
