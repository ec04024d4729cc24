"""Reads pickles without unpickling them: no module is imported, no class is built, and nothing is called.

A pickle is a program for a small machine. This module runs the instructions that put values together. Instructions that
would call or build something leave a `Made` behind, which says what would be called, and with which arguments.
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
_MARK = object()


class UnreadablePickleError(Exception):
    """A pickle, or a value in it, cannot be read; the message says why."""


@dataclass(frozen=True, slots=True)
class Global:
    """A function or a class that a pickle names."""

    name: str


@dataclass(eq=False, slots=True)
class Made:
    """An object that unpickling would make: by `callee(*args)`, and then from `state`."""

    callee: str
    args: tuple[Any, ...]
    state: Any = None


def read_pickle(data: bytes) -> Any:
    """Return the value of a pickle, in which each object is a `Made`.

    Raises:
        UnreadablePickleError: the pickle is damaged, or uses an instruction for other than plain data.
    """
    machine, stream = _Machine(), io.BytesIO(data)
    read, instructions = stream.read, _INSTRUCTIONS
    try:
        while (code := read(1)) != _STOP:
            argument_of, action = instructions[code]
            argument = None if argument_of is None else argument_of(stream)
            if action is not None:
                action(machine, argument)
        return machine.stack[-1]
    except UnreadablePickleError:
        raise
    except Exception as error:
        # A damaged pickle makes the machine fail in many ways.
        raise UnreadablePickleError(f"the pickle cannot be read: {reason(error)}") from error


_Action = Callable[["_Machine", Any], None]


class _Machine:
    def __init__(self) -> None:
        self.stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def tuple_of_top(self, count: int) -> None:
        items = tuple(self.stack[-count:])
        del self.stack[-count:]
        self.stack.append(items)

    def _since_mark(self) -> list[Any]:
        position = len(self.stack) - 1 - self.stack[::-1].index(_MARK)
        items = self.stack[position + 1 :]
        del self.stack[position:]
        return items

    # --- marks and memory

    def _do_mark(self, _: object) -> None:
        self.stack.append(_MARK)

    def _do_pop(self, _: object) -> None:
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
        self.stack.append(frozenset(self._since_mark()))

    def _do_dict(self, _: object) -> None:
        items = self._since_mark()
        self.stack.append(dict(zip(items[::2], items[1::2], strict=True)))

    def _do_append(self, _: object) -> None:
        item = self.stack.pop()
        self.stack[-1].append(item)

    def _do_appends(self, _: object) -> None:
        items = self._since_mark()
        self.stack[-1].extend(items)

    def _do_additems(self, _: object) -> None:
        items = self._since_mark()
        self.stack[-1].update(items)

    def _do_setitem(self, _: object) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self.stack[-1][key] = value

    def _do_setitems(self, _: object) -> None:
        items = self._since_mark()
        self.stack[-1].update(zip(items[::2], items[1::2], strict=True))

    # --- objects

    def _do_global(self, names: str) -> None:
        self.stack.append(Global(names.replace(" ", ".")))

    def _do_stack_global(self, _: object) -> None:
        name, module = self.stack.pop(), self.stack.pop()
        self.stack.append(Global(f"{module}.{name}"))

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
    one.code.encode("latin-1"): (None if one.arg is None else one.arg.reader, _action(one.name))
    for one in pickletools.opcodes
}


def _made(callee: object, args: tuple[Any, ...]) -> Made | Global:
    if not isinstance(callee, Global):
        raise UnreadablePickleError("the pickle calls something that it has made itself")
    if callee.name in ("builtins.getattr", "__builtin__.getattr") and isinstance(args[0], Global):
        return Global(f"{args[0].name}.{args[1]}")
    return Made(callee.name, args)


def as_python(value: Any) -> Any:
    """Return a value of `read_pickle` with dates, times, zones, decimals and UUIDs in place of their `Made`.

    Raises:
        UnreadablePickleError: another object is in it; the message names its class.
    """
    match value:
        case Made():
            return _known(value)
        case Global():
            raise UnreadablePickleError(f"it refers to {value.name}")
        case dict():
            return {as_python(key): as_python(one) for key, one in value.items()}
        case list() | set() | frozenset():
            return [as_python(one) for one in value]
        case tuple():
            return [as_python(one) for one in value]
    return value


def _known(made: Made) -> Any:
    read = _READERS.get(made.callee)
    if read is None:
        raise UnreadablePickleError(f"it is an object of {made.callee}")
    return read(made)


def _bytes(given: Any) -> bytes:
    # Protocols before 3 write bytes as a call of codecs.encode.
    if isinstance(given, Made) and given.callee == "_codecs.encode":
        return str(given.args[0]).encode("latin-1")
    return bytes(given)


def _datetime(made: Made) -> datetime:
    found: datetime = datetime(_bytes(made.args[0]))  # type: ignore[call-arg, arg-type]  # noqa: DTZ001
    return found.replace(tzinfo=_zone(made.args[1])) if len(made.args) > 1 else found


def _zone(given: Any) -> tzinfo:
    found = as_python(given)
    if not isinstance(found, tzinfo):
        raise UnreadablePickleError("a datetime has no time zone where it should have one")
    return found


def _zone_info(made: Made) -> ZoneInfo:
    try:
        return ZoneInfo(str(made.args[0]))
    except (ZoneInfoNotFoundError, ValueError):
        raise UnreadablePickleError(f"there is no time zone {made.args[0]!r}") from None


def _uuid(made: Made) -> UUID:
    return UUID(int=made.state["int"])


_READERS: Mapping[str, Callable[[Made], Any]] = {
    "datetime.datetime": _datetime,
    "datetime.date": lambda made: date(_bytes(made.args[0])),  # type: ignore[call-arg, arg-type]
    "datetime.time": lambda made: time(_bytes(made.args[0])),  # type: ignore[arg-type]
    "datetime.timedelta": lambda made: timedelta(*made.args),
    "datetime.timezone": lambda made: timezone(as_python(made.args[0])),
    "zoneinfo.ZoneInfo._unpickle": _zone_info,
    "pytz._p": _zone_info,
    "pytz._UTC": lambda made: UTC,
    "decimal.Decimal": lambda made: Decimal(str(made.args[0])),
    "uuid.UUID": _uuid,
}
