"""What is wrong with a document: all of its faults at once, each with its place as a JSON pointer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

from quartzpy.errors import InvalidCronError, InvalidDefinitionError

Place: TypeAlias = tuple[str | int, ...]
"""The names and numbers that lead from the document to one of its values."""

MAX_FAULTS = 100
"""The number of faults after which the rest of a document is not read."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a document."""

    pointer: str
    """Its place, as a JSON pointer (RFC 6901). Of a value that is missing, the object that lacks it."""
    detail: str
    error: str = ""
    """The name of the error that the value alone raises; empty if none does."""
    field: str | None = None
    """Of a wrong cron expression: the field."""
    position: int | None = None
    """Of a wrong cron expression: the character, from 0."""

    def __str__(self) -> str:
        return f"{self.pointer}: {self.detail}" if self.pointer else self.detail


def pointer_to(place: Place) -> str:
    """Return a place as a JSON pointer."""
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in place)


class Faults:
    """The faults of one document."""

    def __init__(self) -> None:
        self.entries: list[Fault] = []
        self.placed: list[tuple[Place, Fault]] = []
        self.cause: BaseException | None = None
        """The first error, of those that were added."""

    def add(self, place: Place, problem: str | BaseException) -> None:
        """Add a fault at a place.

        Raises:
            InvalidDefinitionError: these are as many faults as are reported.
        """
        detail = problem if isinstance(problem, str) else str(problem) or type(problem).__name__
        error = "" if isinstance(problem, str) else type(problem).__name__
        fault = Fault(pointer_to(place), detail, error)
        if isinstance(problem, InvalidCronError):
            fault = replace(fault, field=problem.field, position=problem.position)
        if fault not in self.entries:
            self.entries.append(fault)
            self.placed.append((place, fault))
            self.cause = self.cause or (problem if isinstance(problem, BaseException) else None)
        if len(self.entries) >= MAX_FAULTS:
            self.check()

    def check(self) -> None:
        """Raise an error if there are faults.

        Raises:
            InvalidDefinitionError: there are; the error has all of them.
        """
        if self.entries:
            first, *others = self.entries
            more = f" (and {len(others)} more)" if others else ""
            raise InvalidDefinitionError(f"{first}{more}", self.entries)


class Within(Faults):
    """The faults of a part of a document, which are those of the document."""

    def __init__(self, document: Faults, place: Place) -> None:
        self.entries = document.entries
        self._document, self._place = document, place

    def add(self, place: Place, problem: str | BaseException) -> None:
        """Add a fault at a place within the part; raises as `Faults.add`."""
        self._document.add((*self._place, *place), problem)
