"""The load of the cluster: a few numbers from one read whose cost does not grow with the tables."""

from __future__ import annotations

from quartzpy.store.postgresql.db.session import SqlSession
from quartzpy.store.postgresql.db.sql_files import SqlFile
from quartzpy.store.records import LATE_AFTER, MOST_COUNTED, ClusterLoad

_SQL = SqlFile("load.sql")
LOAD = _SQL("load")


def cluster_load(session: SqlSession) -> ClusterLoad:
    [row] = session.read_one(LOAD, most=MOST_COUNTED, late_after=LATE_AFTER)
    return ClusterLoad(*row)
