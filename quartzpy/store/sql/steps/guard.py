"""The guard of a step: its node's epoch must still be registered, or else the step changes nothing."""

from __future__ import annotations

NODE = """
-- The guard of the step. It is empty if this epoch is no longer registered, and then all that follows is empty, too.
-- `at` is the one instant by which the whole step decides.
node AS MATERIALIZED (
    SELECT $now AS at FROM $scheduler_state
     WHERE sched_name = %(sched)s AND instance_id = %(instance)s AND epoch = %(epoch)s::bigint
)"""

# No row means that the epoch is no longer registered.
GUARD = """
SELECT $now FROM $scheduler_state
 WHERE sched_name = %(sched)s AND instance_id = %(instance)s AND epoch = %(epoch)s::bigint
"""
