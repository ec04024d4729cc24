"""The least privileges on our tables for each kind of user.

`quartzpy db roles` grants them, and the start of a node and `quartzpy doctor` check them.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import psycopg

from quartzpy.config.config import DEFAULT_TABLE_PREFIX
from quartzpy.store.postgresql.schema.naming import renamed, version_table
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.postgresql.schema.statement import as_query

_ALL = ("SELECT", "INSERT", "UPDATE", "DELETE")
_READ = ("SELECT",)
VERSION_TABLE = version_table(DEFAULT_TABLE_PREFIX)


def _update(*columns: str) -> str:
    """Return the privilege to update these columns alone."""
    return f"UPDATE ({', '.join(columns)})"


def _select(*columns: str) -> str:
    """Return the privilege to read these columns alone."""
    return f"SELECT ({', '.join(columns)})"


# How an action went on. Who did what, to what, when and why is written once.
_PROCEEDING = _update("state", "count", "ended_at", "updated_at", "after", "error")
_ACKNOWLEDGED = _update(
    "acknowledged_at",
    "acknowledged_by",
    "acknowledged_reason",
    "acknowledged_until",
    "acknowledged_severity",
    "acknowledged_cause",
)


# What the worker of an engine says about its execution, which it finds by further columns.
_OF_WORKER = ("worker", "worker_since", "worker_seen", "ending", "progress", "progress_message", "recent_log")
_OF_TICKET = ("sched_name", "fire_id", "instance_id", "epoch", "submission", "outlives_node", "cancel_requested")


class Use(StrEnum):
    """A kind of use of the database."""

    NODE = "node"
    """Runs jobs, and does everything that a client does."""
    CLIENT = "client"
    """Schedules, pauses, triggers, cancels and reads; does not run jobs."""
    WORKER = "worker"
    """Runs executions of an engine, which it neither fires nor ends: it takes their tickets and says how they go."""
    READER = "reader"
    """Looks."""


TABLES: Mapping[str, Mapping[Use, tuple[str, ...]]] = {
    VERSION_TABLE: {Use.NODE: _READ, Use.CLIENT: _READ, Use.READER: _READ},
    "qrtz_job_details": {Use.NODE: _ALL, Use.CLIENT: _ALL, Use.READER: _READ},
    "qrtz_triggers": {Use.NODE: _ALL, Use.CLIENT: _ALL, Use.READER: _READ},
    # Written with the triggers, by the role that writes these.
    "qrtz_trigger_keys": {
        Use.NODE: ("SELECT", "INSERT", "DELETE"),
        Use.CLIENT: ("SELECT", "INSERT", "DELETE"),
        Use.READER: _READ,
    },
    "qrtz_limits": {Use.NODE: _ALL, Use.CLIENT: _ALL, Use.READER: _READ},
    # Whoever stores fire times notes the rules of the time zones by which they were computed.
    "qrtz_zone_rules": {Use.NODE: _ALL, Use.CLIENT: ("SELECT", "INSERT", "UPDATE"), Use.READER: _READ},
    "qrtz_identity": {Use.NODE: ("SELECT", "INSERT"), Use.CLIENT: _READ, Use.READER: _READ},
    "qrtz_job_upstreams": {Use.NODE: _ALL, Use.CLIENT: _ALL, Use.READER: _READ},
    "qrtz_joins": {Use.NODE: _ALL, Use.CLIENT: _ALL, Use.READER: _READ},
    "qrtz_calendars": {Use.NODE: _ALL, Use.CLIENT: _ALL, Use.READER: _READ},
    "qrtz_owners": {Use.NODE: _ALL, Use.CLIENT: _ALL, Use.READER: _READ},
    "qrtz_paused_trigger_groups": {Use.NODE: _ALL, Use.CLIENT: _ALL, Use.READER: _READ},
    "qrtz_maintenance_windows": {Use.NODE: _ALL, Use.CLIENT: _ALL, Use.READER: _READ},
    # Locking a row needs the privilege to update one of its columns; whoever uses a scheduler's name first inserts its
    # rows.
    "qrtz_locks": {
        Use.NODE: ("SELECT", "INSERT", _update("lock_name")),
        Use.CLIENT: ("SELECT", "INSERT", _update("lock_name")),
        Use.READER: _READ,
    },
    # A client asks executions to stop.
    "qrtz_fired_triggers": {
        Use.NODE: _ALL,
        Use.CLIENT: ("SELECT", _update("cancel_requested")),
        Use.WORKER: (_select(*_OF_TICKET, *_OF_WORKER), _update(*_OF_WORKER)),
        Use.READER: _READ,
    },
    "qrtz_executions": {Use.NODE: _ALL, Use.CLIENT: _READ, Use.READER: _READ},
    # A trigger that a client resumes may have misfired.
    "qrtz_misfires": {Use.NODE: _ALL, Use.CLIENT: ("SELECT", "INSERT"), Use.READER: _READ},
    # A client sets the modes of nodes.
    "qrtz_scheduler_state": {
        Use.NODE: _ALL,
        Use.CLIENT: ("SELECT", _update("mode", "mode_since")),
        Use.WORKER: (_select("sched_name", "instance_id", "epoch"),),
        Use.READER: _READ,
    },
    # An action on many subjects updates its row as it proceeds; only nodes delete old rows.
    "qrtz_audit": {
        Use.NODE: ("SELECT", "INSERT", _PROCEEDING, "DELETE"),
        Use.CLIENT: ("SELECT", "INSERT", _PROCEEDING),
        Use.READER: _READ,
    },
    # Nodes judge what is wrong; a client acknowledges it.
    "qrtz_incidents": {Use.NODE: _ALL, Use.CLIENT: ("SELECT", _ACKNOWLEDGED), Use.READER: _READ},
    "qrtz_notifications": {Use.NODE: _ALL, Use.CLIENT: _READ, Use.READER: _READ},
    "qrtz_health_runs": {Use.NODE: ("SELECT", "INSERT", "UPDATE"), Use.CLIENT: _READ, Use.READER: _READ},
    # What is expected of a trigger is noted by whoever stores it.
    "qrtz_expectations": {Use.NODE: _ALL, Use.CLIENT: ("SELECT", "INSERT"), Use.READER: _READ},
    "qrtz_breaches": {Use.NODE: _ALL, Use.CLIENT: _READ, Use.READER: _READ},
}
VIEW: Mapping[Use, tuple[str, ...]] = {Use.NODE: _READ, Use.CLIENT: _READ, Use.READER: _READ}
"""The privileges on each view. Nothing checks them, because the scheduler reads no view."""
SEQUENCES: Mapping[str, Mapping[Use, tuple[str, ...]]] = {
    "qrtz_fire_ids": {Use.NODE: ("USAGE",), Use.CLIENT: ("USAGE",), Use.READER: ()},
    "qrtz_epochs": {Use.NODE: ("USAGE",), Use.CLIENT: (), Use.READER: ()},
}

_MISSING = as_query(SqlFile("schema/privileges.sql")("missing"))


def missing(
    connection: psycopg.Connection[Any], schema: str | None, use: Use, prefix: str = DEFAULT_TABLE_PREFIX
) -> dict[str, list[str]]:
    """Return the missing privileges of this connection's role for a use, by table or sequence."""
    wanted = [
        (*_checked(kind, verb), renamed(name, prefix), verb)
        for kind, things in (("table", TABLES), ("sequence", SEQUENCES))
        for name, uses in things.items()
        for verb in uses.get(use, ())
    ]
    kinds, columns, names, verbs = (list(column) for column in zip(*wanted, strict=True))
    lacking: dict[str, list[str]] = {}
    table = renamed("qrtz_scheduler_state", prefix)
    place = f'"{schema}".{table}' if schema else table
    values = {"kinds": kinds, "names": names, "verbs": verbs, "columns": columns, "table": place}
    for name, verb in connection.execute(_MISSING, values):
        lacking.setdefault(name, []).append(verb)
    return lacking


def _checked(kind: str, verb: str) -> tuple[str, str]:
    """Return how a privilege is checked: the kind of check, and the columns."""
    _, _, columns = verb.partition("(")
    return ("columns", columns.rstrip(")")) if columns else (kind, "")


def described(lacking: Mapping[str, list[str]]) -> str:
    return "; ".join(f"{', '.join(verbs)} on {name}" for name, verbs in lacking.items())
