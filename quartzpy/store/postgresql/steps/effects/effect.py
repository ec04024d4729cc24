"""What an effect is: some statements of a flight, each of which has a name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Self

from quartzpy.instants import earliest
from quartzpy.store.postgresql.connection.pipeline import BoundStatement, Result
from quartzpy.store.postgresql.connection.session import SqlSession
from quartzpy.store.protocol import Completion, Node

Flight = dict[str, BoundStatement]
"""The statements of a flight by their names, in the order in which they are sent."""
Results = Mapping[str, Result]
"""The results of a flight by the names of its statements."""


@dataclass(frozen=True)
class Ends:
    """The ends of a flight, by the effects that they may have on other triggers; an effect finds out which have it."""

    session: SqlSession
    fire_ids: Sequence[int]
    repeating: Sequence[int]
    """Those that run again: a failure that is retried, a snooze, a lost execution that is to be recovered."""
    continuing: Sequence[int]
    joining: Sequence[int]
    wakes_others: bool = False

    def waking(self, text: str, fire_ids: Sequence[int], **values: object) -> BoundStatement:
        """Bind a statement that makes triggers wait: its row says when the soonest of them fires."""
        return self.session.bind(
            text, fire_ids=fire_ids, channel=self.session.channel, wakes_others=self.wakes_others, **values
        )


@dataclass(frozen=True, kw_only=True)
class Completed(Ends):
    """Ends that their node reports, and what it says of each."""

    node: Node
    completions: Sequence[Completion]
    at_length: bool
    """True if the same transaction has changed before what the ends change of all triggers of a job."""

    @classmethod
    def of(
        cls,
        session: SqlSession,
        node: Node,
        completions: Sequence[Completion],
        *,
        wakes_others: bool = False,
        at_length: bool = False,
    ) -> Self:
        return cls(
            session,
            fire_ids_of(completions),
            repeating=fire_ids_of(c for c in completions if c.retry_after is not None),
            continuing=fire_ids_of(c for c in completions if c.fired.continues),
            joining=fire_ids_of(c for c in completions if c.fired.joins),
            wakes_others=wakes_others,
            node=node,
            completions=completions,
            at_length=at_length,
        )


def fire_ids_of(completions: Iterable[Completion]) -> list[int]:
    return [completion.fired.fire_id for completion in completions]


WAKING = ("repeat", "start_followers", "start_joined")
"""The statements whose first column is the soonest fire time of the triggers that they make wait."""


def earliest_of(results: Results) -> datetime | None:
    """Return the soonest fire time of the triggers that the ends have stored."""
    instants = (results[name].rows[0][0] for name in WAKING if name in results)
    return earliest(*instants)
