"""Reads values that Java wrote: serialized objects, properties, and names of time zones."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from quartzpy.errors import SettingsError
from quartzpy.installing import install_line
from quartzpy.texts import quoted, reason

SERIALIZED = b"\xac\xed\x00\x05"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PLAIN = (str, int, float, bool, type(None))
_BOXES = frozenset(
    f"java.lang.{name}" for name in ("Byte", "Short", "Integer", "Long", "Float", "Double", "Boolean", "Character")
)
_DATES = frozenset(("java.util.Date", "java.sql.Timestamp", "java.sql.Date", "java.sql.Time"))
_GMT = re.compile(r"GMT([+-])(\d{1,2}):?(\d{2})?")
# The identifiers of three letters that java.util.TimeZone reads, after the table ZoneId.SHORT_IDS of Java's reference.
_SHORT_IDS = {
    "EST": "-05:00",
    "HST": "-10:00",
    "MST": "-07:00",
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
}
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class UnreadableError(Exception):
    """A serialized value has no equivalent; the message says which class it is of."""


def instant(milliseconds: int) -> datetime:
    """Return the instant for Java's milliseconds since 1970."""
    return _EPOCH + timedelta(milliseconds=milliseconds)


def zone_name(identifier: str) -> str:
    """Return the name of a time zone for the identifier of a `java.util.TimeZone`."""
    if identifier in ("GMT", "UTC", "Z"):
        return "UTC"
    offset = _GMT.fullmatch(identifier)
    if offset is not None:
        return f"{offset[1]}{int(offset[2]):02}:{offset[3] or '00'}"
    return _SHORT_IDS.get(identifier, identifier)


def read_object(data: bytes) -> Any:
    """Return the one object of a stream of Java serialization, as javaobj represents it. No class is loaded for it.

    Raises:
        SettingsError: javaobj is not installed.
        UnreadableError: the stream cannot be read.
    """
    try:
        from javaobj.v2.main import loads
    except ImportError:
        raise SettingsError(f"Java serialization needs javaobj: {install_line('import')}") from None
    try:
        result = loads(data)
    except Exception as error:
        # A damaged stream makes javaobj raise errors of many types.
        raise UnreadableError(f"the Java serialization cannot be read: {reason(error)}") from error
    if not hasattr(result, "classdesc"):
        raise UnreadableError("the Java serialization cannot be read: it has not one object")
    return result


def class_name(value: object) -> str:
    """Return the name of the Java class of an object that `read_object` returned."""
    described = getattr(value, "classdesc", None)
    return str(described.name) if described is not None else type(value).__name__


def fields_of(value: Any) -> dict[str, Any]:
    """Return the fields of an object, with those of its superclasses."""
    result = getattr(value, "field_data", {})
    return {field.name: content for of_class in result.values() for field, content in of_class.items()}


def written_values(value: Any) -> list[Any]:
    """Return what the object's own `writeObject` wrote."""
    return [item for of_class in value.annotations.values() for item in of_class]


def as_python(value: Any) -> Any:
    """Return the Python value for an object that `read_object` returned.

    Raises:
        UnreadableError: the object, or a part of it, is of a class that has no equivalent.
    """
    name = class_name(value)
    if type(value) in _PLAIN:
        return value
    if name in _BOXES:
        return fields_of(value)["value"]
    if name == "java.lang.String" or type(value).__name__ == "JavaString":
        return str(value)
    if isinstance(value, Mapping):
        return {_text_key(as_python(key)): as_python(item) for key, item in value.items()}
    if name == "[B":
        return bytes(item & 0xFF for item in value)
    if name.startswith("[") or isinstance(value, list | set):
        return [as_python(item) for item in value]
    if name in _DATES:
        return _date(value)
    if name == "java.math.BigInteger":
        return _big_integer(value)
    if name == "java.math.BigDecimal":
        parts = fields_of(value)
        return Decimal(_big_integer(parts["intVal"])).scaleb(-parts["scale"])
    raise UnreadableError(f"it is of the Java class {name}")


def _text_key(key: object) -> str:
    if not isinstance(key, str):
        raise UnreadableError(f"a map has the key {quoted(key)}, which is not a text")
    return key


def _date(value: Any) -> datetime:
    data = next(item.data for item in written_values(value) if type(item).__name__ == "BlockData")
    raw = data if isinstance(data, bytes) else data.encode("latin-1")
    result = instant(int.from_bytes(raw[:8], "big", signed=True))
    # A Timestamp keeps the fraction of the second separately.
    nanos = fields_of(value).get("nanos")
    return result if nanos is None else result.replace(microsecond=nanos // 1000)


def _big_integer(value: Any) -> int:
    parts = fields_of(value)
    magnitude = int.from_bytes(bytes(item & 0xFF for item in parts["magnitude"]), "big")
    return int(parts["signum"]) * magnitude


def read_properties(data: bytes) -> dict[str, str]:
    """Return the entries of a text that `java.util.Properties.store` wrote.

    The syntax is that of `java.util.Properties.load`: comments, continued lines, escapes, and three separators.
    """
    result = {}
    lines = iter(re.split(r"\r\n|\r|\n", data.decode("latin-1")))
    for line in lines:
        text = line.lstrip(" \t\f")
        if not text or text[0] in "#!":
            continue
        while _is_continued(text):
            text = text[:-1] + next(lines, "").lstrip(" \t\f")
        key, rest = _split(text)
        result[_unescaped(key)] = _unescaped(rest)
    return result


def _is_continued(text: str) -> bool:
    return (len(text) - len(text.rstrip("\\"))) % 2 == 1


def _split(text: str) -> tuple[str, str]:
    match = re.match(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", text, re.DOTALL)
    assert match is not None
    return match[1], match[2]


def _unescaped(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        return chr(int(match[1], 16)) if match[1] else _ESCAPES.get(match[2], match[2])

    result = re.sub(r"\\(?:u([0-9A-Fa-f]{4})|(.))", character, text, flags=re.DOTALL)
    # Java writes a character beyond U+FFFF as two escapes.
    return result.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
