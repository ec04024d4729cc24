"""Tests of storing and replacing jobs and triggers, all or none."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from quartzpy.calendars.days import WeeklyCalendar
from quartzpy.errors import CalendarNotFoundError, JobNotFoundError, ObjectAlreadyExistsError
from quartzpy.jobs.job import JobDetail
from quartzpy.matchers import GroupMatcher
from quartzpy.store.protocol import EVERYTHING, JobEntry, JobGroups, TriggerGroups
from quartzpy.triggers.cron import CronTrigger
from quartzpy.triggers.trigger import Trigger
from tests.contract.harness import (
    START,
    Harness,
    at,
    every,
    job,
    job_key,
    key,
    names,
    once,
    serial,
    stored_job,
    stored_trigger,
)

HEAVY = job(execution_group="heavy").placement.text


def entry(store: Harness, detail: JobDetail | None, *triggers: Trigger, of: str = "job") -> JobEntry:
    bound = job_key(of) if detail is None else detail.key
    return JobEntry(detail, [store.prepare(trigger, bound) for trigger in triggers])


def test_a_stored_job_is_read_back_unchanged(store: Harness) -> None:
    detail = job(
        "nightly",
        "billing",
        display_name="Nightly report",
        documentation_url="https://wiki.example.com/nightly?page=1#top",
        description="a description",
        capture_logs="INFO",
        data={"n": 1, "when": START, "nested": {"list": [1, None, "ü"]}},
        durable=True,
        requests_recovery=True,
        disallow_concurrent=True,
        persist_data=True,
    )
    assert store.schedule(detail) is None
    assert stored_job(store.store, detail.key) == detail


@pytest.mark.parametrize(
    "trigger",
    [
        pytest.param(once(), id="once"),
        pytest.param(
            every(
                7.25,
                "full",
                group="billing",
                times=9,
                end_time=at(1_000),
                priority=-3,
                misfire="ignore",
                description="a description",
                data={"n": 1, "when": START},
                misfire_threshold=timedelta(minutes=5),
            ),
            id="simple",
        ),
        pytest.param(
            CronTrigger("0 0 2 ? * MON-FRI", "cron", time_zone="Europe/Berlin", start_time=START, misfire="do_nothing"),
            id="cron",
        ),
    ],
)
def test_a_stored_trigger_is_read_back_unchanged(store: Harness, trigger: Trigger) -> None:
    prepared = store.prepare(trigger, job_key())
    assert store.schedule(job(), trigger) == prepared.progress.next_fire_time
    record = stored_trigger(store.store, trigger.key)
    assert record is not None
    assert record.trigger == prepared.trigger
    assert record.progress == prepared.progress
    assert (record.state, record.job_type, record.error) == ("WAITING", "report", None)
    assert tuple(record.upcoming) == prepared.upcoming.instants


def test_storing_answers_with_the_soonest_fire_time(store: Harness) -> None:
    entries = [
        entry(store, job("one"), once("one", at(30)), once("two", at(10))),
        entry(store, job("two"), once("three", at(20))),
    ]
    assert store.store.store_jobs(entries, replace=False) == at(10)


def test_storing_nothing_is_possible(store: Harness) -> None:
    assert store.store.store_jobs([], replace=False) is None


def test_changing_the_data_after_storing_changes_nothing(store: Harness) -> None:
    data = {"list": [1]}
    store.schedule(job(data=data), once(data=data))
    data["list"].append(2)
    fired = store.fire_one(store.node())
    (fired.job_detail.data or {})["list"].append(3)
    (fired.trigger.data or {})["list"].append(3)
    assert store.job_data(job_key()) == {"list": [1]}
    record = stored_trigger(store.store, key("once"))
    assert record is not None
    assert dict(record.trigger.data or {}) == {"list": [1]}


def test_triggers_can_be_added_to_a_stored_job(store: Harness) -> None:
    store.schedule(job(durable=True))
    assert store.add_triggers(job_key(), once("a", at(2)), once("b", at(1))) == at(1)
    assert store.states("a", "b") == ["WAITING", "WAITING"]


def test_every_new_trigger_has_a_generation_of_its_own(store: Harness) -> None:
    store.schedule(job(), once("a"), once("b"))
    assert store.generation("a") != store.generation("b")


# --- refusals change nothing


def test_a_job_key_that_exists_is_refused(store: Harness) -> None:
    store.schedule(job(durable=True))
    before = store.everything()
    with pytest.raises(ObjectAlreadyExistsError, match=r"DEFAULT\.job"):
        store.schedule(job(data={"other": 1}), once())
    assert store.everything() == before


def test_a_trigger_key_that_exists_is_refused(store: Harness) -> None:
    store.schedule(job(), once())
    before = store.everything()
    with pytest.raises(ObjectAlreadyExistsError, match=r"DEFAULT\.once"):
        store.add_triggers(job_key(), once("new"), once(when=at(9)))
    assert store.everything() == before


def test_a_taken_key_in_the_second_of_two_entries_leaves_the_first_undone(store: Harness) -> None:
    store.schedule(job("taken", durable=True))
    before = store.everything()
    with pytest.raises(ObjectAlreadyExistsError):
        store.store.store_jobs(
            [entry(store, job("new"), once("new")), entry(store, job("taken"), once("other"))], replace=False
        )
    assert store.everything() == before


def test_a_taken_trigger_key_in_the_second_of_two_entries_leaves_the_first_undone(store: Harness) -> None:
    store.schedule(job(), once())
    before = store.everything()
    with pytest.raises(ObjectAlreadyExistsError):
        store.store.store_jobs(
            [entry(store, job("new"), once("new")), entry(store, job("newer"), once())], replace=False
        )
    assert store.everything() == before


def test_a_trigger_for_a_job_that_is_not_stored_is_refused(store: Harness) -> None:
    before = store.everything()
    with pytest.raises(JobNotFoundError, match=r"DEFAULT\.absent"):
        store.store.store_jobs(
            [entry(store, job("new"), once("new")), entry(store, None, once(), of="absent")], replace=False
        )
    assert store.everything() == before


def test_a_trigger_with_a_calendar_that_is_not_stored_is_refused(store: Harness) -> None:
    before = store.everything()
    with pytest.raises(CalendarNotFoundError, match="holidays"):
        store.schedule(job(), once("plain"), once("with", calendar="holidays"))
    assert store.everything() == before


def test_a_trigger_with_a_stored_calendar_is_accepted(store: Harness) -> None:
    calendar = WeeklyCalendar(time_zone="UTC")
    store.put_calendar("weekdays", calendar)
    found = store.store.calendars(["weekdays", "absent"])
    assert {name: stored.calendar for name, stored in found.items()} == {"weekdays": calendar}
    store.schedule(job(), once(calendar="weekdays"), calendar=calendar)
    assert store.state("once") == "WAITING"


# --- the state of a new trigger


@pytest.mark.parametrize(
    "pause",
    [
        pytest.param(lambda h: h.store.pause(TriggerGroups(GroupMatcher.equals("later"))), id="its group"),
        pytest.param(lambda h: h.store.pause(JobGroups(GroupMatcher.equals("jobs"))), id="its job's group"),
        pytest.param(lambda h: h.store.pause(EVERYTHING), id="all"),
    ],
)
def test_a_new_trigger_is_paused_where_others_like_it_are(store: Harness, pause: object) -> None:
    pause(store)  # type: ignore[operator]
    store.schedule(job(group="jobs"), once(group="later"))
    assert store.state("once", "later") == "PAUSED"
    assert not store.fire_due(store.node())


def test_a_new_trigger_of_a_running_serial_job_is_blocked(store: Harness) -> None:
    node = store.node()
    store.schedule(serial(), every(10))
    fired = store.fire_one(node)
    store.add_triggers(job_key(), once())
    store.store.pause(TriggerGroups(GroupMatcher.equals("quiet")))
    store.add_triggers(job_key(), once("paused", group="quiet"))
    assert store.state("once") == "BLOCKED"
    assert store.state("paused", "quiet") == "PAUSED_BLOCKED"
    assert not store.fire_due(node)
    store.complete(node, fired)
    assert store.state("once") == "WAITING"
    assert store.state("paused", "quiet") == "PAUSED"


def test_a_new_trigger_of_a_running_concurrent_job_waits(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), every(10))
    store.fire_one(node)
    store.add_triggers(job_key(), once())
    assert names(store.fire_due(node)) == ["once"]


def test_a_serial_job_that_is_deleted_and_stored_again_while_it_runs_is_blocked(store: Harness) -> None:
    node = store.node()
    store.schedule(serial(), every(10))
    fired = store.fire_one(node)
    store.store.delete_jobs([job_key()])
    store.schedule(serial(), every(10))
    assert store.state("every") == "BLOCKED"
    store.complete(node, fired)
    assert store.state("every") == "WAITING"


# --- values that a replaced job keeps


def test_a_job_is_replaced_all_but_its_data(store: Harness) -> None:
    store.schedule(job(durable=True, data={"n": 1}))
    store.store.store_jobs(
        [JobEntry(job(durable=True, description="new", data={"n": 0}), keeps_data=True)], replace=True
    )
    detail = stored_job(store.store, job_key())
    assert detail is not None
    assert (detail.description, detail.data) == ("new", {"n": 1})


def test_a_job_is_modified_as_it_is_stored_then(store: Harness) -> None:
    store.schedule(job(durable=True, description="old", data={"n": 1}))
    changed = store.store.modify_job(
        job_key(), lambda known: replace(known, description=f"{known.description}er", data={}), keeps_data=True
    )
    assert changed is not None
    detail = stored_job(store.store, job_key())
    assert detail is not None
    assert (detail.description, detail.data) == ("older", {"n": 1})
    assert store.store.modify_job(job_key("none"), lambda known: known, keeps_data=True) is None


@pytest.mark.parametrize("value", [1e22, 1.5e300, -1e16, 5e-324, 0.1, 2**8191, 1.0])
def test_a_number_is_read_back_unchanged(store: Harness, value: float) -> None:
    store.schedule(job(durable=True, data={"n": value}))
    found = store.job_data(job_key())["n"]
    assert (type(found), found) == (type(value), value)
