"""What the row of a call, and what its engine knows, mean for it."""

from __future__ import annotations

from enum import Enum, auto

from quartzpy.node.engines.protocol import Found
from quartzpy.store.protocol import Submitted

SILENT_TOUCHES = 3
"""The number of touches that a worker has missed which the engine knows no more."""


class CallVerdict(Enum):
    """What follows for a call."""

    WAIT = auto()
    ENDED = auto()
    """The row has its ending."""
    GONE = auto()
    """The row is gone, or is another node's."""
    SUBMIT = auto()
    """Nobody has taken its ticket, and nobody will: it may be submitted again, if that is still so."""
    SETTLE = auto()
    """Its worker is lost: the submission is made void, unless it has ended meanwhile."""
    OVER = auto()
    """It was made void before, and does not run any more."""


def judged(
    row: Submitted | None,
    state: Found,
    *,
    submission: int | None,
    lost: bool,
    is_void: bool,
    unseen_for: float,
    window: float,
    touch_every: float,
) -> CallVerdict:
    """Return what follows for a call with a ticket. `lost`: its engine has said so, or a second run of it was refused.
    `unseen_for`: the seconds since its row was that of this node.

    An engine that does not know is never believed to have lost anything: only the silence of the row counts then.
    """
    is_over = state in (Found.GONE, Found.FAILED, Found.DONE)
    if row is None or (row.submission != submission and not is_void):
        # The scheduler thread notices it, and asks the job to stop, which learns it by its touches as well.
        is_gone = lost or is_over or (unseen_for >= window and state is not Found.RUNNING)
        return CallVerdict.GONE if is_gone else CallVerdict.WAIT
    if row.ending is not None and not is_void:
        return CallVerdict.ENDED
    if row.worker is None or row.silent_for is None:
        if not (lost or is_over):
            return CallVerdict.WAIT
        return CallVerdict.OVER if is_void else CallVerdict.SUBMIT
    is_lost = row.silent_for >= (SILENT_TOUCHES * touch_every if is_over else window) and state is not Found.RUNNING
    if not is_lost:
        return CallVerdict.WAIT
    return CallVerdict.OVER if is_void else CallVerdict.SETTLE
