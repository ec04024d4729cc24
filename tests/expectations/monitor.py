"""A monitor as others offer them: it knows the crontab of each trigger and a margin, and hears starts and failures."""

from __future__ import annotations

from bisect import bisect_left
from datetime import datetime, timedelta

from quartzpy.keys import TriggerKey
from quartzpy.triggers.cron import CronTrigger
from tests.expectations.simulation import Plan, Simulation

MARGIN = timedelta(minutes=2)


def zone_of(plan: Plan, name: str) -> str:
    trigger = next(trigger for trigger in plan.triggers if trigger.name == name)
    inner = getattr(trigger, "trigger", trigger)
    return str(getattr(inner, "time_zone", "UTC"))


def alarms(simulation: Simulation, until: datetime) -> set[tuple[TriggerKey, datetime]]:
    """Return the alarms of the monitor: no start within the margin of an instant of the crontab, or a failure."""
    found = {(key, at) for key, at in simulation.failed if at < until}
    for plan in simulation.plans.values():
        for name, crontab in plan.crontabs.items():
            key = TriggerKey(name)
            starts = sorted(simulation.starts.get(key, ()))
            schedule = CronTrigger.from_crontab(crontab, name, time_zone=zone_of(plan, name))
            for at in schedule.fire_times(simulation.start, min(until, plan.until.get(name, until))):
                place = bisect_left(starts, at)
                if place == len(starts) or starts[place] > at + MARGIN:
                    found.add((key, at))
    return found
