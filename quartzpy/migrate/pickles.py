"""Reads pickles without unpickling them: no module is imported, no class is built, and nothing is called.

A pickle is a program for a small machine. This module runs the instructions that put values together. Instructions that
would call or build something leave a `Made` behind, which says what would be called, and with which arguments.

A pickle can refer to one value many times, so that a few hundred bytes stand for more than any memory holds. What is
limited is therefore the size of a value when it is written out.
"""

from __future__ import annotations

import io
import pickletools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from quartzpy.texts import reason

_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_EMPTY: Mapping[str, Callable[[], Any]] = {
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
    "EMPTY_DICT": dict,
    "EMPTY_SET": set,
}
_VALUES = frozenset(
    (
        *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT", "UNICODE"),
        *("BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
    )
)
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_IGNORED = ("PROTO", "FRAME")
_COLLECTIONS = (list, tuple, dict, set, frozenset)
_SCALARS = (str, bytes, bytearray)

MAX_BYTES = 8_000_000
"""The largest pickle that is read, in bytes."""
MAX_WRITTEN_OUT = 4_000_000
"""The largest size of a value that is written out: its values, and the characters and bytes of its texts."""
DEEPEST = 100
"""The largest number of levels of a value. Job data may have 32."""
MAX_BITS = 14_300
"""The size of the largest number: about the 4,300 digits that job data may have."""
_MAX_NAME = 1_000
_MAX_IN_KEY = 100
_MAX_TUPLE_KEYS = 10_000
_LARGEST_KEY = 1 << 60


class UnreadablePickleError(Exception):
    """A pickle, or a value in it, cannot be read; the message says why."""


@dataclass(frozen=True, slots=True)
class Global:
    """A function or a class that a pickle names."""

    name: str


@dataclass(frozen=True, slots=True)
class Unbounded:
    """Stands for a member of a dict that is too large or too deep; the other members can be read."""

    why: str


@dataclass(eq=False, repr=False, slots=True)
class Made:
    """An object that unpickling would make: by `callee(*args)`, and then from `state`."""

    callee: str
    args: tuple[Any, ...]
    state: Any = None

    def __repr__(self) -> str:
        # Without what it holds, which may hold it again.
        return f"<{self.callee}>"


def read_pickle(data: bytes) -> Any:
    """Return the value of a pickle, in which each object is a `Made`.

    Raises:
        UnreadablePickleError: the pickle is damaged, too large or too deep, or uses an instruction for other than
            plain data.
    """
    if len(data) > MAX_BYTES:
        raise UnreadablePickleError(f"the pickle has {len(data):,} bytes; at most {MAX_BYTES:,} are read")
    machine, stream = _Machine(), io.BytesIO(data)
    read, instructions = stream.read, _INSTRUCTIONS
    try:
        while (code := read(1)) != _STOP:
            argument_of, action = instructions[code]
            argument = None if argument_of is None else argument_of(stream)
            if action is not None:
                action(machine, argument)
        return _bounded(machine.stack[-1])
    except UnreadablePickleError:
        raise
    except Exception as error:
        # A damaged pickle makes the machine fail in many ways.
        raise UnreadablePickleError(f"the pickle cannot be read: {reason(error)}") from error


_Action = Callable[["_Machine", Any], None]


class _Machine:
    def __init__(self) -> None:
        self.stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}
        self._tuple_keys = 0

    def push(self, value: Any) -> None:
        if isinstance(value, int) and value.bit_length() > MAX_BITS:
            raise UnreadablePickleError(f"the pickle has a number of {value.bit_length():,} bits")
        self.stack.append(value)

    def tuple_of_top(self, count: int) -> None:
        items = tuple(self.stack[-count:])
        del self.stack[-count:]
        self.stack.append(items)

    def _since_mark(self) -> list[Any]:
        position = self._marks.pop()
        items = self.stack[position:]
        del self.stack[position:]
        return items

    def _keys(self, keys: list[Any]) -> list[Any]:
        """Return the keys of a dict or the members of a set, if the hash of each is computed at once."""
        for key in keys:
            if isinstance(key, int) and not -_LARGEST_KEY < key < _LARGEST_KEY:
                # Any number of larger ones can have the same hash.
                raise UnreadablePickleError("the pickle has a very large number as a key")
            if isinstance(key, tuple | frozenset):
                self._tuple_keys += 1
                if self._tuple_keys > _MAX_TUPLE_KEYS or not _is_small(key):
                    raise UnreadablePickleError("the pickle has keys that are too large tuples, or too many of them")
        return keys

    def _pairs(self) -> dict[Any, Any]:
        items = self._since_mark()
        return dict(zip(self._keys(items[::2]), items[1::2], strict=True))

    # --- marks and memory

    def _do_mark(self, _: object) -> None:
        self._marks.append(len(self.stack))

    def _do_pop(self, _: object) -> None:
        if self._marks and self._marks[-1] == len(self.stack):
            self._marks.pop()
        else:
            self.stack.pop()

    def _do_pop_mark(self, _: object) -> None:
        self._since_mark()

    def _do_memoize(self, _: object) -> None:
        self._memo[len(self._memo)] = self.stack[-1]

    def _do_put(self, number: int) -> None:
        self._memo[number] = self.stack[-1]

    def _do_get(self, number: int) -> None:
        self.stack.append(self._memo[number])

    _do_binput = _do_long_binput = _do_put
    _do_binget = _do_long_binget = _do_get

    # --- collections

    def _do_list(self, _: object) -> None:
        self.stack.append(self._since_mark())

    def _do_tuple(self, _: object) -> None:
        self.stack.append(tuple(self._since_mark()))

    def _do_frozenset(self, _: object) -> None:
        self.stack.append(frozenset(self._keys(self._since_mark())))

    def _do_dict(self, _: object) -> None:
        self.stack.append(self._pairs())

    def _do_append(self, _: object) -> None:
        item = self.stack.pop()
        self.stack[-1].append(item)

    def _do_appends(self, _: object) -> None:
        items = self._since_mark()
        self.stack[-1].extend(items)

    def _do_additems(self, _: object) -> None:
        items = self._keys(self._since_mark())
        self.stack[-1].update(items)

    def _do_setitem(self, _: object) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self._keys([key])
        self.stack[-1][key] = value

    def _do_setitems(self, _: object) -> None:
        pairs = self._pairs()
        self.stack[-1].update(pairs)

    # --- objects

    def _do_global(self, names: str) -> None:
        self.stack.append(_named(names.replace(" ", ".")))

    def _do_stack_global(self, _: object) -> None:
        name, module = self.stack.pop(), self.stack.pop()
        if not isinstance(name, str) or not isinstance(module, str):
            raise UnreadablePickleError("the pickle names something by other than texts")
        self.stack.append(_named(f"{module}.{name}"))

    def _do_reduce(self, _: object) -> None:
        args, callee = self.stack.pop(), self.stack.pop()
        self.stack.append(_made(callee, args))

    def _do_newobj(self, _: object) -> None:
        self._do_reduce(_)

    def _do_build(self, _: object) -> None:
        state = self.stack.pop()
        made = self.stack[-1]
        if not isinstance(made, Made):
            raise UnreadablePickleError("the pickle sets the state of something that is no object")
        made.state = state


def _action(name: str) -> _Action | None:
    """Return what the instruction of this name does with the machine; None if that is nothing."""
    if name in _IGNORED:
        return None
    if name in _CONSTANTS:
        constant = _CONSTANTS[name]
        return lambda machine, _: machine.stack.append(constant)
    if name in _EMPTY:
        make = _EMPTY[name]
        return lambda machine, _: machine.stack.append(make())
    if name in _VALUES:
        return _Machine.push
    if name in _TUPLES:
        count = _TUPLES[name]
        return lambda machine, _: machine.tuple_of_top(count)
    action: _Action | None = getattr(_Machine, f"_do_{name.lower()}", None)
    return action or _refusing(name)


def _refusing(name: str) -> _Action:
    def refuse(machine: _Machine, _: Any) -> None:
        raise UnreadablePickleError(f"the pickle has the instruction {name}, which is not for plain data")

    return refuse


_STOP = b"."
# A job of APScheduler has hundreds of instructions, so they are not looked up by their names.
_INSTRUCTIONS: Mapping[bytes, tuple[Callable[[io.BytesIO], Any] | None, _Action | None]] = {
    value.code.encode("latin-1"): (None if value.arg is None else value.arg.reader, _action(value.name))
    for value in pickletools.opcodes
}


def _named(name: str) -> Global:
    if len(name) > _MAX_NAME:
        raise UnreadablePickleError(f"the pickle has a name of {len(name):,} characters")
    return Global(name)


def _made(callee: object, args: object) -> Made | Global:
    if not isinstance(callee, Global) or not isinstance(args, tuple):
        raise UnreadablePickleError("the pickle calls something that it has made itself, or without a tuple")
    if callee.name in ("builtins.getattr", "__builtin__.getattr") and isinstance(args[0], Global):
        return _named(f"{args[0].name}.{_text(args[1])}")
    return Made(callee.name, args)


def _is_small(key: object) -> bool:
    """Return whether a key, written out, has few values."""
    count, pending = 0, [key]
    while pending and count <= _MAX_IN_KEY:
        count += 1
        value = pending.pop()
        if isinstance(value, tuple | frozenset):
            pending += list(value)[: _MAX_IN_KEY + 1]
    return not pending


def _bounded(value: Any) -> Any:
    """Return a value, with an `Unbounded` for each member of a dict that is too large or too deep."""
    if not isinstance(value, dict):
        _check_size(value)
        return value
    for key, member in list(value.items()):
        try:
            _check_size(member)
        except UnreadablePickleError as error:
            value[key] = Unbounded(str(error))
    return value


def _check_size(value: object) -> None:
    """Check the size of a value, written out, and of all that each `Made` holds: it stands for itself in the others.

    Raises:
        UnreadablePickleError: a value is too large or too deep, or contains itself.
    """
    # By the ids of collections, which the value keeps alive: the size and the levels, or None until they are known.
    sizes: dict[int, tuple[int, int] | None] = {}
    made_ids: set[int] = set()
    roots = [value]
    while roots:
        pending = [roots.pop()]
        while pending:
            value = pending[-1]
            if isinstance(value, Made) and id(value) not in made_ids:
                made_ids.add(id(value))
                roots += (value.args, value.state)
            if not isinstance(value, _COLLECTIONS) or sizes.get(id(value)) is not None:
                pending.pop()
                continue
            parts = [*value.keys(), *value.values()] if isinstance(value, dict) else list(value)
            if id(value) not in sizes:
                sizes[id(value)] = None
                inner = [part for part in parts if isinstance(part, (*_COLLECTIONS, Made))]
                if any(sizes.get(id(part), ()) is None for part in inner if not isinstance(part, Made)):
                    raise UnreadablePickleError("the pickle has a value that contains itself")
                pending += inner
                continue
            pending.pop()
            size, levels = _written_out(parts, sizes)
            if size > MAX_WRITTEN_OUT or levels > DEEPEST:
                raise UnreadablePickleError(
                    f"the pickle has a value that is too large or too deep when it is written out (more than"
                    f" {MAX_WRITTEN_OUT:,} values and characters, or {DEEPEST} levels)"
                )
            sizes[id(value)] = size, levels


def _written_out(parts: list[Any], sizes: Mapping[int, tuple[int, int] | None]) -> tuple[int, int]:
    size, levels = 1, 0
    for part in parts:
        if isinstance(part, _COLLECTIONS):
            inner, deep = sizes[id(part)] or (0, 0)
            size, levels = size + inner, max(levels, deep)
        else:
            size += 1 + (len(part) if isinstance(part, _SCALARS) else 0)
    return size, levels + 1


def as_python(value: Any) -> Any:
    """Return a value of `read_pickle` with dates, times, zones, decimals and UUIDs in place of their `Made`.

    Raises:
        UnreadablePickleError: another object is in it, which the message names by its class, or it is too large or
            too deep.
    """
    try:
        return _Conversion().value(value)
    except (RecursionError, MemoryError) as error:
        raise UnreadablePickleError(f"it is too deep or too large: {type(error).__name__}") from None


class _Conversion:
    """Counts the values, because a `Made` in a `Made` can refer to one value many times, too."""

    def __init__(self) -> None:
        self._count = 0

    def value(self, value: Any) -> Any:
        self._count += 1
        if self._count > MAX_WRITTEN_OUT:
            raise UnreadablePickleError(f"it has more than {MAX_WRITTEN_OUT:,} values")
        match value:
            case Made():
                return _known(value, self)
            case Global():
                raise UnreadablePickleError(f"it refers to {value.name}")
            case Unbounded():
                raise UnreadablePickleError(value.why)
            case dict():
                return {self.value(key): self.value(value) for key, value in value.items()}
            case list() | set() | frozenset() | tuple():
                return [self.value(value) for value in value]
        return value


def _known(made: Made, conversion: _Conversion) -> Any:
    read = _READERS.get(made.callee)
    if read is None:
        raise UnreadablePickleError(f"it is an object of {made.callee}")
    try:
        return read(made, conversion)
    except (LookupError, TypeError, ValueError, ArithmeticError) as error:
        raise UnreadablePickleError(f"its {made.callee} cannot be read: {reason(error)}") from error


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise UnreadablePickleError(f"it has {type(value).__name__} where a text should be")
    return value


def _bytes(value: object) -> bytes:
    # Protocols before 3 write bytes as a call of codecs.encode.
    if isinstance(value, Made) and value.callee == "_codecs.encode":
        return _text(value.args[0]).encode("latin-1")
    if not isinstance(value, bytes | bytearray):
        # bytes(10**10) would be 10 GB.
        raise UnreadablePickleError(f"it has {type(value).__name__} where bytes should be")
    return bytes(value)


def _datetime(made: Made, conversion: _Conversion) -> datetime:
    result: datetime = datetime(_bytes(made.args[0]))  # type: ignore[call-arg, arg-type]  # noqa: DTZ001
    return result.replace(tzinfo=_zone(made.args[1], conversion)) if len(made.args) > 1 else result


def _zone(value: Any, conversion: _Conversion) -> tzinfo:
    result = conversion.value(value)
    if not isinstance(result, tzinfo):
        raise UnreadablePickleError("a datetime has no time zone where it should have one")
    return result


def _zone_info(made: Made, _: _Conversion) -> ZoneInfo:
    name = _text(made.args[0])
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UnreadablePickleError(f"there is no time zone {name[:100]!r}") from None


def _uuid(made: Made, _: _Conversion) -> UUID:
    return UUID(int=made.state["int"])


_READERS: Mapping[str, Callable[[Made, _Conversion], Any]] = {
    "datetime.datetime": _datetime,
    "datetime.date": lambda made, _: date(_bytes(made.args[0])),  # type: ignore[call-arg, arg-type]
    "datetime.time": lambda made, _: time(_bytes(made.args[0])),  # type: ignore[arg-type]
    "datetime.timedelta": lambda made, _: timedelta(*made.args),
    "datetime.timezone": lambda made, conversion: timezone(conversion.value(made.args[0])),
    "zoneinfo.ZoneInfo._unpickle": _zone_info,
    "pytz._p": _zone_info,
    "pytz._UTC": lambda made, _: UTC,
    "decimal.Decimal": lambda made, _: Decimal(_text(made.args[0])),
    "uuid.UUID": _uuid,
}
