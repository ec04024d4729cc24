"""The load of the cluster: a few numbers from one read whose cost does not grow with the tables."""

from __future__ import annotations

from quartzpy.store.records import LATE_AFTER, MOST_COUNTED, ClusterLoad
from quartzpy.store.sql.db.session import SqlSession
from quartzpy.store.sql.db.sql_files import SqlFile

_SQL = SqlFile("load.sql")
LOAD = _SQL("load")


def cluster_load(session: SqlSession) -> ClusterLoad:
    [row] = session.read_one(LOAD, most=MOST_COUNTED, late_after=LATE_AFTER)
    return ClusterLoad(*row)
