"""`quartzpy doctor`: find problems in the database of a scheduler, recommend a cure, and make the safe repairs."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from quartzpy.errors import QuartzpyError
from quartzpy.operations.render import json_value, plain
from quartzpy.store.findings import MOST_ROWS, Finding, Severity, worst
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.protocol import JobStore, Repairs

HEALTHY, WARNINGS, ERRORS = 0, 1, 2
"""The exit statuses: no findings above INFO, warnings, errors."""


@dataclass(frozen=True, slots=True)
class Report:
    """The findings of an examination, made after the repairs if there were any."""

    findings: tuple[Finding, ...]
    repairs: Repairs | None = None
    """The repairs. None if no repair was requested."""

    @property
    def status(self) -> int:
        """The exit status."""
        return {Severity.ERROR: ERRORS, Severity.WARNING: WARNINGS}.get(
            worst(list(self.findings)) or Severity.INFO, HEALTHY
        )


def examine(store: JobStore, *, repair: bool = False) -> Report:
    """Open the store, repair it on request, and audit it. A store that cannot be opened is reported as a finding."""
    repairs = None
    try:
        store.open()
        if repair:
            repairs = store.repair()
        findings = admin(store).audit()
    except QuartzpyError as error:
        # The message of the error contains the advice.
        refusal = Finding(Severity.ERROR, "unusable", f"{type(error).__name__}: {' '.join(str(error).split())}", "")
        return Report((refusal,), repairs)
    return Report(tuple(findings), repairs)


def as_text(report: Report) -> str:
    """Format a report for people: each finding with its rows and its advice."""
    lines = []
    if report.repairs is not None:
        repaired = ", ".join(
            f"{count} {name.replace('_', ' ')}" for name, count in asdict(report.repairs).items() if count
        )
        lines.append(f"repaired: {repaired or 'nothing needed a repair'}")
    for one in report.findings:
        lines.append(f"{one.severity.upper():<8} {one.check}: {plain(one.what)}")
        lines += [f"           {plain(row)}" for row in one.rows]
        if len(one.rows) == MOST_ROWS:
            lines.append("           ...")
        if one.advice:
            lines.append(f"         {plain(one.advice)}{' (doctor --repair fixes it)' if one.repairable else ''}")
    if not report.findings:
        lines.append("no problems found")
    return "\n".join(lines)


def as_json(report: Report) -> str:
    """Format a report for programs."""
    found = [asdict(one) for one in report.findings]
    repairs = None if report.repairs is None else asdict(report.repairs)
    return json.dumps({"status": report.status, "repairs": repairs, "findings": found}, default=json_value, indent=2)
