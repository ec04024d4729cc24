"""Texts made from others: what a fuzzer feeds to a parser. All chance comes from the `Random` that is given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

ODD_CHARACTERS = (
    "\0", "\x1b", "\x7f", "\n", "\r", "\t", "\v", "\x85", "\u00a0", "\u200b", "\u202e", "\u2066", "\ufeff", "\ud800",
    "\udfff", "\U0001f600", "\U0010ffff", "ſ", "ı", "İ", "K", "٣", "²", "Ⅳ", "½", "é", "e\u0301", "'", '"', "\\", "%",
)  # fmt: skip
ODD_NUMBERS = (
    "-0", "00", "-1", "0x10", "1e5", "1_000", "+1", "0.5", "1e999", "-1e-999", "NaN", "Infinity", "2147483647",
    "2147483648", "9223372036854775808", "9" * 30, "9" * 400, "9" * 5_000, "1" + "0" * 310,
)  # fmt: skip
_LONGEST = 40_000


def _span(random: Random, text: str) -> tuple[int, int]:
    start = random.randrange(len(text) + 1)
    return start, min(len(text), start + random.choice((1, 1, 2, 3, 8, 40)))


def _insert(random: Random, text: str, pieces: Sequence[str]) -> str:
    at = random.randrange(len(text) + 1)
    return text[:at] + random.choice(pieces) + text[at:]


def _replace(random: Random, text: str, pieces: Sequence[str]) -> str:
    start, end = _span(random, text)
    return text[:start] + random.choice(pieces) + text[end:]


def _delete(random: Random, text: str, pieces: Sequence[str]) -> str:
    start, end = _span(random, text)
    return text[:start] + text[end:]


def _double(random: Random, text: str, pieces: Sequence[str]) -> str:
    start, end = _span(random, text)
    return text[:end] + text[start:end] + text[end:]


def _many(random: Random, text: str, pieces: Sequence[str]) -> str:
    start, end = _span(random, text)
    times = random.choice((2, 5, 50, 500, 2_000))
    return text[:start] + text[start:end] * times + text[end:]


def _odd_character(random: Random, text: str, pieces: Sequence[str]) -> str:
    return _insert(random, text, ODD_CHARACTERS)


def _any_character(random: Random, text: str, pieces: Sequence[str]) -> str:
    start, end = _span(random, text)
    return text[:start] + chr(random.randrange(0x3000)) + text[end:]


def _number(random: Random, text: str, pieces: Sequence[str]) -> str:
    """Put another number where there is one."""
    digits = [index for index, character in enumerate(text) if character.isascii() and character.isdigit()]
    if not digits:
        return _insert(random, text, ODD_NUMBERS)
    start = end = random.choice(digits)
    while end < len(text) and text[end].isdigit():
        end += 1
    number = random.choice(ODD_NUMBERS) if random.random() < 0.5 else str(random.randrange(-5, 3_000))
    return text[:start] + number + text[end:]


def _swap(random: Random, text: str, pieces: Sequence[str]) -> str:
    (a, b), (c, d) = sorted((_span(random, text), _span(random, text)))
    if b > c:
        return text[::-1] if random.random() < 0.1 else text
    return text[:a] + text[c:d] + text[b:c] + text[a:b] + text[d:]


_WAYS: tuple[Callable[[Random, str, Sequence[str]], str], ...] = (
    _insert, _insert, _replace, _replace, _delete, _delete, _double, _swap, _number, _number, _odd_character,
    _any_character, _many,
)  # fmt: skip


def mutated(random: Random, seeds: Sequence[str], pieces: Sequence[str]) -> str:
    """One of `seeds`, changed in some places by what `pieces` and the odd values have; sometimes only pieces."""
    if random.random() < 0.1:
        return "".join(random.choice(pieces) for _ in range(random.randrange(20)))
    text = random.choice(seeds)
    if random.random() < 0.1:
        other = random.choice(seeds)
        text = text[: random.randrange(len(text) + 1)] + other[random.randrange(len(other) + 1) :]
    for _ in range(random.choice((0, 1, 1, 1, 2, 2, 3, 6))):
        text = random.choice(_WAYS)(random, text, pieces)
    return text[:_LONGEST]
