"""Jobs made of functions: `@job` registers any importable function, plain or `async def`, as a job type."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import update_wrapper
from types import FunctionType
from typing import Any, Generic, ParamSpec, TypeVar, Unpack, cast, overload

from quartzpy.errors import InvalidJobTypeError
from quartzpy.jobs.context import JobExecutionContext
from quartzpy.jobs.function_arguments import OF_CLASS, FunctionArguments
from quartzpy.jobs.job import Job, JobData, JobDetail, checked_entries, checked_flag, checked_former_names
from quartzpy.jobs.options import JobOptions
from quartzpy.jobs.typed_data import checked_type
from quartzpy.keys import DEFAULT_GROUP, UNNAMED
from quartzpy.main_module import import_path
from quartzpy.name_hints import FUNCTION_NAMES, OPTION_NAMES, NameHints, hint_of
from quartzpy.texts import quoted

DATA_TYPE, OPERATORS_SET, FORMER_NAMES = "data_type", "operators_set", "former_names"
_ON_ENGINES = ("may_repeat", "outlives_node")
_OF_TYPE = frozenset({DATA_TYPE, OPERATORS_SET, FORMER_NAMES, *_ON_ENGINES})
"""The options that are facts of the type, and no defaults of its jobs."""
_OPTIONS = sorted(
    {field.name for field in fields(JobDetail)} - {"job", "name", "group", "data"} | {"type_name"} | _OF_TYPE
)
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
        self._defaults = {name: value for name, value in defaults.items() if name not in _OF_TYPE}
        data_type = defaults.get(DATA_TYPE)
        if data_type is not None:
            checked_type(data_type, f"@job: {function.__qualname__}")
        operators_set = defaults.get(OPERATORS_SET)
        if operators_set is not None:
            checked_entries(operators_set, f"@job: {function.__qualname__}")
        self._former_names = checked_former_names(defaults.get(FORMER_NAMES, ()), f"@job: {function.__qualname__}")
        stored_name = type_name or import_path(function)
        self._arguments = FunctionArguments(cast(FunctionType, function), stored_name, data_type)
        self.job_class = self._new_class(stored_name, data_type, operators_set)
        for name in _ON_ENGINES:
            setattr(self.job_class, name, checked_flag(defaults.get(name, False), name, function.__qualname__))
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
        data: Mapping[str, Any] | JobData | None = None,
        **options: Unpack[JobOptions],
    ) -> JobDetail:
        """Return a `JobDetail` that calls the function with these arguments, which must be JSON values like all data.

        `options` are those of `JobDetail` and override those of the decorator. A parameter that is annotated with
        `JobExecutionContext`, or named `context`, receives the execution's context. `data` is further job data: its
        items that are named like parameters are passed to the function, too. A trigger's data can add or override
        single arguments, or all of them: `{"region": "eu"}`, `{"args": [...], "kwargs": {...}}`.

        A mapping for a parameter that is annotated with a dataclass or a pydantic model is made a value of it. `data`
        may be such a value itself, if one parameter is annotated with its type. With a `data_type`, `data` is a value
        of that type, or its mapping.

        Raises:
            InvalidJobDataError: the function does not take such arguments.
        """
        stored = self._arguments.to_store(args, kwargs, data, reads=options.get("concurrency_key"))
        return JobDetail(self.job_class, name, group, data=stored, **{**self._defaults, **options})

    def _new_class(self, type_name: str, data_type: type[Any] | None, operators_set: Sequence[str] | None) -> type[Job]:
        function, bound = self._function, self._arguments.bound

        if inspect.iscoroutinefunction(function):

            async def execute_async(self: Job, context: JobExecutionContext) -> Any:
                arguments = bound(context)
                return await function(*arguments.args, **arguments.kwargs)

            execute: Any = execute_async
        else:

            def execute_plain(self: Job, context: JobExecutionContext) -> Any:
                arguments = bound(context)
                return function(*arguments.args, **arguments.kwargs)

            execute = execute_plain
        body = {
            "__doc__": function.__doc__,
            "__module__": function.__module__,
            "__qualname__": function.__qualname__,
            "execute": execute,
            OF_CLASS: self._arguments,
        }
        return type(
            function.__name__,
            (Job,),
            body,
            type_name=type_name,
            data_type=data_type,
            operators_set=operators_set,
            former_names=self._former_names,
        )


@overload
def job(function: Callable[_P, _R], /) -> JobFunction[_P, _R]: ...


@overload
def job(
    *,
    type_name: str | None = None,
    data_type: type[Any] | None = None,
    operators_set: Sequence[str] | None = None,
    former_names: Sequence[str] = (),
    may_repeat: bool = False,
    outlives_node: bool = False,
    **defaults: Unpack[JobOptions],
) -> Callable[[Callable[_P, _R]], JobFunction[_P, _R]]: ...


def job(
    function: Callable[_P, _R] | None = None, /, *, type_name: str | None = None, **defaults: Any
) -> JobFunction[_P, _R] | Callable[[Callable[_P, _R]], JobFunction[_P, _R]]:
    """Make a function a job type: `@job`, or `@job(retry=RetryPolicy(), max_concurrent=2)`.

    The function remains callable. `send.detail("send-7", args=[7])` is a `JobDetail` to schedule. `type_name` is stored
    instead of the import path. `data_type` is the type of the job's data, as for `Job`: the parameter that is annotated
    with it receives the data, and `context.data` is the data as well. `operators_set` are the entries of the data that
    operators may set, as for `Job`. `former_names` are names under which jobs of it may be stored, because it was moved
    or renamed: ["old.module:report"]. `may_repeat` and `outlives_node` are those of `Job`. The other options are
    defaults for the function's `JobDetail`s.

    Raises:
        InvalidJobTypeError: the object is not a function of a module, so other processes could not import it; it is a
            generator; `data_type` is not a data type, or the function needs other arguments beside it.
        InvalidJobError: an option has a wrong value.
    """

    for option in defaults:
        if option not in _OPTIONS:
            raise TypeError(f"job() has no argument {option!r}; {hint_of(option, _OPTIONS, _NOT_OPTIONS)}")
    options = {name: value for name, value in defaults.items() if name not in _OF_TYPE}
    if options:
        JobDetail("checked", "checked", **options)

    def made(function: Callable[_P, _R]) -> JobFunction[_P, _R]:
        if not inspect.isfunction(function):
            raise InvalidJobTypeError(f"@job: a function is needed (got {quoted(function)})")
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
