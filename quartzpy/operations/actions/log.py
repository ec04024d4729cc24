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
from quartzpy.operations.actions.action import Actor, Role
from quartzpy.operations.selection import Keys, Selection, Subject
from quartzpy.scheduler.scheduler import BaseScheduler
from quartzpy.scheduler.transactions import OwnTransactionMethods, in_own_transaction
from quartzpy.states import ActionState
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.postgresql.admin.records import ActionEntry
from quartzpy.texts import check_description, number_of, reason

MAX_KEYS = 100
"""The maximum number of keys, and of failures, that a result names."""


@dataclass(frozen=True, slots=True)
class ActionFailure:
    """One of several subjects to which an action was not applied, and the reason."""

    key: str
    error: str


@dataclass(frozen=True, slots=True)
class ActionProgress:
    """How far an action on many subjects is."""

    action_id: int
    """Identifies its entry in the audit log."""
    changed: int
    """The number of subjects that are changed."""
    failed: int
    """The number of those that could not be changed."""


@dataclass(frozen=True, slots=True)
class ActionResult:
    """The outcome of an action.

    `keys` are the subjects that it changed, at most the first 100 of them; `count` is their number. `text` is a
    sentence for people. `action_id` identifies the row of the audit log.
    """

    action: str
    keys: tuple[Any, ...]
    count: int
    text: str
    action_id: int
    failed: int = 0
    """The number of subjects, of several, to which the action could not be applied. A single one raises its error."""
    failures: tuple[ActionFailure, ...] = field(default=())
    """The first of them, with their reasons."""

    def __str__(self) -> str:
        return self.text


_T = TypeVar("_T")
SLICE = 200
"""The number of subjects that one transaction changes: a longer one would hold the locks of more rows for longer."""
MAX_SUBJECT = 500
"""The length, in characters, to which the subject of a row of the audit log is cut."""


@dataclass(frozen=True, slots=True)
class SubjectChange:
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
    rows: Sequence[tuple[str, SubjectChange]]
    """The subjects and their changes."""


ChangeOne = Callable[[OwnTransactionMethods], SubjectChange]
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
            may = " or ".join(f"an {role_above}" for role_above in Role if role_above.includes(role))
            defines = "" if self._actor.defines is None else f", and may define {self._actor.defines}"
            raise ForbiddenError(
                f"{action}: {self._actor.name} is {an(self._actor.role)}{defines}; only {may} may do this"
            )

    def change_one(self, action: str, role: Role, subject: str, given_reason: str, change: ChangeOne) -> ActionResult:
        """Change one subject and record that in one transaction; return the result.

        Raises:
            ForbiddenError: the actor may not do this.
            InvalidValueError: the reason is no text, or too long.
            Others as `change`; the action is recorded as failed then.
        """
        entry = self._permitted(action, role, subject, given_reason)

        def work(transaction: OwnTransactionMethods) -> tuple[SubjectChange, int]:
            done = change(transaction)
            return done, admin(transaction.store).record_action(_succeeded(entry, done))

        try:
            done, action_id = in_own_transaction(self._scheduler, work)
        except ForbiddenError as error:
            # Only what is stored showed that it is not permitted.
            self._record_failure(entry, error, ActionState.REFUSED)
            raise
        except Exception as error:
            self._record_failure(entry, error)
            raise
        keys = (subject,) if done.keys is None else done.keys
        return ActionResult(action, keys[:MAX_KEYS], done.count, done.text, action_id)

    def change_together(
        self,
        action: str,
        role: Role,
        subject: str,
        given_reason: str,
        change: Callable[[OwnTransactionMethods], Recorded[_T]],
        *,
        exclusively: bool = False,
    ) -> _T:
        """Change several subjects and record each in one transaction; return the result of `change`.

        `subject` stands for all of them if the action fails. With `exclusively`, such changes are made one after the
        other, and may compute for long.

        Raises:
            As `change_one`.
        """
        entry = self._permitted(action, role, subject, given_reason)

        def work(transaction: OwnTransactionMethods) -> _T:
            done = change(transaction)
            admin(transaction.store).record_actions(
                [_succeeded(replace(entry, subject=_short(subject)), made) for subject, made in done.rows]
            )
            return done.result

        try:
            return in_own_transaction(self._scheduler, work, exclusively=exclusively)
        except ForbiddenError as error:
            # Only what is stored showed that it is not permitted.
            self._record_failure(entry, error, ActionState.REFUSED)
            raise
        except Exception as error:
            self._record_failure(entry, error)
            raise

    def rehearse(
        self,
        action: str,
        role: Role,
        change: Callable[[OwnTransactionMethods], _T],
        *,
        exclusively: bool = False,
    ) -> _T:
        """Return what `change` returns, which changes nothing and is not recorded.

        Raises:
            ForbiddenError: the actor may not do this. Others as `change`.
        """
        self.check(action, role)
        return in_own_transaction(self._scheduler, change, exclusively=exclusively)

    def change_many(
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
            As `change_one`. If the store cannot be reached any more, the slices that are done stay done, and the
            action is recorded as failed with their number.
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
                keys += done.changed[: MAX_KEYS - len(keys)]
                failures += done.failures[: MAX_KEYS - len(failures)]
                first = next(slices, None)
        except Exception as error:
            self._end(action_id, ActionState.FAILED, count, failed, failures, reason(error))
            done_before = f"{past} {number_of(count, selected.kind)}, and then failed"
            if count and (interrupted := _interrupted(error, done_before)) is not None:
                raise interrupted from error
            raise
        except BaseException as error:
            # Ctrl-C, or the end of the process: nobody else records the end of this action so soon.
            self._end(action_id, ActionState.INTERRUPTED, count, failed, failures, type(error).__name__)
            raise
        state = ActionState.FAILED if failed and not count else ActionState.SUCCEEDED
        self._end(action_id, state, count, failed, failures, None)
        text = f"{past} {number_of(count, selected.kind)}."
        if failed:
            text += f" {number_of(failed, selected.kind)} could not be changed; the first: {failures[0].error}"
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
        shown = [{"key": failure.key, "error": failure.error} for failure in failures[:10]]
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
            admin(self._scheduler._usable_store()).record_action(replace(entry, state=state, error=reason(error)))


def _short(subject: str) -> str:
    return subject if len(subject) <= MAX_SUBJECT else f"{subject[: MAX_SUBJECT - 1]}…"


def _succeeded(entry: ActionEntry, change: SubjectChange) -> ActionEntry:
    return replace(
        entry,
        state=ActionState.SUCCEEDED,
        count=change.count,
        before_text=_text(change.before),
        after_text=_text(change.after),
    )


def an(role: Role) -> str:
    """Return the role after its article."""
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
