"""The identity of a schedule: a hash that differs if a trigger is stored again with a different schedule."""

from __future__ import annotations

import hashlib
import json

from quartzpy.triggers.trigger import Trigger

_BYTES = 8
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


def schedule_hash(trigger: Trigger) -> int:
    """Return a signed 64-bit hash of a trigger's kind, schedule, start, end and calendar.

    It is computed from the trigger as the user declares it, before a missing start time is set. A misfire may give a
    stored trigger another start and repeat count, so the stored values alone do not show whether a declaration changed.
    """
    declared = [
        trigger.kind,
        trigger.schedule(),
        None if trigger.start_time is None else trigger.start_time.isoformat(),
        None if trigger.end_time is None else trigger.end_time.isoformat(),
        trigger.calendar,
    ]
    text = _ENCODER.encode(declared)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=_BYTES).digest(), signed=True)
