"""The types of engines, and of what `Scheduler.using` accepts, for type checkers, and the distinction between them.

Importing this imports no driver that is not there.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeGuard

_ASYNCHRONOUS = frozenset({"AsyncConnection", "AsyncSession", "async_scoped_session", "AsyncJobConnection"})


def is_asynchronous(connection: object) -> bool:
    """Return True if a connection or session is asynchronous, without importing the library that it is from."""
    return any(
        kind.__name__ in _ASYNCHRONOUS or kind.__module__.partition(".")[0] == "asyncpg"
        for kind in type(connection).__mro__
    )


def is_engine(database: object) -> TypeGuard[Engine]:
    """Return True if this is an engine of SQLAlchemy, without importing SQLAlchemy."""
    if "sqlalchemy.engine" not in sys.modules:
        return False
    from sqlalchemy.engine import Engine

    return isinstance(database, Engine)


class DjangoConnection(Protocol):
    """Django's `django.db.connection`, by the part of it that is used here."""

    connection: Any

    def ensure_connection(self) -> None:
        """Connect unless that has been done already."""


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import psycopg
    from sqlalchemy import Connection, CursorResult
    from sqlalchemy import Executable as Executable
    from sqlalchemy import ScalarResult as SomeScalarResult
    from sqlalchemy.engine import Engine
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
    from sqlalchemy.orm import Session, scoped_session

    JobConnection: TypeAlias = Connection
    Result: TypeAlias = CursorResult[Any]
    ScalarResult: TypeAlias = SomeScalarResult[Any]
    Parameters: TypeAlias = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None
    UserConnection: TypeAlias = Connection | Session | scoped_session[Any] | psycopg.Connection[Any] | DjangoConnection
    AsyncUserConnection: TypeAlias = (
        AsyncConnection | AsyncSession | async_scoped_session[Any] | psycopg.AsyncConnection[Any]
    )
