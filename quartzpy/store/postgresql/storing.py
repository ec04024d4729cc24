"""Stores jobs and triggers.

Usually everything in a call that does not replace is new. Then it is stored in one round trip: nothing is read before
the commit, so the server checks what is otherwise checked between the round trips. If a check fails, the transaction
fails, and everything is stored in several round trips instead.

A transaction of several round trips locks rows first and takes the lock afterwards: while it waits for a row that
another transaction has locked, it does not block the cluster. Everything that depends on others (pauses, running jobs)
is reconciled in the last round trip, under TRIGGER_ACCESS, where the steps skip locked rows and so never wait for this
transaction.

A user's transaction takes no lock, so its rows may be out of date when it commits: a pause or another definition of the
job may have been committed in the meantime. Therefore it stores its triggers as NEW (HELD if they are paused
afterwards; see `Unreconciled`), and no step takes such triggers. The next `acquire` reconciles them under
TRIGGER_ACCESS: it checks the pauses and the job again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace as replace_in
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import psycopg

from quartzpy.errors import InvalidJobTypeError, JobStoreError
from quartzpy.jobs.job import JobDetail
from quartzpy.keys import MAIN, UNSCHEDULED_GROUPS, JobKey, TriggerKey
from quartzpy.store import refusals
from quartzpy.store.definition_differences import refuse_other_job, refuse_other_trigger
from quartzpy.store.postgresql import batches, zone_marks
from quartzpy.store.postgresql.batches import CHUNK_BYTES, bound, chunks, computed_ahead
from quartzpy.store.postgresql.calendars import held_revisions
from quartzpy.store.postgresql.connection.error_translation import RefusedRowError, is_unique_violation
from quartzpy.store.postgresql.connection.listen import announcement, news
from quartzpy.store.postgresql.connection.locks import LockName
from quartzpy.store.postgresql.connection.pipeline import BoundStatement, Result
from quartzpy.store.postgresql.connection.session import CLOCK_TOLERANCE, SqlSession, Transaction
from quartzpy.store.postgresql.left_batches import leave_replaced
from quartzpy.store.postgresql.lookups import JOBS, TRIGGERS, trigger_record
from quartzpy.store.postgresql.redefined_joins import circle, decide
from quartzpy.store.postgresql.removing import DELETE_TRIGGERS, HOLD_JOBS, join_jobs
from quartzpy.store.postgresql.schema.rows import (
    JobColumns,
    job_columns,
    key_columns,
    size_of_job,
    size_of_trigger,
    trigger_columns,
)
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.postgresql.steps.limits import require_limits
from quartzpy.store.postgresql.zone_rules import renew_some
from quartzpy.store.protocol import BatchEntry, JobEntry
from quartzpy.triggers.upcoming import PreparedTrigger, UnpreparedTrigger, UpcomingFireTimes

_SQL = SqlFile("storing.sql")
STORE_JOBS = _SQL("store_jobs")
STORE_NEW_JOBS = _SQL("store_jobs", new=True)
COMPARE_JOBS = _SQL("compare_jobs")
COPY_JOB_UNDER_LOCK = _SQL("copy_job", under_lock=True)
STORE_TRIGGERS = _SQL("store_triggers")
STORE_NEW_TRIGGERS = _SQL("store_triggers", new=True)
LOCK_IF_NEW = _SQL("lock_if_new")

MAX_IN_ONE_ROUND_TRIP = 100
"""The number of jobs or triggers up to which one round trip is worth it; more take longer than a round trip anyway."""
LATENESS = timedelta(milliseconds=100)
"""The longest time from the estimate of the database's clock to the check of it that does not count as its error."""
SOME_STORED = "quartzpy: not everything is new, so it is stored step by step"
"""The text with which `LOCK_IF_NEW` fails; administrators find it in the server's log."""


class NotInOneRoundTripError(JobStoreError):
    """Something is stored already or too large, or the estimate of the time was wrong; nothing was stored."""


class NotOrdinaryError(JobStoreError):
    """The condition of `still_ordinary` is no longer true; nothing was stored."""


class WrongEstimateError(JobStoreError):
    """The database's clock differs from the estimate with which the triggers were prepared; nothing was stored."""


class StartTime(NamedTuple):
    """The start time of triggers without one of their own: the time of the call. None if all have one.

    An estimate is compared with the database's clock.
    """

    at: datetime | None
    is_estimate: bool


def store_jobs(
    session: SqlSession, entries: Sequence[JobEntry], *, replace: bool, batch: BatchEntry | None = None
) -> datetime | None:
    """Store jobs and triggers; see `JobStore.store_jobs`."""
    for entry in entries:
        if entry.job is not None:
            _refuse_types_of_main(entry.job)
    require_limits(session, [entry.job for entry in entries if entry.job is not None and entry.job.limits])
    # All programs lock the rows in the same order, so that two that store the same triggers do not deadlock.
    triggers = sorted((new_trigger for entry in entries for new_trigger in entry.triggers), key=_order)
    zone_marks.note(session, zone_marks.zones_of(new_trigger.trigger for new_trigger in triggers))
    start = _start_time(session, triggers)
    if not replace:
        if batch is None and _may_be_new(session, entries, triggers):
            jobs = sorted((entry.job for entry in entries if entry.job is not None), key=lambda job: job.key)
            with contextlib.suppress(NotInOneRoundTripError):
                return store_in_one_round_trip(
                    session, jobs, [new_trigger.prepared(start.at) for new_trigger in triggers], start
                )
        # Unless it finds something stored.
        session.expects_new = True
    earliest = _store_in_several_round_trips(session, entries, triggers, start, replace=replace, batch=batch)
    if replace:
        # Those whose schedule did not change have kept what was computed before.
        renew_some(
            session, [new_trigger.trigger.key for new_trigger in triggers if zone_marks.has_zone(new_trigger.trigger)]
        )
    return earliest


def _refuse_types_of_main(job: JobDetail) -> None:
    """Refuse a job whose type neither another process nor a later run of this program can import."""
    if job.job_type.startswith(f"{MAIN}:"):
        raise InvalidJobTypeError(
            f"job {job.key}: its type {job.job_type} is defined in an interactive session, by `python -c` or in a file"
            " that cannot be imported, so that no other node can run it; define it in a module that can be imported, or"
            " give it a type_name"
        )


def modify_job(
    session: SqlSession, key: JobKey, change: Callable[[JobDetail], JobDetail], *, keeps_data: bool
) -> JobDetail | None:
    """Change a stored job; see `JobStore.modify_job`."""

    def work(transaction: Transaction) -> JobDetail | None:
        hold = session.bind(_SQL.hold_job, group=key.group, name=key.name)
        look = session.bind(JOBS, groups=[key.group], names=[key.name])
        stored = transaction.execute(hold, look)[1].rows
        if not stored:
            return None
        job = change(JobColumns._make(stored[0]).job())
        if job.limits:
            require_limits(session, [job], transaction)
        storing = Storing(session, transaction, replace=True)
        storing.write_jobs([job], keeps_data=keeps_data, keeps_persisted=False)
        storing.commit()
        return job

    return session.transaction(work)


def replace_trigger(session: SqlSession, old: TriggerKey, new: PreparedTrigger) -> datetime | None:
    """Replace `old` by `new`; see `JobStore.replace_trigger`."""
    zone_marks.note(session, zone_marks.zones_of([new.trigger]))

    def work(transaction: Transaction) -> datetime | None:
        deleted = transaction.execute(
            leave_replaced(session, [old], [new.trigger]),
            session.bind(DELETE_TRIGGERS, groups=[old.group], names=[old.name]),
        )[1]
        if not deleted.rows:
            return None
        storing = Storing(session, transaction, replace=False)
        earliest = storing.write_triggers([new], StartTime(None, is_estimate=False))
        storing.commit()
        return earliest

    return session.transaction(work)


def _order(new_trigger: PreparedTrigger | UnpreparedTrigger) -> tuple[str, str | None]:
    """Return the key by which triggers are sorted before they are stored."""
    return new_trigger.trigger.group, new_trigger.trigger.name


def _start_time(session: SqlSession, triggers: Sequence[PreparedTrigger | UnpreparedTrigger]) -> StartTime:
    if all(new_trigger.trigger.start_time is not None for new_trigger in triggers):
        return StartTime(None, is_estimate=False)
    # The estimate saves a round trip. It is checked by the answer to the statement that stores the triggers.
    estimate = session.clock.now()
    return StartTime(session.now(), is_estimate=False) if estimate is None else StartTime(estimate, is_estimate=True)


def _fire_times(prepared: Sequence[PreparedTrigger]) -> list[tuple[JobKey, datetime]]:
    """Return the next fire times of triggers, each with the key of its job."""
    return [
        (prepared_trigger.trigger.job_key, prepared_trigger.progress.next_fire_time)
        for prepared_trigger in prepared
        if prepared_trigger.trigger.job_key is not None and prepared_trigger.progress.next_fire_time is not None
    ]


# --- one round trip, if everything is new


def _may_be_new(
    session: SqlSession, entries: Sequence[JobEntry], triggers: Sequence[PreparedTrigger | UnpreparedTrigger]
) -> bool:
    """Return whether to try one round trip. Not if the last call found something stored that it was to store."""
    jobs = [entry.job for entry in entries if entry.job is not None]
    return (
        session.expects_new
        and session.decides_at_once
        and max(len(triggers), len(entries)) <= MAX_IN_ONE_ROUND_TRIP
        and not any(entry.keeps_data for entry in entries)
        # The rows of the jobs that they run after change.
        and all(job.after is None for job in jobs)
        and _are_distinct([job.key for job in jobs])
        and _are_distinct([_order(new_trigger) for new_trigger in triggers])
        # Calendars have to be held before the fire times that depend on them are stored.
        and all(new_trigger.trigger.calendar is None for new_trigger in triggers)
    )


def _are_distinct(keys: Sequence[Hashable]) -> bool:
    return len(set(keys)) == len(keys)


def store_in_one_round_trip(
    session: SqlSession, jobs: Sequence[JobDetail], prepared: Sequence[PreparedTrigger], start: StartTime
) -> datetime | None:
    """Store new jobs and triggers, which are in the order of their keys; return the earliest fire time.

    Raises:
        NotInOneRoundTripError: something is stored already or too large, or the estimate of the time was wrong;
            nothing was stored.
    """
    now = session.clock.now()
    due = _fire_times(prepared)
    is_due = now is not None and any(at <= now for _, at in due)
    new_jobs, new_triggers = job_columns(jobs), trigger_columns(prepared, are_settled_later=False)
    texts = (new_jobs["job_data_list"], new_jobs["continuations_list"], new_triggers["trigger_data_list"])
    if sum(len(text) for column in texts for text in column if text) > CHUNK_BYTES:
        raise NotInOneRoundTripError("the data of all jobs and triggers is too large for one round trip")
    keys = {"groups": new_triggers["trigger_group_list"], "names": new_triggers["trigger_name_list"]}
    write = [session.bind(STORE_NEW_JOBS, **new_jobs)] if jobs else []
    if prepared:
        write.append(session.bind(STORE_NEW_TRIGGERS, **new_triggers))
    lock = session.bind(
        LOCK_IF_NEW,
        lock=LockName.TRIGGER_ACCESS,
        job_groups=new_jobs["job_group_list"],
        job_names=new_jobs["job_name_list"],
        **keys,
        earliest=now - CLOCK_TOLERANCE if start.is_estimate and now else None,
        latest=now + LATENESS if start.is_estimate and now else None,
    )
    settle = [session.bind(_SQL.settle_new, **keys)] if prepared else []
    wake = [news(session)] if is_due else announcement(session, due)
    try:
        results = session.locked(
            *write,
            *watch_new(session, prepared, {job.key: job for job in jobs}),
            lock,
            *settle,
            *wake,
            name=None,
        )
    except RefusedRowError as error:
        if SOME_STORED not in str(error) and not is_unique_violation(error):
            raise
        raise NotInOneRoundTripError("something is stored already, or the time is not the expected one") from error
    if not prepared:
        return None
    stored = [_StoredTrigger.of(row) for row in results[len(write) - 1].rows]
    session.clock.learn(stored[-1].now)
    return min((row.next_fire_time for row in stored if row.next_fire_time is not None), default=None)


def watch_new(
    session: SqlSession, prepared: Sequence[PreparedTrigger], jobs: Mapping[JobKey, JobDetail]
) -> list[BoundStatement]:
    """Return the statement that notes what is expected of new triggers, if anything may be.

    `jobs` are those that are stored with them. What is expected of the fires of other jobs only the store knows.
    """
    keys = []
    for trigger in (new_trigger.trigger for new_trigger in prepared):
        job = None if trigger.job_key is None else jobs.get(trigger.job_key)
        may_expect = trigger.expect is not None or job is None or job.expect is not None
        if may_expect and trigger.group not in UNSCHEDULED_GROUPS:
            keys.append(trigger.key)
    return [session.bind(_SQL.watch_new, **key_columns(keys))] if keys else []


# --- several round trips


def _store_in_several_round_trips(
    session: SqlSession,
    entries: Sequence[JobEntry],
    triggers: Sequence[PreparedTrigger | UnpreparedTrigger],
    start: StartTime,
    *,
    replace: bool,
    batch: BatchEntry | None,
) -> datetime | None:
    is_bulk = len(triggers) > batches.CHUNK

    def attempt(start: StartTime, *, assumes_ordinary: bool) -> datetime | None:
        # The triggers of a bulk store are prepared in the transaction, one batch ahead.
        ready = triggers if is_bulk else [new_trigger.prepared(start.at) for new_trigger in triggers]

        def work(transaction: Transaction) -> datetime | None:
            storing = Storing(session, transaction, replace=replace, assumes_ordinary=assumes_ordinary)
            if is_bulk:
                storing.allow_pauses()
            for keeps_data in (False, True):
                jobs = [entry.job for entry in entries if entry.job is not None and entry.keeps_data is keeps_data]
                for some in chunks(sorted(jobs, key=lambda job: job.key), size_of_job):
                    storing.write_jobs(some, keeps_data=keeps_data)
            if batch is not None:
                storing.write_batch(batch)
            earliest = storing.write_triggers(ready, start)
            storing.commit()
            return earliest

        return session.transaction(work)

    assumes_ordinary = True
    while True:
        try:
            return attempt(start, assumes_ordinary=assumes_ordinary)
        except NotOrdinaryError:
            # During the bulk store, a pause or another definition of a job was committed: reconcile the rows one by
            # one.
            assumes_ordinary = False
        except WrongEstimateError:
            start = StartTime(session.now(), is_estimate=False)


class Storing:
    """A transaction of several round trips that writes jobs, then triggers, and reconciles them with its commit.

    `assumes_ordinary`: a bulk store assumes that nothing is paused, limited or in manual mode, and checks it.
    """

    def __init__(
        self, session: SqlSession, transaction: Transaction, *, replace: bool, assumes_ordinary: bool = True
    ) -> None:
        self._session = session
        self._transaction = transaction
        self._replace = replace
        self._assumes_ordinary = assumes_ordinary
        self._written: set[JobKey] = set()
        """Jobs that this transaction has written, so that nobody else can change them."""
        self._jobs: dict[JobKey, JobDetail] = {}
        """The definitions of all jobs of the call."""
        self._changed: list[JobKey] = []
        """Jobs whose triggers had copies of other values."""
        self._joining: list[JobKey] = []
        """Jobs that run after others, or did so before."""
        self._held: set[JobKey] = set()
        """Those of them to which nobody can add a trigger: nothing is left to correct under the lock."""
        self._corrected = 0
        """The number of changed jobs and of their triggers, whichever is larger."""
        self._reconcile: list[BoundStatement] = []
        """What the last round trip does for the triggers that were written."""

    def allow_pauses(self) -> None:
        """Let the connection be idle between the batches. It holds no lock then that another step waits for."""
        if self._session.decides_at_once:
            self._transaction.execute_with_next(self._session.allow_pauses(), lambda _: None)

    def write_jobs(self, jobs: Sequence[JobDetail], *, keeps_data: bool, keeps_persisted: bool = True) -> None:
        """Write jobs, or check that they are stored with the same values.

        Raises:
            ObjectAlreadyExistsError: another one of these jobs is stored with different values.
        """
        session, transaction = self._session, self._transaction
        columns = job_columns(jobs)
        self._joining += [job.key for job in jobs if job.after is not None]
        self._jobs |= {job.key: job for job in jobs}
        write = session.bind(
            STORE_JOBS,
            **columns,
            replace=self._replace,
            keeps_data=keeps_data,
            keeps_persisted=keeps_persisted,
        )
        if not self._replace and session.decides_at_once:
            # No stored job changes, so the triggers are stored in the same round trip.
            transaction.execute_with_next(write, lambda written: self._check_jobs(jobs, written))
            return
        compare = [session.bind(COMPARE_JOBS, **columns)] if self._replace else []
        if session.decides_at_once:
            *compared, written = transaction.execute(*compare, write)
            differs = self._differing(compared)
        else:
            differs = self._differing(transaction.execute(*compare) if compare else [])
            # Lock the jobs before they change: a transaction that stores a trigger of theirs must wait until the
            # commit, or its copies would never be corrected.
            hold = session.bind(HOLD_JOBS, **key_columns(key for key, other in differs.items() if other))
            written = transaction.execute(hold, write)[1]
        stored = self._check_jobs(jobs, written)
        # Jobs that somebody else has stored since the comparison may differ.
        changed = [key for key, was_there in stored.items() if was_there and differs.get(key, True)]
        if changed:
            keys = key_columns(changed)
            copy = session.bind(_SQL.copy_job, **keys)
            count = session.bind(_SQL.count_triggers, **keys, most=batches.CHUNK + 1)
            *_, counted = transaction.execute(copy, count)
            self._changed += changed
            self._corrected += max(len(changed), counted.rows[0][0])
            if session.decides_at_once and self._corrected > batches.CHUNK:
                # All triggers of the jobs would be read under the lock to find those that were stored in the meantime.
                # Instead, nobody can store one from here on, and those that were stored before are corrected here.
                transaction.execute(session.bind(HOLD_JOBS, **keys), copy)
                self._held.update(changed)

    def _differing(self, compared: Sequence[Result]) -> dict[JobKey, bool]:
        rows = [row for before in compared for row in before.rows]
        self._joining += [JobKey(name, group) for group, name, _, has_joined in rows if has_joined]
        return {JobKey(name, group): other for group, name, other, _ in rows}

    def _check_jobs(self, jobs: Sequence[JobDetail], written: Result) -> dict[JobKey, bool]:
        """Return the jobs that `STORE_JOBS` has written, and whether each replaced another one."""
        replaced = {JobKey(name, group): was_there for group, name, was_there in written.rows}
        self._written.update(replaced)
        others = [job for job in jobs if job.key not in replaced]
        if others:
            self._session.expects_new = False
            [looked_up] = self._transaction.execute(self._session.bind(JOBS, **key_columns(others)))
            stored = {job.key: job for job in (JobColumns._make(row).job() for row in looked_up.rows)}
            for job in others:
                refuse_other_job(job, stored.get(job.key))
        return replaced

    def write_batch(self, batch: BatchEntry) -> None:
        """Write the row by which the ends of a batch are counted.

        Raises:
            JobNotFoundError: the job that is to run then is not stored.
            ObjectAlreadyExistsError: it has such a batch already.
        """
        key = batch.key
        values = {"group": key.job.group, "name": key.job.name, "batch": key.name, "total": batch.total}
        [stored] = self._transaction.execute(
            self._session.bind(_SQL.store_batch, **values, batch_outcomes=[str(outcome) for outcome in batch.outcomes])
        )
        has_job, is_new = stored.rows[0]
        if not has_job:
            raise refusals.job_of_batch_not_stored(key)
        if not is_new:
            raise refusals.batch_exists(key)

    def write_triggers(
        self, triggers: Sequence[PreparedTrigger | UnpreparedTrigger], start: StartTime
    ) -> datetime | None:
        """Write triggers, or check that they are stored with the same values; return the earliest fire time.

        Raises:
            JobNotFoundError: the job of a trigger is not stored.
            ObjectAlreadyExistsError: a trigger is stored with different values.
            WrongEstimateError: the estimate of the time was wrong.
        """
        session = self._session
        names = {new_trigger.trigger.calendar for new_trigger in triggers if new_trigger.trigger.calendar is not None}
        revisions = held_revisions(session, self._transaction, names)
        parts = list(chunks(triggers, size_of_trigger))
        many = len(parts) > 1
        are_settled_later = not session.decides_at_once
        if many and not are_settled_later:
            # There are too many rows to reconcile under the lock, and usually none needs it.
            are_settled_later = not (self._assumes_ordinary and self._is_ordinary()) or self._are_of_many_jobs(triggers)

        def batch(some: Sequence[PreparedTrigger | UnpreparedTrigger]) -> _Batch:
            prepared = [_with_current_calendar(new_trigger.prepared(start.at), revisions) for new_trigger in some]
            columns = trigger_columns(prepared, are_settled_later=are_settled_later)
            values = {**columns, "replace": self._replace}
            return _Batch(
                prepared,
                [bound(session.bind(text, **values)) for text in (_SQL.take_keys, _SQL.hold_stored, STORE_TRIGGERS)],
            )

        earliest: datetime | None = None
        copies: set[tuple[Any, ...]] = set()
        for computed in computed_ahead(batch, parts):
            stored = self._write_batch(computed, start)
            others = self._not_stored(computed.prepared, stored)
            while others and self._replace:
                # Other programs have deleted and stored them again since their keys were taken.
                self._require_jobs(others)
                stored += self._write_batch(batch(others), start)
                others = self._not_stored(others, stored)
            if others:
                stored += self._check_triggers(others)
            times = [row.next_fire_time for row in stored if row.next_fire_time is not None]
            earliest = min(times if earliest is None else [earliest, *times], default=None)
            if many:
                copies.update(row.copies for row in stored if row.copies and row.job_key not in self._written)
            elif not are_settled_later:
                self._reconcile = self._settle(computed.prepared, stored)
        if many and not are_settled_later:
            self._reconcile = [*_still_ordinary(session, copies), news(session)]
        elif triggers and are_settled_later:
            self._reconcile = [news(session)]
        return earliest

    def _are_of_many_jobs(self, triggers: Sequence[PreparedTrigger | UnpreparedTrigger]) -> bool:
        """Return whether the jobs that others may change meanwhile are too many to be read again under the lock."""
        jobs = {new_trigger.trigger.job_key for new_trigger in triggers}
        return len(jobs) > batches.CHUNK and len(jobs - self._written) > batches.CHUNK

    def _is_ordinary(self) -> bool:
        [ordinary] = self._transaction.execute(self._session.bind(_SQL.is_ordinary))
        return bool(ordinary.rows[0][0])

    def _settle(self, prepared: Sequence[PreparedTrigger], stored: Sequence[_StoredTrigger]) -> list[BoundStatement]:
        # Those that were kept keep their state.
        begun = [row.key for row in stored if not row.is_kept]
        if not begun:
            return []
        settle = self._session.bind(_SQL.settle_new, **key_columns(begun))
        return [settle, *announcement(self._session, _fire_times(prepared))]

    def _write_batch(self, computed: _Batch, start: StartTime) -> list[_StoredTrigger]:
        session, prepared = self._session, computed.prepared
        first: list[BoundStatement] = []
        last: list[BoundStatement] = []
        if self._replace:
            new = [prepared_trigger.trigger for prepared_trigger in prepared]
            first.append(leave_replaced(session, [trigger.key for trigger in new], new))
        last += watch_new(session, prepared, self._jobs)
        before = session.clock.now()
        written = self._transaction.execute(*first, *computed.writes, *last)[len(first) + len(computed.writes) - 1]
        stored = [_StoredTrigger.of(row) for row in written.rows]
        if stored:
            agrees = session.clock.agrees(stored[-1].now, before)
            if start.is_estimate and not agrees:
                raise WrongEstimateError("the estimate of the database's clock was wrong")
        return stored

    @staticmethod
    def _not_stored(prepared: Sequence[PreparedTrigger], stored: Sequence[_StoredTrigger]) -> list[PreparedTrigger]:
        if len(stored) == len(prepared):
            return []
        there = {(row.group, row.name) for row in stored}
        return [prepared_trigger for prepared_trigger in prepared if _order(prepared_trigger) not in there]

    def _require_jobs(self, others: Sequence[PreparedTrigger], *looks: BoundStatement) -> list[Result]:
        """Check that the jobs of triggers are stored; return what the statements return that are sent with this."""
        hold = self._session.bind(
            HOLD_JOBS, **key_columns({other.trigger.job_key for other in others if other.trigger.job_key})
        )
        jobs, *results = self._transaction.execute(hold, *looks)
        present = {JobKey(name, group) for group, name in jobs.rows}
        for other in others:
            if other.trigger.job_key not in present:
                raise refusals.job_of_trigger_not_stored(other.trigger.key, other.trigger.job_key)
        return results

    def _check_triggers(self, others: Sequence[PreparedTrigger]) -> list[_StoredTrigger]:
        """Return the stored triggers that the statement did not write."""
        self._session.expects_new = False
        [triggers] = self._require_jobs(
            others, self._session.bind(TRIGGERS, **key_columns([other.trigger for other in others]))
        )
        records = {record.key: record for record in map(trigger_record, triggers.rows)}
        same = []
        for other in others:
            key = other.trigger.key
            record = records.get(key)
            refuse_other_trigger(other, record)
            at = None if record is None else record.progress.next_fire_time
            same.append(_StoredTrigger(key.group, key.name, is_kept=True, next_fire_time=at))
        return same

    def commit(self) -> None:
        """Reconcile what was written, under the lock, and commit.

        Raises:
            NotOrdinaryError: something was paused, limited or redefined during a bulk store.
            JobNotFoundError: a job is to run after one that is not stored.
            InvalidJobError: a job would wait for itself.
        """
        session = self._session
        last: list[BoundStatement] = []
        if self._joining:
            joining = sorted(set(self._joining))
            # Their rows are locked; of the others, nothing has changed.
            again = [decide(session, written)] if (written := [key for key in joining if key in self._written]) else []
            _, missing, circles, *_ = self._transaction.execute(
                *join_jobs(session, joining), circle(session, joining), *again
            )
            for group, name in missing.rows:
                if name is not None:
                    raise refusals.joined_job_not_stored(JobKey(name, group))
            for group, name, by_group, by_name in circles.rows:
                raise refusals.join_in_circle(JobKey(name, group), JobKey(by_name, by_group))
        if session.decides_at_once:
            # Triggers of changed jobs that were stored in the meantime.
            others = [key for key in self._changed if key not in self._held]
            if others:
                keys = key_columns(others)
                last.append(session.bind(COPY_JOB_UNDER_LOCK, **keys))
        if self._changed:
            # A rate limit that was raised, for example, lets triggers fire earlier than nodes expect.
            last.append(news(session))
        last += self._reconcile
        if last and session.decides_at_once:
            last.insert(0, session.lock(LockName.TRIGGER_ACCESS))
        try:
            self._transaction.commit(*last)
        except psycopg.errors.DivisionByZero as error:
            raise NotOrdinaryError("a job or trigger was paused, limited or redefined in the meantime") from error


class _Batch(NamedTuple):
    """Triggers to be stored at once; the last of the statements stores them."""

    prepared: Sequence[PreparedTrigger]
    writes: Sequence[BoundStatement]


class _StoredTrigger(NamedTuple):
    """A row of `STORE_TRIGGERS`. `is_kept`: it was stored already, with the same schedule."""

    group: str
    name: str
    is_kept: bool
    next_fire_time: datetime | None
    now: Any = None
    """The time of the database's clock."""
    copies: tuple[Any, ...] = ()
    """Its job's key, and what it has copies of."""

    @staticmethod
    def of(row: tuple[Any, ...]) -> _StoredTrigger:
        group, name, is_kept, next_fire_time, now, *copies = row
        return _StoredTrigger(group, name, is_kept, next_fire_time, now, tuple(copies))

    @property
    def key(self) -> TriggerKey:
        return TriggerKey(self.name, self.group)

    @property
    def job_key(self) -> JobKey:
        """The key of its job; only where there are `copies`."""
        job_group, job_name, *_ = self.copies
        return JobKey(job_name, job_group)


def _with_current_calendar(prepared: PreparedTrigger, revisions: Mapping[str, int]) -> PreparedTrigger:
    if prepared.calendar_revision == revisions.get(prepared.trigger.calendar or ""):
        return prepared
    # Fire times computed from a calendar that was replaced in the meantime are discarded, to be computed again.
    return replace_in(prepared, upcoming=UpcomingFireTimes())


def _still_ordinary(session: SqlSession, copies: set[tuple[Any, ...]]) -> list[BoundStatement]:
    if not copies:
        return []
    names = ("groups", "names", "types", "limits", "overlap_policy", "placements", "rate_limits", "shared_limits")
    columns = [list(column) for column in zip(*copies, strict=True)]
    return [session.bind(_SQL.still_ordinary, **dict(zip(names, columns, strict=True)))]
