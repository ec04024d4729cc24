"""All errors that quartzpy raises deliberately.

    QuartzpyError
    ├── InvalidValueError (also a ValueError): an argument is invalid
    │   ├── InvalidKeyError            a name or group
    │   ├── InvalidCronError           a cron expression; has the field, the position and what is allowed
    │   ├── InvalidTriggerError        the values of a trigger
    │   │   └── TriggerNeverFiresError
    │   ├── UnsupportedKindError       a kind of trigger or calendar that this process cannot compute
    │   ├── UnknownTimeZoneError
    │   ├── InvalidCalendarError
    │   ├── InvalidJobError            a job definition
    │   │   └── InvalidJobTypeError    a class or function that cannot be a job
    │   ├── InvalidLimitError          a limit that jobs share, or its name
    │   ├── InvalidJobDataError        data that cannot be stored as JSON, or does not fit the job's data type
    │   ├── InvalidDefinitionError     a document that defines a job, a trigger or a calendar; has all its faults
    │   ├── InvalidMatcherError
    │   ├── InvalidListenerError       not a listener, or one that was already added
    │   └── SettingsError              configuration
    ├── JobTypeError
    │   ├── UnknownJobTypeError        a name that is not registered in this process
    │   └── DuplicateJobTypeError
    ├── JobStoreError: the store refused a request or failed
    │   ├── ObjectAlreadyExistsError
    │   ├── ObjectNotFoundError
    │   │   ├── JobNotFoundError
    │   │   ├── TriggerNotFoundError
    │   │   ├── CalendarNotFoundError
    │   │   ├── LimitNotFoundError
    │   │   ├── SchedulerNotFoundError
    │   │   └── ExecutionNotFoundError
    │   ├── CalendarInUseError
    │   ├── LimitInUseError
    │   ├── IllegalStateChangeError
    │   ├── PreconditionFailedError    what is stored is not what the caller expects
    │   ├── SchemaError                the tables are missing, or older or newer than this release
    │   │   └── CopiedDatabaseError    the tables were made for another database, of which this is a copy
    │   ├── StoreUnavailableError      try again later; nothing was changed
    │   │   └── AuthenticationError    trying again will not help
    │   └── OutcomeUnknownError        the answer to COMMIT was lost; repeating is safe
    ├── SchedulerStateError            the scheduler's present state does not allow the call
    │   ├── InstanceIdInUseError
    │   └── NodeUnhealthyError         a thread of the node cannot be kept running; restart the process
    ├── ForbiddenError                 the actor's role does not permit the action, or nothing may be changed here
    ├── UnableToInterruptJobError
    ├── JobCancelledError              raised in a job that checks whether it was asked to stop
    ├── JobTimeoutError                the error of an execution that took longer than its timeout
    ├── RemoteJobError                 represents the error of a job in a process worker
    │   ├── RemoteJobExecutionError    also a JobExecutionError
    │   └── RemoteJobCancelledError    also a JobCancelledError
    ├── WorkerDiedError                the process of a process worker ended while it ran a job
    └── LeaseLostError                 this node was declared dead; its work no longer counts

`JobExecutionError` works in the other direction: jobs raise it to request what the scheduler does next.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from quartzpy.foreign_names import is_imported, missing_name


class QuartzpyError(Exception):
    """The base class of all errors that quartzpy raises deliberately."""


class InvalidValueError(QuartzpyError, ValueError):
    """An argument is invalid; nothing was changed.

    `refused` has all values of a job, a trigger or a policy that are wrong, by name; this is the error of the first.
    """

    refused: tuple[tuple[str, InvalidValueError], ...] = ()


class InvalidKeyError(InvalidValueError):
    """A job, trigger, calendar or scheduler name is empty, too long or not printable."""


class InvalidCronError(InvalidValueError):
    """A cron expression is invalid; the attributes say where, and what is allowed there.

    `position` counts characters of `expression` from 0; `field` is None if the expression as a whole is invalid.
    """

    def __init__(
        self,
        message: str,
        *,
        expression: str,
        position: int = 0,
        field: str | None = None,
        allowed: str | None = None,
    ) -> None:
        super().__init__(message)
        self.expression = expression
        self.position = position
        self.field = field
        self.allowed = allowed

    def pointed_out(self) -> str:
        """Return the expression with a caret under the position, followed by the message."""
        # Each invisible character is replaced by one visible character, so that the caret is in the right column.
        shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in self.expression)
        return f"{shown}\n{' ' * self.position}^\n{self}"


class InvalidTriggerError(InvalidValueError):
    """The values of a trigger contradict each other, or are out of range."""


class TriggerNeverFiresError(InvalidTriggerError):
    """The trigger has no fire time at all; it was not stored."""


class UnknownTimeZoneError(InvalidValueError):
    """The name is not in the IANA time zone database."""


class InvalidCalendarError(InvalidValueError):
    """The values of a calendar are invalid, or its base calendars form a cycle."""


class UnsupportedKindError(InvalidTriggerError, InvalidCalendarError):
    """This process cannot compute triggers or calendars of this kind: it is known only to another release, or a library
    is missing. The stored value may be valid, and other nodes may be able to compute it."""


class ScheduleTooCostlyError(InvalidTriggerError, InvalidCalendarError):
    """The next fire times are not found within a bounded number of steps, such as those of a rule by the second of
    which almost everything is excluded. A stored trigger whose schedule is so costly goes to ERROR."""


class InvalidJobError(InvalidValueError):
    """A job definition is invalid."""


class InvalidLimitError(InvalidValueError):
    """The values or the name of a limit that jobs share are invalid."""


class InvalidJobTypeError(InvalidJobError):
    """The class or function cannot be found again by its name, or cannot be executed."""


class InvalidJobDataError(InvalidValueError):
    """Job data cannot be stored as JSON, or does not fit the job's `data_type`; the message names the key."""


class InvalidDefinitionError(InvalidValueError):
    """A document that defines a job, a trigger or a calendar has faults; nothing was changed.

    `faults` has each of them with its place in the document; see `quartzpy.definitions.faults.Fault`.
    """

    def __init__(self, message: str, faults: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.faults = tuple(faults)


class InvalidMatcherError(InvalidValueError):
    """A matcher or its value is invalid."""


class SettingsError(InvalidValueError):
    """A setting has an unknown name or an invalid value."""


class JobTypeError(QuartzpyError):
    """The name of a job type does not refer to exactly one registered class or function."""


class UnknownJobTypeError(JobTypeError):
    """No job type of this name is registered in this process."""


class DuplicateJobTypeError(JobTypeError):
    """Two job types of one process have the same name."""


class JobStoreError(QuartzpyError):
    """The store refused a request, or failed."""


class ObjectAlreadyExistsError(JobStoreError):
    """A different job or trigger with this key is already stored; pass `replace=True` to replace it."""


class ObjectNotFoundError(JobStoreError):
    """The requested object is not stored."""

    nearest: object | None = None
    """The key that was probably meant, of an error about a job or a trigger; None if no stored one is similar."""


class SchedulerNotFoundError(ObjectNotFoundError):
    """The database has schedulers, but none with this name."""


class JobNotFoundError(ObjectNotFoundError):
    """No job with this key is stored."""


class TriggerNotFoundError(ObjectNotFoundError):
    """No trigger with this key is stored."""


class CalendarNotFoundError(ObjectNotFoundError):
    """No calendar with this name is stored."""


class LimitNotFoundError(ObjectNotFoundError):
    """No limit with this name is stored."""


class ExecutionNotFoundError(ObjectNotFoundError):
    """No execution with this id is known: it never existed, or it is no longer in the history."""


class CalendarInUseError(JobStoreError):
    """The calendar cannot be deleted because triggers refer to it."""


class LimitInUseError(JobStoreError):
    """The limit cannot be removed because jobs share it."""


class IllegalStateChangeError(JobStoreError):
    """The trigger's state does not allow the request."""


class PreconditionFailedError(JobStoreError):
    """What is stored is not what the caller expects; nothing was changed.

    `current` is the definition that is stored now; None if there is none.
    """

    def __init__(self, message: str, current: Any = None) -> None:
        super().__init__(message)
        self.current = current


class SchemaError(JobStoreError):
    """The database's tables are missing or belong to another release; the message names the command that fixes it.

    `sqlstate` is the server's error code, if there is one.
    """

    def __init__(self, message: str, *, sqlstate: str | None = None) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate


class CopiedDatabaseError(SchemaError):
    """The tables were made for another database: this one is a copy, or was restored or moved; `quartzpy db adopt`."""


class StoreUnavailableError(JobStoreError):
    """The database cannot be reached or cannot work at present; nothing was changed.

    `sqlstate` is the server's error code, if there is one.
    """

    def __init__(self, message: str, *, sqlstate: str | None = None) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate


class AuthenticationError(StoreUnavailableError):
    """The database refused the user, the password or the name of the database; trying again does not help."""


class OutcomeUnknownError(JobStoreError):
    """The connection broke while the transaction was being committed: the transaction may have taken effect.

    Repeating the call is safe.
    """


class SchedulerStateError(QuartzpyError):
    """The scheduler's present state (not started, shut down, ...) does not allow the call."""


class InstanceIdInUseError(SchedulerStateError):
    """Another live node of this scheduler has the same instance id."""


class NodeUnhealthyError(SchedulerStateError):
    """A thread of this node cannot be kept running: only a new process helps."""


class ForbiddenError(QuartzpyError):
    """The actor's role does not permit the action, or the operations are read-only; nothing was changed."""


class UnableToInterruptJobError(QuartzpyError):
    """The running job offers no way to interrupt it."""


class InvalidListenerError(InvalidValueError):
    """The object is not a listener, or was already added."""


class JobCancelledError(QuartzpyError):
    """Raised by `context.raise_if_cancelled()` in a job that was asked to stop."""


class PluginStartError(QuartzpyError):
    """A plugin cannot work, and the scheduler must not start without it."""


class WaitTimeoutError(QuartzpyError, TimeoutError):
    """The event that a handle waited for did not happen within the timeout."""


class JobTimeoutError(QuartzpyError):
    """The error of an execution that took longer than its job's timeout."""


class JobSnoozedError(QuartzpyError):
    """Ends an execution whose job asked to run again later. `context.snooze` and `context.snooze_until` raise it.

    Either `delay` or `until` is set. The message is the reason that the job gave.
    """

    def __init__(self, reason: str = "", *, delay: timedelta | None = None, until: datetime | None = None) -> None:
        super().__init__(reason)
        self.delay = delay
        self.until = until

    def delay_from(self, now: datetime) -> timedelta:
        """Return the time from `now` to the next run; zero where that is past."""
        if self.until is not None:
            return max(self.until - now, timedelta())
        return self.delay or timedelta()


class LeaseLostError(QuartzpyError):
    """This node's epoch was declared dead: results of this execution are no longer accepted."""


class JobExecutionError(QuartzpyError):
    """A job raises this to report its failure, and to request what the scheduler does next.

    The first three flags are those of Quartz's JobExecutionException: `refire_immediately` runs the job again at once
    on the same worker; `unschedule_firing_trigger` makes the trigger that fired COMPLETE; `unschedule_all_triggers`
    makes all triggers of the job COMPLETE. The other two give instructions that Quartz leaves to triggers:
    `delete_trigger` deletes the trigger that fired, and `set_trigger_error` puts it into ERROR, until
    `reset_trigger_from_error_state`. Of several flags about triggers the first in this order applies:
    `unschedule_all_triggers`, `delete_trigger`, `set_trigger_error`, `unschedule_firing_trigger`.
    """

    def __init__(
        self,
        message: str = "",
        *,
        refire_immediately: bool = False,
        unschedule_firing_trigger: bool = False,
        unschedule_all_triggers: bool = False,
        delete_trigger: bool = False,
        set_trigger_error: bool = False,
    ) -> None:
        super().__init__(message)
        self.refire_immediately = refire_immediately
        self.unschedule_firing_trigger = unschedule_firing_trigger
        self.unschedule_all_triggers = unschedule_all_triggers
        self.delete_trigger = delete_trigger
        self.set_trigger_error = set_trigger_error


class IncludedJobError(QuartzpyError):
    """A job of one of quartzpy's own types has failed.

    `may_be_retried` is False if the job names the failures that are worth another attempt, and this is none of them.
    Then the retry policy of the job does not apply.
    """

    may_be_retried = True


class NotAllowedError(IncludedJobError):
    """The settings of the node do not allow what the job is to do."""


class CommandFailedError(IncludedJobError):
    """The program of a `CommandJob` could not be started, or its exit status is no success.

    `exit_status` is None if the program was not started, and negative if a signal ended it: -9 is SIGKILL.
    """

    def __init__(self, message: str, exit_status: int | None = None, *, may_be_retried: bool = True) -> None:
        super().__init__(message)
        self.exit_status = exit_status
        self.may_be_retried = may_be_retried


class HttpFailedError(IncludedJobError):
    """The call of an `HttpJob` got no answer, or one whose status is no success.

    `status` is None if there was no answer.
    """

    def __init__(self, message: str, status: int | None = None, *, may_be_retried: bool = True) -> None:
        super().__init__(message)
        self.status = status
        self.may_be_retried = may_be_retried


class RemoteJobError(QuartzpyError):
    """Represents the error that a job raised in a process worker; `str()` is that of the original.

    `error_type` is the dotted name of the original's class. `type_names` are all names of that class and its bases: a
    retry policy uses them as it would use the original. The original's traceback is a note of this error.
    """

    def __init__(self, message: str, *, error_type: str, type_names: frozenset[str]) -> None:
        super().__init__(message)
        self.error_type = error_type
        self.type_names = type_names


class RemoteJobExecutionError(RemoteJobError, JobExecutionError):
    """Represents a `JobExecutionError` with the same flags; its cause represents the cause of the original."""

    def __init__(self, message: str, *, error_type: str, type_names: frozenset[str], **flags: bool) -> None:
        super().__init__(message, error_type=error_type, type_names=type_names)
        JobExecutionError.__init__(self, message, **flags)


class RemoteJobSnoozedError(RemoteJobError, JobSnoozedError):
    """Represents a `JobSnoozedError` of a process worker, and has the same effect."""

    def __init__(
        self,
        message: str,
        *,
        error_type: str,
        type_names: frozenset[str],
        delay: timedelta | None,
        until: datetime | None,
    ) -> None:
        super().__init__(message, error_type=error_type, type_names=type_names)
        JobSnoozedError.__init__(self, message, delay=delay, until=until)


class RemoteJobCancelledError(RemoteJobError, JobCancelledError):
    """Represents a `JobCancelledError`."""


class WorkerDiedError(QuartzpyError):
    """The process of a process worker ended while it ran a job, or before it could start.

    `exit_code` is the negative number of the signal if a signal ended the process, and None if it is unknown.
    """

    def __init__(self, message: str, *, exit_code: int | None) -> None:
        super().__init__(message)
        self.exit_code = exit_code


if not TYPE_CHECKING:  # A type checker would accept every name.

    def __getattr__(name: str) -> Any:
        raise missing_name(__name__, name, globals(), imported=is_imported())
