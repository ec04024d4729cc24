"""The facts that a node publishes besides its capabilities: time zone data, release, settings and clock.

Fire times are computed from the time zone data, and the others should agree; differences between nodes are reported.
"""

from __future__ import annotations

import importlib
import json
import time
import zoneinfo
from collections.abc import Collection, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from quartzpy.config.config import SchedulerConfig
from quartzpy.jobs.job import job_types as known_types
from quartzpy.jobs.type_facts import published
from quartzpy.store.node_metadata import CLOCK_AHEAD, JOB_TYPES, RELEASE, SETTING, TZDATA
from quartzpy.store.postgresql.connection.pipeline import BoundStatement
from quartzpy.store.postgresql.connection.session import SqlSession
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.protocol import Node

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
UNKNOWN = "unknown"

_SQL = SqlFile("steps/facts.sql")
SAVE = _SQL("save")
READ = _SQL("read")
STARTED = _SQL("started")
READ_TYPES = _SQL("read_types")


def tzdata_version() -> str:
    """Return the version of the time zone data of this process: the system's, else the package's."""
    for place in map(Path, zoneinfo.TZPATH):
        if (place / "UTC").is_file() or (place / "Europe").is_dir():
            return _version_in(place)
    try:
        return str(importlib.import_module("tzdata").IANA_VERSION)
    except (ImportError, AttributeError):
        return UNKNOWN


def _version_in(place: Path) -> str:
    for name in ("tzdata.zi", "+VERSION"):
        try:
            with (place / name).open(encoding="ascii", errors="replace") as file:
                line = file.readline(100)
        except OSError:
            continue
        return line.removeprefix("# version ").strip() or UNKNOWN
    return UNKNOWN


def of_this_process(config: SchedulerConfig, type_names: Collection[str] = ()) -> dict[str, Any]:
    """Return the facts of this process, with those of the job types of these names."""
    try:
        release = version("quartzpy")
    except PackageNotFoundError:
        release = UNKNOWN
    settings = {f"{SETTING}{name}": str(getattr(config, name)) for name in ALIKE}
    types = published(known_types, type_names)
    return {TZDATA: tzdata_version(), RELEASE: release, **settings, JOB_TYPES: types}


def publish(session: SqlSession, node: Node, facts: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Store the facts of this node; return those of all nodes, by instance id."""
    save = session.bind(
        SAVE,
        instance=node.instance_id,
        epoch=node.epoch,
        facts=json.dumps(facts),
        wall=repr(time.time()),
        clock_ahead=CLOCK_AHEAD,
    )
    return decoded(session.unlocked(save, reading(session))[1].rows)


def reading(session: SqlSession) -> BoundStatement:
    """Return the statement that reads the facts of all nodes, except those of their job types."""
    return session.bind(READ, types_entry=JOB_TYPES)


def job_types(session: SqlSession) -> dict[str, dict[str, Any]]:
    """Return the facts of the job types of all nodes, by instance id."""
    return decoded(session.read_one(READ_TYPES, types_entry=JOB_TYPES))


def decoded(rows: Sequence[tuple[str, str]]) -> dict[str, dict[str, Any]]:
    return {name: json.loads(text) for name, text in rows}
