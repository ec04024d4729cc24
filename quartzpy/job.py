"""What a user writes and registers: a `Job`, and the `JobDetail` that says how it is kept and run.

A database row never names code to import. It holds a job type's *registered name*, which is looked up among
the types that this process knows: defining a subclass of `Job` registers it.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from quartzpy.errors import (
    DuplicateJobTypeError,
    InvalidJobError,
    InvalidJobTypeError,
    InvalidValueError,
    UnknownJobTypeError,
)
from quartzpy.instants import Converted, Span, as_span
from quartzpy.job_data import encode
from quartzpy.keys import (
    DEFAULT_GROUP,
    MAIN,
    UNNAMED,
    JobKey,
    check_name,
    given_name,
    module_of,
)
from quartzpy.main_module import importable_name
from quartzpy.other_names import OPTION_NAMES
from quartzpy.placement import Placement
from quartzpy.retry import RetryPolicy
from quartzpy.states import WhenFull
from quartzpy.texts import check_description, quoted
from quartzpy.typed_data import as_mapping, checked_type, own_type

if TYPE_CHECKING:
    from quartzpy.context import JobExecutionContext

MAX_CONCURRENT = 10_000
_NOT_GIVEN: Any = object()
"""The default of values that a job's own False or "block" can be told from."""
DEFAULTABLE = (
    *("durable", "requests_recovery", "disallow_concurrent", "max_concurrent", "overlap_policy", "persist_data"),
    *("retry", "timeout", "executor", "execution_group", "requires"),
)
"""The values of a `JobDetail` for which a scheduler can have defaults (`job_defaults`)."""
_FALLBACKS = {"durable": False, "requests_recovery": False, "overlap_policy": WhenFull.BLOCK}
_ONE_LIMIT = frozenset({"disallow_concurrent", "max_concurrent"})

_JobType = TypeVar("_JobType", bound="type[Job]")


class JobTypes:
    """The job types that a process knows, by registered name."""

    def __init__(self) -> None:
        self._types: dict[str, type[Job]] = {}
        self._listeners: list[Callable[[str], None]] = []

    def subscribe(self, listener: Callable[[str], None]) -> None:
        """Call `listener` with the name of each type that is registered from now on, on the registering thread."""
        self._listeners.append(listener)

    def unsubscribe(self, listener: Callable[[str], None]) -> None:
        """Call `listener` no longer. One that is not subscribed is ignored."""
        if listener in self._listeners:
            self._listeners.remove(listener)

    def register(self, cls: type[Job], name: str) -> None:
        """Make `cls` findable as `name`.

        A class defined again under its own import path (a reloaded module) replaces the old one.

        Raises:
            DuplicateJobTypeError: another class has the name.
        """
        known = self._types.get(name)
        if known is not None and import_path(known) != import_path(cls):
            raise DuplicateJobTypeError(
                f"job type {name!r} is already {known.__module__}.{known.__qualname__}; names are unique in a process"
            )
        self._types[name] = cls
        for listener in list(self._listeners):
            listener(name)

    def names(self) -> list[str]:
        """Return the registered names of all job types."""
        return sorted(self._types)

    def find(self, name: str) -> type[Job]:
        """The class registered as `name`.

        Raises:
            UnknownJobTypeError: none is.
        """
        try:
            return self._types[name]
        except KeyError:
            raise UnknownJobTypeError(
                f"job type {name!r} is not registered in this process; import the module that defines it,"
                " or allow its import with job_modules="
            ) from None

    def data_type(self, job: type[Job] | str) -> type[Any] | None:
        """The type of a job's data; None: it has none, or the job is a name that nothing here is registered as."""
        cls = self._types.get(job) if isinstance(job, str) else job
        return None if cls is None else cls.data_type

    def load(self, name: str, allowed_modules: tuple[str, ...]) -> bool:
        """Import the module of a type that is not known yet, where its module is allowed; say whether it is known."""
        if name in self._types:
            return True
        module, colon, _ = name.partition(":")
        if not colon or not any(module == m or module.startswith(f"{m}.") for m in allowed_modules):
            return False
        importlib.import_module(module)
        return name in self._types


job_types = JobTypes()
"""The types of this process."""


def import_path(cls: type | Callable[..., Any]) -> str:
    """Return the name by which another process can import a class or a function: "package.module:Name".

    The module stays "__main__" where the program has no name by which it can be imported; see `importable_name`.
    """
    module = module_of(cls)
    if module == MAIN:
        module = importable_name(cls.__module__)
    return f"{module}:{cls.__qualname__}"


class Job(ABC):
    """Work to be done at a trigger's fire times. Subclass it and write `execute`, plain or `async def`.

    Each execution has a new instance. `class Report(Job, type_name="report")` gives a stable name to store
    instead of the import path, so that the class can be moved or renamed. `class Report(Job, data_type=ReportData)`
    says what `context.data` is: a dataclass, a pydantic model, or a class with a classmethod `from_job_data(data)`.
    Subclasses inherit it.
    """

    type_name: ClassVar[str]
    data_type: ClassVar[type[Any] | None] = None
    disallows_concurrent_execution: ClassVar[bool] = False
    persists_job_data: ClassVar[bool] = False

    def __init_subclass__(cls, type_name: str | None = None, data_type: type[Any] | None = None, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        if data_type is not None:
            cls.data_type = checked_type(data_type, cls.__qualname__)
        if type_name is not None:
            check_name(type_name, "job type name")
        cls.type_name = type_name or import_path(cls)
        is_abstract = cls.execute is Job.execute
        if not is_abstract and "<" not in cls.type_name:
            job_types.register(cls, cls.type_name)

    @abstractmethod
    def execute(self, context: JobExecutionContext) -> Any:
        """Do the work. What it returns becomes `context.result`; whatever it raises ends this execution only."""


def disallow_concurrent_execution(cls: _JobType) -> _JobType:
    """No two executions of one `JobDetail` of this class overlap, in the whole cluster."""
    cls.disallows_concurrent_execution = True
    return cls


def persist_job_data_after_execution(cls: _JobType) -> _JobType:
    """Changes that an execution makes to `context.job_detail_data` are stored for the next one."""
    cls.persists_job_data = True
    return cls


def job_type_of(job: object) -> str:
    """The registered name to store for a job class (or such a name itself).

    Raises:
        InvalidJobTypeError: not a job class, or one that other processes could not find.
    """
    if isinstance(job, str):
        return check_name(job, "job type name")
    if not (isinstance(job, type) and issubclass(job, Job)):
        shown = job.__name__ if isinstance(job, type) else repr(job)
        hint = ""
        if inspect.isfunction(job) and job.__name__.isidentifier():
            shown = f"function {job.__name__}"
            hint = f'; schedule_job takes functions, and job({job.__name__}).detail("name") is a JobDetail'
        raise InvalidJobTypeError(f"job: a subclass of Job is needed (got {shown}){hint}")
    if inspect.isabstract(job) or not callable(job.execute):
        raise InvalidJobTypeError(f"{job.__qualname__}: execute(context) is missing")
    if "<" in job.type_name:
        raise InvalidJobTypeError(
            f"{job.__qualname__}: a class defined inside a function cannot be found by other nodes;"
            " define it at the top of a module, or give it a type_name"
        )
    try:
        inspect.signature(job.execute).bind(None, None)
    except TypeError:
        raise InvalidJobTypeError(
            f"{job.__qualname__}.execute must take one argument, the context (has {inspect.signature(job.execute)})"
        ) from None
    return job.type_name


@dataclass(frozen=True)
class JobDetail:
    """A job as it is stored: what runs, with which data, under which rules.

    `data`: a mapping, or a value of the class's `data_type`, of which the mapping of its fields is kept.
    `durable`: kept when its last trigger goes. `requests_recovery`: run again if its node dies while running
    it. `disallow_concurrent` and `persist_data` default to what the class's decorators say. `max_concurrent`: at
    most so many executions at once in the whole cluster; `disallow_concurrent` is a limit of 1. `overlap_policy`:
    what a
    fire does when as many run; see `WhenFull`. `retry`: when a failed execution is tried again. `timeout`: an execution
    that takes longer is asked to stop, and has failed.

    Where it runs: `executor` names the worker pool (a setting of the nodes; None is the default one),
    `execution_group` the group whose limit on each node it counts against, `requires` the labels that a node must have.
    Nodes that cannot run it leave it to the others.
    """

    job: type[Job] | str
    name: str = UNNAMED
    group: str = DEFAULT_GROUP
    description: str | None = field(default=None, kw_only=True)
    data: Mapping[str, Any] | Any | None = field(default=None, kw_only=True, hash=False)
    durable: bool = field(default=_NOT_GIVEN, kw_only=True)
    requests_recovery: bool = field(default=_NOT_GIVEN, kw_only=True)
    disallow_concurrent: bool | None = field(default=None, kw_only=True)
    max_concurrent: int | None = field(default=None, kw_only=True)
    overlap_policy: str = field(default=_NOT_GIVEN, kw_only=True)
    persist_data: bool | None = field(default=None, kw_only=True)
    retry: RetryPolicy | None = field(default=None, kw_only=True)
    executor: str | None = field(default=None, kw_only=True)
    execution_group: str | None = field(default=None, kw_only=True)
    requires: Sequence[str] = field(default=(), kw_only=True)
    _: KW_ONLY
    timeout: Converted[Span | None, timedelta | None] = Converted(None)

    def __post_init__(self) -> None:
        """Check all values.

        Raises:
            InvalidJobTypeError, InvalidKeyError, InvalidJobDataError, InvalidJobError: a value is wrong.
        """
        given = object.__setattr__
        given(self, "_given", frozenset(name for name in DEFAULTABLE if self._says(name)))
        for name, value in _FALLBACKS.items():
            if getattr(self, name) is _NOT_GIVEN:
                given(self, name, value)
        job_type_of(self.job)
        given(self, "name", given_name(self.name, "job name"))
        check_name(self.group, "job group")
        check_description(self.description, InvalidJobError)
        given(self, "data", as_mapping(self.data, self._data_type()))
        encode(self.data)
        cls = self.job if isinstance(self.job, type) else None
        self._check_limits()
        if self.disallow_concurrent is None:
            by_class = bool(cls and cls.disallows_concurrent_execution and self.max_concurrent is None)
            given(self, "disallow_concurrent", by_class or self.max_concurrent == 1)
        if self.persist_data is None:
            given(self, "persist_data", bool(cls and cls.persists_job_data))
        for flag in ("durable", "requests_recovery", "disallow_concurrent", "persist_data"):
            if type(getattr(self, flag)) is not bool:
                raise InvalidJobError(f"{flag}: must be True or False (got {getattr(self, flag)!r})")
        if self.disallow_concurrent:
            given(self, "max_concurrent", 1)
        placement = Placement.of(self.executor, self.execution_group, self.requires)
        given(self, "executor", placement.executor or None)
        given(self, "requires", placement.requires)

    def _says(self, name: str) -> bool:
        value = getattr(self, name)
        return value is not _NOT_GIVEN and value is not None and not (name == "requires" and not value)

    def _data_type(self) -> type[Any] | None:
        # A job that is given by its name is checked when it is stored, by the scheduler's own registry.
        return self.job.data_type if isinstance(self.job, type) else own_type(self.data)

    def _check_limits(self) -> None:
        limit = self.max_concurrent
        if limit is not None and (type(limit) is not int or not 1 <= limit <= MAX_CONCURRENT):
            raise InvalidJobError(f"max_concurrent: a number from 1 to {MAX_CONCURRENT}, or None (got {limit!r})")
        if (self.disallow_concurrent is True and limit not in (None, 1)) or (
            self.disallow_concurrent is False and limit == 1
        ):
            raise InvalidJobError(
                f"max_concurrent={limit} contradicts disallow_concurrent={self.disallow_concurrent}; give one"
                " of them (detail.with_values(max_concurrent=...) changes both)"
            )
        if self.overlap_policy not in list(WhenFull):
            raise InvalidJobError(f"overlap_policy: {', '.join(WhenFull)} (got {self.overlap_policy!r})")
        object.__setattr__(self, "overlap_policy", WhenFull(self.overlap_policy))
        if self.retry is not None and not isinstance(self.retry, RetryPolicy):
            raise InvalidJobError(f"retry: a RetryPolicy, or None (got {self.retry!r})")
        if self.timeout is not None:
            object.__setattr__(self, "timeout", as_span(self.timeout, "timeout", InvalidJobError, above_zero=True))

    @property
    def key(self) -> JobKey:
        """The key: name and group."""
        return JobKey(self.name, self.group)

    @property
    def placement(self) -> Placement:
        """Where it may run."""
        return Placement(self.executor or "", self.execution_group or "", tuple(self.requires))

    def with_defaults(self, defaults: Mapping[str, Any]) -> JobDetail:
        """This job with a scheduler's defaults for the values that it does not give itself.

        The rule is: what the class's decorators say, over it the scheduler's defaults, over these the values that were
        passed to `JobDetail`. None counts as not given.
        """
        said: frozenset[str] = self._given  # type: ignore[attr-defined]
        taken = said | _ONE_LIMIT if said & _ONE_LIMIT else said
        missing = {name: value for name, value in defaults.items() if name not in taken}
        if not missing:
            return self
        changed = self.with_values(missing)
        object.__setattr__(changed, "_given", said)
        return changed

    def with_values(self, changes: Mapping[str, Any]) -> JobDetail:
        """This job with other values; its key stays.

        Raises:
            InvalidJobError: a name that there is not, or a wrong value.
        """
        known = sorted({one.name for one in fields(self)} - {"name", "group"})
        for name in changes:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
                hint = f"hint: {OPTION_NAMES[name]}" if name in OPTION_NAMES else hint
                raise InvalidJobError(f"{name!r} is no value of a job that can be changed; {hint}")
        # The two say one thing: whichever is given decides.
        limits: dict[str, Any] = {}
        if "max_concurrent" in changes:
            limits = {"disallow_concurrent": None}
        elif "disallow_concurrent" in changes:
            limits = {"max_concurrent": None}
        return replace(self, **{**limits, **changes})

    @property
    def job_type(self) -> str:
        """The registered name that is stored."""
        return job_type_of(self.job)


def checked_defaults(defaults: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a scheduler's defaults for jobs, checked.

    Raises:
        InvalidJobError: a name that cannot have a default, or a wrong value.
    """
    if defaults is None:
        return {}
    if not isinstance(defaults, Mapping):
        raise InvalidJobError(f"job_defaults: a mapping of values of JobDetail is needed (got {quoted(defaults)})")
    for name in defaults:
        if name not in DEFAULTABLE:
            near = difflib.get_close_matches(str(name), DEFAULTABLE, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(DEFAULTABLE)}"
            raise InvalidJobError(f"job_defaults: {quoted(name)} cannot have a default; {hint}")
    try:
        JobDetail("job-defaults", "job-defaults", **defaults)
    except InvalidValueError as error:
        raise InvalidJobError(f"job_defaults: {error}") from error
    return dict(defaults)
