"""What an effect is: some statements of a flight, each of which has a name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from quartzpy.store.postgresql.connection.pipeline import BoundStatement, Result
from quartzpy.store.postgresql.connection.session import SqlSession
from quartzpy.store.protocol import Completion, Node

Flight = dict[str, BoundStatement]
"""The statements of a flight by their names, in the order in which they are sent."""
Results = Mapping[str, Result]
"""The results of a flight by the names of its statements."""


class Ends(NamedTuple):
    """The ends of a flight, and what all of their effects are told."""

    session: SqlSession
    node: Node
    completions: Sequence[Completion]
    wakes_others: bool = False
    at_length: bool = False
    """True if the same transaction has changed before what the ends change of all triggers of a job."""

    def fire_ids(self, completions: Sequence[Completion]) -> list[int]:
        return [completion.fired.fire_id for completion in completions]

    def waking(self, text: str, completions: Sequence[Completion], **values: object) -> BoundStatement:
        """Bind a statement that makes triggers wait: its row says when the soonest of them fires."""
        return self.session.bind(
            text,
            fire_ids=self.fire_ids(completions),
            channel=self.session.channel,
            wakes_others=self.wakes_others,
            **values,
        )


WAKING = ("retry", "start_followers", "start_joined", "freed_limits")
"""The statements whose first column is the soonest fire time of the triggers that they make wait, or that wait."""


def earliest_of(results: Results) -> datetime | None:
    """Return the soonest fire time of the triggers that the ends have stored, or that wait for limits of theirs."""
    instants = (results[name].rows[0][0] for name in WAKING if name in results)
    return min((at for at in instants if at is not None), default=None)
