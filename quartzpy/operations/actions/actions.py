"""The actions that operators take, each on one subject or many."""

from __future__ import annotations

from quartzpy.operations.actions.executing import ExecutingActions
from quartzpy.operations.actions.operating import OperatingActions
from quartzpy.operations.actions.pausing import PausingActions
from quartzpy.operations.actions.scheduling import SchedulingActions


class Actions(ExecutingActions, PausingActions, SchedulingActions, OperatingActions):
    """The actions of one actor on a scheduler, which need not be started.

    Each action takes a `reason`, a sentence for the audit log. `selection` is one key, several keys of one kind, or a
    `Selection` by filters. An action on one subject raises its error and then changes nothing. An action on many
    proceeds in slices; subjects that cannot be changed are counted in the result, and do not prevent the others.

    Raises (by every action):
        ForbiddenError: the actor's role does not permit it, or the operations are read-only; nothing was changed.
        InvalidValueError: an argument is wrong; nothing was changed.
    """
