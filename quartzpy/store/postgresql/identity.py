"""The identity of the database for which the tables were made, by which a copy is told from the original.

A server has an identifier, which its standbys share and which a new server does not have, and a database has an oid,
which a renaming keeps. Whatever has another identifier or another oid is another database: a copy, a restored backup,
or one that pg_upgrade has moved. No value tells these apart for certain, so that somebody has to say it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg

from quartzpy.config.config import DEFAULT_TABLE_PREFIX
from quartzpy.errors import CopiedDatabaseError, IllegalStateChangeError
from quartzpy.store.postgresql.schema.naming import renamed_sql
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.postgresql.schema.statement import as_query

_SQL = SqlFile("identity.sql")


@dataclass(frozen=True, slots=True)
class Identity:
    """What a database is told by. `system` is None where the role may not read it."""

    system: str | None
    oid: int
    name: str
    adopted_at: datetime | None = None

    def is_same(self, other: Identity) -> bool:
        """Return whether both are one database, as far as both say."""
        is_other_server = self.system is not None and other.system is not None and self.system != other.system
        return not is_other_server and self.oid == other.oid

    def __str__(self) -> str:
        server = "" if self.system is None else f" of server {self.system}"
        return f"{self.name!r} (oid {self.oid}{server})"


class StoredTables:
    """The tables in one schema with one prefix, on a connection."""

    def __init__(
        self, connection: psycopg.Connection[Any], schema: str | None, prefix: str = DEFAULT_TABLE_PREFIX
    ) -> None:
        self._connection = connection
        self._place = f'"{schema}".{prefix}' if schema else prefix

    def _run(self, name: str, **values: Any) -> list[tuple[Any, ...]]:
        answer = self._connection.execute(as_query(renamed_sql(_SQL(name), self._place)), values)
        return answer.fetchall() if answer.description else []

    def present(self) -> Identity:
        """Return the identity of the database of this connection."""
        [(oid, name, may_ask)] = self._run("database")
        system = None
        if may_ask:
            try:
                with self._connection.transaction():
                    [(system,)] = self._run("system")
            except psycopg.DatabaseError:
                # Some providers refuse it in other ways than by the privilege.
                system = None
        return Identity(system, oid, name)

    def recorded(self) -> Identity | None:
        """Return the identity that is stored with the tables; None if nobody has stored one yet."""
        rows = self._run("recorded")
        return Identity(*rows[0]) if rows else None

    def record(self, by: str) -> None:
        """Store the identity of this database with tables that have none."""
        if self.recorded() is None:
            present = self.present()
            self._run("record", system=present.system, oid=present.oid, database=present.name, by=by)

    def check(self) -> None:
        """Check that the tables were made for this database.

        Raises:
            CopiedDatabaseError: they were made for another one; the message says what ends that.
        """
        recorded = self.recorded()
        if recorded is None:
            return
        present = self.present()
        if not recorded.is_same(present):
            raise CopiedDatabaseError(_sentence(recorded, present))

    def check_adoptable(self) -> None:
        """Check that this database may be a copy: nodes that fire in the one for which its tables were made say no.

        Raises:
            IllegalStateChangeError: they do.
        """
        recorded = self.recorded()
        if recorded is not None and recorded.is_same(self.present()) and (nodes := self._run("live_nodes")):
            raise IllegalStateChangeError(
                f"there is nothing to adopt: the tables were made for this database, {recorded}, and nodes fire in it"
                f" ({', '.join(name for (name,) in nodes)}); in a clone of a whole server, stop its nodes first"
            )

    def adopt(self, by: str) -> list[tuple[str, str]]:
        """Make this database the one of the tables; return the schedulers and names of the nodes that were removed.

        Fire ids and epochs continue far above those that the former database may have used since.
        """
        self._run("advance_fire_ids")
        self._run("advance_epochs")
        self._run("forget_submissions")
        removed = self._run("forget_nodes")
        present = self.present()
        self._run("replace", system=present.system, oid=present.oid, database=present.name, by=by)
        return [(scheduler, node) for scheduler, node in removed]


def _sentence(recorded: Identity, present: Identity) -> str:
    is_other_server = None not in (recorded.system, present.system) and recorded.system != present.system
    moved = ", restored or moved by pg_upgrade" if is_other_server else " or restored"
    return (
        f"the tables were made for database {recorded}, and this is {present}: it was copied{moved}. No node fires here"
        " until somebody says what it is: `quartzpy db adopt` if it takes the place of the former one,"
        " `quartzpy db adopt --pause-all` if both go on"
    )
