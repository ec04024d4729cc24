"""Findings about the health of a store: of `quartzpy doctor`, and of the checks at the start of a node."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """The severity of a finding, the worst first."""

    ERROR = "error"
    """Something does not work, or is going to fail."""
    WARNING = "warning"
    """It works, with a risk or at a cost that the finding describes."""
    INFO = "info"

    @property
    def rank(self) -> int:
        """The place among all severities: 0 is the worst."""
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem that was found, and its remedy."""

    severity: Severity
    check: str
    """The name of the check, for programs; it never changes."""
    what: str
    advice: str
    rows: tuple[str, ...] = ()
    """The affected objects, at most the first `MAX_LISTED_ROWS`."""
    repairable: bool = False
    """True if `JobStore.repair` repairs it."""

    def __str__(self) -> str:
        return f"{self.what}; {self.advice}" if self.advice else self.what


MAX_LISTED_ROWS = 20
"""The largest number of affected objects that a finding lists."""


def worst_severity(findings: list[Finding]) -> Severity | None:
    """Return the severity of the worst finding, or None if there are no findings."""
    return next((severity for severity in Severity if any(finding.severity is severity for finding in findings)), None)
