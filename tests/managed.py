"""A database of a provider's: its owner is no superuser, and functions of the server are refused."""

from __future__ import annotations

from typing import Any

import psycopg

NOT_FOR_US = (
    "pg_control_system()",
    "pg_control_checkpoint()",
    "pg_current_wal_lsn()",
    "pg_walfile_name(pg_lsn)",
    "pg_terminate_backend(integer, bigint)",
    "pg_cancel_backend(integer)",
)
"""Functions that a provider may refuse to its users."""


def make_owner(administrator: psycopg.Connection[Any], role: str, password: str) -> None:
    """Make a role that owns the database of this connection, and may do nothing else."""
    name = administrator.info.dbname
    statements = [f"CREATE ROLE {role} LOGIN PASSWORD '{password}'", f"ALTER DATABASE {name} OWNER TO {role}"]
    statements += [f"REVOKE EXECUTE ON FUNCTION pg_catalog.{function} FROM PUBLIC" for function in NOT_FOR_US]
    for statement in statements:
        administrator.execute(statement.encode())
