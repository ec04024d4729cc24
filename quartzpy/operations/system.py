"""The system: the store, its tables and locks, and the findings of an examination."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from quartzpy.operations.source import Source
from quartzpy.store.findings import Finding
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.postgresql.admin.records import LockRecord, TableRecord

MOST_LOCKS = 100


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


def system(source: Source, *, examine: bool) -> System:
    store, reading = source.store, source.reading()
    tables = reading.ask(lambda store: admin(store).tables())
    locks = reading.ask(lambda store: admin(store).locks(MOST_LOCKS))
    return System(
        now=reading.now(),
        scheduler=source.config.name,
        store=str(store),
        schema_version=admin(store).schema_version(),
        tables=tuple(tables()),
        locks=tuple(locks()),
        findings=tuple(admin(store).audit()) if examine else None,
    )
