"""Definitions as documents: jobs, triggers and calendars that are read, stored and deleted by their keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from quartzpy.calendars.calendar import Calendar
from quartzpy.definitions import declarations, documents
from quartzpy.definitions.faults import Faults, Within
from quartzpy.definitions.forms import DocumentForm, SentFileForm
from quartzpy.definitions.published_types import PublishedTypes
from quartzpy.definitions.stored_documents import document_of_declared, job_document, trigger_document
from quartzpy.errors import (
    ForbiddenError,
    InvalidValueError,
    PreconditionFailedError,
    ScheduleTooCostlyError,
    TriggerNeverFiresError,
)
from quartzpy.jobs.internal_entries import BatchKey
from quartzpy.jobs.job import JobDetail
from quartzpy.jobs.join import Batch, as_join
from quartzpy.keys import JobKey, TriggerKey, check_name
from quartzpy.operations.actions.action import Actor, Role
from quartzpy.operations.actions.log import ActionLog, Recorded, SubjectChange
from quartzpy.operations.actions.values import before_and_after, bounded, changed_values, rows_of_plan
from quartzpy.operations.definition_records import (
    ANYTHING,
    AppliedFile,
    BatchResult,
    Definition,
    DefinitionOutcome,
    DefinitionResult,
    Expected,
    PlannedChange,
    ValueChange,
)
from quartzpy.operations.definition_secrets import hidden, revealed
from quartzpy.operations.published_job_types import (
    JobTypeView,
    nodes_with,
    published_types,
    type_view,
    types_in,
)
from quartzpy.operations.stored_definitions import (
    definition_of_calendar,
    has_trigger,
    job_of,
    stored_calendar,
    stored_job,
    stored_trigger,
    trigger_of,
)
from quartzpy.scheduler import sync
from quartzpy.scheduler.rehearsal import check_cost
from quartzpy.scheduler.scheduler import BaseScheduler
from quartzpy.scheduler.sync import Declarations, Existing, SyncPlan
from quartzpy.scheduler.transactions import OwnTransactionMethods
from quartzpy.secret_texts import Redaction
from quartzpy.store.definition_differences import (
    calendar_differences,
    job_differences,
    persists_data,
    trigger_differences,
)
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.protocol import JobStore, NamedTriggers, NameKind, PauseNote
from quartzpy.store.queries import JoinQuery
from quartzpy.store.records import NodeRecord, TriggerRecord
from quartzpy.store.refusals import batch_exists, calendar_not_stored
from quartzpy.triggers.trigger import Trigger
from quartzpy.triggers.upcoming import schedule_hash

_T = TypeVar("_T")
DEFINE, DELETE, APPLY = "define", "delete", "apply"
"""The names of the actions in the audit log."""


class Definitions:
    """The definitions of a scheduler, which need not be started, for one actor.

    Whoever may read may read the definitions; secrets are hidden, as everywhere. Only an administrator may change them,
    or an actor with a `Grant` that covers them. Each change takes a `reason` and is one row of the audit log, in the
    same transaction. With `dry_run`, nothing is changed.

    Raises (by every change):
        ForbiddenError: the actor may not; nothing was changed.
        InvalidDefinitionError: the document has faults, which the error lists; nothing was changed.
        PreconditionFailedError: what is stored is not what is `expected`; nothing was changed.
    """

    def __init__(
        self, scheduler: BaseScheduler, actor: Actor, *, read_only: bool = False, redaction: Redaction | None = None
    ) -> None:
        self._log = ActionLog(scheduler, actor, read_only=read_only)
        self._redaction = redaction or Redaction()

    # --- reading

    def job(self, key: JobKey) -> Definition:
        """Return the definition of a job. Raises JobNotFoundError if it is not stored."""
        return self._read(lambda transaction: self._of_job(stored_job(transaction, key)))

    def trigger(self, key: TriggerKey) -> Definition:
        """Return the definition of a trigger.

        Raises:
            TriggerNotFoundError: it is not stored, or it was made by the scheduler and not by a schedule.
        """
        return self._read(lambda transaction: self._of_trigger(stored_trigger(transaction, key)))

    def calendar(self, name: str) -> Definition:
        """Return the definition of a calendar. Raises CalendarNotFoundError if it is not stored."""
        return self._read(lambda transaction: definition_of_calendar(stored_calendar(transaction, name)))

    def job_types(self) -> tuple[JobTypeView, ...]:
        """Return the job types that running nodes have published, sorted by name."""
        alive, facts_of_nodes = self._published()
        types = published_types(alive, facts_of_nodes)
        return tuple(type_view(name, facts, nodes_with(alive, name)) for name, facts in sorted(types.items()))

    def _published(self) -> tuple[list[NodeRecord], Mapping[str, Mapping[str, Any]]]:
        """Return the living nodes, and what all nodes have published about their job types."""
        store = self._log.scheduler._usable_store()
        nodes, facts_of_nodes = store.ask([lambda inner: inner.list_nodes(), lambda inner: admin(inner).job_types()])
        return nodes().alive(), facts_of_nodes()

    def _types(self) -> PublishedTypes:
        return PublishedTypes(published_types(*self._published()), self._log.scheduler.job_types)

    def _read(self, work: Callable[[OwnTransactionMethods], _T]) -> _T:
        return work(OwnTransactionMethods(self._log.scheduler, self._log.scheduler._usable_store()))

    def _of_job(self, job: JobDetail) -> Definition:
        return Definition.of(hidden(job_document(job), self._redaction))

    def _of_trigger(self, record: TriggerRecord) -> Definition:
        return Definition.of(hidden(trigger_document(record), self._redaction))

    # --- jobs

    def put_job(
        self, key: JobKey, document: object, *, expected: Expected = ANYTHING, dry_run: bool = False, reason: str = ""
    ) -> DefinitionResult:
        """Store a job as a document says; what the document leaves out has its default. Its triggers stay.

        Without "durable", the job is durable, because it is stored before its triggers. The data of a job that persists
        its data is taken only when the job is new.
        """

        def change(transaction: OwnTransactionMethods, types: PublishedTypes) -> _Changed:
            stored = job_of(transaction, key)
            self._check_types(transaction, key, stored, None)
            current = None if stored is None else self._of_job(stored)
            faults = Faults()
            full = {} if stored is None else job_document(stored)
            sent = revealed(document, full, self._redaction, faults)
            job = documents.read_job_document(sent, key, types, faults, None if stored is None else stored.data)
            faults.check()
            assert job is not None
            _check_size(transaction, job, faults)
            self._check_types(transaction, key, stored, job)
            keeps = persists_data(job, stored)
            if keeps and stored is not None:
                job = replace(job, data=stored.data)
            if not job.durable and not has_trigger(transaction, key):
                faults.add(("durable",), f"job {key} has no trigger: it would be deleted at once; leave durable out")
                faults.check()
            made = self._of_job(job)
            differences = None if stored is None else job_differences(job, stored)
            changed = self._changed("job", key, differences, job, current, made, expected)

            def store() -> None:
                transaction._store_pairs([(job, [])], replace=True, keep_data={key} if keeps else ())
                # Its triggers may fire earlier, for example with a higher limit.
                transaction._changed(transaction._clock.now())

            return replace(changed, store=store)

        return self._put([key.group], f"job {key}", change, dry_run, reason)

    def delete_job(
        self, key: JobKey, *, expected: Expected = ANYTHING, dry_run: bool = False, reason: str = ""
    ) -> DefinitionResult:
        """Delete a job with all its triggers. Running executions continue. Raises JobNotFoundError if there is none."""

        def change(transaction: OwnTransactionMethods) -> _Changed:
            stored = stored_job(transaction, key)
            self._check_types(transaction, key, stored, None)
            changed = self._deleted("job", key, self._of_job(stored), expected)
            return replace(changed, store=lambda: transaction.delete_job(key))

        return self._delete([key.group], f"job {key}", change, dry_run, reason)

    # --- triggers

    def put_trigger(
        self,
        key: TriggerKey,
        document: object,
        *,
        expected: Expected = ANYTHING,
        dry_run: bool = False,
        reason: str = "",
    ) -> DefinitionResult:
        """Store a trigger as a document says; what the document leaves out has its default.

        A trigger whose schedule does not change keeps its fire times. One that is paused stays paused.
        """

        def change(transaction: OwnTransactionMethods, types: PublishedTypes) -> _Changed:
            record = trigger_of(transaction, key)
            if record is not None:
                self._check_job(transaction, record.job_key, record.job_type)
            current = None if record is None else self._of_trigger(record)
            faults = Faults()
            full = {} if record is None else trigger_document(record)
            sent = revealed(document, full, self._redaction, faults)
            trigger = documents.read_trigger_document(
                sent, key, faults, None if record is None else record.trigger.data
            )
            faults.check()
            assert trigger is not None
            assert trigger.job_key is not None
            job = job_of(transaction, trigger.job_key)
            self._check_job(transaction, trigger.job_key, None if job is None else job.job_type)
            if job is None:
                faults.add(("job",), str(transaction._no_job(trigger.job_key)))
            else:
                _check_pair(trigger, job, types, faults)
            _check_size(transaction, trigger, faults)
            if trigger.calendar is not None and not transaction.store.calendars([trigger.calendar]):
                names = transaction.store.names(NameKind.CALENDARS)
                faults.add(("calendar",), str(calendar_not_stored(trigger.calendar, names)))
            faults.check()
            differences = None
            if record is not None:
                own_hash = schedule_hash(trigger)
                differences = trigger_differences(trigger, record.trigger, own_hash, record.schedule_hash)
            made = current
            if differences is None or differences:
                made = Definition.of(hidden(document_of_declared(trigger), self._redaction))
            assert made is not None
            changed = self._changed("trigger", key, differences, trigger, current, made, expected)

            def store() -> None:
                try:
                    transaction._store_pairs([(None, [trigger])], replace=True)
                except TriggerNeverFiresError as error:
                    faults.add((), error)
                    faults.check()
                if record is not None and (note := PauseNote.of(record)) is not None:
                    # A new schedule does not end a pause.
                    transaction.store.pause(NamedTriggers([key]), note)

            return replace(changed, store=store, triggers=(trigger,))

        return self._put([key.group], f"trigger {key}", change, dry_run, reason)

    def delete_trigger(
        self, key: TriggerKey, *, expected: Expected = ANYTHING, dry_run: bool = False, reason: str = ""
    ) -> DefinitionResult:
        """Delete a trigger, and its job if that has no other trigger and is not durable.

        Raises:
            TriggerNotFoundError: it is not stored, or it was made by the scheduler and not by a schedule.
        """

        def change(transaction: OwnTransactionMethods) -> _Changed:
            record = stored_trigger(transaction, key)
            self._check_job(transaction, record.job_key, record.job_type)
            changed = self._deleted("trigger", key, self._of_trigger(record), expected)
            return replace(changed, store=lambda: transaction.unschedule_job(key))

        return self._delete([key.group], f"trigger {key}", change, dry_run, reason)

    # --- batches

    def put_batch(self, batch: BatchKey, document: object, *, dry_run: bool = False, reason: str = "") -> BatchResult:
        """Store the triggers of a batch, all or none, after whose ends the job of its key runs.

        Its jobs must be stored. A batch that is stored already with as many triggers is not stored again, so that a
        request whose answer was lost can be repeated.

        Raises:
            JobNotFoundError: the job that runs at the end is not stored.
            ObjectAlreadyExistsError: another batch of the job has this name, or a trigger has the name of another one.
        """
        check_name(batch.name, "batch name")
        subject = f"batch {batch.name} of job {batch.job}"

        def work(transaction: OwnTransactionMethods) -> Recorded[BatchResult]:
            self._check_job(transaction, batch.job, stored_job(transaction, batch.job).job_type)
            faults = Faults()
            read = documents.read_batch_document(document, batch.name, faults)
            faults.check()
            assert read is not None
            on, triggers = read
            self._check_triggers(transaction, triggers, faults)
            faults.check()
            number = len(triggers)
            stored = transaction.store.find(JoinQuery(job_key=batch.job, occasion=batch.name), 1)
            if stored and stored[0].total == number:
                text = f"Batch {batch.name} of job {batch.job} is stored with as many triggers; nothing was changed."
                return Recorded(BatchResult(DefinitionOutcome.UNCHANGED, text, number, dry_run), [])
            if stored:
                raise batch_exists(batch)
            if not dry_run:
                then = Batch(then=batch.job, on=on, name=batch.name)
                try:
                    transaction._store_pairs([(None, triggers)], replace=False, batch=then)
                except TriggerNeverFiresError as error:
                    faults.add(("triggers",), error)
                    faults.check()
            text = f"Batch {batch.name} of job {batch.job} was stored with {number:,} triggers."
            made = SubjectChange(text, after={"on": on, "triggers": number})
            return Recorded(BatchResult(DefinitionOutcome.CREATED, text, number, dry_run), [(subject, made)])

        role = self._role([batch.job.group])
        if dry_run:
            return self._log.rehearse(DEFINE, role, work).result

        def carried_out(transaction: OwnTransactionMethods) -> Recorded[BatchResult]:
            read = documents.read_batch_document(document, batch.name, Faults())
            self._check_cost(transaction, () if read is None else read[1])
            return transaction.store.together(lambda store: work(transaction), exclusively=True)

        return self._log.change_together(DEFINE, role, subject, reason, carried_out)

    def _check_triggers(self, transaction: OwnTransactionMethods, triggers: Sequence[Trigger], faults: Faults) -> None:
        """Check what the triggers of a batch fire, and that the grant covers it."""
        types = types_in(transaction)
        keys = {trigger.job_key for trigger in triggers if trigger.job_key is not None}
        jobs = transaction.store.jobs(keys)
        calendars = transaction.store.calendars({trigger.calendar for trigger in triggers if trigger.calendar})
        for key in sorted(keys):
            self._check_job(transaction, key, jobs[key].job_type if key in jobs else None)
        for number, trigger in enumerate(triggers):
            own = Within(faults, ("triggers", number))
            if self._is_limited:
                self._check_trigger_group(trigger.key)
            assert trigger.job_key is not None
            if trigger.job_key not in jobs:
                own.add(("job",), f"job {trigger.job_key} is not stored")
            else:
                _check_pair(trigger, jobs[trigger.job_key], types, own)
            if trigger.calendar is not None and trigger.calendar not in calendars:
                own.add(("calendar",), str(calendar_not_stored(trigger.calendar)))
            try:
                transaction._check_data(trigger)
            except InvalidValueError as error:
                own.add(("data",), error)

    # --- calendars

    def put_calendar(
        self, name: str, document: object, *, expected: Expected = ANYTHING, dry_run: bool = False, reason: str = ""
    ) -> DefinitionResult:
        """Store a calendar as a document says. The next fire times of the triggers that use it are recomputed."""
        check_name(name, "calendar name")
        followers = self._log.scheduler._dependants()

        def change(transaction: OwnTransactionMethods, types: PublishedTypes) -> _Changed:
            stored = transaction._readable_calendar(name)
            current = None if stored is None else definition_of_calendar(stored)
            faults = Faults()
            calendar = declarations.read_sent_calendar(document, DocumentForm(types), faults)
            faults.check()
            assert calendar is not None
            differences = None
            if name in transaction.store.names(NameKind.CALENDARS):
                differences = calendar_differences(calendar, stored)
            made = definition_of_calendar(calendar)
            changed = self._changed("calendar", name, differences, calendar, current, made, expected)
            is_new = differences is None
            return replace(
                changed,
                store=lambda: transaction._put_calendar(name, calendar, None if is_new else followers, replace=True),
                check=lambda: followers.check(transaction.store, {name: calendar}),
            )

        return self._put(None, f"calendar {name}", change, dry_run, reason)

    def delete_calendar(
        self, name: str, *, expected: Expected = ANYTHING, dry_run: bool = False, reason: str = ""
    ) -> DefinitionResult:
        """Delete a calendar.

        Raises:
            CalendarNotFoundError: it is not stored. CalendarInUseError: triggers use it.
        """
        check_name(name, "calendar name")

        def change(transaction: OwnTransactionMethods) -> _Changed:
            current = definition_of_calendar(stored_calendar(transaction, name))
            changed = self._deleted("calendar", name, current, expected)
            return replace(changed, store=lambda: transaction.delete_calendar(name))

        return self._delete(None, f"calendar {name}", change, dry_run, reason)

    # --- whole files

    def apply(
        self,
        document: object,
        *,
        owner: str,
        prune: bool = False,
        existing: str = Existing.UPDATE,
        version: str | None = None,
        dry_run: bool = False,
        reason: str = "",
    ) -> AppliedFile:
        """Make the store match a document in the form of a declared file, all or nothing, as `Scheduler.sync` does.

        Each change is one row of the audit log. Job types are those that running nodes have published, and nothing is
        imported.

        Raises:
            Others as `Scheduler.sync`.
        """

        role = self._role_of_files
        declared = Declarations([])
        if self.permits_files():
            # It may take seconds, for which no transaction must be open.
            declared = declarations.read_declarations(document, SentFileForm(self._types()), Faults())

        def work(transaction: OwnTransactionMethods) -> Recorded[SyncPlan]:
            self._check_declared(transaction, declared, version)
            rows: list[tuple[str, SubjectChange]] = []

            def note(plan: SyncPlan) -> None:
                self._check_plan(transaction, plan)
                rows.extend(rows_of_plan(transaction, plan, owner, self._redaction))

            plan = transaction.sync(
                declared.jobs,
                calendars=declared.calendars,
                windows=declared.windows,
                owner=owner,
                prune=prune,
                existing=existing,
                version=version,
                apply=not dry_run,
                announce=note,
            )
            if dry_run:
                self._check_plan(transaction, plan)
            return Recorded(plan, rows)

        if dry_run:
            plan = self._log.rehearse(APPLY, role, work, exclusively=True).result
        else:
            plan = self._log.change_together(APPLY, role, f"owner {owner}", reason, work, exclusively=True)
        changes = tuple(self._planned(change) for change in plan.changes)
        return AppliedFile(changes, plan.unchanged, plan.outdated_by, dry_run)

    def _planned(self, change: sync.Change) -> PlannedChange:
        key = {"name": change.key} if isinstance(change.key, str) else _key_values(change.key)
        return PlannedChange(change.sign, change.kind, key, self._value_changes(change))

    # --- who may define what

    @property
    def _is_limited(self) -> bool:
        """True if only the actor's grant permits it to define anything."""
        return not self._log.actor.role.includes(Role.ADMIN)

    def permits(self, groups: Iterable[str] | None) -> bool:
        """Return True if the actor may define something of these groups; None stands for what is of no group."""
        return self._log.permits(self._role(groups))

    def permits_files(self) -> bool:
        """Return True if the actor may apply some files."""
        return self._log.permits(self._role_of_files)

    @property
    def _role_of_files(self) -> Role:
        return Role.ADMIN if self._log.actor.defines is None else Role.VIEWER

    def _role(self, groups: Iterable[str] | None) -> Role:
        """Return the role that changes of these groups need. None stands for what is of no group."""
        grant = self._log.actor.defines
        is_granted = grant is not None and groups is not None and all(map(grant.covers_group, groups))
        return Role.VIEWER if is_granted else Role.ADMIN

    def _check_types(
        self, transaction: OwnTransactionMethods, key: JobKey, stored: JobDetail | None, job: JobDetail | None
    ) -> None:
        """Check that the grant covers the types of a job, as it is stored and as it will be, and what follows it."""
        for detail in (stored, job):
            if detail is not None:
                self._check_job(transaction, key, detail.job_type)
        if job is not None and self._is_limited:
            followers = [continuation.key for continuation in job.continuations]
            # It is given their results.
            followers += as_join(job.after).keys if job.after is not None else ()
            headers = transaction.store.job_headers(followers) if followers else {}
            for follower in followers:
                self._check_job(transaction, follower, headers[follower].job_type if follower in headers else None)

    def _check_job(self, transaction: OwnTransactionMethods, key: JobKey, job_type: str | None) -> None:
        """Check that the grant covers a job, which a change would start or alter."""
        grant = self._log.actor.defines
        if not self._is_limited or grant is None:
            return
        if not grant.covers_group(key.group):
            raise ForbiddenError(f"job {key}: {self._log.actor.name} may define only {grant}")
        if job_type is not None and not grant.covers_type(job_type):
            raise ForbiddenError(f"job {key} of type {job_type}: {self._log.actor.name} may define only {grant}")

    def _check_declared(self, transaction: OwnTransactionMethods, declared: Declarations, version: str | None) -> None:
        if not self._is_limited:
            return
        name, grant = self._log.actor.name, self._log.actor.defines
        others = {
            "calendars": declared.calendars,
            "maintenance windows": declared.windows,
            "a version, which holds for all jobs of the owner": version is not None,
        }
        if (what := next((name for name, is_declared in others.items() if is_declared), None)) is not None:
            raise ForbiddenError(f"{APPLY}: {name} may define only {grant}, and not {what}")
        stored = transaction.store.jobs([job.key for job, _ in declared.jobs])
        for job, triggers in declared.jobs:
            self._check_types(transaction, job.key, stored.get(job.key), job)
            for trigger in triggers:
                self._check_trigger_group(trigger.key)

    def _check_plan(self, transaction: OwnTransactionMethods, plan: SyncPlan) -> None:
        """Check that the grant covers what a plan changes and removes, also the triggers that now belong to others."""
        if not self._is_limited:
            return
        triggers = [change.key for change in plan.changes if isinstance(change.key, TriggerKey)]
        for record in transaction.store.triggers(triggers).values():
            self._check_trigger_group(record.key)
            self._check_job(transaction, record.job_key, record.job_type)
        removed = [key for key in plan.keys("-", "job") if isinstance(key, JobKey)]
        for key, header in transaction.store.job_headers(removed).items():
            self._check_job(transaction, key, header.job_type)
        if any(isinstance(change.key, str) for change in plan.changes):
            raise ForbiddenError(f"{APPLY}: {self._log.actor.name} may define only {self._log.actor.defines}")

    def _check_trigger_group(self, key: TriggerKey) -> None:
        grant = self._log.actor.defines
        if grant is None or not grant.covers_group(key.group):
            raise ForbiddenError(f"trigger {key}: {self._log.actor.name} may define only {grant}")

    # --- the parts of a change

    def _put(
        self,
        groups: Sequence[str] | None,
        subject: str,
        change: Callable[[OwnTransactionMethods, PublishedTypes], _Changed],
        dry_run: bool,
        reason: str,
    ) -> DefinitionResult:
        def examined(transaction: OwnTransactionMethods) -> DefinitionResult:
            changed = change(transaction, types_in(transaction))
            self._check_cost(transaction, changed.triggers, changed.check)
            return replace(changed.result, dry_run=True)

        def carried_out(transaction: OwnTransactionMethods) -> Recorded[DefinitionResult]:
            types = types_in(transaction)
            # A schedule that is too costly is refused before others wait for the lock.
            planned = change(transaction, types)
            self._check_cost(transaction, planned.triggers, planned.check)
            return self._carried_out(transaction, lambda: change(transaction, types))

        if dry_run:
            return self._log.rehearse(DEFINE, self._role(groups), examined)
        return self._log.change_together(DEFINE, self._role(groups), subject, reason, carried_out)

    def _check_cost(
        self,
        transaction: OwnTransactionMethods,
        triggers: Sequence[Trigger],
        check: Callable[[], object] = lambda: None,
    ) -> None:
        faults = Faults()
        try:
            check_cost(transaction.store, triggers, transaction._clock.now())
            check()
        except ScheduleTooCostlyError as error:
            faults.add((), error)
            faults.check()

    def _delete(
        self,
        groups: Sequence[str] | None,
        subject: str,
        change: Callable[[OwnTransactionMethods], _Changed],
        dry_run: bool,
        reason: str,
    ) -> DefinitionResult:
        def examined(transaction: OwnTransactionMethods) -> DefinitionResult:
            return replace(change(transaction).result, dry_run=True)

        def carried_out(transaction: OwnTransactionMethods) -> Recorded[DefinitionResult]:
            return self._carried_out(transaction, lambda: change(transaction))

        if dry_run:
            return self._log.rehearse(DELETE, self._role(groups), examined)
        return self._log.change_together(DELETE, self._role(groups), subject, reason, carried_out)

    def _carried_out(
        self, transaction: OwnTransactionMethods, change: Callable[[], _Changed]
    ) -> Recorded[DefinitionResult]:
        """Compare and store under the lock of synchronizations, so that of two changes the second sees the first."""

        def work(store: JobStore) -> Recorded[DefinitionResult]:
            changed = change()
            if changed.planned is None:
                return Recorded(changed.result, [])
            # What is removed can only be read before it is removed.
            before, after = before_and_after(transaction, changed.planned, "none", self._redaction)
            changed.store()
            made = SubjectChange(changed.result.text, before, after if changed.planned.sign != "-" else None)
            return Recorded(changed.result, [(f"{changed.planned.kind} {changed.planned.key}", made)])

        return transaction.store.together(work, exclusively=True)

    def _changed(
        self,
        kind: str,
        key: sync.Subject,
        differences: Sequence[Any] | None,
        declared: JobDetail | Trigger | Calendar,
        current: Definition | None,
        made: Definition,
        expected: Expected,
    ) -> _Changed:
        """Return the change of a definition; `differences` are None if it is new.

        Raises:
            PreconditionFailedError: what is stored is not what is expected, and not what is to be stored either.
        """
        is_same = differences is not None and not differences
        # A change that was made already, and whose answer was lost, may be repeated; but nothing exists to be created.
        if not expected.holds_for(current) and not (is_same and not expected.other_tags):
            raise _unexpected(kind, key, current)
        if is_same:
            text = f"{kind.capitalize()} {key} is stored exactly so; nothing was changed."
            return _Changed(DefinitionResult(DefinitionOutcome.UNCHANGED, text, (), made.document, made.tag), None)
        sign = "+" if differences is None else "~"
        planned = sync.Change(sign, kind, key, tuple(differences or ()), declared)
        outcome = DefinitionOutcome.CREATED if differences is None else DefinitionOutcome.CHANGED
        values = self._value_changes(planned)
        names = f": {', '.join(value.name for value in values)}" if differences else ""
        text = f"{kind.capitalize()} {key} was {outcome}{names}."
        return _Changed(DefinitionResult(outcome, text, values, made.document, made.tag), planned)

    def _deleted(self, kind: str, key: sync.Subject, current: Definition, expected: Expected) -> _Changed:
        if not expected.holds_for(current):
            raise _unexpected(kind, key, current)
        text = f"{kind.capitalize()} {key} was deleted."
        return _Changed(DefinitionResult(DefinitionOutcome.DELETED, text, (), None, None), sync.Change("-", kind, key))

    def _value_changes(self, change: sync.Change) -> tuple[ValueChange, ...]:
        values = changed_values(change, self._redaction)
        return tuple(ValueChange(value.name, bounded(value.stored), bounded(value.declared)) for value in values)


@dataclass(frozen=True, slots=True)
class _Changed:
    """A change that is ready to be made."""

    result: DefinitionResult
    planned: sync.Change | None
    """None if nothing is to be stored."""
    store: Callable[[], object] = lambda: None
    triggers: Sequence[Trigger] = ()
    """What is computed before it is stored: the fire times of these."""
    check: Callable[[], object] = lambda: None
    """Computes what a calendar changes for the triggers that use it, before it is stored."""


def _unexpected(kind: str, key: sync.Subject, current: Definition | None) -> PreconditionFailedError:
    if current is None:
        return PreconditionFailedError(f"{kind} {key} is not stored, and the request expects that it is")
    return PreconditionFailedError(f"{kind} {key} is stored with the tag {current.tag}, which is not expected", current)


def _key_values(key: JobKey | TriggerKey) -> dict[str, str]:
    return {"group": key.group, "name": key.name}


def _check_size(transaction: OwnTransactionMethods, of: JobDetail | Trigger, faults: Faults) -> None:
    """Check the size of job data, which a setting limits."""
    try:
        transaction._check_data(of)
    except InvalidValueError as error:
        faults.add(("data",), error)
        faults.check()


def _check_pair(trigger: Trigger, job: JobDetail, types: PublishedTypes, faults: Faults) -> None:
    if trigger.follows_end and job.max_concurrent != 1:
        faults.add(("kind",), declarations.follows_end_problem(trigger, job))
    for within, problem in types.data_problems(job, trigger):
        faults.add(("data", *within) if trigger.data else (), problem)
