"""The action that undoes an entry of the audit log, on the subject of the entry."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from quartzpy.keys import JobKey, TriggerKey
from quartzpy.operations.actions.table import ACTIONS
from quartzpy.operations.audit_log import AuditEntry
from quartzpy.operations.incidents import Remedy
from quartzpy.operations.selection import Selection

_READERS: Mapping[str, Callable[..., dict[str, Any]]] = {
    r"everything": lambda: {"selection": Selection.everything()},
    r"trigger group ([^.*]+)": lambda group: {"selection": Selection.trigger_group(group)},
    r"job group ([^.*]+)": lambda group: {"selection": Selection.job_group(group)},
    r"trigger (?!group )([^.]+)\.([^.]+)": lambda group, name: {"selection": TriggerKey(name, group)},
    r"job (?!group )([^.]+)\.([^.]+)": lambda group, name: {"selection": JobKey(name, group)},
    r"node (.+)": lambda node: {"node": node},
}
"""The texts that name one subject. Groups and names may contain dots and stars, so that others read in two ways."""


def undoing(entry: AuditEntry) -> Remedy | None:
    """Return the action that undoes an entry; None if there is none, or the entry does not name one subject exactly."""
    # The texts of long subjects are cut.
    if entry.undone_by is None or entry.subject.endswith("…"):
        return None
    for pattern, read in _READERS.items():
        if match := re.fullmatch(pattern, entry.subject, re.DOTALL):
            return Remedy(entry.undone_by, read(*match.groups()), ACTIONS[entry.undone_by].question)
    return None
