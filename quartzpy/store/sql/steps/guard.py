"""The guard of a step: its node's epoch must still be registered, or else the step changes nothing."""

from __future__ import annotations

# No row means that the epoch is no longer registered.
GUARD = """
SELECT $now FROM $scheduler_state
 WHERE sched_name = %(sched)s AND instance_id = %(instance)s AND epoch = %(epoch)s::bigint
"""
