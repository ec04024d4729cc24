"""The facts that a node publishes besides its capabilities: time zone data, release, settings and clock.

Fire times are computed from the time zone data, and the others should agree; differences between nodes are reported.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from quartzpy.config.config import SchedulerConfig
from quartzpy.jobs.job import job_types as known_types
from quartzpy.jobs.type_facts import published
from quartzpy.store.node_metadata import CLOCK_AHEAD, JOB_TYPES, RELEASE, SETTING, TZDATA, installed_release
from quartzpy.store.postgresql.connection.pipeline import BoundStatement
from quartzpy.store.postgresql.connection.session import SqlSession
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.protocol import Node
from quartzpy.zone_rules import tzdata_version

ALIKE = (
    "checkin_interval",
    "failure_window",
    "lock_timeout",
    "misfire_threshold",
    "history_retention",
    "history_max_rows",
    "audit_retention",
    "pause_grace",
)
"""Settings whose values should be the same on all nodes of a cluster."""

_SQL = SqlFile("steps/facts.sql")
SAVE_ZONES = _SQL("save_zones")
STARTED = _SQL("started")


def of_this_process(config: SchedulerConfig, type_names: Collection[str] = ()) -> dict[str, Any]:
    """Return the facts of this process, with those of the job types of these names."""
    settings = {f"{SETTING}{name}": str(getattr(config, name)) for name in ALIKE}
    types = published(known_types, type_names)
    return {TZDATA: tzdata_version(), RELEASE: installed_release(), **settings, JOB_TYPES: types}


def publish(session: SqlSession, node: Node, facts: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Store the facts of this node; return those of all nodes, by instance id."""
    save = session.bind(
        _SQL.save,
        instance=node.instance_id,
        epoch=node.epoch,
        facts=json.dumps(facts),
        wall=repr(time.time()),
        clock_ahead=CLOCK_AHEAD,
    )
    return decoded(session.unlocked(save, reading(session))[1].rows)


def reading(session: SqlSession) -> BoundStatement:
    """Return the statement that reads the facts of all nodes, except those of their job types."""
    return session.bind(_SQL.read, types_entry=JOB_TYPES)


def job_types(session: SqlSession) -> dict[str, dict[str, Any]]:
    """Return the facts of the job types of all nodes, by instance id."""
    return decoded(session.read_one(_SQL.read_types, types_entry=JOB_TYPES))


def decoded(rows: Sequence[tuple[str, str]]) -> dict[str, dict[str, Any]]:
    return {name: json.loads(text) for name, text in rows}
