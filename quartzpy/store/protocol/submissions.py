"""The submissions of executions to engines that may run a call more than once.

Each submission has a number, and the row of the execution says whether a worker has taken its ticket. A ticket is taken
once: `quartzpy.store.postgresql.worker_store` has what a worker does with it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from quartzpy.store.protocol.cluster import Node
from quartzpy.store.protocol.outcomes import Submitted


class SubmissionStore(Protocol):
    """The submissions of a node's executions.

    Each call is one statement, which finds its rows by their keys and takes no shared lock. A row that somebody writes
    at this moment is waited for, for at most `lock_timeout`: a worker or an operator holds it for one statement, or for
    its commit. To pass over such a row would look like an execution that is gone. If a wait is in vain, nothing has
    changed.

    Each method raises:
        LeaseLostError: the epoch is no longer registered; nothing has changed.
        StoreUnavailableError: the store cannot be reached, or a row was held for too long.
        OutcomeUnknownError: it may have taken effect; `submitted` tells.
        InvalidValueError: the store has no tickets.
    """

    has_tickets: bool
    """True if workers reach its rows, so that calls can take tickets."""

    def submit(self, node: Node, fires: Mapping[int, bool], *, refires: Collection[int] = ()) -> dict[int, int]:
        """Begin a new submission of these executions of the epoch, and return its number for each.

        The value says whether the execution goes on if its node ends. Earlier submissions of it are void: their tickets
        cannot be taken any more. The first number of an execution is random, so that the names of calls of several
        databases differ, and each further one is greater by one.

        An execution is missing in the answer if it is not this epoch's any more, or if a worker has taken the ticket of
        an earlier submission: `submitted` tells which. One of `refires`, whose node has dealt with its ending and runs
        the job again in the same attempt, may have an ending, which is forgotten.
        """
        ...

    def submitted(self, node: Node, fire_ids: Collection[int]) -> dict[int, Submitted]:
        """Return what the rows of these executions say.

        One is missing that is not this epoch's any more, or was never submitted. It waits for no row.
        """
        ...

    def settle(self, node: Node, submissions: Mapping[int, int]) -> dict[int, str | None]:
        """Return how these submissions have ended, and make void those that have not; None: it is void.

        What still runs of a void one can neither begin, nor end, nor commit anything that is fenced. One that a later
        submission or an earlier call has made void is None as well, so that the call may be repeated. A submission is
        missing in the answer if the execution is not this epoch's any more.
        """
        ...
