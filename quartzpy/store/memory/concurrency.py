"""The concurrency key of a trigger: the value that an entry has in its data."""

from __future__ import annotations

import json


def concurrency_key(entry: str | None, job_data: str | None, trigger_data: str | None) -> str:
    """Return the value of `entry` in the data that an execution gets, as text; empty where there is none.

    Both data are JSON, and the trigger's comes first.
    """
    if entry is None:
        return ""
    value = {**json.loads(job_data or "{}"), **json.loads(trigger_data or "{}")}.get(entry)
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)
