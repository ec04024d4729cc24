"""The verbs that look, and change nothing."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any

from quartzpy.errors import InvalidValueError, TriggerNotFoundError
from quartzpy.explain import Situation, explain
from quartzpy.instants import as_instant
from quartzpy.job import JobDetail
from quartzpy.keys import JobKey, TriggerKey, checked_key
from quartzpy.matchers import GroupMatcher, as_group_matcher
from quartzpy.states import ENDED, PublicState, execution_states
from quartzpy.store.protocol import CheckIn
from quartzpy.store.records import (
    ExecutionQuery,
    ExecutionRecord,
    JobRecord,
    MisfireRecord,
    RunningRecord,
    TriggerRecord,
)
from quartzpy.texts import quoted
from quartzpy.triggers.trigger import Trigger
from quartzpy.verbs.base import Verbs

LIST_LIMIT = 500
MAX_LIMIT = 1_000_000
MAX_FIRE_ID = 2**63 - 1
_FIRE_ID_DIGITS = 19


class LookingVerbs(Verbs):
    """What is stored, claimed, running and done."""

    def get_job_detail(self, key: JobKey) -> JobDetail | None:
        return self._usable_store().job(checked_key(key, JobKey))

    def get_trigger(self, key: TriggerKey) -> Trigger | None:
        record = self.trigger_record(key)
        return record.trigger if record else None

    def trigger_record(self, key: TriggerKey) -> TriggerRecord | None:
        """A trigger with its state, its fire times and the next ones; None where it is not stored."""
        return self._usable_store().trigger(checked_key(key, TriggerKey))

    def why(self, key: TriggerKey) -> list[str]:
        """Why a trigger has not fired, or when it will, in sentences: state, pauses, limits, what runs, what failed.

        Raises:
            TriggerNotFoundError: it is not stored.
        """
        store = self._usable_store()
        record = store.trigger(checked_key(key, TriggerKey))
        if record is None:
            raise TriggerNotFoundError(f"trigger {key} is not stored: it was removed, or has ended")
        of = record.job_key
        assert of is not None
        nodes = store.list_nodes()
        situation = Situation(
            now=nodes.now,
            trigger=record,
            job=store.job(of),
            running=[row for row in store.list_running() if row.job_key == of],
            nodes=nodes.nodes,
            all_paused=store.all_paused(),
            trigger_group_paused=key.group in store.paused_trigger_groups(),
            job_group_paused=of.group in store.paused_job_groups(),
            manual_mode=store.is_manual(),
            job_mode=store.job_mode(of),
            misfire_threshold=self._config.misfire_threshold,
            last=store.list_executions(1, ExecutionQuery(trigger_key=key)),
            misfires=store.list_misfires(1, key),
        )
        return explain(situation)

    def triggers_of_job(self, key: JobKey) -> list[Trigger]:
        return [record.trigger for record in self._usable_store().triggers_of_job(checked_key(key, JobKey))]

    def trigger_state(self, key: TriggerKey) -> PublicState:
        """NONE where it is not stored."""
        return self._usable_store().trigger_states([checked_key(key, TriggerKey)])[key]

    def job_group_names(self) -> list[str]:
        return self._usable_store().job_group_names()

    def trigger_group_names(self) -> list[str]:
        return self._usable_store().trigger_group_names()

    def paused_trigger_groups(self) -> set[str]:
        return self._usable_store().paused_trigger_groups()

    def paused_job_groups(self) -> set[str]:
        return self._usable_store().paused_job_groups()

    @property
    def is_all_paused(self) -> bool:
        """Whether `pause_all` holds also for what comes later."""
        return self._usable_store().all_paused()

    def job_keys(self, group: str | GroupMatcher | None = None) -> set[JobKey]:
        """The keys of jobs whose group matches; None: all."""
        return self._usable_store().job_keys(_matcher(group))

    def trigger_keys(self, group: str | GroupMatcher | None = None) -> set[TriggerKey]:
        """The keys of triggers whose group matches; None: all."""
        return self._usable_store().trigger_keys(_matcher(group))

    def check_exists(self, key: JobKey | TriggerKey) -> bool:
        if isinstance(key, TriggerKey):
            return self.trigger_state(key) is not PublicState.NONE
        return self.get_job_detail(key) is not None

    def jobs(self, limit: int = LIST_LIMIT) -> list[JobRecord]:
        return self._usable_store().list_jobs(_checked_limit(limit))

    def triggers(self, limit: int = LIST_LIMIT) -> list[TriggerRecord]:
        """By next fire time, those without one last."""
        return self._usable_store().list_triggers(_checked_limit(limit))

    def nodes(self) -> CheckIn:
        """The nodes of the cluster, and the store's time."""
        return self._usable_store().list_nodes()

    def running(self) -> list[RunningRecord]:
        """What is claimed or runs, in the whole cluster."""
        return self._usable_store().list_running()

    def executions(
        self,
        limit: int = LIST_LIMIT,
        *,
        states: str | Collection[str] = ENDED,
        job_key: JobKey | None = None,
        trigger_key: TriggerKey | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> list[ExecutionRecord]:
        """At most `limit` executions in the whole cluster, the latest first; unless `states` says more, what ended.

        `states` are those of `ExecutionState`, or their names. `since` and `until` bound the scheduled instant: from
        the one on, before the other. The latest is by end, fire or scheduled instant, whichever came last; what is
        SCHEDULED comes after all others, the soonest first.

        Raises:
            InvalidValueError: a name is no state, or an instant has no time zone.
        """
        wanted = ExecutionQuery(
            states=execution_states(states),
            job_key=None if job_key is None else checked_key(job_key, JobKey),
            trigger_key=None if trigger_key is None else checked_key(trigger_key, TriggerKey),
            since=None if since is None else as_instant(since, "since", InvalidValueError),
            until=None if until is None else as_instant(until, "until", InvalidValueError),
        )
        return self._usable_store().list_executions(_checked_limit(limit), wanted)

    def execution(self, fire_id: int | str) -> ExecutionRecord | None:
        """One execution: claimed, running or in the history; None where none of this id is known.

        Raises:
            InvalidValueError: no such id can be.
        """
        return self._usable_store().execution(checked_fire_id(fire_id))

    def misfires(self, limit: int = LIST_LIMIT, trigger_key: TriggerKey | None = None) -> list[MisfireRecord]:
        """The misfires that were handled, in the whole cluster or of one trigger, the latest first."""
        return self._usable_store().list_misfires(
            _checked_limit(limit), None if trigger_key is None else checked_key(trigger_key, TriggerKey)
        )

    def counts(self) -> dict[str, Any]:
        """How many jobs, triggers by state, and running executions there are."""
        return self._usable_store().counts()


def checked_fire_id(fire_id: object) -> int:
    """The id of an execution, given as a number or as its digits. Raises InvalidValueError: no execution can have
    it."""
    found: object = fire_id
    if isinstance(fire_id, str) and fire_id.isdecimal() and len(fire_id) <= _FIRE_ID_DIGITS:
        found = int(fire_id)
    if type(found) is int and 0 <= found <= MAX_FIRE_ID:
        return found
    raise InvalidValueError(f"fire_id: a whole number, as context.fire_id (got {quoted(fire_id)})")


def _checked_limit(limit: object) -> int:
    if type(limit) is int and 0 <= limit <= MAX_LIMIT:
        return limit
    raise InvalidValueError(f"limit: a whole number from 0 to {MAX_LIMIT} (got {quoted(limit)})")


def _matcher(group: str | GroupMatcher | None) -> GroupMatcher:
    return GroupMatcher.anything() if group is None else as_group_matcher(group)
