"""The actions of operators: each checks the role, changes the store, and is recorded in the audit log."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from datetime import datetime
from typing import Any

from quartzpy.errors import (
    ExecutionNotFoundError,
    IllegalStateChangeError,
    JobNotFoundError,
    ObjectNotFoundError,
)
from quartzpy.keys import JobKey, JobRef, TriggerKey, TriggerRef, checked_key
from quartzpy.operations.action_log import ActionLog, Change, SliceChange
from quartzpy.operations.actor import Actor, Role
from quartzpy.operations.redaction import Redaction
from quartzpy.operations.results import ActionFailure, ActionResult
from quartzpy.operations.selection import Keys, Selected, Selection, Subject, as_selected, named
from quartzpy.scheduling.own_transaction import OwnTransactionVerbs
from quartzpy.scheduling.scheduler import BaseScheduler
from quartzpy.states import JobMode, Missed, NodeMode, missed_of
from quartzpy.store.protocol import Notification, PauseNote
from quartzpy.store.queries import TriggerQuery
from quartzpy.store.records import TriggerRecord
from quartzpy.texts import quoted

ROLES: Mapping[str, Role] = {
    "trigger": Role.OPERATOR,
    "pause": Role.OPERATOR,
    "resume": Role.OPERATOR,
    "skip_next": Role.OPERATOR,
    "cancel": Role.OPERATOR,
    "run_again": Role.OPERATOR,
    "reset": Role.OPERATOR,
    "drain": Role.OPERATOR,
    "standby": Role.OPERATOR,
    "resume_node": Role.OPERATOR,
    "reschedule": Role.ADMIN,
    "backfill": Role.ADMIN,
    "enable": Role.ADMIN,
    "disable": Role.ADMIN,
    "delete": Role.ADMIN,
}
"""The least role that each action needs."""

_ChangeOfOne = Callable[[OwnTransactionVerbs, Any], Change]


class Actions:
    """The actions of one actor on a scheduler, which need not be started.

    Each action takes a `reason`, a sentence for the audit log. `selection` is one key, several keys of one kind, or a
    `Selection` by filters. An action on one subject raises its error and then changes nothing. An action on many
    proceeds in slices; subjects that cannot be changed are counted in the result, and do not prevent the others.

    Raises (by every action):
        ForbiddenError: the actor's role does not permit it, or the operations are read-only; nothing was changed.
        InvalidValueError: an argument is wrong; nothing was changed.
    """

    def __init__(
        self,
        scheduler: BaseScheduler,
        actor: Actor,
        *,
        read_only: bool = False,
        redaction: Redaction | None = None,
    ) -> None:
        self._log = ActionLog(scheduler, actor, read_only=read_only)
        self._redaction = redaction or Redaction()

    def permits(self, action: str) -> bool:
        """Return True if the actor may do this action, by its name."""
        return self._log.permits(ROLES[action])

    def count(self, selection: Selected) -> int:
        """Return the number of subjects that a selection has now. A group or everything counts as its triggers."""
        selected = as_selected(selection, *Subject)
        if isinstance(selected, Keys):
            return len(selected.keys)
        return selected.query(self._log.scheduler).count()

    # --- running jobs

    def trigger(
        self,
        job: JobRef,
        data: Mapping[str, Any] | Any | None = None,
        *,
        even_if_paused: bool = False,
        reason: str = "",
    ) -> ActionResult:
        """Run a job now, with `data` in addition to its own; see `Scheduler.trigger_job`.

        Raises:
            JobNotFoundError: the job is not stored.
            IllegalStateChangeError: the job is disabled, or a pause would delay the fire and not `even_if_paused`.
            InvalidJobDataError: the data cannot be stored, or does not fit the job's data type, which is known here.
        """
        key = checked_key(job, JobKey)

        def change(verbs: OwnTransactionVerbs) -> Change:
            triggered = verbs.trigger_job(key, data, even_if_paused=even_if_paused)
            given = self._redaction.of(data) if isinstance(data, Mapping) else data
            after = {"trigger": str(triggered.key), "data": given}
            return Change(f"Job {key} runs now, by trigger {triggered.key}.", None, after, (triggered.key,))

        return self._one("trigger", named(Subject.JOB, key), reason, change)

    def run_again(self, selection: Selected, *, even_if_paused: bool = False, reason: str = "") -> ActionResult:
        """Run the jobs of executions that have ended again, each with its data; see `Scheduler.run_again`.

        Raises:
            ExecutionNotFoundError: the execution is not known.
            IllegalStateChangeError: it has not ended, or the job cannot run now.
        """

        def change(verbs: OwnTransactionVerbs, fire_id: int) -> Change:
            triggered = verbs.run_again(fire_id, even_if_paused=even_if_paused)
            after = {"trigger": str(triggered.key)}
            text = f"Execution {fire_id} of job {triggered.job_key} runs again, by trigger {triggered.key}."
            return Change(text, None, after, (triggered.key,))

        return self._each("run_again", "Run again", as_selected(selection, Subject.EXECUTION), reason, change)

    def backfill(
        self,
        trigger: TriggerRef,
        start: datetime,
        end: datetime,
        *,
        max_runs: int = 1_000,
        even_if_paused: bool = False,
        reason: str = "",
    ) -> ActionResult:
        """Run the job of a trigger for each past instant of its schedule from `start` until before `end`.

        Raises:
            As `Scheduler.backfill`; `backfill_times` tells the instants before.
        """
        key = checked_key(trigger, TriggerKey)

        def change(verbs: OwnTransactionVerbs) -> Change:
            runs = verbs.backfill(key, start, end, max_runs=max_runs, even_if_paused=even_if_paused)
            after = {"start": start.isoformat(), "end": end.isoformat(), "runs": len(runs)}
            text = f"{len(runs):,} runs of trigger {key} were stored, for its fire times from {start} until {end}."
            return Change(text, None, after, tuple(run.key for run in runs), len(runs))

        return self._one("backfill", named(Subject.TRIGGER, key), reason, change)

    def backfill_times(
        self, trigger: TriggerRef, start: datetime, end: datetime, *, max_runs: int = 1_000
    ) -> list[datetime]:
        """Return the instants that `backfill` would run the job for; see `Scheduler.backfill_times`."""
        return self._log.scheduler.backfill_times(checked_key(trigger, TriggerKey), start, end, max_runs=max_runs)

    def cancel(self, selection: Selected, *, reason: str = "") -> ActionResult:
        """Ask running executions to stop, on any node: by their fire ids, or all those of jobs.

        Raises:
            ExecutionNotFoundError: the execution is not known.
            IllegalStateChangeError: it is not running.
        """

        def change_execution(verbs: OwnTransactionVerbs, fire_id: int) -> Change:
            if not verbs.store.request_cancel(fire_id):
                record = verbs.execution(fire_id)
                if record is None:
                    raise ExecutionNotFoundError(f"execution {fire_id} is not known, or no longer in the history")
                raise IllegalStateChangeError(
                    f"execution {fire_id} is {record.state}; only a running one can be cancelled"
                )
            return Change(f"Execution {fire_id} was asked to stop.")

        def change_job(verbs: OwnTransactionVerbs, key: JobKey) -> Change:
            asked = sorted(verbs.store.request_cancel_of_job(key))
            if not asked and not verbs.check_exists(key):
                raise JobNotFoundError(f"job {key} is not stored, and no execution of it is running")
            text = f"{len(asked)} executions of job {key} were asked to stop."
            return Change(text, None, {"fire_ids": asked}, tuple(asked), len(asked))

        selected = as_selected(selection, Subject.EXECUTION, Subject.JOB)
        change = change_job if selected.kind is Subject.JOB else change_execution
        return self._each("cancel", "Asked to stop:", selected, reason, change)

    # --- pausing

    def pause(self, selection: Selected, *, reason: str = "") -> ActionResult:
        """Pause triggers, the triggers of jobs, groups, or everything. The reason and the actor are shown with them.

        Raises:
            TriggerNotFoundError, JobNotFoundError: it is not stored.
        """
        selected = as_selected(selection, *_PAUSABLE)
        note = PauseNote(reason or None, self._log.actor.name)
        if selected.kind not in (Subject.JOB, Subject.TRIGGER):
            return self._pause(selected, reason, note, missed=None)

        def change(verbs: OwnTransactionVerbs, key: Any) -> Change:
            before = _values(verbs, key)
            if isinstance(key, JobKey):
                verbs.pause_job(key, reason=note.reason, by=note.by)
            else:
                verbs.pause_trigger(key, reason=note.reason, by=note.by)
            return Change(f"Paused {named(selected.kind, key)}.", before, _values(verbs, key))

        def change_many(verbs: OwnTransactionVerbs, keys: Sequence[Any]) -> SliceChange:
            done = _stored(verbs, selected, keys)
            pause = verbs.store.pause_jobs if selected.kind is Subject.JOB else verbs.store.pause_triggers
            pause(done.changed, note)
            return done

        return self._each("pause", "Paused", selected, reason, change, change_many)

    def resume(self, selection: Selected, missed: str = Missed.MISFIRE, *, reason: str = "") -> ActionResult:
        """Resume what `pause` pauses. `missed` is the policy for the fires that were missed: misfire, skip or once.

        Raises:
            TriggerNotFoundError, JobNotFoundError: it is not stored.
        """
        selected, treatment = as_selected(selection, *_PAUSABLE), missed_of(missed)
        if selected.kind not in (Subject.JOB, Subject.TRIGGER):
            return self._pause(selected, reason, PauseNote(), missed=treatment)

        def change(verbs: OwnTransactionVerbs, key: Any) -> Change:
            before = _values(verbs, key)
            if isinstance(key, JobKey):
                verbs.resume_job(key, missed=treatment)
            else:
                verbs.resume_trigger(key, missed=treatment)
            return Change(f"Resumed {named(selected.kind, key)}.", before, _values(verbs, key) | {"missed": treatment})

        def change_many(verbs: OwnTransactionVerbs, keys: Sequence[Any]) -> SliceChange:
            done = _stored(verbs, selected, keys)
            resume = verbs.store.resume_jobs if selected.kind is Subject.JOB else verbs.store.resume_triggers
            verbs._changed(resume(done.changed, treatment), Notification.RESUMED)
            return done

        return self._each("resume", "Resumed", selected, reason, change, change_many)

    def _pause(
        self, selected: Keys | Selection, reason: str, note: PauseNote, *, missed: Missed | None
    ) -> ActionResult:
        """Pause a group or everything, or resume it if `missed` is given."""
        assert isinstance(selected, Selection)
        values = {"reason": note.reason, "by": note.by} if missed is None else {"missed": missed}
        verb = "pause" if missed is None else "resume"

        def change(verbs: OwnTransactionVerbs) -> Change:
            if selected.kind is Subject.EVERYTHING:
                groups = getattr(verbs, f"{verb}_all")(**values)
            else:
                what = "trigger_group" if selected.kind is Subject.TRIGGER_GROUP else "job_group"
                groups = getattr(verbs, f"{verb}_{what}")(selected.filters["group"], **values)
            shown = ", ".join(sorted(groups)[:10]) or "no group"
            text = f"{verb.capitalize()}d {selected}: {shown}."
            return Change(text, None, {"groups": sorted(groups)[:100]}, tuple(sorted(groups)), len(groups))

        return self._one(verb, str(selected), reason, change)

    def skip_next(self, selection: Selected, count: int = 1, *, reason: str = "") -> ActionResult:
        """Skip the next `count` fires of triggers; see `Scheduler.skip_next`.

        Raises:
            TriggerNotFoundError: it is not stored.
        """

        def change(verbs: OwnTransactionVerbs, key: TriggerKey) -> Change:
            before = _values(verbs, key)
            following = verbs.skip_next(key, count)
            fires = "does not fire again" if following is None else f"fires next at {following.isoformat(sep=' ')}"
            text = f"Skipped {count} {'fire' if count == 1 else 'fires'} of trigger {key}, which {fires}."
            return Change(text, before, _values(verbs, key))

        return self._each(
            "skip_next", "Skipped the next fire of", as_selected(selection, Subject.TRIGGER), reason, change
        )

    # --- changing and removing

    def reset(self, selection: Selected, *, reason: str = "") -> ActionResult:
        """Return triggers in ERROR to their schedules; see `Scheduler.reset_trigger_from_error`.

        Raises:
            TriggerNotFoundError: it is not stored.
            IllegalStateChangeError: it is not in ERROR.
        """

        def change(verbs: OwnTransactionVerbs, key: TriggerKey) -> Change:
            before = _values(verbs, key)
            verbs.reset_trigger_from_error(key)
            return Change(f"Reset trigger {key}.", before, _values(verbs, key))

        return self._each("reset", "Reset", as_selected(selection, Subject.TRIGGER), reason, change)

    def enable(self, selection: Selected, *, missed: str = Missed.SKIP, reason: str = "") -> ActionResult:
        """Enable jobs that are disabled or run only by hand; see `Scheduler.enable_job`.

        Raises:
            JobNotFoundError: it is not stored.
        """
        treatment = missed_of(missed)
        return self._set_mode("enable", selection, reason, lambda verbs, key: verbs.enable_job(key, missed=treatment))

    def disable(self, selection: Selected, *, reason: str = "") -> ActionResult:
        """Disable jobs: none of their triggers fires, and `trigger` is refused; see `Scheduler.disable_job`.

        Raises:
            JobNotFoundError: it is not stored.
        """
        return self._set_mode("disable", selection, reason, lambda verbs, key: verbs.disable_job(key))

    def _set_mode(
        self, action: str, selection: Selected, reason: str, set_mode: Callable[[OwnTransactionVerbs, JobKey], None]
    ) -> ActionResult:
        def change(verbs: OwnTransactionVerbs, key: JobKey) -> Change:
            before: JobMode | None = verbs.job_mode(key)
            set_mode(verbs, key)
            return Change(f"{action.capitalize()}d job {key}.", {"mode": before}, {"mode": verbs.job_mode(key)})

        return self._each(action, f"{action.capitalize()}d", as_selected(selection, Subject.JOB), reason, change)

    def delete(self, selection: Selected, *, reason: str = "") -> ActionResult:
        """Delete jobs with all their triggers, or triggers with jobs that are not durable. Running executions continue.

        Raises:
            JobNotFoundError, TriggerNotFoundError: it is not stored.
        """
        selected = as_selected(selection, Subject.JOB, Subject.TRIGGER)

        def change(verbs: OwnTransactionVerbs, key: Any) -> Change:
            before = _values(verbs, key)
            if isinstance(key, JobKey):
                verbs.delete_job(key)
            else:
                verbs.unschedule_job(key)
            return Change(f"Deleted {named(selected.kind, key)}.", before)

        def change_many(verbs: OwnTransactionVerbs, keys: Sequence[Any]) -> SliceChange:
            removed = verbs.delete_jobs(keys) if selected.kind is Subject.JOB else verbs.unschedule_jobs(keys)
            return _sorted_out(selected.kind, keys, removed)

        return self._each("delete", "Deleted", selected, reason, change, change_many)

    # --- nodes

    def drain(self, node: str, *, reason: str = "") -> ActionResult:
        """Let a node claim nothing more and give back what waits for a worker, until `resume_node` or its restart.

        Raises:
            ObjectNotFoundError: no such node is registered.
        """
        return self._command("drain", node, NodeMode.DRAINING, reason)

    def standby(self, node: str, *, reason: str = "") -> ActionResult:
        """Let a node claim nothing more, until `resume_node` or its restart.

        Raises:
            ObjectNotFoundError: no such node is registered.
        """
        return self._command("standby", node, NodeMode.STANDBY, reason)

    def resume_node(self, node: str, *, reason: str = "") -> ActionResult:
        """End `drain` or `standby` of a node.

        Raises:
            ObjectNotFoundError: no such node is registered.
        """
        return self._command("resume_node", node, NodeMode.RUNNING, reason)

    def _command(self, action: str, node: str, mode: NodeMode, reason: str) -> ActionResult:
        def change(verbs: OwnTransactionVerbs) -> Change:
            nodes = {one.instance_id: one for one in verbs.store.list_nodes().nodes}
            if node not in nodes or verbs.store.set_node_mode(node, mode) is None:
                known = ", ".join(sorted(nodes)) or "none"
                raise ObjectNotFoundError(f"node {quoted(node)} is not registered; the nodes are {known}")
            return Change(f"Node {node} was told to be {mode}.", {"mode": nodes[node].mode}, {"mode": mode}, (node,))

        return self._one(action, named(Subject.NODE, node), reason, change)

    # --- one and many

    def _one(
        self, action: str, subject: str, reason: str, change: Callable[[OwnTransactionVerbs], Change]
    ) -> ActionResult:
        return self._log.one(action, ROLES[action], subject, reason, change)

    def _each(
        self,
        action: str,
        past: str,
        selected: Keys | Selection,
        reason: str,
        change: _ChangeOfOne,
        change_many: Callable[[OwnTransactionVerbs, Sequence[Any]], SliceChange] | None = None,
    ) -> ActionResult:
        """Change one subject, or many: by `change_many` slice by slice, or without it by `change` one by one."""
        if isinstance(selected, Keys) and len(selected.keys) == 1:
            [key] = selected.keys

            def change_key(verbs: OwnTransactionVerbs) -> Change:
                done = change(verbs, key)
                return done if done.keys is not None else Change(done.text, done.before, done.after, (key,))

            return self._one(action, named(selected.kind, key), reason, change_key)

        def one_by_one(verbs: OwnTransactionVerbs, keys: Sequence[Any]) -> SliceChange:
            done = SliceChange()
            for key in keys:
                done.attempt(key, lambda key=key: change(verbs, key))  # type: ignore[misc]
            return done

        return self._log.many(action, ROLES[action], selected, reason, change_many or one_by_one, past)


_MOST_TRIGGERS = 20
"""The maximum number of a job's triggers whose values the audit log keeps."""
_PAUSABLE = (Subject.TRIGGER, Subject.JOB, Subject.TRIGGER_GROUP, Subject.JOB_GROUP, Subject.EVERYTHING)


def _stored(verbs: OwnTransactionVerbs, selected: Keys | Selection, keys: Sequence[Any]) -> SliceChange:
    """Tell apart the subjects that are stored, which can be changed, and those that are not."""
    if isinstance(selected, Selection):
        # The query has just returned them.
        return SliceChange(list(keys))
    if selected.kind is Subject.JOB:
        return _sorted_out(selected.kind, keys, {key for key in keys if verbs.store.job_header(key) is not None})
    return _sorted_out(selected.kind, keys, verbs.store.triggers(keys))


def _sorted_out(kind: Subject, keys: Sequence[Any], found: Container[Any]) -> SliceChange:
    missing = [ActionFailure(str(key), f"{named(kind, key)} is not stored") for key in keys if key not in found]
    return SliceChange([key for key in keys if key in found], missing)


def _values(verbs: OwnTransactionVerbs, key: JobKey | TriggerKey) -> dict[str, Any]:
    """Return the values of a job's triggers or of a trigger that actions change, for the audit log."""
    if isinstance(key, JobKey):
        triggers = verbs.store.find_triggers(TriggerQuery(job_key=key), _MOST_TRIGGERS)
        return {"mode": verbs.job_mode(key), "triggers": [_of_trigger(one) for one in triggers]}
    record = verbs.store.trigger(key)
    return {} if record is None else _of_trigger(record)


def _of_trigger(record: TriggerRecord) -> dict[str, Any]:
    following = record.next_fire_time
    return {
        "trigger": str(record.key),
        "state": record.state,
        "next_fire_time": None if following is None else following.isoformat(),
    }
