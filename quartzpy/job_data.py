"""Job data: plain JSON with a few tagged types, so that a row can be read with SQL and nothing is unpickled.

What JSON lacks is written as an object with one key that starts with "$": `{"$datetime": "..."}`,
`{"$decimal": "1.50"}`, `{"$uuid": ...}`, `{"$bytes": <base64>}`, `{"$date"|"$time"|"$timedelta": ...}`. A float
that a database would give back as a whole number is `{"$float": "1e+22"}`, and a path is `{"$path": "/srv/in.csv"}`.
An enum member, a dataclass or a model (a class with `model_validate` and `model_dump`, like pydantic's) is written as
its name and values, `{"$enum": ["module:Class", "NAME"]}`, and read back only where its class is already imported: data
never imports a module.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any
from uuid import UUID

from quartzpy.errors import InvalidJobDataError
from quartzpy.keys import module_of
from quartzpy.name_hints import NameHints
from quartzpy.texts import quoted, reason

_ORIGINAL = "QRTZ_FAILED_JOB_ORIG_TRIGGER_"
ORIGINAL_NAME = f"{_ORIGINAL}NAME"
ORIGINAL_GROUP = f"{_ORIGINAL}GROUP"
ORIGINAL_FIRE_TIME = f"{_ORIGINAL}FIRETIME_IN_MILLISECONDS_AS_STRING"
ORIGINAL_SCHEDULED_FIRE_TIME = f"{_ORIGINAL}SCHEDULED_FIRETIME_IN_MILLISECONDS_AS_STRING"
RETRIED_NAME = "QRTZ_RETRIED_TRIGGER_NAME"
RETRIED_GROUP = "QRTZ_RETRIED_TRIGGER_GROUP"
RETRIED_SCHEDULED_FIRE_TIME = "QRTZ_RETRIED_SCHEDULED_FIRETIME_IN_MILLISECONDS_AS_STRING"
PREDECESSOR_NAME = "QRTZ_PREDECESSOR_JOB_NAME"
PREDECESSOR_GROUP = "QRTZ_PREDECESSOR_JOB_GROUP"
PREDECESSOR_FIRE_ID = "QRTZ_PREDECESSOR_FIRE_ID"
PREDECESSOR_OUTCOME = "QRTZ_PREDECESSOR_OUTCOME"
PREDECESSOR_RESULT = "QRTZ_PREDECESSOR_RESULT"
NOMINAL_FIRE_TIME = "QRTZ_NOMINAL_FIRE_TIME"
JOINED = "QRTZ_JOINED"
BATCH = "QRTZ_BATCH"
TRACE_PARENT = "QRTZ_TRACE_PARENT"
TRACE_STATE = "QRTZ_TRACE_STATE"
TRIGGERED_BY = "QRTZ_TRIGGERED_BY"
INTERNAL_KEYS = frozenset(
    (
        ORIGINAL_NAME,
        ORIGINAL_GROUP,
        ORIGINAL_FIRE_TIME,
        ORIGINAL_SCHEDULED_FIRE_TIME,
        RETRIED_NAME,
        RETRIED_GROUP,
        RETRIED_SCHEDULED_FIRE_TIME,
        PREDECESSOR_NAME,
        PREDECESSOR_GROUP,
        PREDECESSOR_FIRE_ID,
        PREDECESSOR_OUTCOME,
        PREDECESSOR_RESULT,
        NOMINAL_FIRE_TIME,
        JOINED,
        BATCH,
        TRACE_PARENT,
        TRACE_STATE,
        TRIGGERED_BY,
    )
)
"""The internal keys in the data of triggers: of those that run a job again or after others, of batches, of runs by
hand, and of traces.

The names of those of recoveries are Quartz's."""

MAX_DEPTH = 32
MAX_BYTES = 1_048_576
"""The largest size of job data in bytes that any setting allows."""
_MAX_STORED = 4 * MAX_BYTES
"""The largest stored data in characters that is parsed; databases may return JSON with additional blanks."""
_MAX_BITS = 14_283
"""The largest integer in bits: Python parses no more than 4,300 digits."""
_WHOLE_IN_A_DATABASE = 1e16
"""From this value on, PostgreSQL's jsonb returns floats without a fraction."""
_MAX_KEY_SHOWN = 40

_Budget = list[int]
"""A list of one item, the number of bytes that are left. It bounds data that refers to one object many times."""


def _class_name(cls: type) -> str:
    if "<locals>" in cls.__qualname__:
        raise InvalidJobDataError(f"{cls.__qualname__}: a local class cannot be stored in job data")
    return f"{module_of(cls)}:{cls.__qualname__}"


def _stored_class(cls: type, path: str) -> str:
    """Return the name of a class by which it is read back."""
    name = _class_name(cls)
    try:
        _class_named(name)
    except InvalidJobDataError:
        # A parametrized generic model, for example, is not an attribute of its module.
        raise InvalidJobDataError(
            f"{path}: {cls.__qualname__} is not a class of a module, so it cannot be read back"
        ) from None
    return name


def _class_named(name: str) -> type:
    module, _, path = name.partition(":")
    cls: Any = sys.modules.get(module)
    for part in path.split("."):
        cls = getattr(cls, part, None)
    # A class is found only by its own name, not through a module that merely imported it.
    if not isinstance(cls, type) or _class_name(cls) != name:
        raise InvalidJobDataError(f"data holds a value of {quoted(name)}, which is not imported in this process")
    return cls


def _enum_of(value: Any, depth: int) -> Enum:
    name, member = value
    cls = _class_named(name)
    if not issubclass(cls, Enum):
        raise InvalidJobDataError(f"data holds {quoted(name)} as an enum, but it is not an enum")
    return cls[member]


def _dataclass_of(value: Any, depth: int) -> Any:
    name, values = value
    cls = _class_named(name)
    if not dataclasses.is_dataclass(cls):
        raise InvalidJobDataError(f"data holds {quoted(name)} as a dataclass, but it is not a dataclass")
    return cls(**{key: _decoded(item, depth + 1) for key, item in values.items()})


def is_model(cls: type[Any]) -> bool:
    """Return whether a class is a model, like pydantic's: it has `model_validate` and `model_dump`."""
    return all(callable(getattr(cls, name, None)) for name in ("model_validate", "model_dump"))


def _model_of(value: Any, depth: int) -> Any:
    name, values = value
    cls: Any = _class_named(name)
    if not is_model(cls):
        raise InvalidJobDataError(f"data holds {quoted(name)} as a model, but it is not a model")
    return cls.model_validate({key: _decoded(item, depth + 1) for key, item in values.items()})


def _tuple_of(value: Any, depth: int) -> tuple[Any, ...]:
    if type(value) is not list:
        raise TypeError("the items of a tuple must be a list")
    return tuple(_decoded(item, depth + 1) for item in value)


def _timedelta_of(value: Any, depth: int) -> timedelta:
    if type(value) is not int:
        raise TypeError("a timedelta must be whole microseconds")
    return timedelta(microseconds=value)


def _of_text(read: Callable[[str], Any]) -> Callable[[Any, int], Any]:
    def reader(value: Any, depth: int) -> Any:
        if type(value) is not str:
            raise TypeError(f"must be a string (got {type(value).__name__})")
        return read(value)

    return reader


_READERS: dict[str, Callable[[Any, int], Any]] = {
    "$datetime": _of_text(datetime.fromisoformat),
    "$date": _of_text(date.fromisoformat),
    "$time": _of_text(time.fromisoformat),
    "$timedelta": _timedelta_of,
    "$float": _of_text(float),
    "$decimal": _of_text(Decimal),
    "$uuid": _of_text(UUID),
    "$path": _of_text(Path),
    "$bytes": _of_text(lambda value: base64.b64decode(value, validate=True)),
    "$tuple": _tuple_of,
    "$enum": _enum_of,
    "$dataclass": _dataclass_of,
    "$model": _model_of,
    "$object": lambda value, depth: {key: _decoded(item, depth + 1) for key, item in value.items()},
}


_OF_CLASSES = ("$enum", "$dataclass", "$model")


def values_of_classes(written: Any, place: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the places in the JSON of job data at which values of a program's classes stand.

    Whoever reads them calls the constructors of these classes.
    """
    if isinstance(written, dict):
        if len(written) == 1:
            [(tag, content)] = written.items()
            if tag in _OF_CLASSES:
                yield place
                return
            if tag == "$object" and isinstance(content, dict):
                # The entries of a plain mapping whose only key looks like a tag.
                written, place = content, (*place, tag)
        for key, item in written.items():
            yield from values_of_classes(item, (*place, key))
    elif isinstance(written, list):
        for number, item in enumerate(written):
            yield from values_of_classes(item, (*place, number))


def _tagged(value: Any, path: str, depth: int, budget: _Budget) -> Any:
    """Return the tagged JSON of a value of a type that JSON lacks."""
    match value:
        case Enum():
            return {"$enum": [_class_name(type(value)), value.name]}
        case datetime():
            if value.tzinfo is None:
                raise InvalidJobDataError(f"{path}: a datetime needs a time zone (got {value})")
            try:
                return {"$datetime": value.astimezone(UTC).isoformat()}
            except OverflowError:
                raise InvalidJobDataError(f"{path}: {value} is not within the years 1 to 9999 in UTC") from None
        case date():
            return {"$date": value.isoformat()}
        case time():
            if value.tzinfo is not None and value.utcoffset() is None:
                raise InvalidJobDataError(
                    f"{path}: the zone of a time without a date has no offset (got {quoted(value)})"
                )
            return {"$time": value.isoformat()}
        case timedelta():
            return {"$timedelta": value // timedelta(microseconds=1)}
        case Decimal():
            return {"$decimal": str(value)}
        case UUID():
            return {"$uuid": str(value)}
        case Path():
            return {"$path": str(value)}
        case bytes():
            return {"$bytes": base64.b64encode(value).decode()}
        case tuple():
            return {"$tuple": [_encoded(item, f"{path}[{n}]", depth + 1, budget) for n, item in enumerate(value)]}
    if is_model(type(value)):
        values = {
            name: _encoded(item, f"{path}.{name}", depth + 1, budget) for name, item in value.model_dump().items()
        }
        return {"$model": [_stored_class(type(value), path), values]}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        # Fields that the constructor does not take are left out, because the value is rebuilt by the constructor.
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.init}
        encoded = {name: _encoded(item, f"{path}.{name}", depth + 1, budget) for name, item in fields.items()}
        return {"$dataclass": [_class_name(type(value)), encoded]}
    number = _plain_number(value)
    if number is not None:
        return _encoded(number, path, depth, budget)
    raise InvalidJobDataError(
        f"{path}: {type(value).__name__} cannot be stored; use JSON values, datetime, date, time, timedelta,"
        " Decimal, UUID, bytes, Path, an enum, a dataclass or a pydantic model"
    )


def _plain_number(value: Any) -> Any:
    """Return the number of Python that a scalar of numpy is; None for another value."""
    if getattr(value, "ndim", None) != 0 or not hasattr(value, "dtype"):
        return None
    number = value.item()
    return number if type(number) in (bool, int, float, str) else None


def _float(value: float, path: str) -> Any:
    if not math.isfinite(value):
        raise InvalidJobDataError(f"{path}: {value} is not a JSON number")
    if abs(value) >= _WHOLE_IN_A_DATABASE or (value == 0 and math.copysign(1, value) < 0):
        return {"$float": repr(value)}
    return value


def _encoded(value: Any, path: str, depth: int, budget: _Budget) -> Any:
    if depth > MAX_DEPTH:
        raise InvalidJobDataError(f"{path}: nested deeper than {MAX_DEPTH}, or refers to itself")
    kind = type(value)
    budget[0] -= len(value) if kind is str else 1
    if budget[0] < 0:
        raise InvalidJobDataError(
            f"{path}: with this the data has more than {MAX_BYTES} bytes, which no setting allows"
        )
    if kind is str:
        if "\0" in value:
            raise InvalidJobDataError(f"{path}: the NUL character cannot be stored")
        return value
    if kind is float:
        return _float(value, path)
    if kind is int:
        if value.bit_length() > _MAX_BITS:
            raise InvalidJobDataError(f"{path}: a whole number of more than 4,300 digits cannot be stored")
        return value
    if kind is bool or value is None:
        return value
    if isinstance(value, Mapping):
        result = {}
        for key, item in value.items():
            if type(key) is not str:
                raise InvalidJobDataError(f"{path}: keys must be str (got {quoted(key)})")
            if "\0" in key:
                raise InvalidJobDataError(f"{path}: the NUL character cannot be stored in a key")
            budget[0] -= len(key)
            result[key] = _encoded(item, f"{path}{_place(key)}", depth + 1, budget)
        looks_tagged = len(result) == 1 and next(iter(result)).startswith("$")
        return {"$object": result} if looks_tagged else result
    if kind is list:
        return [_encoded(item, f"{path}[{n}]", depth + 1, budget) for n, item in enumerate(value)]
    return _tagged(value, path, depth, budget)


def _place(key: str) -> str:
    # Truncated, because the path of each nested value contains it again.
    return f"[{key!r}]" if len(key) <= _MAX_KEY_SHOWN else f"[{key[:_MAX_KEY_SHOWN]!r}...]"


def _decoded(value: Any, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise InvalidJobDataError(f"data is nested deeper than {MAX_DEPTH}")
    if isinstance(value, dict):
        if len(value) == 1:
            [(tag, content)] = value.items()
            if tag.startswith("$"):
                if (read := _READERS.get(tag)) is None:
                    raise InvalidJobDataError(f"data has a value of the unknown kind {quoted(tag)}")
                return read(content, depth)
        return {key: _decoded(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_decoded(item, depth + 1) for item in value]
    return value


def encode(data: Mapping[str, Any] | None, *, max_bytes: int | None = None) -> str | None:
    """Return the JSON text of job data; None if there is no data.

    Raises:
        InvalidJobDataError: a value cannot be stored (the message gives its path), or the data is too large.
    """
    if not data:
        if data is not None and not isinstance(data, Mapping):
            raise InvalidJobDataError(f"data: must be a mapping (got {type(data).__name__})")
        return None
    if not isinstance(data, Mapping):
        raise InvalidJobDataError(f"data: must be a mapping (got {type(data).__name__})")
    encoded = {}
    budget = [MAX_BYTES]
    with _writing("data"):
        for key, item in data.items():
            if type(key) is not str:
                raise InvalidJobDataError(f"data: keys must be str (got {quoted(key)})")
            if "\0" in key:
                raise InvalidJobDataError("data: the NUL character cannot be stored in a key")
            budget[0] -= len(key)
            encoded[key] = _encoded(item, f"data{_place(key)}", 1, budget)
    text, size = _text(encoded, "data")
    if size > MAX_BYTES:
        raise InvalidJobDataError(f"data: {size} bytes, at most {MAX_BYTES}, whatever the settings are")
    if max_bytes is not None and size > max_bytes:
        raise InvalidJobDataError(f"data: {size} bytes, at most {max_bytes} (setting max_job_data_bytes)")
    return text


def _text(encoded: Any, what: str) -> tuple[str, int]:
    """Return the JSON text and its size in bytes."""
    try:
        text = json.dumps(encoded, ensure_ascii=False, allow_nan=False)
        return text, len(text.encode())
    except UnicodeEncodeError as error:
        raise InvalidJobDataError(f"{what}: not valid Unicode text ({reason(error)})") from None
    except ValueError as error:
        # A program may have lowered Python's limit for the digits of an integer.
        raise InvalidJobDataError(f"{what}: {reason(error)}") from error


def encode_value(value: Any, what: str, *, max_bytes: int) -> str:
    """Return the JSON text of a single value, which errors call `what`.

    Raises:
        InvalidJobDataError: the value cannot be stored (the message gives the path), or is too large.
    """
    with _writing(what):
        encoded = _encoded(value, what, 1, [MAX_BYTES])
    text, size = _text(encoded, what)
    if size > max_bytes:
        raise InvalidJobDataError(f"{what}: {size} bytes, at most {max_bytes}")
    return text


@contextmanager
def _writing(what: str) -> Iterator[None]:
    """Convert errors that the code of a value raises: a mapping, a property, a `__repr__` or a time zone."""
    try:
        yield
    except InvalidJobDataError:
        raise
    except Exception as error:
        raise InvalidJobDataError(f"{what}: reading the value failed ({type(error).__name__})") from error


def decode_value(text: str) -> Any:
    """Return the value of a text that `encode_value` wrote. Raises InvalidJobDataError if it is invalid."""
    with _reading():
        return _decoded(_parsed(text), 1)


def decode(text: str | None) -> dict[str, Any]:
    """Return the data of a text that `encode` wrote.

    Raises:
        InvalidJobDataError: the text is not JSON of this form.
    """
    if text is None or text == "{}":
        return {}
    with _reading():
        data = _parsed(text)
        if not isinstance(data, dict):
            raise InvalidJobDataError(f"must be a JSON object (got {type(data).__name__})")
        return {key: _decoded(item, 1) for key, item in data.items()}


def _parsed(text: str) -> Any:
    if len(text) > _MAX_STORED:
        raise InvalidJobDataError(f"{len(text)} characters, at most {_MAX_STORED}")
    return _DECODER.decode(text)


def _no_constant(name: str) -> Any:
    raise InvalidJobDataError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_no_constant)


@contextmanager
def _reading() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        # Any exception: rows are input, and the constructors of a program's dataclasses may raise anything.
        raise InvalidJobDataError(f"stored data cannot be read: {reason(error)}") from error


class JobDataMap(NameHints, MutableMapping[str, Any]):
    """The data of a running job: a dict that detects changes.

    Changes of nested values, such as appending to a list, are found by comparing the JSON that would be stored.
    """

    _quartz_sections = ("JobDataMap",)

    __slots__ = ("_original", "_values")

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        self._values = dict(values or {})
        self._original = encode(self._values)

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self._values[key] = value

    def __delitem__(self, key: str) -> None:
        del self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"JobDataMap({self._values!r})"

    def encode_if_changed(self, *, max_bytes: int | None = None) -> str | None:
        """Return the JSON text to store, or None if nothing was changed. An emptied map is "{}"."""
        text = encode(self._values, max_bytes=max_bytes)
        return None if text == self._original else text or "{}"
