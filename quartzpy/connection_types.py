"""The types that `Scheduler.using` accepts, for type checkers: importing this imports no driver that is not there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias


class DjangoConnection(Protocol):
    """Django's `django.db.connection`, by the part of it that is used here."""

    connection: Any

    def ensure_connection(self) -> None:
        """Connect unless that has been done already."""


if TYPE_CHECKING:
    import psycopg
    from sqlalchemy import Connection
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
    from sqlalchemy.orm import Session, scoped_session

    JobConnection: TypeAlias = Connection
    UserConnection: TypeAlias = Connection | Session | scoped_session[Any] | psycopg.Connection[Any] | DjangoConnection
    AsyncUserConnection: TypeAlias = (
        AsyncConnection | AsyncSession | async_scoped_session[Any] | psycopg.AsyncConnection[Any]
    )
