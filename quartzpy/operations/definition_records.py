"""What callers of `Definitions` get: definitions as documents, and what a change did."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

_TAG_DIGITS = 32


@dataclass(frozen=True, slots=True)
class Definition:
    """A job, trigger or calendar as a document, in which the values of secret keys are hidden."""

    document: Mapping[str, Any]
    tag: str
    """Differs if the document does."""

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Definition:
        """Return the definition with this document, whose secrets are hidden."""
        text = json.dumps(document, sort_keys=True, separators=(",", ":"))
        return cls(document, hashlib.sha256(text.encode()).hexdigest()[:_TAG_DIGITS])


@dataclass(frozen=True, slots=True)
class Expected:
    """What a caller expects to be stored. A change is refused if something else is."""

    tags: Collection[str] | None = None
    """One of these tags; "*" stands for any definition. None expects nothing."""
    other_tags: Collection[str] = ()
    """None of these tags; "*" stands for any definition."""

    def holds_for(self, current: Definition | None) -> bool:
        """Return True if this is what is stored."""
        own = set() if current is None else {current.tag, "*"}
        return (self.tags is None or not own.isdisjoint(self.tags)) and own.isdisjoint(self.other_tags)


ANYTHING = Expected()


class DefinitionOutcome(StrEnum):
    """The outcome of storing or deleting a definition."""

    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    """Exactly this was stored already; nothing was written."""
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class ValueChange:
    """One value of a definition before and after a change, with secrets hidden and long values cut."""

    name: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class DefinitionResult:
    """What became of a definition, or with `dry_run`, what would become of it."""

    outcome: DefinitionOutcome
    text: str
    """A sentence for people."""
    differences: tuple[ValueChange, ...]
    definition: Mapping[str, Any] | None
    """The definition that is stored then; None if it is deleted."""
    tag: str | None
    """Its tag, which the header ETag has as well."""
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """One change of an applied file."""

    sign: str
    """"+" stored, "~" changed, "-" removed."""
    kind: str
    """"job", "trigger", "calendar" or "window"."""
    key: Mapping[str, str]
    """The name and the group; a calendar and a window have no group."""
    differences: tuple[ValueChange, ...]
    """Without any, a "~" changes only the owner."""


@dataclass(frozen=True, slots=True)
class AppliedFile:
    """The changes that a file made, or with `dry_run`, that it would make."""

    changes: tuple[PlannedChange, ...]
    unchanged: int
    outdated_by: str | None
    """The version that last declared the owner's jobs, if it is newer: then nothing is changed."""
    dry_run: bool


@dataclass(frozen=True, slots=True)
class BatchResult:
    """What became of a batch, or with `dry_run`, what would become of it."""

    outcome: DefinitionOutcome
    text: str
    """A sentence for people."""
    triggers: int
    """The number of its triggers."""
    dry_run: bool = False
