"""Check-in, registration and departure.

A check-in writes only the node's own row and takes no row of `locks`: it decides nothing, and a node that waits behind
a busy cluster would look dead.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from quartzpy.keys import JobKey
from quartzpy.placement import Capabilities
from quartzpy.states import NodeMode
from quartzpy.store.protocol import CheckIn, Node
from quartzpy.store.records import NodeRecord
from quartzpy.store.sql.db.control import ControlConnection
from quartzpy.store.sql.db.session import NOW, SqlSession, require_epoch

# No row: the epoch no longer exists.
CHECK_IN = """
UPDATE $scheduler_state
   SET last_checkin = $now, checkin_count = checkin_count + 1
 WHERE sched_name = %(sched)s AND instance_id = %(instance)s AND epoch = %(epoch)s::bigint
RETURNING epoch
"""

NODES = """
SELECT instance_id, epoch, host, pid, started_at, last_checkin, checkin_count, checkin_interval,
       failure_window, process, capabilities::text, mode, mode_since
  FROM $scheduler_state
 WHERE sched_name = %(sched)s
 ORDER BY instance_id
"""

PUBLISH = """
UPDATE $scheduler_state SET capabilities = %(capabilities)s::jsonb
 WHERE sched_name = %(sched)s AND instance_id = %(instance)s AND epoch = %(epoch)s::bigint
"""

# Locks: STATE_ACCESS, TRIGGER_ACCESS. An older epoch of this id is removed if it has been silent for its own stored
# window, or if its process is known to have ended.
REPLACE_SILENT = """
DELETE FROM $scheduler_state
 WHERE sched_name = %(sched)s AND instance_id = %(instance)s
   AND (last_checkin < $now - failure_window OR epoch = %(ended_epoch)s::bigint)
"""

# No row: another node uses the id.
REGISTER = """
INSERT INTO $scheduler_state
       (sched_name, instance_id, epoch, host, pid, started_at, last_checkin, checkin_count, checkin_interval,
        failure_window, process)
SELECT %(sched)s, %(instance)s, nextval('$epochs'), %(host)s, %(pid)s::bigint, $now, $now, 0,
       %(checkin_interval)s::interval, %(window)s::interval, %(process)s
    ON CONFLICT (sched_name, instance_id) DO NOTHING
RETURNING epoch
"""

# After its departure, a node executes nothing.
LEAVE = """
DELETE FROM $scheduler_state
 WHERE sched_name = %(sched)s AND instance_id = %(instance)s AND epoch = %(epoch)s::bigint
"""


FORGIVE = """
UPDATE $job_details j SET node_deaths = j.node_deaths - 1
  FROM (SELECT o.ctid AS row
          FROM unnest(%(groups)s::text[], %(names)s::text[]) AS k(job_group, job_name)
         CROSS JOIN LATERAL (
            SELECT d.ctid FROM $job_details d
             WHERE d.sched_name = %(sched)s AND d.job_group = k.job_group AND d.job_name = k.job_name
               AND d.node_deaths > 0
               FOR NO KEY UPDATE SKIP LOCKED) AS o) AS held
 WHERE j.ctid = held.row
"""


def check_in(session: SqlSession, control: ControlConnection, node: Node, within: float | None) -> CheckIn:
    """Renew the lease; see `JobStore.check_in`."""
    own, nodes, now = control.fly(
        [
            session.send(CHECK_IN, instance=node.instance_id, epoch=node.epoch),
            session.send(NODES),
            session.send(NOW),
        ],
        within,
    )
    require_epoch(node, own)
    return CheckIn(now.rows[0][0], records(nodes.rows))


def list_nodes(session: SqlSession) -> CheckIn:
    nodes, now = session.read(session.send(NODES), session.send(NOW))
    return CheckIn(now.rows[0][0], records(nodes.rows))


def records(rows: list[tuple[Any, ...]]) -> tuple[NodeRecord, ...]:
    return tuple(NodeRecord(*(*row[:-3], Capabilities.from_text(row[-3]), NodeMode(row[-2]), row[-1])) for row in rows)


def publish(session: SqlSession, node: Node, capabilities: Capabilities) -> None:
    """Record what the node can run; see `JobStore.publish`."""
    values = {"instance": node.instance_id, "epoch": node.epoch, "capabilities": capabilities.as_text()}
    session.unlocked(session.send(PUBLISH, **values))


def forgive(session: SqlSession, jobs: Collection[JobKey]) -> None:
    """Subtract node deaths; see `JobStore.forgive`."""
    if jobs:
        session.unlocked(session.send(FORGIVE, groups=[key.group for key in jobs], names=[key.name for key in jobs]))
