"""What an examination of a store found: by `quartzpy doctor`, and at the start of a node."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How bad a finding is, the worst first."""

    ERROR = "error"
    """Something does not work, or will not."""
    WARNING = "warning"
    """It works, with a risk or at a price that is told."""
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found, with what to do about it."""

    severity: Severity
    check: str
    """The name of the check, for programs: it stays."""
    what: str
    advice: str
    rows: tuple[str, ...] = ()
    """Some of what it is about, the first 20."""
    repairable: bool = False
    """Whether `JobStore.repair` mends it."""

    def __str__(self) -> str:
        return f"{self.what}; {self.advice}" if self.advice else self.what


MOST_ROWS = 20


def worst(findings: list[Finding]) -> Severity | None:
    """The severity of the worst finding; None where there is none."""
    return next((severity for severity in Severity if any(one.severity is severity for one in findings)), None)
