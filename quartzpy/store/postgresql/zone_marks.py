"""Notes by which rules of time zones a process computes what it stores; see `zone_rules`."""

from __future__ import annotations

import time
from collections.abc import Iterable

from quartzpy.store.postgresql.connection.session import SqlSession
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.triggers.trigger import Trigger
from quartzpy.zone_rules import rules_of, zones_in

NOTE = SqlFile("zone_rules.sql")("note")

NOTED_FOR = 30.0
"""The seconds after which a session notes again the rules by which it stores."""


def note(session: SqlSession, names: Iterable[str]) -> None:
    """Note the rules of these zones by which this process computes what it is about to store."""
    at = time.monotonic()
    several = [rules for name in sorted(set(names)) if (rules := rules_of(name)) is not None]
    new = [
        rules for rules in several if at - session.noted_zones.get(rules.name + rules.digest, -NOTED_FOR) >= NOTED_FOR
    ]
    if new:
        session.unlocked(
            session.bind(
                NOTE,
                zones=[rules.name for rules in new],
                zone_digests=[rules.digest for rules in new],
                zone_versions=[rules.version for rules in new],
                zone_rules=[rules.as_text() for rules in new],
            )
        )
        session.noted_zones.update((rules.name + rules.digest, at) for rules in new)


def zones_of(triggers: Iterable[Trigger]) -> set[str]:
    """Return the names of the zones by which the fire times of triggers are computed, without their calendars."""
    names: set[str] = set()
    for trigger in triggers:
        zone = getattr(trigger, "time_zone", None)
        if isinstance(zone, str):
            names.add(zone)
        elif trigger.kind != "simple":
            names |= zones_in(trigger.schedule())
    return names


def has_zone(trigger: Trigger) -> bool:
    """Return True if the fire times of a trigger, or its calendar, may depend on the rules of a zone."""
    return trigger.calendar is not None or any(rules_of(name) is not None for name in zones_of([trigger]))
