"""The progress and the log lines of running executions."""

from __future__ import annotations

from collections.abc import Mapping

from quartzpy.jobs.context import Progress
from quartzpy.store.postgresql.connection.session import SqlSession
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.protocol import Node

_SQL = SqlFile("steps/progress.sql")


def report_progress(
    session: SqlSession, node: Node, reports: Mapping[int, Progress], logs: Mapping[int, str] | None = None
) -> set[int]:
    """Store the progress and the log lines of executions; see `JobStore.report_progress`."""
    logs = logs or {}
    fire_ids = list(reports.keys() | logs.keys())
    progress = [reports.get(fire_id) for fire_id in fire_ids]
    statement = session.bind(
        _SQL.report_progress,
        epoch=node.epoch,
        fire_ids=fire_ids,
        fractions=[None if report is None else report.fraction for report in progress],
        messages=[None if report is None else report.message for report in progress],
        logs=[logs.get(fire_id) for fire_id in fire_ids],
    )
    [stored] = session.unlocked(statement)
    return {fire_id for (fire_id,) in stored.rows}
