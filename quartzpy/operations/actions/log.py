"""Carries out actions: checks the role, changes the store, and records the action in the audit log.

An action on one subject changes the store and writes its row of the audit log in the same transaction, so that there is
never one without the other. An action on many subjects proceeds in slices, each a transaction that also updates the
count of the action's one row: the row is exact even if the process dies between two slices.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from quartzpy.errors import (
    ForbiddenError,
    InvalidValueError,
    JobStoreError,
    OutcomeUnknownError,
    QuartzpyError,
    StoreUnavailableError,
)
from quartzpy.keys import check_name
from quartzpy.operations.actor import Actor, Role
from quartzpy.operations.results import MOST_KEYS, ActionFailure, ActionProgress, ActionResult
from quartzpy.operations.selection import Keys, Selection, Subject
from quartzpy.scheduler.own_transaction import OwnTransactionMethods, in_own_transaction
from quartzpy.scheduler.scheduler import BaseScheduler
from quartzpy.states import ActionState
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.postgresql.admin.records import ActionEntry
from quartzpy.texts import check_description, number_of, reason

_T = TypeVar("_T")
SLICE = 200
"""The number of subjects that one transaction changes: a longer one would hold the locks of more rows for longer."""
MOST_SUBJECT = 500
"""The length, in characters, to which the subject of a row of the audit log is cut."""


@dataclass(frozen=True, slots=True)
class Change:
    """The change that an action made to one subject: a sentence for people, and the values before and after."""

    text: str = ""
    """Empty if the action in the past and its subject say it all."""
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None
    keys: tuple[Any, ...] | None = None
    """What was changed or made, if that is not the subject itself."""
    count: int = 1


@dataclass(slots=True)
class SliceChange:
    """The changes that an action made to a slice of many subjects."""

    changed: list[Any] = field(default_factory=list)
    failures: list[ActionFailure] = field(default_factory=list)

    def attempt(self, key: object, change: Callable[[], object]) -> None:
        """Make the change of one subject, and note whether that was possible."""
        try:
            change()
        except (StoreUnavailableError, OutcomeUnknownError):
            raise
        except (InvalidValueError, JobStoreError) as error:
            self.failures.append(ActionFailure(str(key), reason(error)))
        else:
            self.changed.append(key)


@dataclass(frozen=True, slots=True)
class Recorded(Generic[_T]):
    """The result of an action that changed several subjects in one transaction, and a row of the log for each."""

    result: _T
    rows: Sequence[tuple[str, Change]]
    """The subjects and their changes."""


ChangeOne = Callable[[OwnTransactionMethods], Change]
ChangeSlice = Callable[[OwnTransactionMethods, Sequence[Any]], SliceChange]


Report = Callable[[ActionProgress], None]


class ActionLog:
    """The actions of one actor on one scheduler."""

    def __init__(
        self, scheduler: BaseScheduler, actor: Actor, *, read_only: bool, report: Report = lambda progress: None
    ) -> None:
        check_name(actor.name, "actor")
        self._scheduler = scheduler
        self._actor = actor
        self._read_only = read_only
        self._report = report

    def reporting(self, report: Report) -> ActionLog:
        """Return the same log, which reports the progress of actions on many subjects."""
        return ActionLog(self._scheduler, self._actor, read_only=self._read_only, report=report)

    @property
    def scheduler(self) -> BaseScheduler:
        return self._scheduler

    @property
    def actor(self) -> Actor:
        return self._actor

    def permits(self, role: Role) -> bool:
        """Return True if the actor may do what needs this role."""
        return not self._read_only and self._actor.role.includes(role)

    def check(self, action: str, role: Role) -> None:
        """Check that the actor may do what needs this role.

        Raises:
            ForbiddenError: the actor may not; the message says who may.
        """
        if self._read_only:
            raise ForbiddenError(f"{action}: nothing can be changed here, because these operations are read-only")
        if not self._actor.role.includes(role):
            may = " or ".join(f"an {one}" for one in Role if one.includes(role))
            raise ForbiddenError(f"{action}: {self._actor.name} is {_a(self._actor.role)}; only {may} may do this")

    def one(self, action: str, role: Role, subject: str, given_reason: str, change: ChangeOne) -> ActionResult:
        """Change one subject and record that in one transaction; return the result.

        Raises:
            ForbiddenError: the actor may not do this.
            InvalidValueError: the reason is no text, or too long.
            Others as `change`; the action is recorded as failed then.
        """
        entry = self._permitted(action, role, subject, given_reason)

        def work(transaction: OwnTransactionMethods) -> tuple[Change, int]:
            done = change(transaction)
            ended = _ended(entry, ActionState.SUCCEEDED, done.count, done.before, done.after)
            return done, admin(transaction.store).record_action(ended)

        try:
            done, action_id = in_own_transaction(self._scheduler, work)
        except Exception as error:
            self._record_failure(entry, error)
            raise
        keys = (subject,) if done.keys is None else done.keys
        return ActionResult(action, keys[:MOST_KEYS], done.count, done.text, action_id)

    def several(
        self,
        action: str,
        role: Role,
        subject: str,
        given_reason: str,
        change: Callable[[OwnTransactionMethods], Recorded[_T]],
    ) -> _T:
        """Change several subjects and record each in one transaction; return the result of `change`.

        `subject` stands for all of them if the action fails.

        Raises:
            As `one`.
        """
        entry = self._permitted(action, role, subject, given_reason)

        def work(transaction: OwnTransactionMethods) -> _T:
            done = change(transaction)
            rows = ((replace(entry, subject=_short(one)), made) for one, made in done.rows)
            admin(transaction.store).record_actions(
                [_ended(row, ActionState.SUCCEEDED, made.count, made.before, made.after) for row, made in rows]
            )
            return done.result

        try:
            return in_own_transaction(self._scheduler, work)
        except Exception as error:
            self._record_failure(entry, error)
            raise

    def many(
        self,
        action: str,
        role: Role,
        selected: Keys | Selection,
        given_reason: str,
        change: ChangeSlice,
        past: str,
    ) -> ActionResult:
        """Change many subjects, slice by slice; return the result. `past` is the action in the past: "Paused".

        Raises:
            As `one`. If the store cannot be reached any more, the slices that are done stay done, and the action is
            recorded as failed with their number.
        """
        entry = self._permitted(action, role, str(selected), given_reason)
        slices = self._slices(selected)
        try:
            # The filters are checked before the action is recorded as begun.
            first = next(slices, None)
        except Exception as error:
            self._record_failure(entry, error)
            raise
        action_id = admin(self._scheduler._usable_store()).record_action(entry)
        keys: list[Any] = []
        failures: list[ActionFailure] = []
        count = failed = 0
        try:
            while first is not None:
                self._report(ActionProgress(action_id, count, failed))
                done = self._slice(action_id, count, first, change)
                count, failed = count + len(done.changed), failed + len(done.failures)
                keys += done.changed[: MOST_KEYS - len(keys)]
                failures += done.failures[: MOST_KEYS - len(failures)]
                first = next(slices, None)
        except Exception as error:
            self._end(action_id, ActionState.FAILED, count, failed, failures, reason(error))
            done_before = f"{past} {_counted(selected.kind, count)}, and then failed"
            if count and (interrupted := _interrupted(error, done_before)) is not None:
                raise interrupted from error
            raise
        except BaseException as error:
            # Ctrl-C, or the end of the process: nobody else records the end of this action so soon.
            self._end(action_id, ActionState.INTERRUPTED, count, failed, failures, type(error).__name__)
            raise
        state = ActionState.FAILED if failed and not count else ActionState.SUCCEEDED
        self._end(action_id, state, count, failed, failures, None)
        text = f"{past} {_counted(selected.kind, count)}."
        if failed:
            text += f" {_counted(selected.kind, failed)} could not be changed; the first: {failures[0].error}"
        return ActionResult(action, tuple(keys), count, text, action_id, failed, tuple(failures))

    def _slice(self, action_id: int, before: int, keys: Sequence[Any], change: ChangeSlice) -> SliceChange:
        def work(transaction: OwnTransactionMethods) -> SliceChange:
            done = change(transaction, keys)
            admin(transaction.store).update_action(
                action_id, state=ActionState.RUNNING, count=before + len(done.changed)
            )
            return done

        return in_own_transaction(self._scheduler, work)

    def _slices(self, selected: Keys | Selection) -> Iterator[Sequence[Any]]:
        if isinstance(selected, Keys):
            # In one order, so that two actions never wait for each other's rows.
            keys = sorted(selected.keys)
            for start in range(0, len(keys), SLICE):
                yield keys[start : start + SLICE]
            return
        query, cursor = selected.query(self._scheduler), None
        while True:
            page = query.page(SLICE, cursor)
            keys = list(_keys_of(selected.kind, page))
            if keys:
                yield keys
            cursor = page.next_cursor
            if cursor is None:
                return

    def _end(
        self,
        action_id: int,
        state: ActionState,
        count: int,
        failed: int,
        failures: Sequence[ActionFailure],
        error: str | None,
    ) -> None:
        store = self._scheduler._usable_store()
        shown = [{"key": one.key, "error": one.error} for one in failures[:10]]
        after = json.dumps({"failed": failed, "failures": shown}) if failed else None
        if error is None:
            admin(store).update_action(action_id, state=state, count=count, after_text=after)
        else:
            # The store may be unavailable. The row then stays RUNNING until it is marked as INTERRUPTED.
            with suppress(QuartzpyError):
                admin(store).update_action(action_id, state=state, count=count, after_text=after, error=error)

    def _permitted(self, action: str, role: Role, subject: str, given_reason: str) -> ActionEntry:
        check_description(given_reason, InvalidValueError, "reason")
        entry = ActionEntry(self._actor.name, str(self._actor.role), action, _short(subject), given_reason or "")
        try:
            self.check(action, role)
        except ForbiddenError as error:
            if not self._read_only:
                self._record_failure(entry, error, ActionState.REFUSED)
            raise
        return entry

    def _record_failure(self, entry: ActionEntry, error: Exception, state: ActionState = ActionState.FAILED) -> None:
        # The store may be the reason of the failure.
        with suppress(QuartzpyError):
            admin(self._scheduler._usable_store()).record_action(_ended(entry, state, 0, None, None, reason(error)))


def _short(subject: str) -> str:
    return subject if len(subject) <= MOST_SUBJECT else f"{subject[: MOST_SUBJECT - 1]}…"


def _ended(
    entry: ActionEntry,
    state: ActionState,
    count: int,
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any] | None,
    error: str | None = None,
) -> ActionEntry:
    return ActionEntry(
        entry.actor,
        entry.role,
        entry.action,
        entry.subject,
        entry.reason,
        state,
        count,
        _text(before),
        _text(after),
        error,
    )


def _a(role: Role) -> str:
    return f"{'a' if role is Role.VIEWER else 'an'} {role}"


def _text(values: Mapping[str, Any] | None) -> str | None:
    return None if values is None else json.dumps(values, default=str)


def _keys_of(kind: Subject, records: Iterable[Any]) -> Iterator[Any]:
    if kind is not Subject.EXECUTION:
        yield from (record.key for record in records)
        return
    # A trigger that only waits for its fire time has no execution yet.
    yield from (record.fire_id for record in records if record.fire_id is not None)


def _interrupted(error: BaseException, done: str) -> Exception | None:
    """Return an error that says that some subjects were changed; None if the given one is not of the store."""
    match error:
        case StoreUnavailableError():
            return StoreUnavailableError(f"{done}: {error}", sqlstate=error.sqlstate)
        case OutcomeUnknownError():
            return OutcomeUnknownError(f"{done}: {error}")
    return None


def _counted(kind: Subject, count: int) -> str:
    return number_of(count, kind)
