"""The system: the store, its tables and locks, and `quartzpy doctor`, which examines and repairs it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime

from quartzpy.errors import QuartzpyError
from quartzpy.operations.read_context import ReadContext
from quartzpy.operations.render import json_value, plain
from quartzpy.operations.views.lock_holders import MAX_LOCKS
from quartzpy.store.health_findings import MAX_LISTED_ROWS, Finding, Severity, worst_severity
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.postgresql.admin.records import LockRecord, TableRecord
from quartzpy.store.protocol import JobStore, Repairs


@dataclass(frozen=True, slots=True)
class System:
    """The store of a scheduler."""

    now: datetime
    scheduler: str
    """The name of the scheduler."""
    store: str
    """The kind, release and place of the store, without a password."""
    schema_version: str | None
    """The revision of the tables; None for a store without tables."""
    tables: tuple[TableRecord, ...]
    """The tables, the largest first."""
    locks: tuple[LockRecord, ...]
    findings: tuple[Finding, ...] | None
    """The findings of `quartzpy doctor`, the worst first; None if they were not asked for."""


def system(context: ReadContext, *, examine: bool) -> System:
    store, reading = context.store, context.reading()
    tables = reading.defer(lambda store: admin(store).tables())
    locks = reading.defer(lambda store: admin(store).locks(MAX_LOCKS))
    return System(
        now=reading.now(),
        scheduler=context.config.name,
        store=str(store),
        schema_version=admin(store).schema_version(),
        tables=tuple(tables()),
        locks=tuple(locks()),
        findings=tuple(admin(store).audit()) if examine else None,
    )


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
            worst_severity(list(self.findings)) or Severity.INFO, HEALTHY
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
        return unusable(f"{type(error).__name__}: {' '.join(str(error).split())}", repairs)
    return Report(tuple(findings), repairs)


def unusable(message: str, repairs: Repairs | None = None) -> Report:
    """Return the report about a store that cannot be examined. The message of the error contains the advice."""
    return Report((Finding(Severity.ERROR, "unusable", message, ""),), repairs)


def as_text(report: Report) -> str:
    """Format a report for people: each finding with its rows and its advice."""
    lines = []
    if report.repairs is not None:
        repaired = ", ".join(
            f"{count} {name.replace('_', ' ')}" for name, count in asdict(report.repairs).items() if count
        )
        lines.append(f"repaired: {repaired or 'nothing needed a repair'}")
    for finding in report.findings:
        lines.append(f"{finding.severity.upper():<8} {finding.check}: {plain(finding.what)}")
        lines += [f"           {plain(row)}" for row in finding.rows]
        if len(finding.rows) == MAX_LISTED_ROWS:
            lines.append("           ...")
        if finding.advice:
            lines.append(
                f"         {plain(finding.advice)}{' (doctor --repair fixes it)' if finding.repairable else ''}"
            )
    if not report.findings:
        lines.append("no problems found")
    return "\n".join(lines)


def as_json(report: Report) -> str:
    """Format a report for programs."""
    findings = [asdict(finding) for finding in report.findings]
    repairs = None if report.repairs is None else asdict(report.repairs)
    return json.dumps({"status": report.status, "repairs": repairs, "findings": findings}, default=json_value, indent=2)
