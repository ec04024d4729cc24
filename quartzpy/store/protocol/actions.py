"""The protocol of operators' actions: the audit log, commands to nodes, and transactions of the store's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Protocol, TypeVar

from quartzpy.states import ActionState, NodeMode
from quartzpy.store.queries import ActionQuery, Position
from quartzpy.store.records import ActionRecord

if TYPE_CHECKING:
    from quartzpy.store.protocol import JobStore

_T = TypeVar("_T")


ACTION_SILENCE = timedelta(minutes=1)
"""The time without an update after which the process of an action is taken for dead: several times that of a slice."""
UNHEARD = "its process ended before it, or lost the database; what was changed until then stays changed"


@dataclass(frozen=True, slots=True)
class ActionEntry:
    """An action to record in the audit log; the fields are those of `ActionRecord`."""

    actor: str
    role: str
    action: str
    subject: str
    reason: str = ""
    state: ActionState = ActionState.RUNNING
    count: int = 0
    before_text: str | None = None
    after_text: str | None = None
    error: str | None = None


class ActionStore(Protocol):
    """The audit log of operators' actions, and commands to nodes."""

    def together(self, work: Callable[[JobStore], _T]) -> _T:
        """Call `work` with the store inside a new transaction, commit it, and return the result.

        If `work` raises an error, a store on a database rolls back everything that `work` changed. Inside a
        transaction of the caller's, `work` is part of that transaction, and nothing is committed.
        """
        ...

    def record_action(self, entry: ActionEntry) -> int:
        """Add an action to the audit log, with the store's time; return its id. `clear` keeps the audit log."""
        ...

    def record_actions(self, entries: Sequence[ActionEntry]) -> None:
        """Add actions, as `record_action` does with one, in this order and in few round trips."""
        ...

    def update_action(
        self, action_id: int, *, state: ActionState, count: int, after_text: str | None = None, error: str | None = None
    ) -> None:
        """Update the state and the count of an action that is RUNNING. One that has ended is left as it is.

        The count never falls: the caller may not know of the last change that it made, because the answer was lost.
        If `state` is not RUNNING, the action has ended now. `after_text` replaces the old value unless it is None, and
        `error` always does. An action that was marked as INTERRUPTED is updated as well: its process was slow, and not
        dead.
        """
        ...

    def interrupt_actions(self, silent_for: timedelta) -> int:
        """Mark actions as INTERRUPTED that are RUNNING and were not updated for so long; return their number.

        They ended with their latest update.
        """
        ...

    def find_actions(self, query: ActionQuery, limit: int | None, after: Position | None = None) -> list[ActionRecord]:
        """Return at most `limit` (None: all) of the actions that the query selects, as `QueryStore.find_jobs` does."""
        ...

    def set_node_mode(self, instance_id: str, mode: NodeMode) -> datetime | None:
        """Set the mode of a registered node, and notify the nodes (`COMMANDED`); return the new `mode_since`.

        The node applies it when it reads its own record at its next check-in. Each call raises `mode_since`. The
        result is None if no node with this id is registered. A new epoch of the node begins as RUNNING.
        """
        ...
