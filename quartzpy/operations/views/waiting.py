"""What a trigger waits for, in a few words: for the lists, which have no room for the sentences of `why`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime

from quartzpy.keys import JobKey, TriggerKey
from quartzpy.scheduler.batched_reads import BatchedReads, Deferred
from quartzpy.states import PAUSED_STATES, HeldBy, JobMode, TriggerState
from quartzpy.store.node_states import states_of, takes_work
from quartzpy.store.records import JobHeader, JobRecord, NodeRecord, Pauses, TriggerRecord


class WaitingFacts:
    """The pauses and the nodes, by which a list says what its rows wait for; asked with the other questions of it."""

    def __init__(self, reading: BatchedReads) -> None:
        self._reading = reading
        self._pauses = reading.defer(lambda store: store.pauses())
        self._nodes = reading.defer(lambda store: store.list_nodes())
        self._modes: Deferred[dict[JobKey, JobHeader]] | None = None

    def ask_modes(self, records: Iterable[TriggerRecord]) -> None:
        """Ask for the modes of the jobs whose triggers are paused."""
        keys = {record.job_key for record in records if record.state in PAUSED_STATES}
        self._modes = self._reading.defer(lambda store: store.job_headers(keys)) if keys else None

    def of_trigger(self, record: TriggerRecord) -> str | None:
        """Return what a trigger waits for; None if it waits for its next fire time only."""
        header = None if self._modes is None else self._modes().get(record.job_key)
        return waits_for(
            record.state,
            None if header is None else header.mode,
            record.next_fire_time,
            limit_in_words(record.held_by, record.shared_limits),
            self._reading.now(),
            _pause(self._pauses(), record.key, record.job_key),
            self._nodes().nodes,
        )

    def of_job(self, record: JobRecord) -> str | None:
        """Return what the next fire of a job waits for."""
        if record.next_state is None:
            return None
        return waits_for(
            record.next_state,
            record.mode,
            record.next_fire_time,
            limit_in_words(record.held_by, record.shared_limits),
            self._reading.now(),
            _pause(self._pauses(), None, record.key),
            self._nodes().nodes,
        )


def limit_in_words(held_by: HeldBy | None, shared_limits: Sequence[str]) -> str:
    """Return what a BLOCKED trigger waits for, in the words that follow "waits for"."""
    match held_by:
        case HeldBy.SLOT:
            return "an execution of its job"
        case HeldBy.RATE:
            return "its rate limit"
        case HeldBy.SHARED:
            return f"the limit{'s' * (len(shared_limits) > 1)} {', '.join(shared_limits)}"
    return "a limit of its job"


def _pause(pauses: Pauses, trigger: TriggerKey | None, job: JobKey) -> str:
    """Return the words of the pause that holds a trigger."""
    if pauses.everything:
        return "everything is paused"
    if trigger is not None and trigger.group in pauses.trigger_groups:
        return "its group is paused"
    if job.group in pauses.job_groups:
        return "the group of its job is paused" if trigger is not None else "its group is paused"
    return "the scheduler is in manual mode" if pauses.is_manual else "paused"


def waits_for(
    state: TriggerState,
    mode: JobMode | None,
    at: datetime | None,
    limit: str,
    now: datetime,
    pause: str,
    nodes: Collection[NodeRecord],
) -> str | None:
    """Return what a fire waits for; None if it waits for nothing but its instant.

    Args:
        state: the state of the trigger.
        mode: the mode of the job; None if it is not known.
        at: the next fire time.
        limit: the words of the limit, if the trigger is blocked.
        now: the store's time.
        pause: the words of the pause, if the trigger is paused.
        nodes: the nodes of the cluster.
    """
    match state:
        case TriggerState.ERROR:
            return "does not fire: in ERROR"
        case TriggerState.COMPLETE:
            return "has ended"
        case TriggerState.PAUSED | TriggerState.PAUSED_BLOCKED:
            words = {JobMode.DISABLED: "disabled", JobMode.MANUAL: "fires by hand only"}
            return words.get(mode, pause) if mode is not None else pause
        case TriggerState.BLOCKED:
            return f"waits for {limit}"
    if at is None or at > now:
        return None
    states = states_of(nodes, now)
    alive = [node for node in nodes if states[node.instance_id].is_alive]
    if not alive:
        return "waits: no node is running"
    return "waits for a node" if any(map(takes_work, alive)) else "waits: no node takes work"
