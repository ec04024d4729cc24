"""All tests of the contract of a store, to be imported as a whole into a test module."""

from __future__ import annotations

from types import ModuleType

from quartzpy.testing.store import (
    acquire,
    actions,
    bounded_pages,
    calendars,
    captured_logs,
    catch_up,
    checkin,
    complete,
    concurrency_keys,
    continuations,
    executions,
    facts,
    failures,
    fire,
    history,
    instructions,
    limits,
    load,
    lookups,
    misfire,
    misfire_records,
    modes,
    node_deaths,
    operations,
    overlaps,
    pages,
    pause_notes,
    pausing,
    progress,
    rate_limits,
    recover,
    refilling,
    removing,
    replacing,
    resuming,
    retry,
    scheduling,
    serial_jobs,
    skipping,
    slots,
)
from quartzpy.testing.store.calendars import named
from quartzpy.testing.store.executions import world
from quartzpy.testing.store.pages import busy

PARTS: tuple[ModuleType, ...] = (
    acquire,
    actions,
    bounded_pages,
    calendars,
    captured_logs,
    catch_up,
    checkin,
    complete,
    concurrency_keys,
    continuations,
    executions,
    facts,
    failures,
    fire,
    history,
    instructions,
    limits,
    load,
    lookups,
    misfire,
    misfire_records,
    modes,
    node_deaths,
    operations,
    skipping,
    slots,
    overlaps,
    pages,
    pause_notes,
    pausing,
    progress,
    rate_limits,
    recover,
    refilling,
    removing,
    replacing,
    resuming,
    retry,
    scheduling,
    serial_jobs,
)
"""The modules of the kit, each with the tests of one feature."""


def _tests() -> dict[str, object]:
    """Return all tests by name. Two tests of the same name would hide each other."""
    found: dict[str, object] = {}
    for part in PARTS:
        own = {name: value for name, value in vars(part).items() if name.startswith("test_")}
        if doubled := own.keys() & found.keys():
            raise ImportError(f"{part.__name__}: tests of another module have the names {sorted(doubled)}")
        found |= own
    return found


globals().update(_tests())
__all__ = ["busy", "named", "world", *_tests()]
