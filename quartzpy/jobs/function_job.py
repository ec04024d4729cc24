"""Jobs made of functions: `@job` registers any importable function, plain or `async def`, as a job type."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar, overload

from quartzpy.errors import InvalidJobDataError, InvalidJobTypeError
from quartzpy.instants import Span
from quartzpy.jobs.context import JobExecutionContext
from quartzpy.jobs.continuation import Continuation
from quartzpy.jobs.job import Job, JobDetail
from quartzpy.jobs.rate_limit import RateLimit
from quartzpy.jobs.retry import RetryPolicy
from quartzpy.keys import DEFAULT_GROUP, UNNAMED, JobKey
from quartzpy.main_module import import_path
from quartzpy.name_hints import FUNCTION_NAMES, OPTION_NAMES, NameHints, hint_of
from quartzpy.texts import quoted

ARGS, KWARGS = "args", "kwargs"
_OPTIONS = sorted({field.name for field in fields(JobDetail)} - {"job", "name", "group", "data"} | {"type_name"})
_NOT_OPTIONS: Mapping[str, str] = {
    **OPTION_NAMES,
    **dict.fromkeys(
        ("name", "group", "data", "args", "kwargs"), 'schedule_job(report, "0 0 2 * * ?", name="nightly", args=[...])'
    ),
    "id": 'schedule_job(report, "0 0 2 * * ?", name="nightly"); type_name="report" names the type in the database',
}
_P = ParamSpec("_P")
_R = TypeVar("_R")


class JobFunction(NameHints, Generic[_P, _R]):
    """A function that is also a job type. Calling it calls the function."""

    _name_hints = FUNCTION_NAMES

    def __init__(self, function: Callable[_P, _R], type_name: str | None, defaults: Mapping[str, Any]) -> None:
        update_wrapper(self, function)
        self.__name__ = function.__name__
        self._function = function
        self._signature = inspect.signature(function)
        self._defaults = defaults
        self._context_name = _context_parameter(function, self._signature)
        self._named = frozenset(
            name
            for name, parameter in self._signature.parameters.items()
            if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
            and name not in (self._context_name, ARGS, KWARGS)
        )
        self.job_class = self._new_class(type_name)
        """The subclass of `Job` that calls the function."""

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return self._function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<@job {self.job_class.type_name}>"

    def detail(
        self,
        name: str = UNNAMED,
        group: str = DEFAULT_GROUP,
        *,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        data: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> JobDetail:
        """Return a `JobDetail` that calls the function with these arguments, which must be JSON values like all data.

        `options` are those of `JobDetail` and override those of the decorator. A parameter that is annotated with
        `JobExecutionContext`, or named `context`, receives the execution's context. `data` is further job data: its
        items that are named like parameters are passed to the function, too. A trigger's data can add or override
        single arguments, or all of them: `{"region": "eu"}`, `{"kwargs": {...}}`.

        Raises:
            InvalidJobDataError: the function does not take such arguments.
        """
        if isinstance(args, str | bytes | Mapping) or not isinstance(args, Iterable):
            raise InvalidJobDataError(
                f"{self.job_class.type_name}: args: a list of arguments is needed, as args=['eu'] (got {quoted(args)})"
            )
        if kwargs is not None and not isinstance(kwargs, Mapping):
            raise InvalidJobDataError(
                f"{self.job_class.type_name}: kwargs: a dict of arguments is needed, as kwargs={{'region': 'eu'}}"
                f" (got {quoted(kwargs)})"
            )
        data = {**(data or {}), ARGS: list(args), KWARGS: dict(kwargs or {})}
        unknown = sorted(data.keys() - self._named - {ARGS, KWARGS}) if self._context_name is None else []
        if unknown:
            raise InvalidJobDataError(
                f"{self.job_class.type_name}{self._signature}: data has {', '.join(map(quoted, unknown))}, which is not"
                " a parameter; only a function that takes the context can read other data"
            )
        try:
            self._bound(data, None)
        except TypeError as error:
            raise InvalidJobDataError(f"{self.job_class.type_name}{self._signature}: {error}") from None
        return JobDetail(self.job_class, name, group, data=data, **{**self._defaults, **options})

    def _bound(self, data: Mapping[str, Any], context: JobExecutionContext | None) -> inspect.BoundArguments:
        kwargs = {**data.get(KWARGS, {}), **{name: data[name] for name in self._named if name in data}}
        if self._context_name is not None:
            kwargs[self._context_name] = context
        return self._signature.bind(*data.get(ARGS, ()), **kwargs)

    def _new_class(self, type_name: str | None) -> type[Job]:
        function, bound = self._function, self._bound

        if inspect.iscoroutinefunction(function):

            async def execute_async(self: Job, context: JobExecutionContext) -> Any:
                arguments = bound(context.job_data, context)
                return await function(*arguments.args, **arguments.kwargs)

            execute: Any = execute_async
        else:

            def execute_plain(self: Job, context: JobExecutionContext) -> Any:
                arguments = bound(context.job_data, context)
                return function(*arguments.args, **arguments.kwargs)

            execute = execute_plain
        body = {
            "__doc__": function.__doc__,
            "__module__": function.__module__,
            "__qualname__": function.__qualname__,
            "execute": execute,
        }
        return type(function.__name__, (Job,), body, type_name=type_name or import_path(function))


def _context_parameter(function: Callable[..., Any], signature: inspect.Signature) -> str | None:
    """Return the name of the parameter that receives the context, or None."""
    for name, parameter in signature.parameters.items():
        annotation = parameter.annotation
        if annotation is JobExecutionContext or str(annotation).split(".")[-1] == JobExecutionContext.__name__:
            return _keyword(function, parameter)
        if name == "context" and annotation in (inspect.Parameter.empty, Any, "Any"):
            return _keyword(function, parameter)
    return None


def _keyword(function: Callable[..., Any], parameter: inspect.Parameter) -> str:
    if parameter.kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL):
        raise InvalidJobTypeError(
            f"{function.__qualname__}: {parameter.name} is passed by name; it must not be positional"
        )
    return parameter.name


@overload
def job(function: Callable[_P, _R], /) -> JobFunction[_P, _R]: ...


@overload
def job(
    *,
    type_name: str | None = None,
    durable: bool = False,
    requests_recovery: bool = False,
    disallow_concurrent: bool | None = None,
    max_concurrent: int | None = None,
    overlap_policy: str = "block",
    concurrency_key: str | None = None,
    rate_limit: RateLimit | str | None = None,
    persist_data: bool | None = None,
    retry: RetryPolicy | None = None,
    timeout: Span | None = None,
    pause_after_failures: int | None = None,
    executor: str | None = None,
    execution_group: str | None = None,
    requires: Sequence[str] = (),
    continuations: Sequence[Continuation | JobKey | str] = (),
    description: str | None = None,
    display_name: str | None = None,
    documentation_url: str | None = None,
    capture_logs: str | int | None = None,
) -> Callable[[Callable[_P, _R]], JobFunction[_P, _R]]: ...


def job(
    function: Callable[_P, _R] | None = None, /, *, type_name: str | None = None, **defaults: Any
) -> JobFunction[_P, _R] | Callable[[Callable[_P, _R]], JobFunction[_P, _R]]:
    """Make a function a job type: `@job`, or `@job(retry=RetryPolicy(), max_concurrent=2)`.

    The function remains callable. `send.detail("send-7", args=[7])` is a `JobDetail` to schedule. `type_name` is stored
    instead of the import path; the other options are defaults for the function's `JobDetail`s.

    Raises:
        InvalidJobTypeError: the object is not a function of a module, so other processes could not import it; or it is
            a generator.
        InvalidJobError: an option has a wrong value.
    """

    for option in defaults:
        if option not in _OPTIONS:
            raise TypeError(f"job() has no argument {option!r}; {hint_of(option, _OPTIONS, _NOT_OPTIONS)}")
    if defaults:
        JobDetail("checked", "checked", **defaults)

    def made(function: Callable[_P, _R]) -> JobFunction[_P, _R]:
        if not inspect.isfunction(function):
            raise InvalidJobTypeError(f"@job: a function is needed (got {function!r})")
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise InvalidJobTypeError(
                f"@job: {function.__qualname__} is a generator: a call runs none of its code; remove the yield,"
                " or return a list"
            )
        if type_name is None and "<" in function.__qualname__:
            raise InvalidJobTypeError(
                f"@job: {function.__qualname__} cannot be found by other nodes; define it at the top of a module,"
                " or give it a type_name"
            )
        return JobFunction(function, type_name, defaults)

    return made if function is None else made(function)
