"""Which triggers a node runs, by job type and placement: what it has said, and what its steps are told of it.

A node says about each dispatch key that it meets whether it runs such triggers (`qrtz_node_keys`). A step takes none
about which its epoch has not said so, because it fires what it meets, and the program sees that later. Most nodes run
everything, so a step is told the few dispatch keys that its node has refused, by name, and passes over their triggers.
Where these are many, the step looks them up.
"""

from __future__ import annotations

from collections.abc import Mapping

from quartzpy.store.postgresql.connection.session import SqlSession, require_epoch
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.protocol import DispatchKey, Node

_SQL = SqlFile("steps/checkin.sql")
DECIDE = _SQL("decide")
NOTE_ACCEPTED = _SQL("note_accepted")
FORGET = _SQL("forget")
MOST_HASHES = 8_192
"""The number of dispatch keys about which a node has said something up to which its steps find them by hashes."""


def decide(session: SqlSession, node: Node, runs: Mapping[DispatchKey, bool]) -> None:
    """Store whether the node runs the triggers of dispatch keys; see `JobStore.decide`."""
    if not runs:
        return
    # Reads have left out only what the node has refused, so what it accepts for the first time is expected already.
    is_expected = all(runs.values()) and not session.refused.include_any_of(node, runs)
    said, _ = session.locked(
        session.bind(
            DECIDE,
            instance=node.instance_id,
            epoch=node.epoch,
            job_types=[key.job_type for key in runs],
            placements=[key.placement for key in runs],
            runs=list(runs.values()),
        ),
        session.bind(NOTE_ACCEPTED, instance=node.instance_id, epoch=node.epoch, most_hashes=MOST_HASHES),
        keeps_next_due=is_expected,
    )
    require_epoch(node, said)
    session.refused.note(node, runs)
    if not all(runs.values()):
        session.next_due.note_refused()
