"""Job data: plain JSON with a few tagged types, so that a row can be read with SQL and nothing is unpickled.

What JSON lacks is written as an object with one key that starts with "$": `{"$datetime": "..."}`,
`{"$decimal": "1.50"}`, `{"$uuid": ...}`, `{"$bytes": <base64>}`, `{"$date"|"$time"|"$timedelta": ...}`. An enum
member or a dataclass is written as its name and values, `{"$enum": ["module:Class", "NAME"]}`, and read back
only where its class is already imported: data never imports a module.
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
from typing import Any
from uuid import UUID

from quartzpy.errors import InvalidJobDataError
from quartzpy.keys import module_of

_ORIGINAL = "QRTZ_FAILED_JOB_ORIG_TRIGGER_"
ORIGINAL_NAME = f"{_ORIGINAL}NAME"
ORIGINAL_GROUP = f"{_ORIGINAL}GROUP"
ORIGINAL_FIRE_TIME = f"{_ORIGINAL}FIRETIME_IN_MILLISECONDS_AS_STRING"
ORIGINAL_SCHEDULED_FIRE_TIME = f"{_ORIGINAL}SCHEDULED_FIRETIME_IN_MILLISECONDS_AS_STRING"
RETRIED_NAME = "QRTZ_RETRIED_TRIGGER_NAME"
RETRIED_GROUP = "QRTZ_RETRIED_TRIGGER_GROUP"
RETRIED_SCHEDULED_FIRE_TIME = "QRTZ_RETRIED_SCHEDULED_FIRETIME_IN_MILLISECONDS_AS_STRING"
INTERNAL_KEYS = frozenset(
    (
        ORIGINAL_NAME,
        ORIGINAL_GROUP,
        ORIGINAL_FIRE_TIME,
        ORIGINAL_SCHEDULED_FIRE_TIME,
        RETRIED_NAME,
        RETRIED_GROUP,
        RETRIED_SCHEDULED_FIRE_TIME,
    )
)
"""What triggers that run a job again have in their data besides the user's: a recovery's are Quartz's names."""

MAX_DEPTH = 32
MAX_INT_BITS = 8_192
"""Longer ones are not read back: Python refuses to read more than 4,300 digits."""
_LARGE_FLOAT = 1e16
_PLAIN = (str, int, float, bool, type(None))


def _class_name(cls: type) -> str:
    if "<locals>" in cls.__qualname__:
        raise InvalidJobDataError(f"{cls.__qualname__}: a local class cannot be stored in job data")
    return f"{module_of(cls)}:{cls.__qualname__}"


def _class_named(name: str) -> type:
    module, _, path = name.partition(":")
    found: Any = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, type):
        raise InvalidJobDataError(f"data holds a value of {name!r}, which is not imported in this process")
    return found


def _enum_of(value: Any) -> Enum:
    cls = _class_named(value[0])
    if not issubclass(cls, Enum):
        raise InvalidJobDataError(f"data holds {value[0]!r} as an enum, but it is none")
    return cls[value[1]]


def _dataclass_of(value: Any) -> Any:
    cls = _class_named(value[0])
    if not dataclasses.is_dataclass(cls):
        raise InvalidJobDataError(f"data holds {value[0]!r} as a dataclass, but it is none")
    return cls(**{key: _decoded(item) for key, item in value[1].items()})


_READERS: dict[str, Callable[[Any], Any]] = {
    "$datetime": datetime.fromisoformat,
    "$date": date.fromisoformat,
    "$time": time.fromisoformat,
    "$timedelta": lambda value: timedelta(microseconds=value),
    "$decimal": Decimal,
    "$float": float,
    "$uuid": UUID,
    "$bytes": base64.b64decode,
    "$tuple": lambda value: tuple(_decoded(item) for item in value),
    "$enum": _enum_of,
    "$dataclass": _dataclass_of,
    "$object": lambda value: {key: _decoded(item) for key, item in value.items()},
}


def _tagged(value: Any, path: str, depth: int) -> Any:
    """The JSON of a value that JSON has no form for."""
    match value:
        case Enum():
            return {"$enum": [_class_name(type(value)), value.name]}
        case datetime():
            if value.tzinfo is None:
                raise InvalidJobDataError(f"{path}: a datetime needs a time zone (got {value})")
            return {"$datetime": value.astimezone(UTC).isoformat()}
        case date():
            return {"$date": value.isoformat()}
        case time():
            return {"$time": value.isoformat()}
        case timedelta():
            return {"$timedelta": value // timedelta(microseconds=1)}
        case Decimal():
            return {"$decimal": str(value)}
        case UUID():
            return {"$uuid": str(value)}
        case bytes():
            return {"$bytes": base64.b64encode(value).decode()}
        case tuple():
            return {"$tuple": [_encoded(item, f"{path}[{n}]", depth + 1) for n, item in enumerate(value)]}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        encoded = {name: _encoded(item, f"{path}.{name}", depth + 1) for name, item in fields.items()}
        return {"$dataclass": [_class_name(type(value)), encoded]}
    raise InvalidJobDataError(
        f"{path}: {type(value).__name__} cannot be stored; use JSON values, datetime, Decimal, UUID, bytes,"
        " an enum or a dataclass"
    )


def _encoded(value: Any, path: str, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise InvalidJobDataError(f"{path}: nested deeper than {MAX_DEPTH}, or refers to itself")
    kind = type(value)
    if kind is str:
        if "\0" in value:
            raise InvalidJobDataError(f"{path}: the NUL character cannot be stored")
        return value
    if kind is float:
        if not math.isfinite(value):
            raise InvalidJobDataError(f"{path}: {value} is not a JSON number")
        # The database writes a large one without its exponent, as a whole number.
        return {"$float": repr(value)} if abs(value) >= _LARGE_FLOAT else value
    if kind is int and value.bit_length() > MAX_INT_BITS:
        raise InvalidJobDataError(f"{path}: an int of {value.bit_length()} bits; at most {MAX_INT_BITS}")
    if kind in _PLAIN:
        return value
    if isinstance(value, Mapping):
        result = {}
        for key, item in value.items():
            if type(key) is not str:
                raise InvalidJobDataError(f"{path}: keys must be str (got {key!r})")
            if "\0" in key:
                raise InvalidJobDataError(f"{path}: the NUL character cannot be stored in a key")
            result[key] = _encoded(item, f"{path}[{key!r}]", depth + 1)
        looks_tagged = len(result) == 1 and next(iter(result)).startswith("$")
        return {"$object": result} if looks_tagged else result
    if kind is list:
        return [_encoded(item, f"{path}[{n}]", depth + 1) for n, item in enumerate(value)]
    return _tagged(value, path, depth)


def _decoded(value: Any) -> Any:
    if isinstance(value, dict):
        if len(value) == 1:
            [(tag, content)] = value.items()
            if tag.startswith("$"):
                if (read := _READERS.get(tag)) is None:
                    raise InvalidJobDataError(f"data has a value of the unknown kind {tag!r}")
                return read(content)
        return {key: _decoded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_decoded(item) for item in value]
    return value


def encode(data: Mapping[str, Any] | None, *, max_bytes: int | None = None) -> str | None:
    """The JSON text of job data; None for no data.

    Raises:
        InvalidJobDataError: a value cannot be stored (the message names its place), or all is too large.
    """
    if not data:
        if data is not None and not isinstance(data, Mapping):
            raise InvalidJobDataError(f"data: must be a mapping (got {type(data).__name__})")
        return None
    if not isinstance(data, Mapping):
        raise InvalidJobDataError(f"data: must be a mapping (got {type(data).__name__})")
    encoded = {}
    for key, item in data.items():
        if type(key) is not str:
            raise InvalidJobDataError(f"data: keys must be str (got {key!r})")
        encoded[key] = _encoded(item, f"data[{key!r}]", 1)
    text, size = _text(encoded, "data")
    if max_bytes is not None and size > max_bytes:
        raise InvalidJobDataError(f"data: {size} bytes, at most {max_bytes} (setting max_job_data_bytes)")
    return text


def _text(encoded: Any, what: str) -> tuple[str, int]:
    """The JSON text, and its size in bytes."""
    try:
        text = json.dumps(encoded, ensure_ascii=False, allow_nan=False)
        return text, len(text.encode())
    except UnicodeEncodeError as error:
        raise InvalidJobDataError(f"{what}: not valid Unicode text ({error})") from None


def encode_value(value: Any, what: str, *, max_bytes: int) -> str:
    """The JSON text of a single value, called `what` in errors.

    Raises:
        InvalidJobDataError: it cannot be stored (the message names the place), or is too large.
    """
    text, size = _text(_encoded(value, what, 1), what)
    if size > max_bytes:
        raise InvalidJobDataError(f"{what}: {size} bytes, at most {max_bytes}")
    return text


def decode_value(text: str) -> Any:
    """The value whose `encode_value` this is. Raises InvalidJobDataError: not JSON of this form."""
    with _reading():
        return _decoded(json.loads(text))


def decode(text: str | None) -> dict[str, Any]:
    """The data whose `encode` this is.

    Raises:
        InvalidJobDataError: not JSON of this form.
    """
    if text is None or text == "{}":
        return {}
    with _reading():
        return {key: _decoded(item) for key, item in json.loads(text).items()}


@contextmanager
def _reading() -> Iterator[None]:
    try:
        yield
    except (ValueError, AttributeError, LookupError, TypeError) as error:
        raise InvalidJobDataError(f"stored data cannot be read: {error}") from error


class JobDataMap(MutableMapping[str, Any]):
    """A job's data while it runs: a dict that knows whether it was changed.

    Changes to values inside (a list that is appended to) are found by comparing what would be stored.
    """

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
        """The JSON text to store, or None where nothing was changed. An emptied map is "{}"."""
        text = encode(self._values, max_bytes=max_bytes)
        return None if text == self._original else text or "{}"
