"""Asynchronous external transactions: SQLAlchemy's asynchronous connections and sessions, psycopg's and asyncpg's.

The steps of the store are ordinary functions, so a method runs on a worker thread while its caller awaits it. On
psycopg the thread drives the connection itself. asyncpg is bound to its event loop: the thread passes each statement to
the loop and waits for the result.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import pq

from quartzpy.errors import InvalidValueError, StoreUnavailableError
from quartzpy.store.postgresql.connection.external import (
    ACCEPTED,
    AUTOCOMMIT,
    ENDED,
    UNDO,
    ExternalTransaction,
    PsycopgTransaction,
    check_psycopg,
    shown,
)
from quartzpy.store.postgresql.connection.optional_news import with_news_if_room
from quartzpy.store.postgresql.connection.pipeline import BoundStatement, Result
from quartzpy.store.postgresql.schema.statement import as_text, with_texts

_TOUCHED = re.compile(r"(\d+)$")
_JSON = frozenset({"json", "jsonb"})


async def external_transaction(using: Any, seconds: float) -> AsyncPsycopgTransaction | AsyncpgTransaction:
    """Return the transaction of a caller's asynchronous connection or session; begin one if the driver has none yet.

    Raises:
        InvalidValueError: `using` has another type, or is in autocommit mode.
    """
    # An object is one of SQLAlchemy's only if that has been imported; a caller with another driver need not have it.
    driver = await _driver_of_sqlalchemy(using) if "sqlalchemy.ext.asyncio" in sys.modules else using
    if isinstance(driver, psycopg.AsyncConnection):
        if driver.pgconn.transaction_status == pq.TransactionStatus.IDLE:
            if driver.autocommit:
                raise InvalidValueError(AUTOCOMMIT)
            # The driver begins a transaction with its first statement.
            await driver.execute("SELECT 1")
        check_psycopg(driver)
        return AsyncPsycopgTransaction(driver, seconds)
    if not is_asyncpg(driver):
        raise InvalidValueError(f"{ACCEPTED} (got {shown(using)})")
    if not driver.is_in_transaction():
        raise InvalidValueError(AUTOCOMMIT)
    return AsyncpgTransaction(driver, asyncio.get_running_loop(), seconds)


async def _driver_of_sqlalchemy(using: Any) -> Any:
    """Return the driver's connection of a SQLAlchemy connection or session, in a transaction that SQLAlchemy has begun.

    Any other object is returned unchanged.
    """
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session

    session = using() if isinstance(using, async_scoped_session) else using
    connection = await session.connection() if isinstance(session, AsyncSession) else session
    if not isinstance(connection, AsyncConnection):
        return connection
    driver: Any = (await connection.get_raw_connection()).driver_connection
    if not connection.in_transaction() or (is_asyncpg(driver) and not driver.is_in_transaction()):
        # SQLAlchemy must know about the transaction as well; otherwise its `commit` does nothing. On asyncpg, it
        # begins the driver's transaction with its first statement.
        await connection.exec_driver_sql("SELECT 1")
    return driver


def is_asyncpg(thing: object) -> bool:
    """Return True if this is a connection or an error of asyncpg, without importing that optional package."""
    return any(kind.__module__.partition(".")[0] == "asyncpg" for kind in type(thing).__mro__)


class AsyncPsycopgTransaction(PsycopgTransaction):
    """A transaction on an asynchronous psycopg connection."""

    def __init__(self, connection: psycopg.AsyncConnection[Any], seconds: float) -> None:
        super().__init__(connection, seconds)
        self.turn = connection.lock
        """Held while a worker thread uses the connection, so that no other task does."""


class AsyncpgTransaction(ExternalTransaction):
    """A transaction on an asyncpg connection, used from a worker thread.

    asyncpg encodes each value for the type that the server infers. Our values are sent as text, so each parameter of a
    statement becomes a text parameter that is cast to the type that the statement names.
    """

    def __init__(self, connection: Any, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self._connection = connection
        self._loop = loop
        self._seconds = seconds
        self.turn = asyncio.Lock()
        """Held while a method uses the connection."""

    def execute(
        self, statements: Sequence[BoundStatement], *, begin: bytes | None, commit: bytes | None
    ) -> list[Result]:
        """See `ExternalTransaction.execute`."""
        results: list[Result] = self._on_loop(self._execute([*map(with_news_if_room, statements)], begin, commit))
        return results

    def undo(self) -> None:
        """See `ExternalTransaction.undo`."""
        self._on_loop(self._undo())

    def _on_loop(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _execute(
        self, statements: Sequence[BoundStatement], begin: bytes | None, commit: bytes | None
    ) -> list[Result]:
        if not self._connection.is_in_transaction():
            raise StoreUnavailableError(ENDED)
        try:
            async with asyncio.timeout(self._seconds):
                if begin:
                    await self._connection.execute(begin.decode())
                results = [await self._run(bound) for bound in statements]
                if commit:
                    await self._connection.execute(commit.decode())
                return results
        except TimeoutError:
            # The driver has cancelled the statement; now roll back to the savepoint.
            await self._undo()
            raise psycopg.errors.QueryCanceled("the database did not answer in time") from None
        except Exception as error:
            if not is_asyncpg(error):
                raise
            await self._undo()
            raise _as_psycopg(error) from error

    async def _undo(self) -> None:
        try:
            if self._connection.is_in_transaction():
                await self._connection.execute(UNDO.decode())
        except Exception as error:
            # The transaction failed before the savepoint was set, or the connection is lost: keep the first error.
            if not is_asyncpg(error):
                raise

    async def _run(self, bound: BoundStatement) -> Result:
        statement = bound.statement
        values = [as_text(bound.values[name]) for name in statement.values]
        prepared = await self._connection.prepare(with_texts(statement.sql.decode()))
        rows = await prepared.fetch(*[None if value is None else value.decode() for value in values])
        json_columns = {n for n, column in enumerate(prepared.get_attributes()) if column.type.name in _JSON}
        decoded = [tuple(_loaded(value, n in json_columns) for n, value in enumerate(row.values())) for row in rows]
        touched = _TOUCHED.search(prepared.get_statusmsg() or "")
        return Result(decoded, int(touched[1]) if touched else 0)


def _loaded(value: Any, is_json: bool) -> Any:
    """Return a value as psycopg does: JSON is decoded, even if the caller has set no codec for it."""
    return json.loads(value) if is_json and isinstance(value, str) else value


def _as_psycopg(error: Any) -> psycopg.Error:
    """Return the psycopg error with the same SQLSTATE, because the steps of the store check for those."""
    sqlstate = getattr(error, "sqlstate", None)
    if sqlstate is None:
        return psycopg.InterfaceError(str(error))
    try:
        return psycopg.errors.lookup(sqlstate)(str(error))
    except KeyError:
        translated = psycopg.DatabaseError(str(error))
        translated.sqlstate = sqlstate
        return translated
