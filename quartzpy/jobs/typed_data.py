"""Typed job data: a mapping is stored, and an instance of the job's `data_type` is built from it.

A data type is a dataclass, a class like pydantic's models (it has `model_validate` and `model_dump`), or any class with
a classmethod `from_job_data`. If a class has that method, it takes precedence, because it may read older layouts.
"""

from __future__ import annotations

import dataclasses
import difflib
import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any

from quartzpy.errors import InvalidJobDataError, InvalidJobTypeError
from quartzpy.job_data import INTERNAL_KEYS, is_model

_READER = "from_job_data"


def checked_type(data_type: object, job: str) -> type[Any]:
    """Return `data_type` if it is a data type. The error message begins with `job`.

    Raises:
        InvalidJobTypeError: `data_type` is not a data type.
    """
    if isinstance(data_type, type):
        reader = getattr(data_type, _READER, None)
        if reader is not None and not inspect.ismethod(reader):
            raise InvalidJobTypeError(f"{job}: data_type: {data_type.__qualname__}.{_READER} must be a classmethod")
        if is_data_type(data_type):
            return data_type
    shown = data_type.__qualname__ if isinstance(data_type, type) else repr(data_type)
    raise InvalidJobTypeError(
        f"{job}: data_type must be a dataclass, a pydantic model, or a class with a classmethod {_READER}(data)"
        f" (got {shown})"
    )


def is_data_type(data_type: object) -> bool:
    """Return whether values of a type can be built from job data, and what it is called with is checked by it."""
    return isinstance(data_type, type) and (
        inspect.ismethod(getattr(data_type, _READER, None))
        or is_model(data_type)
        or dataclasses.is_dataclass(data_type)
    )


def reads_itself(data_type: type[Any]) -> bool:
    """Return whether a data type has a method of its own that reads job data, whose names nobody else knows."""
    return getattr(data_type, _READER, None) is not None


def own_type(data: Any) -> type[Any] | None:
    """Return the type of `data` if it is a dataclass instance or a pydantic model, otherwise None."""
    cls = type(data)
    if isinstance(data, Mapping | type):
        return None
    return cls if is_model(cls) or dataclasses.is_dataclass(cls) else None


def as_mapping(data: Any, data_type: type[Any] | None) -> Any:
    """Return the mapping to store for `data`: the fields of an instance of `data_type`, or `data` if it is a mapping.

    Raises:
        InvalidJobDataError: there is a data type, and `data` is neither an instance of it nor a mapping.
    """
    if data is None or data_type is None or isinstance(data, Mapping):
        return data
    if not isinstance(data, data_type):
        raise InvalidJobDataError(
            f"data: must be a {data_type.__qualname__} or a mapping (got {type(data).__qualname__})"
        )
    if is_model(data_type):
        return data.model_dump()
    if not dataclasses.is_dataclass(data):
        raise InvalidJobDataError(
            f"data: must be a mapping, because the fields of a {data_type.__qualname__} are not known"
        )
    # Fields that the constructor does not take are left out, because the value is rebuilt by the constructor.
    return {field.name: getattr(data, field.name) for field in dataclasses.fields(data) if field.init}


def build(data_type: type[Any], data: Mapping[str, Any], of: str) -> Any:
    """Return the instance of `data_type` for merged job data. The error message begins with `of`.

    Raises:
        InvalidJobDataError: names are missing or unknown, or the type itself raised an error.
    """
    own = _of_the_user(data)
    read = _reader(data_type)
    try:
        return data_type(**own) if read is None else read(own)
    except Exception as error:
        wrong = "" if read is not None else _wrong_names(data_type, own)
        if wrong:
            raise _refusal(data_type, of, wrong) from None
        raise _refusal(data_type, of, f"{type(error).__name__}: {error}") from error


def refuse_unknown(data_type: type[Any], data: Mapping[str, Any], of: str) -> None:
    """Check the data of a job without its triggers, which may add missing names. Only dataclasses can be checked.

    Raises:
        InvalidJobDataError: the data has names that the type does not have.
    """
    wrong = "" if _reader(data_type) is not None else _wrong_names(data_type, _of_the_user(data), may_lack=True)
    if wrong:
        raise _refusal(data_type, of, wrong)


def _of_the_user(data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name not in INTERNAL_KEYS}


def _reader(data_type: type[Any]) -> Callable[[dict[str, Any]], Any] | None:
    """Return the method that builds a value from a mapping and checks the names itself; None for a dataclass."""
    reader: Callable[[dict[str, Any]], Any] | None = getattr(data_type, _READER, None)
    if reader is None and is_model(data_type):
        reader = data_type.model_validate
    return reader


def _wrong_names(data_type: type[Any], data: Mapping[str, Any], *, may_lack: bool = False) -> str:
    """Describe the missing and unknown names in the data of a dataclass; empty if there are none.

    The names are compared with the parameters of the constructor, which takes an `InitVar` but not a field with
    `init=False`.
    """
    parameters = inspect.signature(data_type).parameters.values()
    named = [
        parameter
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    ]
    names = [parameter.name for parameter in named]
    missing = [
        parameter.name for parameter in named if parameter.default is parameter.empty and parameter.name not in data
    ]
    unknown = [with_hint(name, names) for name in data if name not in names]
    wrong = []
    if missing and not may_lack:
        wrong.append(f"missing: {', '.join(missing)}")
    if unknown and not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        wrong.append(f"unknown: {', '.join(unknown)}")
    return "; ".join(wrong)


def with_hint(name: str, names: Collection[str]) -> str:
    """Return an unknown name, quoted, with the name that was probably meant or all names."""
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(names) or 'none'}"
    return f"{name!r} ({hint})"


def _refusal(data_type: type[Any], of: str, what: str) -> InvalidJobDataError:
    return InvalidJobDataError(f"{of}: the data does not fit {data_type.__qualname__}: {what}")
