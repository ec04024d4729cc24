"""Tests of calendars: storing, replacing and removing them, and the effect on the triggers that use them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, ClassVar

import pytest

from quartzpy.calendars.calendar import BaseCalendar, WholeDayCalendar
from quartzpy.calendars.days import DayOfWeek, WeeklyCalendar
from quartzpy.errors import CalendarInUseError, CalendarNotFoundError, InvalidCalendarError, ObjectAlreadyExistsError
from quartzpy.jobs.fired_trigger import FireFacts, LoadedFire
from quartzpy.states import TriggerState
from quartzpy.store.protocol import Completion, NamedTriggers, NameKind, TriggerMove
from quartzpy.store.queries import TriggerQuery
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.trigger import TriggerProgress
from quartzpy.triggers.upcoming import PreparedTrigger, UpcomingFireTimes, moved_to, refill
from tests.contract.harness import SECOND, START, Harness, every, job, key, stored_job

EVERY_DAY = WeeklyCalendar(frozenset())
NOT_TODAY = WeeklyCalendar(frozenset({DayOfWeek(START.isoweekday() % 7 + 1)}))
DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
NAME = "workdays"


def hourly(name: str = "hourly", **how: Any) -> SimpleTrigger:
    return every(3600, name=name, calendar=NAME, times=None, **how)


@pytest.fixture
def named(store: Harness) -> Harness:
    """A store with a calendar that includes everything, and a trigger that uses it."""
    store.put_calendar(NAME, EVERY_DAY)
    store.schedule(job(), hourly(), calendar=EVERY_DAY)
    return store


def test_a_calendar_is_stored_found_and_removed(store: Harness) -> None:
    store.put_calendar(NAME, NOT_TODAY)
    store.put_calendar("another", EVERY_DAY)
    assert store.store.names(NameKind.CALENDARS) == ["another", NAME]
    assert store.store.calendars([NAME])[NAME].calendar == NOT_TODAY
    assert store.store.delete_calendar(NAME)
    assert not store.store.delete_calendar(NAME)
    assert store.store.names(NameKind.CALENDARS) == ["another"]


@dataclass(frozen=True)
class LeapDayCalendar(WholeDayCalendar):
    """A calendar as an application derives it."""

    kind: ClassVar[str] = "store-kit-leap-day"

    month: int
    since: date = date(1582, 10, 15)

    def excludes_day(self, day: date) -> bool:
        return day.month == self.month and day.day == 29 and day >= self.since


@pytest.mark.parametrize(
    "calendar", [LeapDayCalendar(2, time_zone="Asia/Tokyo"), WeeklyCalendar(base=LeapDayCalendar(2, date(2026, 1, 1)))]
)
def test_a_calendar_of_an_application_is_stored_and_used(store: Harness, calendar: BaseCalendar) -> None:
    store.put_calendar(NAME, calendar)
    assert store.store.calendars([NAME])[NAME].calendar == calendar
    store.schedule(job(), hourly(), calendar=calendar)
    node = store.node()
    store.clock.advance(SECOND)
    assert store.fire_one(node).calendar == calendar


def test_a_calendar_of_an_application_whose_class_has_no_kind_is_refused(store: Harness) -> None:
    @dataclass(frozen=True)
    class Nameless(LeapDayCalendar):
        pass

    with pytest.raises(
        InvalidCalendarError, match="Nameless cannot be stored, because the class does not define its own kind"
    ):
        store.put_calendar(NAME, Nameless(2))
    assert store.store.names(NameKind.CALENDARS) == []


def test_a_calendar_that_is_stored_is_not_replaced_without_replace(store: Harness) -> None:
    store.put_calendar(NAME, EVERY_DAY)
    before = store.store.calendars([NAME])[NAME]
    with pytest.raises(ObjectAlreadyExistsError, match="calendar 'workdays' exists already; pass replace=True"):
        store.put_calendar(NAME, NOT_TODAY)
    assert store.store.calendars([NAME])[NAME] == before
    store.put_calendar(NAME, NOT_TODAY, replace=True)
    after = store.store.calendars([NAME])[NAME]
    assert after.calendar == NOT_TODAY
    assert after.revision > before.revision


def test_a_value_that_is_not_a_calendar_is_refused(store: Harness) -> None:
    with pytest.raises(InvalidCalendarError, match="cannot be stored"):
        store.put_calendar(NAME, object())  # type: ignore[arg-type]
    assert store.store.names(NameKind.CALENDARS) == []


def test_a_calendar_in_use_is_not_removed(named: Harness) -> None:
    with pytest.raises(CalendarInUseError, match="'workdays' is in use"):
        named.store.delete_calendar(NAME)
    assert named.store.names(NameKind.CALENDARS) == [NAME]
    named.store.delete_triggers([key("hourly")])
    assert named.store.delete_calendar(NAME)


def test_the_triggers_of_a_calendar_are_found(named: Harness) -> None:
    named.schedule(job("other"), every(60, name="without"))
    assert [record.trigger.name for record in named.store.find(TriggerQuery(calendar=NAME), None)] == ["hourly"]
    assert named.store.find(TriggerQuery(calendar="absent"), None) == []


def test_a_fire_has_its_calendar(named: Harness) -> None:
    node = named.node()
    named.clock.advance(SECOND)
    fired = named.fire_one(node)
    assert fired.calendar == EVERY_DAY
    assert fired.calendar_revision == named.store.calendars([NAME])[NAME].revision


def test_replacing_voids_the_instants_that_were_computed_from_the_old(named: Harness) -> None:
    assert named.upcoming("hourly")
    at = named.progress("hourly")
    named.put_calendar(NAME, NOT_TODAY, replace=True)
    assert named.upcoming("hourly") == []
    assert named.progress("hourly") == at, "its next fire time stays"
    node = named.node()
    named.clock.advance(SECOND)
    took = named.acquire(node)
    assert not took.fired
    [unfilled] = took.unfilled
    assert unfilled.calendar == NOT_TODAY
    named.fire_one(node)
    following = named.progress("hourly").next_fire_time
    assert following is not None
    assert following >= (START + DAY).replace(hour=0, minute=0, second=0), "by the new calendar"


def test_what_was_computed_from_the_old_calendar_is_not_stored(named: Harness) -> None:
    node = named.node()
    named.put_calendar(NAME, EVERY_DAY, replace=True)
    named.clock.advance(SECOND)
    unfilled = named.acquire(node).unfilled
    named.put_calendar(NAME, NOT_TODAY, replace=True)
    named.refill(node, unfilled)
    assert named.upcoming("hourly") == []
    named.store.reject(node, [(one, "cannot be computed") for one in unfilled])
    assert named.state("hourly") == "WAITING"


def test_a_refill_computed_from_the_old_calendar_is_refused(named: Harness) -> None:
    node = named.node()
    named.store.store_jobs([], replace=False)
    named.clock.advance(SECOND)
    fired = named.fire_one(node)
    assert fired.next_fire_time is not None
    named.put_calendar(NAME, NOT_TODAY, replace=True)
    stale = refill(fired.trigger, fired.next_fire_time, UpcomingFireTimes(), fired.times_triggered, fired.calendar)
    unrefilled = LoadedFire.of(
        FireFacts(*fired[: len(FireFacts._fields)])._replace(upcoming_instants=(), upcoming_is_complete=False),
        load_trigger=lambda: fired.trigger,
        load_job=lambda: fired.job_detail,
        load_calendar=lambda: fired.calendar,
    )
    completion: Completion = named.ended(unrefilled, refill=stale)
    named.store.complete(node, [completion])
    assert named.upcoming("hourly") == []


def test_a_trigger_prepared_by_an_old_calendar_is_stored_without_its_instants(store: Harness) -> None:
    store.put_calendar(NAME, EVERY_DAY)
    store.schedule(job(durable=True))
    prepared = store.prepare(hourly(), job().key, EVERY_DAY)
    store.put_calendar(NAME, NOT_TODAY, replace=True)
    from quartzpy.store.protocol import JobEntry

    store.store.store_jobs([JobEntry(None, [prepared])], replace=False)
    assert store.upcoming("hourly") == []


def moves(store: Harness, calendar: WeeklyCalendar) -> list[TriggerMove]:
    made = []
    for record in store.store.find(TriggerQuery(calendar=NAME), None):
        progress = record.trigger.with_new_calendar(
            record.progress, calendar, now=store.clock.now(), late_after=60 * SECOND
        )
        made.append(
            TriggerMove(
                record, moved_to(PreparedTrigger(record.trigger, progress, UpcomingFireTimes()), progress, calendar)
            )
        )
    return made


@pytest.mark.parametrize("state", ["WAITING", "PAUSED", "ERROR"])
def test_moving_changes_fire_times_and_leaves_states_as_they_are(named: Harness, state: str) -> None:
    """Quartz revives triggers in ERROR, and loses the pause of a single one."""
    if state == "PAUSED":
        named.store.pause(NamedTriggers([key("hourly")]))
    elif state == "ERROR":
        named.set_state(key("hourly"), TriggerState.ERROR)
    named.put_calendar(NAME, NOT_TODAY, replace=True)
    assert named.store.move_triggers(moves(named, NOT_TODAY)) == {key("hourly")}
    assert named.state("hourly") == state
    following = named.progress("hourly").next_fire_time
    assert following is not None
    assert NOT_TODAY.is_included(following)
    assert following > START
    assert all(NOT_TODAY.is_included(instant) for instant in named.upcoming("hourly"))


@pytest.mark.parametrize("ends", [False, True])
def test_moving_takes_over_the_whole_progress(named: Harness, ends: bool) -> None:
    [record] = named.store.find(TriggerQuery(calendar=NAME), None)
    progress = TriggerProgress(None if ends else START + 3 * DAY, START - DAY, 7)
    there = PreparedTrigger(record.trigger, progress, UpcomingFireTimes(is_complete=ends))
    assert named.store.move_triggers([TriggerMove(record, there)]) == {key("hourly")}
    assert named.progress("hourly") == progress


def test_a_trigger_that_changed_since_it_was_read_is_left_alone(named: Harness) -> None:
    planned = moves(named, NOT_TODAY)
    named.schedule(job(), hourly(start=START + DAY), replace=True, calendar=EVERY_DAY)
    before = named.progress("hourly")
    assert named.store.move_triggers(planned) == set()
    assert named.progress("hourly") == before


@pytest.mark.parametrize("state", ["WAITING", "PAUSED", "ERROR"])
def test_a_trigger_without_included_fire_times_is_complete_and_stays_with_its_job(named: Harness, state: str) -> None:
    if state == "PAUSED":
        named.store.pause(NamedTriggers([key("hourly")]))
    elif state == "ERROR":
        named.set_state(key("hourly"), TriggerState.ERROR)
    [record] = named.store.find(TriggerQuery(calendar=NAME), None)
    nothing = TriggerMove(
        record, PreparedTrigger(record.trigger, type(record.progress)(None), UpcomingFireTimes(is_complete=True))
    )
    assert named.store.move_triggers([nothing]) == {key("hourly")}
    assert named.state("hourly") == "COMPLETE"
    assert named.progress("hourly").next_fire_time is None
    assert stored_job(named.store, job().key) == job()


def test_a_trigger_that_names_no_stored_calendar_is_refused(store: Harness) -> None:
    with pytest.raises(CalendarNotFoundError, match="'workdays'"):
        store.schedule(job(), hourly(), calendar=EVERY_DAY)
    assert stored_job(store.store, job().key) is None


def test_a_calendar_belongs_to_its_owner_until_it_is_replaced(store: Harness) -> None:
    store.put_calendar(NAME, EVERY_DAY)
    store.put_calendar("another", EVERY_DAY)
    assert store.store.owned("app").calendars == frozenset()
    store.store.own("app", [], [], calendars=[NAME])
    assert store.store.owned("app").calendars == {NAME}
    assert store.store.owned("somebody").calendars == frozenset()
    store.store.own("somebody", [], [], calendars=[NAME, "another"])
    assert store.store.owned("app").calendars == frozenset()
    store.put_calendar(NAME, NOT_TODAY, replace=True)
    assert store.store.owned("somebody").calendars == {"another"}
    store.store.delete_calendar("another")
    store.put_calendar("another", EVERY_DAY)
    assert store.store.owned("somebody").calendars == frozenset()
    store.store.own("somebody", [], [], calendars=["another"])
    store.store.clear()
    assert store.store.owned("somebody").calendars == frozenset()
