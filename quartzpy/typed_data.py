"""Typed job data: what is stored stays a mapping, from which a value of the job's `data_type` is built. Pure.

A data type is a dataclass, a class like pydantic's models (it has `model_validate` and `model_dump`), or any class with
a classmethod `from_job_data`. The last comes before the others: it is where a program reads older layouts.
"""

from __future__ import annotations

import dataclasses
import difflib
import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any

from quartzpy.errors import InvalidJobDataError, InvalidJobTypeError
from quartzpy.job_data import INTERNAL_KEYS

_READER = "from_job_data"


def checked_type(data_type: object, job: str) -> type[Any]:
    """`data_type` where it is one; `job` opens the error's message.

    Raises:
        InvalidJobTypeError: it is none.
    """
    reader = getattr(data_type, _READER, None)
    if isinstance(data_type, type):
        if reader is not None and not inspect.ismethod(reader):
            raise InvalidJobTypeError(f"{job}: data_type: {data_type.__qualname__}.{_READER} must be a classmethod")
        if reader is not None or _is_model(data_type) or dataclasses.is_dataclass(data_type):
            return data_type
    shown = data_type.__qualname__ if isinstance(data_type, type) else repr(data_type)
    raise InvalidJobTypeError(
        f"{job}: data_type: a dataclass, a pydantic model, or a class with a classmethod {_READER}(data)"
        f" is needed (got {shown})"
    )


def own_type(data: Any) -> type[Any] | None:
    """Return the type of a value that says itself what its fields are; None for a mapping, and for all others."""
    cls = type(data)
    if isinstance(data, Mapping | type):
        return None
    return cls if _is_model(cls) or dataclasses.is_dataclass(cls) else None


def as_mapping(data: Any, data_type: type[Any] | None) -> Any:
    """What is stored for `data`: the fields of a value of `data_type`, and a mapping as it is.

    Raises:
        InvalidJobDataError: there is a data type, and `data` is neither of it nor a mapping.
    """
    if data is None or data_type is None or isinstance(data, Mapping):
        return data
    if not isinstance(data, data_type):
        raise InvalidJobDataError(
            f"data: a {data_type.__qualname__} is needed, or a mapping (got {type(data).__qualname__})"
        )
    if _is_model(data_type):
        return data.model_dump()
    if not dataclasses.is_dataclass(data):
        raise InvalidJobDataError(f"data: give a mapping; a {data_type.__qualname__} does not say what its fields are")
    # Not those that the constructor does not take: the value is built from what is stored.
    return {field.name: getattr(data, field.name) for field in dataclasses.fields(data) if field.init}


def build(data_type: type[Any], data: Mapping[str, Any], of: str) -> Any:
    """The value of `data_type` for the data of a job with a trigger's over it; `of` opens the error's message.

    Raises:
        InvalidJobDataError: there is none: names are missing or unknown, or the type itself raised something.
    """
    given = _of_the_user(data)
    read = _reader(data_type)
    try:
        return data_type(**given) if read is None else read(given)
    except Exception as error:
        wrong = "" if read is not None else _wrong_names(data_type, given)
        if wrong:
            raise _refusal(data_type, of, wrong) from None
        raise _refusal(data_type, of, f"{type(error).__name__}: {error}") from error


def refuse_unknown(data_type: type[Any], data: Mapping[str, Any], of: str) -> None:
    """Check the data of a job alone, whose triggers may bring what is missing. Only a dataclass can be asked.

    Raises:
        InvalidJobDataError: it has names that the type does not have.
    """
    wrong = "" if _reader(data_type) is not None else _wrong_names(data_type, _of_the_user(data), may_lack=True)
    if wrong:
        raise _refusal(data_type, of, wrong)


def _of_the_user(data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name not in INTERNAL_KEYS}


def _is_model(data_type: type[Any]) -> bool:
    return all(callable(getattr(data_type, name, None)) for name in ("model_validate", "model_dump"))


def _reader(data_type: type[Any]) -> Callable[[dict[str, Any]], Any] | None:
    """What reads a mapping, and knows itself which names are right; None for a dataclass."""
    reader: Callable[[dict[str, Any]], Any] | None = getattr(data_type, _READER, None)
    if reader is None and _is_model(data_type):
        reader = data_type.model_validate
    return reader


def _wrong_names(data_type: type[Any], data: Mapping[str, Any], *, may_lack: bool = False) -> str:
    """What is wrong with the names in the data of a dataclass; empty: nothing.

    They are held against its constructor, which takes an `InitVar`, and does not take a field with `init=False`.
    """
    parameters = inspect.signature(data_type).parameters.values()
    named = [one for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    known = [one.name for one in named]
    missing = [one.name for one in named if one.default is one.empty and one.name not in data]
    unknown = [_with_hint(name, known) for name in data if name not in known]
    wrong = []
    if missing and not may_lack:
        wrong.append(f"missing: {', '.join(missing)}")
    if unknown and not any(one.kind is one.VAR_KEYWORD for one in parameters):
        wrong.append(f"unknown: {', '.join(unknown)}")
    return "; ".join(wrong)


def _with_hint(name: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known) or 'none'}"
    return f"{name!r} ({hint})"


def _refusal(data_type: type[Any], of: str, what: str) -> InvalidJobDataError:
    return InvalidJobDataError(f"{of}: the data makes no {data_type.__qualname__}: {what}")
