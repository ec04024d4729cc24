"""Which triggers a node runs, by job type and placement: what it says about the dispatch keys that it meets.

It is in the node's row, as two arrays of hashes: `runs` and `refuses`. A step takes none about which its epoch has not
said that it runs it, because it fires what it meets, and the program sees that later.
"""

from __future__ import annotations

from collections.abc import Mapping

from quartzpy.store.postgresql.connection.session import SqlSession, require_epoch
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.protocol import DispatchKey, Node

_SQL = SqlFile("steps/checkin.sql")
DECIDE = _SQL("decide")


def decide(session: SqlSession, node: Node, runs: Mapping[DispatchKey, bool]) -> bool:
    """Store whether the node runs the triggers of dispatch keys; see `JobStore.decide`."""
    if not runs:
        return True
    [said] = session.locked(
        session.bind(
            DECIDE,
            instance=node.instance_id,
            epoch=node.epoch,
            job_types=[key.job_type for key in runs],
            placements=[key.placement for key in runs],
            runs=list(runs.values()),
        )
    )
    (is_stored,) = require_epoch(node, said)
    return bool(is_stored)
