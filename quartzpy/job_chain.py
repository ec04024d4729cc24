"""Job chains, after Quartz's JobChainingJobListener."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from quartzpy.errors import InvalidListenerError
from quartzpy.events import JobWasExecuted
from quartzpy.keys import JobKey
from quartzpy.listener_kinds import JobListener
from quartzpy.states import Outcome


class _Link(NamedTuple):
    then: JobKey
    outcomes: frozenset[Outcome]
    data: Mapping[str, Any] | None


class JobChain(JobListener):
    """Triggers jobs after others: `scheduler.listeners.add_job_listener(JobChain().link(first, then))`.

    A chain is no more reliable than a listener: each node needs one, and if a node dies between the end of one job and
    the start of the next, the next does not start. For atomicity, trigger the next job inside the first one's own
    `context.transaction()`.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._links: dict[JobKey, list[_Link]] = {}

    def link(
        self,
        first: JobKey,
        then: JobKey,
        *,
        outcomes: Collection[str] = (Outcome.SUCCEEDED,),
        data: Mapping[str, Any] | None = None,
    ) -> JobChain:
        """Trigger `then` with `data` whenever `first` ends with one of these outcomes; return this chain.

        A failure that is retried is not an end. A job may have several followers, and may appear again in its own
        chain.

        Raises:
            InvalidListenerError: a name is not an outcome, or `outcomes` is empty.
        """
        wanted = frozenset(one for one in Outcome if one in outcomes)
        if not wanted or len(wanted) < len(set(outcomes)):
            raise InvalidListenerError(f"outcomes: some of {', '.join(Outcome)} (got {outcomes!r})")
        with self._lock:
            self._links.setdefault(first, []).append(_Link(then, wanted, data))
        return self

    def job_was_executed(self, event: JobWasExecuted) -> None:
        """Trigger the jobs that follow the executed one, if its outcome is linked."""
        with self._lock:
            links = list(self._links.get(event.job_key, ()))
        for link in links:
            if event.retry_after is None and event.outcome in link.outcomes:
                event.context.scheduler.trigger_job(link.then, link.data)
