"""The arguments of function jobs: what is stored for a call, what is refused, and what the function receives."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

from quartzpy.errors import InvalidJobDataError, InvalidJobTypeError
from quartzpy.job_data import INTERNAL_KEYS
from quartzpy.jobs.context import JobExecutionContext
from quartzpy.jobs.typed_data import build, is_data_type, with_hint
from quartzpy.texts import quoted

ARGS, KWARGS = "args", "kwargs"
OF_CLASS = "_quartzpy_function_arguments"
"""The attribute of the class of a function job that holds the parameters of the function."""


class FunctionArguments:
    """The parameters of a function that is a job type.

    The data of the job is stored as `{"args": [...], "kwargs": {...}, ...}`. An entry of the data that is named like a
    parameter is the argument of that parameter, whatever `args` and `kwargs` say, so that the data of a trigger can
    override one argument. With a `data_type`, the data is a value of that type, and the parameter that is annotated
    with it receives the value.
    """

    def __init__(self, function: types.FunctionType, type_name: str, data_type: type[Any] | None) -> None:
        self._function = function
        self._type_name = type_name
        self._data_type = data_type
        self._signature = inspect.signature(function)
        parameters = self._signature.parameters
        self._context_name = _context_parameter(function, self._signature)
        self._named = {
            name: None
            for name, parameter in parameters.items()
            if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
            and name not in (self._context_name, ARGS, KWARGS)
        }
        self._positional = [
            name
            for name, parameter in parameters.items()
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        ]
        self._data_name = None if data_type is None else self._data_parameter(data_type)

    def _data_parameter(self, data_type: type[Any]) -> str | None:
        """Return the name of the parameter that receives the whole data; None if there is none."""
        data_name = next((name for name in self._named if self._annotation(name) is data_type), None)
        for name in self._named:
            if name != data_name and self._signature.parameters[name].default is inspect.Parameter.empty:
                raise InvalidJobTypeError(
                    f"@job: {self._label}: with data_type={data_type.__qualname__}, the function takes the whole data"
                    f" by one parameter, as def {self._function.__name__}(data: {data_type.__qualname__}), or reads it"
                    f" from context.data; nothing is passed for {name}"
                )
        return data_name

    @property
    def _label(self) -> str:
        return f"{self._type_name}{self._signature}"

    # --- what a call receives

    def bound(self, context: JobExecutionContext) -> inspect.BoundArguments:
        """Return the arguments of one execution."""
        if self._data_type is None:
            return self._bound(context.job_data, context)
        keywords: dict[str, Any] = {}
        if self._data_name is not None:
            keywords[self._data_name] = context.data
        if self._context_name is not None:
            keywords[self._context_name] = context
        return self._signature.bind(**keywords)

    def _bound(
        self, data: Mapping[str, Any], context: JobExecutionContext | None, *, partial: bool = False
    ) -> inspect.BoundArguments:
        by_name = {name: data[name] for name in self._named if name in data}
        args: Sequence[Any] = data.get(ARGS, ())
        if args and by_name:
            args = [by_name.pop(name, value) for name, value in zip(self._positional, args, strict=False)]
            args += data[ARGS][len(self._positional) :]
        keywords = {**data.get(KWARGS, {}), **by_name}
        if self._context_name is not None:
            keywords[self._context_name] = context
        bound = (self._signature.bind_partial if partial else self._signature.bind)(*args, **keywords)
        for name, data_type in self._data_types.items():
            value = bound.arguments.get(name)
            if isinstance(value, Mapping):
                bound.arguments[name] = build(data_type, value, f"{self._type_name}: {name}")
        return bound

    # --- what is stored, and what is refused

    def to_store(self, args: object, kwargs: object, data: Any, *, reads: str | None = None) -> Any:
        """Return the data to store for a call with these arguments; `reads` is as for `check`.

        Raises:
            InvalidJobDataError: the function does not take such arguments.
        """
        if isinstance(args, str | bytes | Mapping) or not isinstance(args, Iterable):
            raise InvalidJobDataError(
                f"{self._type_name}: args: a list of arguments is needed, as args=['eu'] (got {quoted(args)})"
            )
        if kwargs is not None and not isinstance(kwargs, Mapping):
            raise InvalidJobDataError(
                f"{self._type_name}: kwargs: a dict of arguments is needed, as kwargs={{'region': 'eu'}}"
                f" (got {quoted(kwargs)})"
            )
        positional, named = list(args), dict(kwargs or {})
        if self._data_type is not None:
            return self._whole_data(self._data_type, [*positional, *named.values()], data)
        mapping = self.as_mapping(data)
        twice = [name for name in self._positional[: len(positional)] if name in (mapping or {})]
        if twice:
            raise InvalidJobDataError(
                f"{self._label}: multiple values for argument {quoted(twice[0])}: one in args and one in data; give"
                " one of them"
            )
        stored = {**(mapping or {}), ARGS: positional, KWARGS: named}
        self.check(stored, reads=reads)
        return stored

    def _whole_data(self, data_type: type[Any], arguments: Sequence[Any], data: Any) -> Any:
        if not arguments:
            return data
        if data is None and len(arguments) == 1 and isinstance(arguments[0], data_type):
            return arguments[0]
        raise InvalidJobDataError(
            f"{self._label}: the job's data_type is {data_type.__qualname__}, so its arguments are given as"
            f" data={data_type.__qualname__}(...)"
        )

    def as_mapping(self, data: Any) -> Any:
        """Return job data as a mapping: a value is the argument of the only parameter that is annotated with its type.

        Raises:
            InvalidJobDataError: `data` is neither a mapping nor such a value.
        """
        if data is None or isinstance(data, Mapping):
            return data
        fitting = [name for name, data_type in self._data_types.items() if isinstance(data, data_type)]
        if len(fitting) == 1:
            return {fitting[0]: data}
        example = next(iter(self._named), "region")
        cls = type(data).__qualname__
        hint = f"; with @job(data_type={cls}), the data is a {cls}" if is_data_type(type(data)) else ""
        raise InvalidJobDataError(
            f"{self._label}: data: a mapping is needed, as data={{{example!r}: ...}} (got {quoted(data)}){hint}"
        )

    def check(
        self, data: Mapping[str, Any], of: str = "", *, is_complete: bool = True, reads: str | None = None
    ) -> None:
        """Check that the function can be called with job data. The error message begins with `of`.

        Without `is_complete`, arguments may be missing, because a trigger may provide them. `reads` is an entry that
        the scheduler itself reads, which need not be a parameter.

        Raises:
            InvalidJobDataError: it cannot.
        """
        label = f"{of}: {self._label}" if of else self._label
        self._refuse_unknown(data, label, reads)
        if not isinstance(data.get(ARGS, ()), Sequence) or not isinstance(data.get(KWARGS, {}), Mapping):
            raise InvalidJobDataError(f"{label}: data: args is a list of arguments, and kwargs is a dict of them")
        try:
            self._bound(data, None, partial=not is_complete)
        except TypeError as error:
            raise InvalidJobDataError(f"{label}: {error}") from None
        except InvalidJobDataError as error:
            raise InvalidJobDataError(f"{of}: {error}" if of else str(error)) from None

    def _refuse_unknown(self, data: Mapping[str, Any], label: str, reads: str | None) -> None:
        if self._context_name is not None:
            return
        unknown = sorted(data.keys() - self._named.keys() - {ARGS, KWARGS, reads} - INTERNAL_KEYS)
        if unknown:
            listed = ", ".join(with_hint(name, self._named) for name in unknown)
            raise InvalidJobDataError(
                f"{label}: data has {listed}, which is not a parameter; only a function that takes the context can read"
                " other data"
            )

    def described(self) -> tuple[tuple[str, ...] | None, frozenset[str], bool]:
        """Return the names of the arguments that data can give, those that it has to, and whether it may have others.

        The names are None if a parameter can only be given by its position.
        """
        if not set(self._positional) <= self._named.keys() | {self._context_name}:
            return None, frozenset(), True
        required = frozenset(
            name for name in self._named if self._signature.parameters[name].default is inspect.Parameter.empty
        )
        takes_others = self._context_name is not None or any(
            parameter.kind is parameter.VAR_KEYWORD for parameter in self._signature.parameters.values()
        )
        return tuple(self._named), required, takes_others

    @cached_property
    def _data_types(self) -> Mapping[str, type[Any]]:
        """The dataclasses and models with which parameters are annotated: a mapping is made a value of them."""
        return {
            name: annotation
            for name in (*self._named, *self._positional)
            if name != self._context_name and is_data_type(annotation := self._annotation(name))
        }

    def _annotation(self, name: str) -> Any:
        """Return the type that a parameter is annotated with, without None; Any where it cannot be read."""
        annotation = self._annotations.get(name, Any)
        if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
            choices = [choice for choice in typing.get_args(annotation) if choice is not type(None)]
            return choices[0] if len(choices) == 1 else Any
        return annotation

    @cached_property
    def _annotations(self) -> Mapping[str, Any]:
        annotations: dict[str, Any] = {}
        for name, annotation in self._function.__annotations__.items():
            # Each by itself: a name may be imported for type checkers only, or be defined after the function.
            with suppress(Exception):
                annotations |= typing.get_type_hints(
                    types.SimpleNamespace(__annotations__={name: annotation}), self._function.__globals__
                )
        return annotations


def arguments_of(job_class: type[Any] | None) -> FunctionArguments | None:
    """Return the parameters of the function that a job class calls; None if it is another class."""
    arguments: FunctionArguments | None = getattr(job_class, OF_CLASS, None)
    return arguments


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
