"""Pickles to read: honest ones, and those that were made to stop the reader."""

from __future__ import annotations

import pickle
import struct
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any
from uuid import UUID

_HONEST: list[Any] = [
    {"args": (1, "a", None), "kwargs": {"x": [1.5, True, b"raw"]}},
    [datetime(2026, 1, 2, tzinfo=UTC), date(2026, 1, 2), timedelta(days=1), Decimal("1.5"), UUID(int=7)],
    {"nested": [[[{"a": {1, 2}, "b": frozenset({3})}]]], "shared": [["a"]] * 3},
    "text" * 100,
]
HONEST = [pickle.dumps(value, protocol) for value in _HONEST for protocol in range(6)]


def _laughs(inner: bytes, level: bytes, levels: int) -> bytes:
    """A value of which each level has the one below it several times."""
    found = inner + b"q\x000"
    for number in range(1, levels):
        get = b"h" + bytes([number - 1])
        found += level.replace(b"*", get) + b"q" + bytes([number]) + b"0"
    return b"\x80\x04" + found + b"h" + bytes([levels - 1]) + b"."


def _name(module: str, name: str) -> bytes:
    return b"c" + module.encode() + b"\n" + name.encode() + b"\n"


HOSTILE: dict[str, bytes] = {
    "lists in lists": _laughs(b"]", b"](" + b"*" * 4 + b"e", 30),
    "tuples in tuples": _laughs(b")", b"(" + b"*" * 4 + b"t", 30),
    "dicts in dicts": _laughs(b"}", b"}(K\x01*K\x02*K\x03*u", 30),
    "one long text many times": b"\x80\x04X" + struct.pack("<I", 100_000) + b"x" * 100_000
    + b"q\x000](" + b"h\x00" * 1_000 + b"e.",
    "zones of zones": _laughs(
        _name("datetime", "timezone") + b")R", _name("datetime", "timezone") + b"](" + b"*" * 4 + b"e\x85R", 30
    ),
    "a hash of tuples of tuples": _laughs(b")", b"(" + b"*" * 2 + b"t", 60)[:-1] + b"K\x01}q\xff0h\xffh\x3bK\x01s.",
    "a hash of very deep tuples": b"\x80\x04)" + b"\x85" * 300_000 + b"q\x00}h\x00K\x01s.",
    "deep lists": b"\x80\x04" + b"]" * 50_000 + b"a" * 49_999 + b".",
    "deep tuples": b"\x80\x04)" + b"\x85" * 200_000 + b".",
    "a list in itself": b"\x80\x04]q\x00h\x00a.",
    "a dict in itself": b"\x80\x04}q\x00K\x01h\x00s.",
    "ten gigabytes of bytes": _name("datetime", "date") + b"\x8a\x05" + (10**10).to_bytes(5, "little") + b"\x85R.",
    "a huge number": b"\x80\x04\x8b" + struct.pack("<i", 1_000_000) + b"\x01" * 1_000_000 + b".",
    "numbers of one hash as keys": b"\x80\x04}("
    + b"".join(b"\x8a\x0b" + ((2**61 - 1) * n).to_bytes(11, "little") + b"N" for n in range(1, 60_000))
    + b"u.",
    "a number of too many digits": b"I" + b"9" * 100_000 + b"\n.",
    "a text of nine exabytes": b"\x80\x04\x8d" + struct.pack("<Q", 2**63 - 1) + b"x.",
    "bytes of eighteen exabytes": b"\x80\x04\x8e" + struct.pack("<Q", 2**64 - 1) + b"x.",
    "a number of two gigabytes": b"\x80\x04\x8b" + struct.pack("<i", 2**31 - 1) + b"x.",
    "a number of a negative length": b"\x80\x04\x8b" + struct.pack("<i", -1) + b"x.",
    "more bytes than are read": b"\x80\x04" + b"N0" * 5_000_000 + b"N.",
    "marks without an end": b"\x80\x04" + b"(" * 200_000 + b".",
    "a decimal of a list": _name("decimal", "Decimal") + _laughs(b"]", b"](" + b"*" * 4 + b"e", 30)[2:-1] + b"\x85R.",
    "a name that is a list": b"\x80\x04]]\x93.",
    "a name that grows": _name("a", "b") + b"q\x01X" + struct.pack("<I", 2_000) + b"y" * 2_000 + b"q\x02"
    + _name("builtins", "getattr") + b"h\x01h\x02\x86R.",
    "a call without a tuple": _name("datetime", "date") + b"K\x05R.",
    "a zone that is a path": _name("zoneinfo", "ZoneInfo._unpickle") + b"X\x0b\x00\x00\x00/etc/passwd\x85R.",
}  # fmt: skip
"""By what is wrong with each."""


def made_pickle(random: Random) -> bytes:
    """Return an honest or a small hostile pickle, often with some bytes changed."""
    small = [data for data in HOSTILE.values() if len(data) < 10_000]
    data = bytearray(random.choice(HONEST if random.random() < 0.7 else small))
    for _ in range(random.choice((0, 1, 1, 2, 5))):
        place = random.randrange(len(data))
        match random.randrange(4):
            case 0:
                data[place] = random.randrange(256)
            case 1:
                del data[place : place + random.randrange(1, 4)]
            case 2:
                data[place:place] = bytes(
                    random.choice((b"(", b"]", b"}", b")", b"t", b"e", b"s", b"R", b"h\x00", b"\x94"))
                )
            case _:
                other = random.choice(HONEST)
                data[place:place] = other[: random.randrange(len(other))]
        if not data:
            break
    return bytes(data)
