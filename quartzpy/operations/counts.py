"""Numbers of rows that are counted up to a maximum, because an exact number of millions would take seconds."""

from __future__ import annotations

from dataclasses import dataclass

MOST_COUNTED = 10_000


@dataclass(frozen=True, slots=True)
class Count:
    """A number of rows. If `has_more` is true, there are more than `number`."""

    number: int
    has_more: bool = False

    def __str__(self) -> str:
        return f"{self.number:,}+" if self.has_more else f"{self.number:,}"


def counted(number: int, most: int = MOST_COUNTED) -> Count:
    """Return a count of which a store has reported a number above `most` for "more"."""
    return Count(min(number, most), number > most)
