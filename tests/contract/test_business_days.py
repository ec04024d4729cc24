"""Triggers that fire on business days, in the store: their fires, their upcoming fire times and their misfires."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from quartzpy import BusinessDayTrigger, Rolled
from quartzpy.calendars.days import HolidayCalendar, WeeklyCalendar
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.trigger import Trigger
from tests.contract.harness import SECOND, START, Harness, job, key, stored_trigger

NAME = "target"
DAY = timedelta(days=1)
FIRST = START.date()
HOLIDAYS = HolidayCalendar({FIRST + 3 * DAY, FIRST + 9 * DAY}, base=WeeklyCalendar())
TRIGGERS: list[Trigger] = [
    Rolled(
        "month-end",
        trigger=SimpleTrigger(interval="1d"),
        roll="modified_following",
        calendar=NAME,
        misfire="do_nothing",
    ),
    Rolled("earlier", trigger=SimpleTrigger(interval="40h"), roll="preceding", offset=-2, calendar=NAME),
    BusinessDayTrigger("nth", nth=[1, 3, -1], at=["09:00", "18:00"], period="week", calendar=NAME),
]


@pytest.mark.parametrize("trigger", TRIGGERS, ids=lambda trigger: trigger.name)
def test_they_fire_on_business_days_and_keep_their_fire_times(store: Harness, trigger: Trigger) -> None:
    store.put_calendar(NAME, HOLIDAYS)
    anchored = trigger.anchored(START)
    store.schedule(job(), anchored, calendar=HOLIDAYS)
    expected = anchored.upcoming(14, START - SECOND, HOLIDAYS)
    assert [store.progress(str(trigger.name)).next_fire_time, *store.upcoming(str(trigger.name))] == expected[:9]
    record = stored_trigger(store.store, key(str(trigger.name)))
    assert record is not None
    assert record.trigger == anchored.bound_to(job().key)
    node = store.node()
    fires: list[datetime] = []
    for at in expected[:12]:
        store.clock.set(at)
        fired = store.fire_one(node)
        fires.append(fired.scheduled_fire_time)
        store.complete(node, fired)
    assert fires == expected[:12]
    assert store.progress(str(trigger.name)).next_fire_time == expected[12]


def test_a_misfire_skips_to_the_next_business_day(store: Harness) -> None:
    store.put_calendar(NAME, HOLIDAYS)
    anchored = TRIGGERS[0].anchored(START)
    store.schedule(job(), anchored, calendar=HOLIDAYS)
    node = store.node()
    store.clock.set(START + 5 * DAY + timedelta(hours=3))
    store.misfire(node)
    [following] = anchored.upcoming(1, store.clock.now(), HOLIDAYS)
    assert store.progress(str(anchored.name)).next_fire_time == following
