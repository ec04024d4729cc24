"""Renews what was computed by other rules of a time zone than the nodes have now.

Beside what is stored, the rules are noted by which it was computed: whoever stores fire times notes its own. A node
that finds other rules than its own waits until all nodes have the same ones as it has. Then one of them computes again
what depends on the zone, slice by slice, and what comes out the same stays as it is. So a second pass changes nothing,
nodes that differ never take turns, and a fire pays nothing for it.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from quartzpy.calendars.maintenance_window import WINDOW_LEAD, window_due_at
from quartzpy.errors import QuartzpyError
from quartzpy.keys import TriggerKey
from quartzpy.store.health_findings import MAX_LISTED_ROWS, Finding, Severity
from quartzpy.store.node_metadata import ZONES
from quartzpy.store.postgresql.calendars import calendars, move_triggers
from quartzpy.store.postgresql.connection.session import SqlSession
from quartzpy.store.postgresql.lookups import triggers as triggers_of
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.postgresql.steps import facts
from quartzpy.store.postgresql.time_off import windows
from quartzpy.store.postgresql.zone_marks import note
from quartzpy.store.protocol import MovedFire, Node, StoredCalendar, TriggerMove, ZoneRenewal
from quartzpy.store.records import NotedZone
from quartzpy.store.zone_renewal import Outdated, moved_fire
from quartzpy.texts import numbered
from quartzpy.zone_rules import ZoneRules, rules_of

logger = logging.getLogger(__name__)

_SQL = SqlFile("zone_rules.sql")

PAGE = 500
"""The number of triggers that are computed at once, and moved by one transaction."""
BUSY = 2.0
"""The seconds after which a call ends although there is more to do: its thread has other tasks as well."""
_BEFORE_ALL = "", ""


def noted(session: SqlSession) -> list[NotedZone]:
    """Return the rules by which what is stored was computed; see `QueryStore.noted_zones`."""
    return [
        NotedZone(ZoneRules.from_text(name, version, text), digest, at)
        for name, digest, version, text, at, _ in session.read_one(_SQL.noted)
    ]


def moves(
    session: SqlSession, outdated: Outdated, after: tuple[str, str], now: datetime, limit: int = PAGE
) -> tuple[list[tuple[str, TriggerMove]], tuple[str, str] | None]:
    """Return what the rules of this process change in a page of triggers, and the last key; None for the last page."""
    keys = session.read_one(
        _SQL.trigger_page, zones=list(outdated.rules), after_group=after[0], after_name=after[1], limit=limit
    )
    records = triggers_of(session, [TriggerKey(name, group) for group, name in keys])
    stored = _readable_calendars(session, {record.calendar for record in records.values() if record.calendar})
    moving = []
    for record in records.values():
        try:
            move = outdated.move_of(record, stored.get(record.calendar or ""), now)
        except (QuartzpyError, ValueError, ArithmeticError) as error:
            # The step that fires it says so, and another node may be able to.
            logger.debug("the fire times of trigger %s cannot be renewed: %s", record.key, error)
            continue
        if move is not None:
            moving.append(move)
    return moving, (keys[-1] if len(keys) == limit else None)


def _readable_calendars(session: SqlSession, names: Collection[str]) -> dict[str, StoredCalendar]:
    stored: dict[str, StoredCalendar] = {}
    for name in names:
        try:
            stored.update(calendars(session, [name]))
        except QuartzpyError as error:
            logger.debug("calendar %s cannot be read: %s", name, error)
    return stored


class Renewal:
    """The renewal by this process, which proceeds in several calls."""

    def __init__(self) -> None:
        self._outdated: Mapping[str, Sequence[str]] = {}
        self._began: datetime | None = None
        self._after = _BEFORE_ALL
        self._is_clean = True

    def run(self, session: SqlSession, node: Node) -> ZoneRenewal:
        """Renew what is outdated, if all nodes agree; see `ClusterStore.renew_zones`."""
        deadline = time.monotonic() + BUSY
        rows, of_nodes = (result.rows for result in session.read(session.bind(_SQL.noted), facts.reading(session)))
        if not rows:
            session.other_rules.clear()
            return ZoneRenewal()
        now = rows[0][-1]
        zones = [NotedZone(ZoneRules.from_text(row[0], row[2], row[3]), row[1], row[4]) for row in rows]
        own = {name: rules.digest for name in {row[0] for row in rows} if (rules := rules_of(name)) is not None}
        metadata = facts.decoded(of_nodes)
        self._publish(session, node, own, metadata, zones)
        everything = Outdated.of(zones)
        session.other_rules.update(everything.rules)
        for name in session.other_rules.keys() - everything.rules.keys():
            del session.other_rules[name]
        outdated = self._agreed(everything, own, metadata, node)
        if not outdated.rules:
            return ZoneRenewal(waits=bool(everything.rules))
        names = list(outdated.rules)
        claimed = session.unlocked(
            session.bind(_SQL.claim, epoch=node.epoch, zones=names, zone_digests=[own[name] for name in names])
        )[0].rows
        outdated = Outdated({name: outdated.rules[name] for (name,) in claimed})
        if not outdated.rules:
            return ZoneRenewal()
        return self._renew(session, outdated, now, deadline)

    def _publish(
        self,
        session: SqlSession,
        node: Node,
        own: Mapping[str, str],
        metadata: dict[str, dict[str, Any]],
        zones: Sequence[NotedZone],
    ) -> None:
        """Say by which rules this node computes."""
        digests = {(zone.rules.name, zone.digest) for zone in zones}
        note(session, [name for name, digest in own.items() if (name, digest) not in digests])
        if metadata.get(node.instance_id, {}).get(ZONES) != own:
            values = {"instance": node.instance_id, "epoch": node.epoch, "zones_entry": ZONES}
            session.unlocked(session.bind(facts.SAVE_ZONES, **values, zones_json=json.dumps(own)))

    def _agreed(
        self, outdated: Outdated, own: Mapping[str, str], metadata: Mapping[str, Mapping[str, Any]], node: Node
    ) -> Outdated:
        """Return those of the zones of which all nodes have the rules that this node has."""
        others = [values.get(ZONES, {}) for name, values in metadata.items() if name != node.instance_id]
        return Outdated(
            {
                name: rules
                for name, rules in outdated.rules.items()
                if all(digests.get(name) == own[name] for digests in others)
            }
        )

    def _renew(self, session: SqlSession, outdated: Outdated, now: datetime, deadline: float) -> ZoneRenewal:
        others = {name: [rules.digest for rules in several] for name, several in outdated.rules.items()}
        if others != self._outdated or self._began is None:
            self._outdated, self._began, self._after, self._is_clean = others, now, _BEFORE_ALL, True
            self._is_clean = _renew_windows(session, outdated, now)
        moved: list[MovedFire] = []
        while True:
            moving, last = moves(session, outdated, self._after, now)
            moved += self._move(session, outdated, moving)
            if last is None:
                break
            self._after = last
            if time.monotonic() >= deadline:
                return ZoneRenewal(moved, is_whole=False)
        began, self._began = self._began, None
        if self._is_clean:
            pairs = [(name, digest) for name, digests in others.items() for digest in digests]
            names, digests = ([pair[at] for pair in pairs] for at in (0, 1))
            session.unlocked(session.bind(_SQL.forget, zones=names, zone_digests=digests, before=began))
        return ZoneRenewal(moved)

    def _move(
        self, session: SqlSession, outdated: Outdated, moving: Sequence[tuple[str, TriggerMove]]
    ) -> Iterator[MovedFire]:
        done = move_triggers(session, [move for _, move in moving])
        # What has changed since it was read is computed again by the next renewal.
        self._is_clean = self._is_clean and len(done) == len(moving)
        for name, move in moving:
            if move.record.key in done:
                yield moved_fire(outdated, name, move)


def _renew_windows(session: SqlSession, outdated: Outdated, now: datetime) -> bool:
    """Give maintenance windows the times that they have by the rules of this process. Return False if one is left."""
    is_whole = True
    for record in windows(session):
        name = record.window.time_zone
        own = rules_of(name)
        if record.window.cron is None or name not in outdated.rules or own is None:
            continue
        # One that was stored or moved since has its times by these rules.
        if record.window.next_span(record.starts_at) == (record.starts_at, record.ends_at):
            continue
        former = outdated.rules[name][-1]
        values = {"window_name": record.window.name, "expected_start": record.starts_at}
        if record.is_open:
            ends_at = former.same_wall_time(record.ends_at, own)
            session.unlocked(session.bind(_SQL.move_end_of_window, **values, ends_at=ends_at))
        elif now >= record.starts_at - WINDOW_LEAD:
            # Some of its triggers are paused already. It begins, and its next time is by the new rules.
            is_whole = False
            continue
        else:
            span = record.window.next_span(former.same_wall_time(record.starts_at, own))
            if span is None:
                continue
            due_at = window_due_at(span[0], now)
            session.unlocked(
                session.bind(_SQL.move_window, **values, starts_at=span[0], ends_at=span[1], due_at=due_at)
            )
        logger.warning(
            "maintenance window %s was to be from %s to %s: the rules of %s have changed (%s -> %s)",
            record.window.name,
            record.starts_at.isoformat(),
            record.ends_at.isoformat(),
            name,
            former.version,
            own.version,
        )
    return is_whole


def renew_some(session: SqlSession, keys: Collection[TriggerKey]) -> None:
    """Give triggers that were stored again the fire times that they have by the rules of this process."""
    outdated = Outdated.of(noted(session)) if keys else Outdated({})
    if not outdated.rules:
        return
    records = triggers_of(session, keys)
    stored = _readable_calendars(session, {record.calendar for record in records.values() if record.calendar})
    now = session.now()
    moving = [
        move
        for record in records.values()
        if (move := outdated.move_of(record, stored.get(record.calendar or ""), now)) is not None
    ]
    move_triggers(session, [move for _, move in moving])


def zone_findings(session: SqlSession) -> list[Finding]:
    """Return, for `quartzpy doctor`, the fires that move when all nodes have the rules that this process has."""
    outdated = Outdated.of(noted(session))
    if not outdated.rules:
        return []
    metadata = facts.decoded(session.read(facts.reading(session))[0].rows)
    of_nodes = [values.get(ZONES, {}) for values in metadata.values()]
    # A program with rules that no node has says nothing about what the nodes do.
    rules = {
        name: others
        for name, others in outdated.rules.items()
        if not of_nodes
        or any((own := rules_of(name)) and own.digest == node.get(name) for node in of_nodes)
        or not any(name in node for node in of_nodes)
    }
    if not rules:
        return []
    outdated, after, number = Outdated(rules), _BEFORE_ALL, 0
    zones: set[str] = set()
    lines: list[str] = []
    while True:
        moving, last = moves(session, outdated, after, session.now())
        for name, move in moving:
            zones.add(name)
            number += 1
            if len(lines) < MAX_LISTED_ROWS:
                lines.append(str(moved_fire(outdated, name, move)))
        if last is None:
            break
        after = last
    if not number:
        return []
    what = (
        f"{numbered(number, 'trigger has fire times', 'triggers have fire times')} that were computed by other rules of"
        f" {', '.join(sorted(zones))}"
    )
    advice = "they move once all nodes have the same rules; start a node, or bring all nodes to one version"
    return [Finding(Severity.WARNING, "time-zone-rules", what, advice, tuple(lines))]
