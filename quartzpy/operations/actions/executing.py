"""The actions that run jobs outside their schedules, and stop executions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from quartzpy.errors import (
    ExecutionNotFoundError,
    ForbiddenError,
    IllegalStateChangeError,
    JobNotFoundError,
)
from quartzpy.job_data import INTERNAL_KEYS
from quartzpy.jobs import typed_data
from quartzpy.jobs.internal_entries import refuse_internal
from quartzpy.keys import JobKey, JobRef, TriggerKey, TriggerRef, checked_key
from quartzpy.operations.actions.action import Role
from quartzpy.operations.actions.inputs import DataField, fields_of
from quartzpy.operations.actions.log import ActionResult, SubjectChange, an
from quartzpy.operations.actions.methods import ActionMethods
from quartzpy.operations.published_job_types import entries_for_operators
from quartzpy.operations.selection import Selected, Subject, named
from quartzpy.scheduler.past_fires import PastFires
from quartzpy.scheduler.transactions import OwnTransactionMethods
from quartzpy.texts import number_of, quoted


class ExecutingActions(ActionMethods):
    """Actions that run jobs outside their schedules, and stop executions."""

    def trigger(
        self,
        job: JobRef,
        data: Mapping[str, Any] | Any | None = None,
        *,
        even_if_paused: bool = False,
        reason: str = "",
    ) -> ActionResult:
        """Run a job now, with `data` in addition to its own; see `Scheduler.trigger_job`.

        Operators may set the entries that the type of the job leaves to them (`Job.operators_set`), of a `CommandJob`
        and an `HttpJob` only `values`. Administrators, and actors whose grant covers the job, may set all.

        Raises:
            ForbiddenError: the actor may not run jobs, or not set one of these entries.
            JobNotFoundError: the job is not stored.
            IllegalStateChangeError: the job is disabled, or a pause would delay the fire and not `even_if_paused`.
            InvalidJobDataError: the data cannot be stored, or does not fit the job's data type, which is known here.
        """
        key = checked_key(job, JobKey)

        def change(transaction: OwnTransactionMethods) -> SubjectChange:
            self._check_data(transaction, key, _as_mapping(data))
            triggered = transaction.trigger_job(key, data, even_if_paused=even_if_paused, by=self._log.actor.name)
            after = {"trigger": str(triggered.key), "data": self._redaction.of(_as_mapping(data))}
            return SubjectChange(f"Job {key} runs now, by trigger {triggered.key}.", None, after, (triggered.key,))

        return self._change_one("trigger", named(Subject.JOB, key), reason, change)

    def _check_data(self, transaction: OwnTransactionMethods, key: JobKey, data: Any) -> None:
        """Check that the actor may run the job with this data: who may not define a job sets no more than it takes.

        Raises:
            ForbiddenError: the actor may not.
            InvalidJobDataError: the data has an entry of the scheduler itself.
        """
        if not isinstance(data, Mapping) or not data:
            return
        refuse_internal(data, "data", INTERNAL_KEYS)
        header = transaction.store.job_headers([key]).get(key)
        actor = self._log.actor
        grant = actor.defines
        is_granted = grant is not None and header is not None and grant.covers(key.group, header.job_type)
        if header is None or is_granted or actor.role.includes(Role.ADMIN):
            return
        allowed = entries_for_operators(transaction, header.job_type)
        others = [] if allowed is None else sorted(str(name) for name in data if name not in allowed)
        if others:
            may = f"only {', '.join(allowed)}" if allowed else "no data"
            raise ForbiddenError(
                f"trigger: {actor.name} is {an(actor.role)}, and may set {may} of a job of the type {header.job_type}"
                f" (got {', '.join(map(quoted, others))}); only those who may define the job set the rest"
            )

    def _check_repeated(self, transaction: OwnTransactionMethods, fire_id: int) -> None:
        """Check the data of an execution as that of a new one if the job has another type than it had then."""
        if self._log.actor.role.includes(Role.ADMIN):
            return
        record = transaction.execution(fire_id)
        header = None if record is None else transaction.store.job_headers([record.job_key]).get(record.job_key)
        if record is not None and header is not None and header.job_type != record.job_type:
            own = {name: value for name, value in record.trigger_data.items() if name not in INTERNAL_KEYS}
            self._check_data(transaction, record.job_key, own)

    def data_fields(self, job: JobRef) -> tuple[DataField, ...] | None:
        """Return the fields of the data that a job takes; None if its class is not known here, or declares no type.

        Raises:
            JobNotFoundError: the job is not stored.
        """
        scheduler, key = self._log.scheduler, checked_key(job, JobKey)
        header = scheduler._usable_store().job_headers([key]).get(key)
        if header is None:
            raise scheduler._no_job(key)
        data_type = scheduler.job_types.data_type(header.job_type)
        return None if data_type is None else fields_of(data_type)

    def run_again(self, selection: Selected, *, even_if_paused: bool = False, reason: str = "") -> ActionResult:
        """Run the jobs of executions that have ended again, each with its data; see `Scheduler.run_again`.

        Raises:
            ForbiddenError: the job is of another type now, for which the actor may not set what the data has.
            ExecutionNotFoundError: the execution is not known.
            IllegalStateChangeError: it has not ended, or the job cannot run now.
        """

        def change(transaction: OwnTransactionMethods, fire_id: int) -> SubjectChange:
            self._check_repeated(transaction, fire_id)
            triggered = transaction.run_again(fire_id, even_if_paused=even_if_paused, by=self._log.actor.name)
            after = {"trigger": str(triggered.key)}
            text = f"Execution {fire_id} of job {triggered.job_key} runs again, by trigger {triggered.key}."
            return SubjectChange(text, None, after, (triggered.key,))

        return self._change_each("run_again", self._selected("run_again", selection), reason, change)

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

        def change(transaction: OwnTransactionMethods) -> SubjectChange:
            runs = transaction.backfill(
                key, start, end, max_runs=max_runs, even_if_paused=even_if_paused, by=self._log.actor.name
            )
            after = {"start": start.isoformat(), "end": end.isoformat(), "runs": len(runs)}
            stored = f"{number_of(len(runs), 'run')} of trigger {key} {'was' if len(runs) == 1 else 'were'} stored"
            text = f"{stored}, for its fire times from {start} until {end}."
            return SubjectChange(text, None, after, tuple(run.key for run in runs), len(runs))

        return self._change_one("backfill", named(Subject.TRIGGER, key), reason, change)

    def backfill_times(
        self, trigger: TriggerRef, start: datetime, end: datetime, *, max_runs: int = 1_000
    ) -> list[datetime]:
        """Return the instants that `backfill` would run the job for; see `Scheduler.backfill_times`."""
        return self._log.scheduler.backfill_times(checked_key(trigger, TriggerKey), start, end, max_runs=max_runs)

    def past_fires(self, trigger: TriggerRef) -> PastFires:
        """Return the past of a trigger's schedule, which tells the instants of any span without another question.

        Raises:
            TriggerNotFoundError: the trigger is not stored.
        """
        return self._log.scheduler._past_fires(checked_key(trigger, TriggerKey))

    def cancel(self, selection: Selected, *, reason: str = "") -> ActionResult:
        """Ask running executions to stop, on any node: by their fire ids, or all those of jobs.

        Raises:
            ExecutionNotFoundError: the execution is not known.
            IllegalStateChangeError: it is not running.
        """

        def change_execution(transaction: OwnTransactionMethods, fire_id: int) -> SubjectChange:
            if not transaction.store.request_cancel(fire_id):
                record = transaction.execution(fire_id)
                if record is None:
                    raise ExecutionNotFoundError(f"execution {fire_id} is not known, or no longer in the history")
                raise IllegalStateChangeError(
                    f"execution {fire_id} is {record.state}; only a running one can be cancelled"
                )
            return SubjectChange(f"Execution {fire_id} was asked to stop.")

        def change_job(transaction: OwnTransactionMethods, key: JobKey) -> SubjectChange:
            fire_ids = sorted(transaction.store.request_cancel(key))
            if not fire_ids and not transaction.check_exists(key):
                raise JobNotFoundError(f"job {key} is not stored, and no execution of it is running")
            text = f"No execution of job {key} is running."
            if fire_ids:
                was = "was" if len(fire_ids) == 1 else "were"
                text = f"{number_of(len(fire_ids), 'execution')} of job {key} {was} asked to stop."
            return SubjectChange(text, None, {"fire_ids": fire_ids}, tuple(fire_ids), len(fire_ids))

        selected = self._selected("cancel", selection)
        change = change_job if selected.kind is Subject.JOB else change_execution
        return self._change_each("cancel", selected, reason, change)


def _as_mapping(data: Any) -> Any:
    """Return the data of a job as a mapping, by whose keys secrets are told: a dataclass or a model has keys too."""
    return data if data is None or isinstance(data, Mapping) else typed_data.as_mapping(data, type(data))
