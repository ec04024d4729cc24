"""Every error that quartzpy raises on purpose.

    QuartzpyError
    ├── InvalidValueError (also a ValueError): what was given cannot be right
    │   ├── InvalidKeyError            a name or group
    │   ├── InvalidCronError           a cron expression; says field, place and what is allowed
    │   ├── InvalidTriggerError        a trigger's own values
    │   │   └── TriggerNeverFiresError
    │   ├── UnsupportedKindError       a kind of trigger or calendar that this process cannot compute
    │   ├── UnknownTimeZoneError
    │   ├── InvalidCalendarError
    │   ├── InvalidJobError            a job definition
    │   │   └── InvalidJobTypeError    a class or function that cannot be a job
    │   ├── InvalidJobDataError        data that cannot be stored as JSON, or is not what the job takes
    │   ├── InvalidMatcherError
    │   ├── InvalidListenerError       no listener, or one that was added already
    │   └── SettingsError              configuration
    ├── JobTypeError
    │   ├── UnknownJobTypeError        a registered name that nothing here answers to
    │   └── DuplicateJobTypeError
    ├── JobStoreError: the store refused or failed
    │   ├── ObjectAlreadyExistsError
    │   ├── ObjectNotFoundError
    │   │   ├── JobNotFoundError
    │   │   ├── TriggerNotFoundError
    │   │   ├── CalendarNotFoundError
    │   │   ├── SchedulerNotFoundError
    │   │   └── ExecutionNotFoundError
    │   ├── CalendarInUseError
    │   ├── IllegalStateChangeError
    │   ├── SchemaError                tables absent, older or newer than this release
    │   ├── StoreUnavailableError      try again later; nothing was changed
    │   │   └── AuthenticationError    trying again will not help
    │   └── OutcomeUnknownError        the answer to COMMIT was lost; repeating is safe
    ├── SchedulerStateError            not possible in the scheduler's present state
    │   ├── InstanceIdInUseError
    │   └── NodeUnhealthyError         a thread of the node cannot be kept alive; start the process anew
    ├── UnableToInterruptJobError
    ├── JobCancelledError              raised in a job that looks at its cancellation
    ├── JobTimeoutError                what an execution failed with that took too long
    ├── RemoteJobError                 stands for what a job raised in a process worker
    │   ├── RemoteJobExecutionError    also a JobExecutionError
    │   └── RemoteJobCancelledError    also a JobCancelledError
    ├── WorkerDiedError                the process of a process worker ended while it ran a job
    └── LeaseLostError                 this node was declared dead; its work no longer counts

`JobExecutionError` is the other way round: jobs raise it to tell the scheduler what to do next.
"""

from __future__ import annotations


class QuartzpyError(Exception):
    """Base of all errors that quartzpy raises on purpose."""


class InvalidValueError(QuartzpyError, ValueError):
    """A value given to quartzpy cannot be right; nothing was changed."""


class InvalidKeyError(InvalidValueError):
    """A job, trigger, calendar or scheduler name is empty, too long or not printable."""


class InvalidCronError(InvalidValueError):
    """A cron expression is wrong; the attributes say where and what would be allowed.

    `position` counts characters of `expression` from 0; `field` is None where the whole is wrong.
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
        """The expression with a caret under the place, then the message."""
        # What cannot be seen takes one place, so that the caret stands where it belongs.
        shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in self.expression)
        return f"{shown}\n{' ' * self.position}^\n{self}"


class InvalidTriggerError(InvalidValueError):
    """A trigger's values contradict each other or their allowed range."""


class TriggerNeverFiresError(InvalidTriggerError):
    """The trigger has no fire time at all; it was not stored."""


class UnknownTimeZoneError(InvalidValueError):
    """Not a name of the IANA time zone database."""


class InvalidCalendarError(InvalidValueError):
    """A calendar's values are wrong, or its base calendars form a circle."""


class UnsupportedKindError(InvalidTriggerError, InvalidCalendarError):
    """This process cannot compute triggers or calendars of this kind: another release knows it, or a library is
    missing. What is stored may be right, and other nodes may be able to."""


class InvalidJobError(InvalidValueError):
    """A job definition is wrong."""


class InvalidJobTypeError(InvalidJobError):
    """The class or function cannot be found again by its name, or cannot be executed."""


class InvalidJobDataError(InvalidValueError):
    """Job data cannot be stored as JSON, or makes no value of the job's `data_type`; the message names the key."""


class InvalidMatcherError(InvalidValueError):
    """A matcher or its value is wrong."""


class SettingsError(InvalidValueError):
    """A configuration value or name is wrong."""


class JobTypeError(QuartzpyError):
    """A job type's registered name does not lead to exactly one class or function."""


class UnknownJobTypeError(JobTypeError):
    """No job type of this name is registered in this process."""


class DuplicateJobTypeError(JobTypeError):
    """Two job types claim the same name in one process."""


class JobStoreError(QuartzpyError):
    """The store refused a request, or failed."""


class ObjectAlreadyExistsError(JobStoreError):
    """A job or trigger of this key is stored already; pass `replace=True` to replace it."""


class ObjectNotFoundError(JobStoreError):
    """What was asked for is not stored."""


class SchedulerNotFoundError(ObjectNotFoundError):
    """The database has schedulers, and none of this name."""


class JobNotFoundError(ObjectNotFoundError):
    """No job of this key is stored."""


class TriggerNotFoundError(ObjectNotFoundError):
    """No trigger of this key is stored."""


class CalendarNotFoundError(ObjectNotFoundError):
    """No calendar of this name is stored."""


class ExecutionNotFoundError(ObjectNotFoundError):
    """No execution of this id is known: there was none, or it is no longer in the history."""


class CalendarInUseError(JobStoreError):
    """A calendar that triggers refer to cannot be removed."""


class IllegalStateChangeError(JobStoreError):
    """The trigger's state does not allow the request."""


class SchemaError(JobStoreError):
    """The database's tables are absent, or of another release; the message names the command that mends it.

    `sqlstate` is the server's code where it gave one.
    """

    def __init__(self, message: str, *, sqlstate: str | None = None) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate


class StoreUnavailableError(JobStoreError):
    """The database cannot be reached or cannot work now; nothing was changed.

    `sqlstate` is the server's code where it gave one.
    """

    def __init__(self, message: str, *, sqlstate: str | None = None) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate


class AuthenticationError(StoreUnavailableError):
    """The database refused the user, the password or the database's name; trying again will not help."""


class OutcomeUnknownError(JobStoreError):
    """The connection broke while the transaction was being committed: it may have taken effect.

    Repeating the call is safe.
    """


class SchedulerStateError(QuartzpyError):
    """The scheduler's present state (not started, shut down, ...) does not allow the call."""


class InstanceIdInUseError(SchedulerStateError):
    """Another living node of this scheduler has the same instance id."""


class NodeUnhealthyError(SchedulerStateError):
    """A thread of this node cannot be kept alive: only a new process helps."""


class UnableToInterruptJobError(QuartzpyError):
    """The running job offers no way to interrupt it."""


class InvalidListenerError(InvalidValueError):
    """Not a listener, or one that was added already."""


class JobCancelledError(QuartzpyError):
    """Raised by `context.raise_if_cancelled()` in a job that was asked to stop."""


class PluginStartError(QuartzpyError):
    """A plugin cannot do its work, and the scheduler is not to start without it."""


class WaitTimeoutError(QuartzpyError, TimeoutError):
    """What a handle waited for did not come within its timeout."""


class JobTimeoutError(QuartzpyError):
    """What an execution failed with that took longer than its job's timeout."""


class LeaseLostError(QuartzpyError):
    """This node's epoch was declared dead: whatever this execution writes no longer counts."""


class JobExecutionError(QuartzpyError):
    """A job raises this to say that it failed and what the scheduler shall do about it.

    Meaning of the flags as in Quartz's JobExecutionException: `refire_immediately` runs the job again at
    once on the same worker; `unschedule_firing_trigger` ends the trigger that fired;
    `unschedule_all_triggers` ends all triggers of the job.
    """

    def __init__(
        self,
        message: str = "",
        *,
        refire_immediately: bool = False,
        unschedule_firing_trigger: bool = False,
        unschedule_all_triggers: bool = False,
    ) -> None:
        super().__init__(message)
        self.refire_immediately = refire_immediately
        self.unschedule_firing_trigger = unschedule_firing_trigger
        self.unschedule_all_triggers = unschedule_all_triggers


class RemoteJobError(QuartzpyError):
    """Stands for what a job raised in a process worker, where the original stays; `str()` is the original's.

    `error_type` is the dotted name of the original's class, `type_names` are all names of it and its bases: a retry
    policy decides by them as by the original. The original's traceback is a note of this error.
    """

    def __init__(self, message: str, *, error_type: str, type_names: frozenset[str]) -> None:
        super().__init__(message)
        self.error_type = error_type
        self.type_names = type_names


class RemoteJobExecutionError(RemoteJobError, JobExecutionError):
    """Stands for a `JobExecutionError`, and asks for the same; its cause stands for the original's."""

    def __init__(self, message: str, *, error_type: str, type_names: frozenset[str], **flags: bool) -> None:
        super().__init__(message, error_type=error_type, type_names=type_names)
        JobExecutionError.__init__(self, message, **flags)


class RemoteJobCancelledError(RemoteJobError, JobCancelledError):
    """Stands for a `JobCancelledError`."""


class WorkerDiedError(QuartzpyError):
    """The process of a process worker ended while it ran a job, or before it could.

    `exit_code` is below zero where a signal ended it, by the signal's number; None where nobody can tell.
    """

    def __init__(self, message: str, *, exit_code: int | None) -> None:
        super().__init__(message)
        self.exit_code = exit_code
