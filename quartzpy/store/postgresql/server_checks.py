"""Checks that a server, a session and a role meet the scheduler's needs, at the start and by `quartzpy doctor`."""

from __future__ import annotations

from typing import Any, NamedTuple

import psycopg

from quartzpy.config.config import SchedulerConfig
from quartzpy.errors import QuartzpyError, SchemaError, SettingsError, StoreUnavailableError
from quartzpy.store.health_findings import Finding, Severity
from quartzpy.store.postgresql import schema_version
from quartzpy.store.postgresql.connection.conninfo import session_settings
from quartzpy.store.postgresql.connection.servers import READ_ONLY
from quartzpy.store.postgresql.schema import privileges
from quartzpy.store.postgresql.schema.naming import renamed
from quartzpy.store.postgresql.schema.privileges import Use
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.postgresql.schema.statement import as_query

OLDEST_SERVER = 150_000
OURS_BESIDES_THE_POOL = 5
"""Connections of a node besides its pool: three for steps, one for check-ins, one for LISTEN."""

_SQL = SqlFile("server_checks.sql")
_FACTS = _SQL("facts").encode()
_OTHER_WRITERS = as_query(_SQL("other_writers"))


class Facts(NamedTuple):
    """The server's description of itself and of this session."""

    standby: bool
    read_only: bool
    version: int
    version_text: str
    encoding: str
    fsync: bool
    full_page_writes: bool
    lock_timeout: int
    backend: int
    role: str
    connections: int
    used: int
    role_limit: int


def facts(connection: psycopg.Connection[Any]) -> Facts:
    row = connection.execute(_FACTS).fetchone()
    assert row is not None
    return Facts(*row)


def refuse(connection: psycopg.Connection[Any], config: SchedulerConfig) -> None:
    """Check the conditions that every use of the store needs, even read-only use.

    Raises:
        SchemaError: the server is too old, or the role may not read our tables.
        SettingsError: an undeclared pooler is in front of the server.
    """
    server = facts(connection)
    for finding in (
        *_version(server),
        *_pooler(server, connection, config),
        *_privileges(connection, config, Use.READER),
    ):
        if finding.severity is Severity.ERROR:
            raise _error(finding)


def of_node(connection: psycopg.Connection[Any], config: SchedulerConfig) -> list[Finding]:
    """Return all findings about the server that concern a node."""
    server = facts(connection)
    lacking = () if server.standby else _privileges(connection, config, Use.NODE)
    return [
        *_version(server),
        *_pooler(server, connection, config),
        *_writable(server),
        *_other_writers(connection, config),
        *lacking,
        *_row_security(connection, config),
        *_durability(server),
        *_encoding(server),
        *_connections(server, config),
    ]


def raise_first(findings: list[Finding]) -> None:
    """Raise the first finding of severity ERROR, if there is one."""
    for finding in findings:
        if finding.severity is Severity.ERROR:
            raise _error(finding)


def _error(finding: Finding) -> QuartzpyError:
    match finding.check:
        case "standby" | "read-only":
            return StoreUnavailableError(str(finding), sqlstate=READ_ONLY)
        case "pooler":
            return SettingsError(str(finding))
    return SchemaError(str(finding))


def _version(server: Facts) -> list[Finding]:
    if server.version >= OLDEST_SERVER:
        return []
    what = f"the server is PostgreSQL {server.version_text}"
    return [
        Finding(Severity.ERROR, "server-version", what, f"quartzpy needs PostgreSQL {OLDEST_SERVER // 10_000} or later")
    ]


def _pooler(server: Facts, connection: psycopg.Connection[Any], config: SchedulerConfig) -> list[Finding]:
    if config.pooled:
        return []
    if str(server.lock_timeout) != session_settings(config)["lock_timeout"]:
        what = "the settings of our sessions are lost: a pooler is in front of the server, or has reset them"
        return [Finding(Severity.ERROR, "pooler", what, "set pooled=True, or connect to the server itself")]
    if server.backend != connection.info.backend_pid:
        what = "a pooler is in front of the server"
        advice = "if it pools transactions (pool_mode=transaction), set pooled=True"
        return [Finding(Severity.WARNING, "pooler", what, advice)]
    return []


def _writable(server: Facts) -> list[Finding]:
    if server.standby:
        advice = "connect to the primary; with several hosts in the URL add target_session_attrs=read-write"
        return [Finding(Severity.ERROR, "standby", "the server is read-only: it is a standby", advice)]
    if server.read_only:
        advice = "reset default_transaction_read_only of the server, the database or the role"
        return [Finding(Severity.ERROR, "read-only", "the server is read-only: transactions cannot write", advice)]
    return []


def _other_writers(connection: psycopg.Connection[Any], config: SchedulerConfig) -> list[Finding]:
    """Row locks are those of one server: where several servers write, each of them fires each trigger."""
    table = renamed("qrtz_triggers", config.table_prefix)
    place = f'"{config.schema}".{table}' if config.schema else table
    rows = connection.execute(_OTHER_WRITERS, {"table": place}).fetchall()
    if not rows:
        return []
    what = f"other servers can write into the tables: {', '.join(name for (name,) in rows)}"
    advice = (
        "several servers would each fire the triggers; use a database without that extension, or disable the"
        " subscription before nodes fire here"
    )
    return [Finding(Severity.ERROR, "several-writers", what, advice)]


def _privileges(connection: psycopg.Connection[Any], config: SchedulerConfig, use: Use) -> list[Finding]:
    lacking = privileges.missing(connection, config.schema, use, config.table_prefix)
    if not lacking:
        return []
    what = f"role {connection.info.user} lacks {privileges.described(lacking)}"
    return [Finding(Severity.ERROR, "privileges", what, "`quartzpy db roles` prints what each role needs")]


def _row_security(connection: psycopg.Connection[Any], config: SchedulerConfig) -> list[Finding]:
    try:
        schema_version.refuse_hidden_rows(connection, config.schema, config.table_prefix, "rawd")
    except SchemaError as error:
        what, _, advice = str(error).partition(". ")
        return [Finding(Severity.ERROR, "row-security", what, advice)]
    return []


def _durability(server: Facts) -> list[Finding]:
    off = [name for name, on in (("fsync", server.fsync), ("full_page_writes", server.full_page_writes)) if not on]
    if not off:
        return []
    are = "are" if len(off) > 1 else "is"
    what = f"{' and '.join(off)} {are} off: a crash of the machine can lose or repeat fires, or damage the database"
    return [
        Finding(
            Severity.WARNING, "durability", what, f"switch {'them' if len(off) > 1 else 'it'} on if the jobs matter"
        )
    ]


def _encoding(server: Facts) -> list[Finding]:
    if server.encoding == "UTF8":
        return []
    what = f"the database's encoding is {server.encoding}: names, data and errors with other characters are refused"
    return [Finding(Severity.WARNING, "encoding", what, "create the database with ENCODING 'UTF8'")]


def _connections(server: Facts, config: SchedulerConfig) -> list[Finding]:
    needed = config.pool_size + OURS_BESIDES_THE_POOL
    free = server.connections - server.used
    findings = []
    if free < needed:
        what = f"the server has {max(0, free)} of {server.connections} connections free, and a node uses up to {needed}"
        findings.append(Finding(Severity.WARNING, "max-connections", what, "raise max_connections or lower pool_size"))
    if 0 <= server.role_limit < needed:
        what = f"role {server.role} may have {server.role_limit} connections, and a node uses up to {needed}"
        findings.append(Finding(Severity.WARNING, "max-connections", what, "raise its CONNECTION LIMIT"))
    return findings
