"""Definitions as documents: jobs, triggers and calendars that are read, stored and deleted by their keys."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, TypeVar

from quartzpy.calendars.calendar import BaseCalendar, Calendar
from quartzpy.errors import (
    CalendarNotFoundError,
    ForbiddenError,
    IllegalStateChangeError,
    InvalidValueError,
    PreconditionFailedError,
    TriggerNeverFiresError,
)
from quartzpy.jobs.internal_entries import BatchKey
from quartzpy.jobs.job import JobDetail
from quartzpy.jobs.join import Batch, as_join
from quartzpy.jobs.type_facts import TypeFacts
from quartzpy.keys import UNSCHEDULED_GROUPS, JobKey, TriggerKey, check_name
from quartzpy.operations.actions.action import Actor, Role
from quartzpy.operations.actions.log import ActionLog, Change, Recorded
from quartzpy.operations.actions.values import before_and_after, bounded, changed_values, rows_of_plan
from quartzpy.operations.cluster import NodeState, states_of
from quartzpy.operations.source import REDACTED, Redaction
from quartzpy.scheduler import documents, sync
from quartzpy.scheduler.documents import Faults, PublishedTypes
from quartzpy.scheduler.scheduler import BaseScheduler
from quartzpy.scheduler.sync import Declarations, Existing, SyncPlan
from quartzpy.scheduler.transactions import OwnTransactionMethods
from quartzpy.store.definition_differences import (
    calendar_differences,
    job_differences,
    persists_data,
    trigger_differences,
)
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.protocol import CheckIn, JobStore, NamedTriggers, NameKind, PauseNote
from quartzpy.store.queries import JoinQuery, TriggerQuery
from quartzpy.store.records import NodeRecord, TriggerRecord
from quartzpy.store.refusals import batch_exists, calendar_not_stored
from quartzpy.texts import did_you_mean, quoted, reason
from quartzpy.triggers.trigger import Trigger
from quartzpy.triggers.upcoming import schedule_hash

_T = TypeVar("_T")
DEFINE, DELETE, APPLY = "define", "delete", "apply"
"""The names of the actions in the audit log."""
_TAG_DIGITS = 32


@dataclass(frozen=True, slots=True)
class Definition:
    """A job, trigger or calendar as a document, in which the values of secret keys are hidden."""

    document: Mapping[str, Any]
    tag: str
    """Differs if the document does."""

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Definition:
        """Return the definition with this document, whose secrets are hidden."""
        text = json.dumps(document, sort_keys=True, separators=(",", ":"))
        return cls(document, hashlib.sha256(text.encode()).hexdigest()[:_TAG_DIGITS])


@dataclass(frozen=True, slots=True)
class Expected:
    """What a caller expects to be stored. A change is refused if something else is."""

    tags: Collection[str] | None = None
    """One of these tags; "*" stands for any definition. None expects nothing."""
    other_tags: Collection[str] = ()
    """None of these tags; "*" stands for any definition."""

    def holds_for(self, current: Definition | None) -> bool:
        """Return True if this is what is stored."""
        own = set() if current is None else {current.tag, "*"}
        return (self.tags is None or not own.isdisjoint(self.tags)) and own.isdisjoint(self.other_tags)


ANYTHING = Expected()


class Outcome(StrEnum):
    """The outcome of storing or deleting a definition."""

    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    """Exactly this was stored already; nothing was written."""
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class ValueChange:
    """One value of a definition before and after a change, with secrets hidden and long values cut."""

    name: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class DefinitionResult:
    """What became of a definition, or with `dry_run`, what would become of it."""

    outcome: Outcome
    text: str
    """A sentence for people."""
    differences: tuple[ValueChange, ...]
    definition: Mapping[str, Any] | None
    """The definition that is stored then; None if it is deleted."""
    tag: str | None
    """Its tag, which the header ETag has as well."""
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """One change of an applied file."""

    sign: str
    """"+" stored, "~" changed, "-" removed."""
    kind: str
    """"job", "trigger", "calendar" or "window"."""
    key: Mapping[str, str]
    """The name and the group; a calendar and a window have no group."""
    differences: tuple[ValueChange, ...]
    """Without any, a "~" changes only the owner."""


@dataclass(frozen=True, slots=True)
class AppliedFile:
    """The changes that a file made, or with `dry_run`, that it would make."""

    changes: tuple[PlannedChange, ...]
    unchanged: int
    outdated_by: str | None
    """The version that last declared the owner's jobs, if it is newer: then nothing is changed."""
    dry_run: bool


@dataclass(frozen=True, slots=True)
class BatchResult:
    """What became of a batch, or with `dry_run`, what would become of it."""

    outcome: Outcome
    text: str
    """A sentence for people."""
    triggers: int
    """The number of its triggers."""
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class JobTypeView:
    """A job type that running nodes have published."""

    name: str
    nodes: tuple[str, ...]
    entries: tuple[str, ...] | None
    """The names of the entries of its data; None if it takes any data, or if they are not known."""
    required: tuple[str, ...]
    takes_others: bool
    """True if the data may have further entries."""
    disallows_concurrent: bool
    persists_data: bool


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
        return self._read(lambda transaction: self._of_job(_stored_job(transaction, key)))

    def trigger(self, key: TriggerKey) -> Definition:
        """Return the definition of a trigger.

        Raises:
            TriggerNotFoundError: it is not stored, or it was made by the scheduler and not by a schedule.
        """
        return self._read(lambda transaction: self._of_trigger(_stored_trigger(transaction, key)))

    def calendar(self, name: str) -> Definition:
        """Return the definition of a calendar. Raises CalendarNotFoundError if it is not stored."""
        return self._read(lambda transaction: _of_calendar(_stored_calendar(transaction, name)))

    def job_types(self) -> tuple[JobTypeView, ...]:
        """Return the job types that running nodes have published, sorted by name."""
        alive, facts_of_nodes = self._published()
        types = _published(alive, facts_of_nodes)
        return tuple(_type_view(name, facts, _knowing(alive, name)) for name, facts in sorted(types.items()))

    def _published(self) -> tuple[list[NodeRecord], Mapping[str, Mapping[str, Any]]]:
        """Return the living nodes, and what all nodes have published about their job types."""
        store = self._log.scheduler._usable_store()
        nodes, facts_of_nodes = store.ask([lambda inner: inner.list_nodes(), lambda inner: admin(inner).job_types()])
        return _alive(nodes()), facts_of_nodes()

    def _types(self) -> PublishedTypes:
        return PublishedTypes(_published(*self._published()), self._log.scheduler.job_types)

    def _read(self, work: Callable[[OwnTransactionMethods], _T]) -> _T:
        return work(OwnTransactionMethods(self._log.scheduler, self._log.scheduler._usable_store()))

    def _of_job(self, job: JobDetail) -> Definition:
        return Definition.of(self._hidden(documents.job_document(job)))

    def _of_trigger(self, record: TriggerRecord) -> Definition:
        return Definition.of(self._hidden(documents.trigger_document(record)))

    def _hidden(self, document: dict[str, Any]) -> dict[str, Any]:
        """Return a document with its secrets hidden, which are in job data only."""
        hidden = dict(document)
        if "data" in hidden:
            hidden["data"] = self._redaction.of(hidden["data"])
        if "continuations" in hidden:
            hidden["continuations"] = [self._hidden(continuation) for continuation in hidden["continuations"]]
        return hidden

    # --- jobs

    def put_job(
        self, key: JobKey, document: object, *, expected: Expected = ANYTHING, dry_run: bool = False, reason: str = ""
    ) -> DefinitionResult:
        """Store a job as a document says; what the document leaves out has its default. Its triggers stay.

        Without "durable", the job is durable, because it is stored before its triggers. The data of a job that persists
        its data is taken only when the job is new.
        """

        def change(transaction: OwnTransactionMethods, types: PublishedTypes) -> _Changed:
            stored = _job_of(transaction, key)
            self._check_types(transaction, key, stored, None)
            current = None if stored is None else self._of_job(stored)
            faults = Faults()
            full = {} if stored is None else documents.job_document(stored)
            sent = self._revealed(document, full, faults)
            job = documents.read_job_document(sent, key, types, faults, None if stored is None else stored.data)
            faults.check()
            assert job is not None
            _check_size(transaction, job, faults)
            self._check_types(transaction, key, stored, job)
            keeps = persists_data(job, stored)
            if keeps and stored is not None:
                job = replace(job, data=stored.data)
            if not job.durable and not _has_trigger(transaction, key):
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
            stored = _stored_job(transaction, key)
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
            record = _trigger_of(transaction, key)
            if record is not None:
                self._check_job(transaction, record.job_key, record.job_type)
            current = None if record is None else self._of_trigger(record)
            faults = Faults()
            full = {} if record is None else documents.trigger_document(record)
            sent = self._revealed(document, full, faults)
            trigger = documents.read_trigger_document(
                sent, key, faults, None if record is None else record.trigger.data
            )
            faults.check()
            assert trigger is not None
            assert trigger.job_key is not None
            job = _job_of(transaction, trigger.job_key)
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
                made = Definition.of(self._hidden(documents.document_of_declared(trigger)))
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

            return replace(changed, store=store)

        return self._put([key.group], f"trigger {key}", change, dry_run, reason)

    def delete_trigger(
        self, key: TriggerKey, *, expected: Expected = ANYTHING, dry_run: bool = False, reason: str = ""
    ) -> DefinitionResult:
        """Delete a trigger, and its job if that has no other trigger and is not durable.

        Raises:
            TriggerNotFoundError: it is not stored, or it was made by the scheduler and not by a schedule.
        """

        def change(transaction: OwnTransactionMethods) -> _Changed:
            record = _stored_trigger(transaction, key)
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
            self._check_job(transaction, batch.job, _stored_job(transaction, batch.job).job_type)
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
                return Recorded(BatchResult(Outcome.UNCHANGED, text, number, dry_run), [])
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
            made = Change(text, after={"on": on, "triggers": number})
            return Recorded(BatchResult(Outcome.CREATED, text, number, dry_run), [(subject, made)])

        role = self._role([batch.job.group])
        if dry_run:
            return self._log.rehearse(DEFINE, role, work).result

        def carried_out(transaction: OwnTransactionMethods) -> Recorded[BatchResult]:
            return transaction.store.together(lambda store: work(transaction), exclusively=True)

        return self._log.change_together(DEFINE, role, subject, reason, carried_out)

    def _check_triggers(self, transaction: OwnTransactionMethods, triggers: Sequence[Trigger], faults: Faults) -> None:
        """Check what the triggers of a batch fire, and that the grant covers it."""
        types = _types_in(transaction)
        keys = {trigger.job_key for trigger in triggers if trigger.job_key is not None}
        jobs = transaction.store.jobs(keys)
        calendars = transaction.store.calendars({trigger.calendar for trigger in triggers if trigger.calendar})
        for key in sorted(keys):
            self._check_job(transaction, key, jobs[key].job_type if key in jobs else None)
        for number, trigger in enumerate(triggers):
            own = documents.Within(faults, ("triggers", number))
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

        def change(transaction: OwnTransactionMethods, types: PublishedTypes) -> _Changed:
            stored = transaction._readable_calendar(name)
            current = None if stored is None else _of_calendar(stored)
            faults = Faults()
            calendar = documents.read_calendar_document(document, faults)
            faults.check()
            assert calendar is not None
            differences = None
            if name in transaction.store.names(NameKind.CALENDARS):
                differences = calendar_differences(calendar, stored)
            made = _of_calendar(calendar)
            changed = self._changed("calendar", name, differences, calendar, current, made, expected)
            is_new = differences is None
            return replace(
                changed,
                store=lambda: transaction.add_calendar(name, calendar, replace=True, update_triggers=not is_new),
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
            current = _of_calendar(_stored_calendar(transaction, name))
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

        role = Role.ADMIN if self._log.actor.defines is None else Role.VIEWER
        declared = Declarations([])
        if self._log.permits(role):
            # It may take seconds, for which no transaction must be open.
            declared = documents.read_declarations(document, self._types())

        def work(transaction: OwnTransactionMethods) -> Recorded[SyncPlan]:
            self._check_declared(transaction, declared, version)
            rows: list[tuple[str, Change]] = []

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
            return replace(change(transaction, _types_in(transaction)).result, dry_run=True)

        def carried_out(transaction: OwnTransactionMethods) -> Recorded[DefinitionResult]:
            types = _types_in(transaction)
            return self._carried_out(transaction, lambda: change(transaction, types))

        if dry_run:
            return self._log.rehearse(DEFINE, self._role(groups), examined)
        return self._log.change_together(DEFINE, self._role(groups), subject, reason, carried_out)

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
            made = Change(changed.result.text, before, after if changed.planned.sign != "-" else None)
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
            return _Changed(DefinitionResult(Outcome.UNCHANGED, text, (), made.document, made.tag), None)
        sign = "+" if differences is None else "~"
        planned = sync.Change(sign, kind, key, tuple(differences or ()), declared)
        outcome = Outcome.CREATED if differences is None else Outcome.CHANGED
        values = self._value_changes(planned)
        names = f": {', '.join(value.name for value in values)}" if differences else ""
        text = f"{kind.capitalize()} {key} was {outcome}{names}."
        return _Changed(DefinitionResult(outcome, text, values, made.document, made.tag), planned)

    def _deleted(self, kind: str, key: sync.Subject, current: Definition, expected: Expected) -> _Changed:
        if not expected.holds_for(current):
            raise _unexpected(kind, key, current)
        text = f"{kind.capitalize()} {key} was deleted."
        return _Changed(DefinitionResult(Outcome.DELETED, text, (), None, None), sync.Change("-", kind, key))

    def _value_changes(self, change: sync.Change) -> tuple[ValueChange, ...]:
        values = changed_values(change, self._redaction)
        return tuple(ValueChange(value.name, bounded(value.stored), bounded(value.declared)) for value in values)

    # --- secrets

    def _revealed(self, document: object, stored: Mapping[str, Any], faults: Faults) -> object:
        """Return a document in which the hidden values of the stored one, sent back as they were shown, are the stored.

        So whoever reads a definition and changes something else need not know its secrets.
        """
        if not isinstance(document, Mapping):
            return document
        is_same = all(document.get(word, stored.get(word)) == stored.get(word) for word in ("type", "job"))
        own: dict[str, Any] = stored.get("data", {}) if is_same else {}
        shown = dict(document)
        if "data" in shown:
            shown["data"] = self._with_secrets(shown["data"], own, faults, ("data",))
        if isinstance(shown.get("continuations"), list):
            of_stored = {_follower(entry): entry for entry in stored.get("continuations", ())}
            shown["continuations"] = [
                {
                    **entry,
                    "data": self._with_secrets(
                        entry["data"],
                        of_stored.get(_follower(entry), {}).get("data", {}),
                        faults,
                        ("continuations", number, "data"),
                    ),
                }
                if isinstance(entry, Mapping) and "data" in entry
                else entry
                for number, entry in enumerate(shown["continuations"])
            ]
        return shown

    def _with_secrets(self, sent: Any, stored: Any, faults: Faults, place: documents.Place) -> Any:
        if isinstance(sent, Mapping):
            own = stored if isinstance(stored, Mapping) else {}
            values = {}
            for name, value in sent.items():
                if value == REDACTED and self._redaction.hides(name):
                    if name not in own:
                        faults.add(
                            (*place, name),
                            f"{REDACTED} stands for the stored value, and none is stored here; send the value itself",
                        )
                    values[name] = own.get(name)
                else:
                    values[name] = self._with_secrets(value, own.get(name), faults, (*place, name))
            return values
        if isinstance(sent, list):
            items = stored if isinstance(stored, list) and len(stored) == len(sent) else [None] * len(sent)
            return [
                self._with_secrets(item, items[number], faults, (*place, number)) for number, item in enumerate(sent)
            ]
        return sent


@dataclass(frozen=True, slots=True)
class _Changed:
    """A change that is ready to be made."""

    result: DefinitionResult
    planned: sync.Change | None
    """None if nothing is to be stored."""
    store: Callable[[], object] = lambda: None


def _unexpected(kind: str, key: sync.Subject, current: Definition | None) -> PreconditionFailedError:
    if current is None:
        return PreconditionFailedError(f"{kind} {key} is not stored, and the request expects that it is")
    return PreconditionFailedError(f"{kind} {key} is stored with the tag {current.tag}, which is not expected", current)


def _follower(entry: object) -> str:
    values = entry if isinstance(entry, Mapping) else {"job": entry}
    return json.dumps([values.get("group", "DEFAULT"), values.get("job")], default=str)


def _key_values(key: JobKey | TriggerKey) -> dict[str, str]:
    return {"group": key.group, "name": key.name}


# --- what is stored


def _readable(read: Callable[[], _T], subject: str) -> _T:
    """Return what `read` returns.

    Raises:
        IllegalStateChangeError: the row cannot be decoded by this process.
    """
    try:
        return read()
    except InvalidValueError as error:
        raise IllegalStateChangeError(
            f"{subject} cannot be read by this process, so its definition cannot be compared: {reason(error)}"
        ) from error


def _job_of(transaction: OwnTransactionMethods, key: JobKey) -> JobDetail | None:
    return _readable(lambda: transaction.store.jobs([key]).get(key), f"job {key}")


def _trigger_of(transaction: OwnTransactionMethods, key: TriggerKey) -> TriggerRecord | None:
    record = transaction.store.triggers([key]).get(key)
    if record is not None:
        _readable(lambda: record.trigger, f"trigger {key}")
    return record


def _stored_job(transaction: OwnTransactionMethods, key: JobKey) -> JobDetail:
    job = _job_of(transaction, key)
    if job is None:
        raise transaction._no_job(key)
    return job


def _stored_trigger(transaction: OwnTransactionMethods, key: TriggerKey) -> TriggerRecord:
    record = None if key.group in UNSCHEDULED_GROUPS else _trigger_of(transaction, key)
    if record is None:
        raise transaction._no_trigger(key)
    return record


def _stored_calendar(transaction: OwnTransactionMethods, name: str) -> Calendar:
    stored = transaction.store.calendars([name]).get(name)
    if stored is None:
        names = transaction.store.names(NameKind.CALENDARS)
        hint = did_you_mean(name, names, "calendars") if names else "none is stored"
        raise CalendarNotFoundError(f"calendar {quoted(name)} is not stored; {hint}")
    return stored.calendar


def _of_calendar(calendar: Calendar) -> Definition:
    assert isinstance(calendar, BaseCalendar)
    return Definition.of(documents.calendar_document(calendar))


def _has_trigger(transaction: OwnTransactionMethods, key: JobKey) -> bool:
    return bool(transaction.store.find(TriggerQuery(job_key=key), 1))


def _check_size(transaction: OwnTransactionMethods, of: JobDetail | Trigger, faults: Faults) -> None:
    """Check the size of job data, which a setting limits."""
    try:
        transaction._check_data(of)
    except InvalidValueError as error:
        faults.add(("data",), error)
        faults.check()


def _check_pair(trigger: Trigger, job: JobDetail, types: PublishedTypes, faults: Faults) -> None:
    if trigger.follows_end and job.max_concurrent != 1:
        faults.add(("kind",), documents.follows_end_problem(trigger, job))
    for within, problem in types.data_problems(job, trigger):
        faults.add(("data", *within) if trigger.data else (), problem)


# --- job types


def _types_in(transaction: OwnTransactionMethods) -> PublishedTypes:
    store = transaction.store
    return PublishedTypes(_published(_alive(store.list_nodes()), admin(store).job_types()), transaction.job_types)


def _alive(nodes: CheckIn) -> list[NodeRecord]:
    states = states_of(nodes.nodes, nodes.now, nodes.answers_since)
    return [node for node in nodes.nodes if states[node.instance_id] is not NodeState.DEAD]


def _knowing(alive: Sequence[NodeRecord], name: str) -> tuple[str, ...]:
    return tuple(node.instance_id for node in alive if name in node.capabilities.job_types)


def _published(
    alive: Sequence[NodeRecord], facts_of_nodes: Mapping[str, Mapping[str, Any]]
) -> dict[str, TypeFacts | None]:
    """Return the job types of these nodes, with what the first of them that tells more has published."""
    types: dict[str, TypeFacts | None] = {}
    for node in alive:
        published = facts_of_nodes.get(node.instance_id, {})
        for name in node.capabilities.job_types:
            if types.get(name) is None:
                types[name] = TypeFacts.from_json(published[name]) if name in published else None
    return types


def _type_view(name: str, facts: TypeFacts | None, nodes: tuple[str, ...]) -> JobTypeView:
    facts = facts or TypeFacts(takes_others=True)
    return JobTypeView(
        name,
        nodes,
        facts.entries,
        tuple(sorted(facts.required)),
        facts.takes_others or facts.entries is None,
        facts.disallows_concurrent,
        facts.persists_data,
    )
