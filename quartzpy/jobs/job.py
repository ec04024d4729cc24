"""Jobs: the class to extend, the detail that is stored, the types that a process knows, and how instances are made."""

from __future__ import annotations

import importlib
import inspect
import sys
import typing
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from datetime import timedelta
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol, TypeAlias, TypeVar, cast
from urllib.parse import urlsplit

from quartzpy.checks import Check, check_values, checking, optional, refuses, whole_number
from quartzpy.errors import (
    DuplicateJobTypeError,
    InvalidJobError,
    InvalidJobTypeError,
    InvalidKeyError,
    InvalidValueError,
    UnknownJobTypeError,
)
from quartzpy.expect import Expect
from quartzpy.instants import Converted, Span, as_span
from quartzpy.job_data import encode
from quartzpy.jobs.continuation import Continuation, as_continuations, continuations_as_text
from quartzpy.jobs.join import Join, as_join, join_as_text
from quartzpy.jobs.rate_limit import RateLimit
from quartzpy.jobs.retry import RetryPolicy
from quartzpy.jobs.shared_limit import checked_limits, names_as_text
from quartzpy.jobs.typed_data import as_mapping, checked_type, own_type
from quartzpy.keys import DEFAULT_GROUP, UNNAMED, JobKey, check_name, unique_name
from quartzpy.logs.captured import checked_level
from quartzpy.main_module import import_path
from quartzpy.name_hints import OPTION_NAMES, NameHints, constructor_hints
from quartzpy.placement import ANYWHERE, Placement
from quartzpy.states import OverlapPolicy
from quartzpy.texts import check_description, did_you_mean, quoted

if TYPE_CHECKING:
    from quartzpy.config.config import SchedulerConfig
    from quartzpy.jobs.context import JobExecutionContext

MAX_CONCURRENT = 10_000
MAX_FAILURES = 1_000_000
MAX_URL_LENGTH = 2_000
_NOT_GIVEN: Any = object()
"""Default values that are distinguishable from an explicit False or "block"."""
DEFAULTABLE = (
    *("durable", "requests_recovery", "disallow_concurrent", "max_concurrent", "overlap_policy", "persist_data"),
    *("rate_limit", "retry", "timeout", "pause_after_failures", "executor", "execution_group", "requires"),
    *("capture_logs", "expect"),
)
"""The values of a `JobDetail` for which a scheduler can define defaults (`job_defaults`)."""
_FALLBACKS = {"durable": False, "requests_recovery": False, "overlap_policy": OverlapPolicy.BLOCK}
_ONE_LIMIT = frozenset({"disallow_concurrent", "max_concurrent"})

OverlapPolicyName: TypeAlias = OverlapPolicy | Literal["block", "skip", "buffer_one", "cancel_other"]
"""An overlap policy, or its name."""


class _DataclassValue(Protocol):
    __dataclass_fields__: ClassVar[dict[str, Any]]


class _ModelValue(Protocol):
    def model_dump(self) -> dict[str, Any]: ...


JobData: TypeAlias = _DataclassValue | _ModelValue
"""A value of a job's `data_type` whose fields are known: a dataclass, or a model such as pydantic's."""

_JobType = TypeVar("_JobType", bound="type[Job]")


class JobTypes:
    """The job types that a process knows, by registered name."""

    def __init__(self) -> None:
        self._types: dict[str, type[Job]] = {}
        self._listeners: list[Callable[[str], None]] = []

    def subscribe(self, listener: Callable[[str], None]) -> None:
        """Call `listener` with the name of each type that is registered from now on, in the registering thread."""
        self._listeners.append(listener)

    def unsubscribe(self, listener: Callable[[str], None]) -> None:
        """Remove `listener`; do nothing if it is not subscribed."""
        if listener in self._listeners:
            self._listeners.remove(listener)

    def register(self, cls: type[Job], name: str) -> None:
        """Register `cls` under `name`.

        A class that is defined again under its own import path (a reloaded module) replaces the earlier one.

        Raises:
            DuplicateJobTypeError: another class has the name.
        """
        registered = self._types.get(name)
        if registered is not None and import_path(registered) != import_path(cls):
            raise DuplicateJobTypeError(
                f"job type {name!r} is already {registered.__module__}.{registered.__qualname__};"
                " names are unique in a process"
            )
        self._types[name] = cls
        for listener in list(self._listeners):
            listener(name)

    def names(self) -> list[str]:
        """Return the registered names of all job types."""
        return sorted(self._types)

    def __contains__(self, name: str) -> bool:
        """Return True if a job type is registered under the name."""
        return name in self._types

    def find(self, name: str) -> type[Job]:
        """Return the class that is registered as `name`.

        Raises:
            UnknownJobTypeError: no class is registered under the name.
        """
        self.load(name, ())
        try:
            return self._types[name]
        except KeyError:
            raise UnknownJobTypeError(
                f"job type {name!r} is not registered in this process; import the module that defines it,"
                f" or allow its import with job_modules=; {if_moved(name)}"
            ) from None

    def allows(self, name: str, settings: SchedulerConfig) -> bool:
        """Return whether nodes with these settings run a type: it is registered, and allowed if it has to be."""
        if name not in self:
            return False
        allowed_by = self.find(name).allowed_by
        return allowed_by is None or bool(getattr(settings, allowed_by))

    def allowed_names(self, settings: SchedulerConfig) -> list[str]:
        """Return the registered names of the job types that nodes with these settings run."""
        return [name for name in self.names() if self.allows(name, settings)]

    def data_type(self, job: type[Job] | str) -> type[Any] | None:
        """Return the type of a job's data; None if it has none, or if the name is not registered in this process."""
        cls = self.class_of(job)
        return None if cls is None else cls.data_type

    def class_of(self, job: type[Job] | str) -> type[Job] | None:
        """Return the class of a job; None if its name is not registered in this process."""
        if not isinstance(job, str):
            return job
        self.load(job, ())
        return self._types.get(job)

    def load(self, name: str, allowed_modules: tuple[str, ...]) -> bool:
        """Import the module of an unknown type if its module is allowed; return True if the type is known then.

        A type that was moved is known by its former name as well, where the module of that name has it still.
        """
        if name in self._types:
            return True
        if name in INCLUDED:
            importlib.import_module(INCLUDED[name].module)
            return name in self._types
        module, colon, place = name.partition(":")
        if not colon:
            return False
        if any(module == m or module.startswith(f"{m}.") for m in allowed_modules):
            importlib.import_module(module)
        if name not in self._types and (moved := self._at(module, place)) is not None:
            self.register(moved, name)
        return name in self._types

    def _at(self, module: str, place: str) -> type[Job] | None:
        """Return the registered class that an imported module has at a place, defined there or not; None if none."""
        value: object = sys.modules.get(module)
        for part in place.split("."):
            # Not by getattr, which may run code of the module.
            value = getattr(value, "__dict__", {}).get(part)
        cls = value if isinstance(value, type) else getattr(value, "__dict__", {}).get("job_class")
        if not isinstance(cls, type) or not issubclass(cls, Job):
            return None
        return cls if self._types.get(getattr(cls, "type_name", "")) is cls else None


job_types = JobTypes()
"""The job types of this process."""


class IncludedType(NamedTuple):
    """A job type of quartzpy itself, which does what the data of its jobs say as far as a node's settings allow it."""

    module: str
    setting: str


INCLUDED = {
    "quartzpy.CommandJob": IncludedType("quartzpy.jobs.command", "commands"),
    "quartzpy.HttpJob": IncludedType("quartzpy.jobs.http", "http_hosts"),
    "quartzpy.Notification": IncludedType("quartzpy.operations.telling.delivery", "notify_channels"),
}
"""The included types by name. Their modules are imported when they are needed."""


CELERY_TASK = "quartzpy.CeleryTask"
"""The type of the jobs that send Celery tasks, which `quartzpy.ext.celery` registers."""


def run_by_no_node(job_type: str) -> str:
    """Return the sentence, without its end, that no running node publishes a job type."""
    verb = "allows jobs of the type" if job_type in INCLUDED else "knows the job type"
    return f"No running node {verb} {job_type!r}"


def if_moved(job_type: str) -> str:
    """Return what to do if a job type is known under another name since it was moved or renamed."""
    return f"if it was moved or renamed, give it former_names=[{job_type!r}]"


def how_to_know(job_type: str) -> str:
    """Return what makes a node know a job type, or allows it, as the beginning of a sentence."""
    if job_type in INCLUDED:
        return f"Set {INCLUDED[job_type].setting} on the nodes that may run it"
    if job_type == CELERY_TASK:
        return "Import quartzpy.ext.celery in the program of a node, and call its use_app(app)"
    return f"Import its module on a node, or start a node that does; {if_moved(job_type)}"


def load_allowed(types: JobTypes, settings: SchedulerConfig) -> None:
    """Import the modules of the included job types that these settings allow."""
    for name, included in INCLUDED.items():
        if getattr(settings, included.setting):
            types.load(name, ())


class Job(ABC):
    """A unit of work, run at a trigger's fire times. Subclass it and define `execute`, plain or `async def`.

    Each execution uses a new instance. `class Report(Job, type_name="report")` stores a stable name instead of the
    import path, so that the class can be moved or renamed. `class Report(Job, data_type=ReportData)` sets the type of
    `context.data`: a dataclass, a pydantic model, or a class with a classmethod `from_job_data(data)`.
    `class Report(Job, operators_set=["region"])` names the entries of the data that operators may set when they run
    such a job by hand: the others are left to those who may define jobs. Subclasses inherit both.

    Of a job that runs on an engine such as Dask, `may_repeat = True` in the class says that it does no harm to run it
    twice, and `outlives_node = True` that it goes on when its node ends.

    `class Report(Job, former_names=["old.module:Report"])` was moved or renamed: jobs that are stored under a former
    name run, too.
    """

    type_name: ClassVar[str]
    data_type: ClassVar[type[Any] | None] = None
    disallows_concurrent_execution: ClassVar[bool] = False
    persists_job_data: ClassVar[bool] = False
    captures_logs: ClassVar[str | None] = None
    """The value of `capture_logs` for jobs of this class that have none."""
    allowed_by: ClassVar[str | None] = None
    """The setting without which a node leaves jobs of this class to other nodes; None for classes that all run."""
    operators_set: ClassVar[tuple[str, ...] | None] = None
    """The entries of the data that operators may set when they run a job by hand; None for all entries."""
    may_repeat: ClassVar[bool] = False
    """True if it does no harm that an engine runs an execution of this class twice, so that it takes no ticket."""
    outlives_node: ClassVar[bool] = False
    """True if an execution on an engine goes on when its node ends: another node adopts it."""

    def __init_subclass__(
        cls,
        type_name: str | None = None,
        data_type: type[Any] | None = None,
        operators_set: Sequence[str] | None = None,
        former_names: Sequence[str] = (),
        **rest: Any,
    ) -> None:
        super().__init_subclass__(**rest)
        names = checked_former_names(former_names, cls.__qualname__)
        if data_type is not None:
            cls.data_type = checked_type(data_type, cls.__qualname__)
        if operators_set is not None:
            cls.operators_set = checked_entries(operators_set, cls.__qualname__)
        if type_name is not None:
            check_name(type_name, "job type name")
        cls.type_name = type_name or import_path(cls)
        is_abstract = cls.execute is Job.execute
        if not is_abstract and "<" not in cls.type_name:
            for name in (cls.type_name, *names):
                job_types.register(cls, name)

    @abstractmethod
    def execute(self, context: JobExecutionContext) -> Any:
        """Do the work. The return value becomes `context.result`; an exception ends this execution only."""


def checked_former_names(names: object, of: str) -> tuple[str, ...]:
    """Return the former names of a job type. The error message begins with `of`.

    Raises:
        InvalidJobTypeError: this is not a sequence of names.
    """
    if isinstance(names, str) or not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise InvalidJobTypeError(
            f'{of}: former_names is a sequence of names, such as ["old.module:report"] (got {quoted(names)})'
        )
    return tuple(check_name(name, "former name of a job type") for name in names)


def checked_flag(value: object, name: str, of: str) -> bool:
    """Return a flag of a job type. The error message begins with `of`.

    Raises:
        InvalidJobTypeError: this is no flag.
    """
    if not isinstance(value, bool):
        raise InvalidJobTypeError(f"{of}: {name} must be True or False (got {quoted(value)})")
    return value


def checked_entries(names: object, of: str) -> tuple[str, ...]:
    """Return the names of entries of job data. The error message begins with `of`.

    Raises:
        InvalidJobTypeError: this is not a sequence of names.
    """
    if isinstance(names, str) or not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise InvalidJobTypeError(
            f'{of}: operators_set is a sequence of names, such as ["region"] (got {quoted(names)})'
        )
    return tuple(names)


def disallow_concurrent_execution(cls: _JobType) -> _JobType:
    """Prevent executions of one `JobDetail` of this class from overlapping, in the whole cluster."""
    cls.disallows_concurrent_execution = True
    return cls


def persist_job_data_after_execution(cls: _JobType) -> _JobType:
    """Store the changes that an execution makes to `context.job_detail_data`, for the next execution."""
    cls.persists_job_data = True
    return cls


def job_type_of(job: object) -> str:
    """Return the registered name to store for a job class, or for such a name itself.

    Raises:
        InvalidJobTypeError: `job` is not a job class, or other processes could not import it.
    """
    if isinstance(job, str):
        return check_name(job, "job type name")
    if not (isinstance(job, type) and issubclass(job, Job)):
        shown = job.__name__ if isinstance(job, type) else repr(job)
        hint = ""
        if inspect.isfunction(job) and job.__name__.isidentifier():
            shown = f"function {job.__name__}"
            hint = f'; schedule_job takes functions, and job({job.__name__}).detail("name") is a JobDetail'
        elif isinstance(job, JobDetail):
            hint = "; it is a JobDetail already"
        elif callable(getattr(job, "detail", None)):
            hint = f'; schedule_job takes it, and {getattr(job, "__name__", "it")}.detail("name") is a JobDetail'
        raise InvalidJobTypeError(f"job: a subclass of Job is needed (got {shown}){hint}")
    if inspect.isabstract(job) or not callable(job.execute):
        raise InvalidJobTypeError(f"{job.__qualname__}: execute(context) is missing")
    if "<" in job.type_name:
        raise InvalidJobTypeError(
            f"{job.__qualname__}: a class defined inside a function cannot be found by other nodes;"
            " define it at the top of a module, or give it a type_name"
        )
    execute = job.execute
    takes_context = _takes_context if inspect.isfunction(execute) else _takes_context.__wrapped__
    if not takes_context(execute):
        raise InvalidJobTypeError(
            f"{job.__qualname__}.execute must take one argument, the context (has {inspect.signature(execute)})"
        )
    return job.type_name


@lru_cache(maxsize=1_024)
def _takes_context(execute: Callable[..., Any]) -> bool:
    """Return whether a function can be called with a job and its context. The answer is remembered."""
    try:
        inspect.signature(execute).bind(None, None)
    except TypeError:
        return False
    return True


def _check_url(url: object) -> None:
    """Raise InvalidJobError unless it is the address of a page that browsers can be sent to."""
    if not isinstance(url, str):
        raise InvalidJobError(f"documentation_url: must be str (got {type(url).__name__})")
    if len(url) > MAX_URL_LENGTH:
        raise InvalidJobError(f"documentation_url: {len(url)} characters, at most {MAX_URL_LENGTH}")
    if not url.isprintable() or " " in url:
        raise InvalidJobError(
            f"documentation_url: spaces and control characters must be written as %20 and the like (got {quoted(url)})"
        )
    try:
        parts = urlsplit(url)
        is_page = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError as error:
        raise InvalidJobError(f"documentation_url: {quoted(url)} cannot be read: {error}") from error
    if not is_page:
        raise InvalidJobError(
            "documentation_url: an address with http:// or https:// and a host is needed, such as"
            f" 'https://wiki.example.com/nightly' (got {quoted(url)})"
        )
    if "@" in parts.netloc:
        raise InvalidJobError(
            "documentation_url: give the address without a user name and a password; all who see the job see it"
        )


class _Derived(NameHints):
    """What a `JobDetail` derives from its values when it is made. These are no fields of it."""

    _quartz_sections = ("Job, JobDetail, JobBuilder",)

    key: JobKey
    """The job's key: name and group."""
    job_type: str
    """The registered name of the job's type, as it is stored."""
    placement: Placement
    """The requirements that a node must meet to run the job."""
    has_unique_name: bool
    """True if the job was made without a name, so that its name differs each time the program makes it."""
    _given: frozenset[str]
    """Which of the values that can have defaults were passed to it."""


@constructor_hints(OPTION_NAMES)
@dataclass(frozen=True)
class JobDetail(_Derived):
    """A job as it is stored: its type, its data and its rules.

    - `data`: a mapping, or a value of the class's `data_type`, which is stored as the mapping of its fields.
    - `durable`: the job is kept when its last trigger is deleted.
    - `requests_recovery`: an execution runs again if its node dies during it.
    - `disallow_concurrent`, `persist_data`: default to the decorators of the class.
    - `max_concurrent`: the limit of simultaneous executions in the whole cluster; `disallow_concurrent` is a limit of
      1. `overlap_policy` decides about a fire at the limit; see `OverlapPolicy`.
    - `concurrency_key`: names an entry of the data. The limit (1 if none is given) then holds for each value of that
      entry by itself, and triggers without the entry share one limit. The value is read when the trigger or the job is
      stored.
    - `rate_limit`: the limit of fires in a period in the whole cluster: "10/minute", or a `RateLimit`. A fire above it
      waits. With a `concurrency_key` it holds for each value of that entry by itself, and `max_concurrent` is no limit
      unless it is given.
    - `limits`: the names of limits that it shares with other jobs, in the whole cluster, and a rate of its own:
      ["erp", "10/minute"]. Each that has a name is set by `Scheduler.set_limit`, and can be changed at any time. The
      rate is that of `rate_limit`. A fire that would exceed one of them waits.
    - `retry`: when a failed execution is tried again.
    - `timeout`: an execution that takes longer is asked to stop, and counts as failed.
    - `continuations`: the jobs that run after this one; see `Continuation`.
    - `after`: the jobs that this one runs after, when all of them have ended: a sequence of them, or a `Join`, which
      says how many are needed. The job is durable then, because no trigger of its own keeps it.
    - `display_name`: the name that people see, such as "Nightly report"; it need not be unique, and the key remains the
      identity. `description` is a longer text.
    - `documentation_url`: the address of a page about the job, "https://wiki.example.com/nightly", that operators find
      beside its name.
    - `capture_logs`: the level ("INFO") from which on the log lines of each execution are kept with its record in the
      history; see `Scheduler.execution_log`. True means "INFO"; "OFF" or False overrides a default of the scheduler.
    - `expect`: by when the fires of its triggers start and end, how long they run, and how many succeed; see `Expect`.
    - `pause_after_failures`: the triggers of the job's schedule are paused once this number of executions in a row have
      failed. An execution that is retried does not count before its last attempt has failed.

    Placement: `executor` names the worker pool (a setting of the nodes; None is the default pool), `execution_group` is
    the group whose limit on each node applies, and `requires` are the labels that a node must have. Nodes that cannot
    run the job leave it to others.
    """

    _checks: ClassVar[Mapping[str, Check]] = {
        "description": checking(check_description, InvalidJobError),
        "display_name": optional(partial(check_name, subject="display_name")),
        "documentation_url": optional(checking(lambda url: _check_url(url))),
        "capture_logs": optional(partial(checked_level, error=InvalidJobError)),
        "concurrency_key": optional(
            partial(check_name, subject="concurrency_key (the name of an entry of the job's data)")
        ),
        "rate_limit": optional(RateLimit.of),
        "limits": checked_limits,
        "max_concurrent": optional(
            whole_number(
                1, MAX_CONCURRENT, f"max_concurrent: a number from 1 to {MAX_CONCURRENT}, or None", InvalidJobError
            )
        ),
        "pause_after_failures": optional(
            whole_number(
                1, MAX_FAILURES, f"pause_after_failures: a number from 1 to {MAX_FAILURES}, or None", InvalidJobError
            )
        ),
        "overlap_policy": lambda policy: _overlap_policy(policy),
        "retry": optional(lambda retry: _retry(retry)),
        "timeout": optional(partial(as_span, subject="timeout", error=InvalidJobError, above_zero=True)),
        "durable": lambda flag: _flag(flag, "durable"),
        "requests_recovery": lambda flag: _flag(flag, "requests_recovery"),
        "disallow_concurrent": lambda flag: _flag(flag, "disallow_concurrent"),
        "persist_data": lambda flag: _flag(flag, "persist_data"),
        "expect": optional(Expect.of),
        "continuations": as_continuations,
        "after": optional(as_join),
        "requires": lambda labels: Placement.of(None, None, labels).requires,
        "executor": optional(lambda name: _place_name(name, "executor")),
        "execution_group": optional(lambda name: _place_name(name, "execution_group")),
    }

    job: type[Job] | str
    name: str = UNNAMED
    group: str = DEFAULT_GROUP
    description: str | None = field(default=None, kw_only=True)
    data: Converted[Mapping[str, Any] | JobData | None, Mapping[str, Any] | None] = field(
        default=cast(Any, None), kw_only=True, hash=False
    )
    durable: bool = field(default=_NOT_GIVEN, kw_only=True)
    requests_recovery: bool = field(default=_NOT_GIVEN, kw_only=True)
    disallow_concurrent: bool | None = field(default=None, kw_only=True)
    max_concurrent: int | None = field(default=None, kw_only=True)
    overlap_policy: OverlapPolicyName = field(default=_NOT_GIVEN, kw_only=True)
    concurrency_key: str | None = field(default=None, kw_only=True)
    persist_data: bool | None = field(default=None, kw_only=True)
    retry: RetryPolicy | None = field(default=None, kw_only=True)
    executor: str | None = field(default=None, kw_only=True)
    execution_group: str | None = field(default=None, kw_only=True)
    requires: Sequence[str] = field(default=(), kw_only=True)
    _: KW_ONLY
    continuations: Converted[Sequence[Continuation | JobKey | str], tuple[Continuation, ...]] = Converted(())
    after: Converted[Join | Sequence[JobKey | str] | None, Join | None] = Converted(None)
    timeout: Converted[Span | None, timedelta | None] = Converted(None)
    rate_limit: Converted[RateLimit | str | None, RateLimit | None] = Converted(None)
    limits: Converted[Sequence[str | RateLimit] | str, tuple[str, ...]] = Converted(())
    pause_after_failures: int | None = None
    display_name: str | None = None
    documentation_url: str | None = None
    capture_logs: Converted[str | int | None, str | None] = Converted(None)
    expect: Converted[Expect | Mapping[str, Any] | None, Expect | None] = Converted(None)

    def __post_init__(self) -> None:
        """Check all values.

        Raises:
            InvalidJobTypeError, InvalidKeyError, InvalidJobDataError, InvalidJobError: a value is wrong.
        """
        assign = object.__setattr__
        assign(self, "_given", frozenset(name for name in DEFAULTABLE if self._says(name)))
        for name, value in _FALLBACKS.items():
            if getattr(self, name) is _NOT_GIVEN:
                assign(self, name, value)
        assign(self, "has_unique_name", self.name is UNNAMED)
        assign(self, "job_type", job_type_of(self.job))
        assign(self, "name", unique_name() if self.has_unique_name else self.name)
        assign(self, "key", JobKey(self.name, self.group))
        if self.capture_logs is None and isinstance(self.job, type):
            assign(self, "capture_logs", self.job.captures_logs)
        check_values(self)

    @refuses("data", "job")
    def _take_data(self) -> None:
        if self.data is not None:
            if not isinstance(self.data, Mapping):
                # A job that is given by name is validated when it is stored, with the scheduler's own registry.
                data_type = self.job.data_type if isinstance(self.job, type) else own_type(self.data)
                object.__setattr__(self, "data", as_mapping(self.data, data_type))
            encode(self.data)

    @refuses("limits", "rate_limit")
    def _take_rate_of_limits(self) -> None:
        rates = {limit for limit in cast("tuple[object, ...]", self.limits) if isinstance(limit, RateLimit)}
        if not rates:
            return
        if self.rate_limit is not None:
            rates.add(self.rate_limit)
        if len(rates) > 1:
            shown = ", ".join(sorted(map(str, rates)))
            raise InvalidJobError(
                f"limits: a job has one rate of its own (got {shown}); set a limit for the other, as"
                " scheduler.set_limit('its_rate', '10/minute') does, and add its name"
            )
        object.__setattr__(self, "limits", tuple(limit for limit in self.limits if isinstance(limit, str)))
        object.__setattr__(self, "rate_limit", rates.pop())

    @refuses("concurrency_key", "max_concurrent", "rate_limit", "disallow_concurrent")
    def _limit_by_key(self) -> None:
        if self.concurrency_key is not None and self.max_concurrent is None and self.rate_limit is None:
            if self.disallow_concurrent is False:
                raise InvalidJobError(
                    f"concurrency_key={self.concurrency_key!r} needs a limit; give max_concurrent"
                    " (not disallow_concurrent=False)"
                )
            object.__setattr__(self, "max_concurrent", 1)

    @refuses("max_concurrent", "disallow_concurrent")
    def _derive_limit(self) -> None:
        limit, flag = self.max_concurrent, self.disallow_concurrent
        if (flag is True and limit not in (None, 1)) or (flag is False and limit == 1):
            # Usually dataclasses.replace() has changed one of the two, which express the same limit.
            raise InvalidJobError(
                f"max_concurrent={limit} contradicts disallow_concurrent={flag}, because"
                f" disallow_concurrent=True is a limit of 1; give one of them and set the other to None, as"
                f" detail.with_values({{'max_concurrent': {limit}}}) and"
                f" detail.with_values({{'disallow_concurrent': {flag}}}) do"
            )
        if flag is None:
            by_class = isinstance(self.job, type) and self.job.disallows_concurrent_execution and limit is None
            flag = by_class or limit == 1
            object.__setattr__(self, "disallow_concurrent", flag)
        if flag:
            object.__setattr__(self, "max_concurrent", 1)

    @refuses("persist_data", "job")
    def _derive_persistence(self) -> None:
        if self.persist_data is None:
            object.__setattr__(self, "persist_data", isinstance(self.job, type) and self.job.persists_job_data)

    @refuses("after", "expect")
    def _follow_others(self) -> None:
        if self.after is None:
            return
        object.__setattr__(self, "durable", True)
        if self.key in as_join(self.after).keys:
            raise InvalidJobError(f"after: job {self.key} cannot run after itself; give it a continuation instead")

    @refuses("expect", "after")
    def _expect_after_others(self) -> None:
        if self.after is not None and isinstance(self.expect, Expect):
            self.expect.check_after_others(self.key)

    @refuses("requires", "executor", "execution_group")
    def _place(self) -> None:
        is_placed = (self.executor, self.execution_group, self.requires) != (None, None, ())
        placement = Placement.of(self.executor, self.execution_group, self.requires) if is_placed else ANYWHERE
        assign = object.__setattr__
        assign(self, "placement", placement)
        assign(self, "executor", placement.executor or None)
        assign(self, "requires", placement.requires)

    def _says(self, name: str) -> bool:
        value = getattr(self, name)
        return value is not _NOT_GIVEN and value is not None and not (name == "requires" and not value)

    @property
    def continuations_text(self) -> str | None:
        """The continuations as JSON, as they are stored; None where there are none."""
        return continuations_as_text(self.continuations) if self.continuations else None

    @property
    def limits_text(self) -> str | None:
        """The names of the limits that it shares, as they are stored; None where there are none."""
        return names_as_text(self.limits)

    @property
    def after_text(self) -> str | None:
        """The jobs that it runs after as JSON, as they are stored; None where there are none."""
        return join_as_text(as_join(self.after)) if self.after is not None else None

    def with_defaults(self, defaults: Mapping[str, Any]) -> JobDetail:
        """Return this job with a scheduler's defaults for values that were not passed to it.

        In order of precedence: values that were passed to `JobDetail`, the scheduler's defaults, the decorators of the
        class. None counts as not passed.
        """
        said = self._given
        taken = said | _ONE_LIMIT if said & _ONE_LIMIT else said
        missing = {name: value for name, value in defaults.items() if name not in taken}
        if not missing:
            return self
        changed = self.with_values(missing)
        object.__setattr__(changed, "_given", said)
        return changed

    def with_values(self, changes: Mapping[str, Any]) -> JobDetail:
        """Return this job with other values; its key does not change.

        Raises:
            InvalidJobError: a value is wrong, or a name is not that of a value that can be changed.
        """
        names = sorted({value.name for value in fields(self)} - {"name", "group"})
        for name in changes:
            if name not in names:
                hint = f"hint: {OPTION_NAMES[name]}" if name in OPTION_NAMES else did_you_mean(name, names, "names")
                raise InvalidJobError(f"{name!r} is not a value of a job that can be changed; {hint}")
        # Both values express one limit, so the one that is given determines the other.
        limits: dict[str, Any] = {}
        if "max_concurrent" in changes:
            limits = {"disallow_concurrent": None}
        elif "disallow_concurrent" in changes:
            limits = {"max_concurrent": None}
        if any(isinstance(limit, RateLimit) for limit in checked_limits(changes.get("limits", ()))):
            limits["rate_limit"] = None
        return replace(self, **{**limits, **changes})


def _flag(value: object, name: str) -> bool:
    if type(value) is not bool:
        raise InvalidJobError(f"{name}: must be True or False (got {quoted(value)})")
    return value


def _overlap_policy(value: Any) -> OverlapPolicy:
    if value not in list(OverlapPolicy):
        raise InvalidJobError(f"overlap_policy: {', '.join(OverlapPolicy)} (got {quoted(value)})")
    return OverlapPolicy(value)


def _retry(value: object) -> RetryPolicy:
    if not isinstance(value, RetryPolicy):
        raise InvalidJobError(
            f"retry: a RetryPolicy is needed, as RetryPolicy(attempts=5), or None (got {quoted(value)})"
        )
    return value


def _place_name(value: object, subject: str) -> str:
    try:
        return check_name(value, subject)
    except InvalidKeyError as error:
        raise InvalidJobError(str(error)) from None


def checked_defaults(defaults: Mapping[str, Any] | None) -> dict[str, Any]:
    """Validate and return a scheduler's defaults for jobs.

    Raises:
        InvalidJobError: a value is wrong, or a name cannot have a default.
    """
    if defaults is None:
        return {}
    if not isinstance(defaults, Mapping):
        raise InvalidJobError(f"job_defaults: a mapping of values of JobDetail is needed (got {quoted(defaults)})")
    for name in defaults:
        if name not in DEFAULTABLE:
            hint = did_you_mean(str(name), DEFAULTABLE, "names")
            raise InvalidJobError(f"job_defaults: {quoted(name)} cannot have a default; {hint}")
    try:
        JobDetail("job-defaults", "job-defaults", **defaults)
    except InvalidValueError as error:
        raise InvalidJobError(f"job_defaults: {error}") from error
    return dict(defaults)


class NoOpJob(Job, type_name="quartzpy.NoOpJob"):
    """Does nothing (Quartz's `NoOpJob`): for triggers whose listeners do the work, and for testing schedules."""

    def execute(self, context: JobExecutionContext) -> None:
        return None


JobFactory = Callable[[type[Job]], Job]
"""Creates a new instance. If it raises, all triggers of the job go to ERROR, as in Quartz."""


def new_instance(job_class: type[Job]) -> Job:
    """Create an instance without arguments: the default factory."""
    return job_class()


class InjectingJobFactory:
    """Injects constructor parameters by annotation: `InjectingJobFactory({Engine: engine, Mailer: make_mailer})`.

    A value of the mapping is passed as it is; a function without parameters is called for each instance. A parameter
    that has a default and no provider keeps its default.
    """

    def __init__(self, providers: Mapping[type, Any]) -> None:
        self._providers = dict(providers)

    def __call__(self, job_class: type[Job]) -> Job:
        """Create a new instance.

        Raises:
            InvalidJobTypeError: A parameter has neither a provider nor a default.
        """
        if job_class.__init__ is object.__init__:
            return job_class()
        hints = typing.get_type_hints(job_class.__init__)
        arguments: dict[str, Any] = {}
        for name, parameter in list(inspect.signature(job_class.__init__).parameters.items())[1:]:
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                continue
            wanted = hints.get(name)
            if wanted in self._providers:
                provider = self._providers[wanted]
                is_function = inspect.isfunction(provider) or inspect.ismethod(provider) or inspect.isclass(provider)
                arguments[name] = provider() if is_function else provider
            elif parameter.default is parameter.empty:
                raise InvalidJobTypeError(
                    f"{job_class.__qualname__}: no provider for {name}: {getattr(wanted, '__name__', wanted)}"
                )
        return job_class(**arguments)
