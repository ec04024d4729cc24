"""What the rules of time zones of this process change of triggers that were computed by others. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from quartzpy.calendars.calendar import Calendar
from quartzpy.calendars.registry import calendar_to_json
from quartzpy.store.protocol import MovedFire, StoredCalendar, TriggerMove
from quartzpy.store.records import NotedZone, TriggerRecord
from quartzpy.triggers.renewal import renewed
from quartzpy.triggers.trigger import Trigger
from quartzpy.triggers.upcoming import UpcomingFireTimes
from quartzpy.zone_rules import ZoneRules, rules_of, zones_in


class Outdated(NamedTuple):
    """Zones of which other rules are noted than those of this process."""

    rules: Mapping[str, Sequence[ZoneRules]]
    """The other rules, by the name of the zone; the latest come last."""

    @classmethod
    def of(cls, zones: Iterable[NotedZone]) -> Outdated:
        by_name: dict[str, list[ZoneRules]] = {}
        for zone in zones:
            own = rules_of(zone.rules.name)
            if own is not None and own.digest != zone.digest:
                by_name.setdefault(zone.rules.name, []).append(zone.rules)
        return cls(by_name)

    def without_repeated(
        self, trigger: Trigger, calendar: Calendar | None, after: datetime | None, upcoming: UpcomingFireTimes
    ) -> UpcomingFireTimes:
        """Return the fire times that this process has computed to follow one that is stored, without its repetition.

        Where the stored one was computed by other rules, the next one by those of this process may have the same time
        on the clock: it is the same fire.
        """
        if not self.rules or after is None:
            return upcoming
        zones = zones_in(trigger.schedule()) & self.rules.keys()
        if not zones or trigger.included_from(after, calendar) == after:
            return upcoming
        repeated = {
            former.same_wall_time(after, own)
            for name in zones
            if (own := rules_of(name)) is not None
            for former in self.rules[name]
        }
        return replace(upcoming, instants=tuple(at for at in upcoming.instants if at not in repeated))

    def move_of(
        self, record: TriggerRecord, calendar: StoredCalendar | None, now: datetime
    ) -> tuple[str, TriggerMove] | None:
        """Return what the rules of this process change of a trigger, and the zone; None if nothing.

        Raises:
            QuartzpyError, ValueError: its fire times cannot be computed here.
        """
        trigger = record.trigger
        of_schedule = zones_in(trigger.schedule()) & self.rules.keys()
        of_calendar = set() if calendar is None else zones_in(calendar_to_json(calendar.calendar)) & self.rules.keys()
        if not of_schedule and not of_calendar:
            return None
        name = min(of_schedule or of_calendar)

        def shift(instant: datetime) -> datetime:
            if not of_schedule:
                return instant
            own = rules_of(name)
            assert own is not None
            shifted = [former.same_wall_time(instant, own) for former in self.rules[name]]
            included = None if calendar is None else calendar.calendar
            # Of several former rules, those by which the trigger fires at that time.
            return next((at for at in shifted if trigger.included_from(at, included) == at), shifted[-1])

        to = renewed(
            trigger,
            record.progress,
            record.upcoming,
            None if calendar is None else calendar.calendar,
            now=now,
            shift=shift,
        )
        return None if to is None else (name, TriggerMove(record, to))


def moved_fire(outdated: Outdated, name: str, move: TriggerMove) -> MovedFire:
    """Return in which way a trigger moves."""
    own = rules_of(name)
    assert own is not None
    return MovedFire(
        move.record.key,
        move.record.next_fire_time,
        move.to.progress.next_fire_time,
        name,
        outdated.rules[name][-1].version,
        own.version,
    )
