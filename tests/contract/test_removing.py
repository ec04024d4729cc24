"""Tests of removing jobs and triggers, and of what becomes of claims and running executions."""

from __future__ import annotations

from quartzpy.calendars.days import WeeklyCalendar
from quartzpy.matchers import GroupMatcher
from quartzpy.store.protocol import EVERYTHING, JobGroups, TriggerGroups
from quartzpy.store.queries import JobQuery, TriggerQuery
from tests.contract.harness import (
    HOUR,
    Harness,
    every,
    job,
    job_key,
    key,
    once,
    stored_job,
)


def test_removing_triggers_names_those_that_were_there(store: Harness) -> None:
    store.schedule(job(), once("a"), once("b"), once("c"))
    assert store.store.delete_triggers([key("a"), key("b"), key("absent")]) == {key("a"), key("b")}
    assert store.states("a", "b", "c") == ["gone", "gone", "WAITING"]
    assert store.store.delete_triggers([]) == set()


def test_a_job_that_is_not_durable_is_deleted_with_its_last_trigger(store: Harness) -> None:
    store.schedule(job(), once("a"), once("b"))
    store.schedule(job("kept", durable=True), once("c"))
    store.store.delete_triggers([key("a"), key("c")])
    assert stored_job(store.store, job_key()) is not None
    store.store.delete_triggers([key("b")])
    assert stored_job(store.store, job_key()) is None
    assert stored_job(store.store, job_key("kept")) is not None


def test_removing_jobs_removes_their_triggers(store: Harness) -> None:
    store.schedule(job("one", durable=True), once("a"), once("b"))
    store.schedule(job("two"), once("c"))
    assert store.store.delete_jobs([job_key("one"), job_key("absent")]) == {job_key("one"): {key("a"), key("b")}}
    assert store.states("a", "b", "c") == ["gone", "gone", "WAITING"]
    assert stored_job(store.store, job_key("one")) is None
    assert store.store.delete_jobs([]) == {}


def test_a_running_execution_continues_when_its_job_is_removed(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), every(10))
    fired = store.fire_one(node)
    store.store.delete_jobs([job_key()])
    assert [row.fire_id for row in store.running()] == [fired.fire_id]
    assert not store.complete(node, fired).fenced


def test_clearing_removes_everything_but_what_runs(store: Harness) -> None:
    node = store.node()
    store.schedule(job("one", durable=True), every(10))
    fired = store.fire_one(node)
    store.put_calendar("weekdays", WeeklyCalendar(time_zone="UTC"))
    store.store.pause(TriggerGroups(GroupMatcher.equals("a")))
    store.store.pause(JobGroups(GroupMatcher.equals("b")))
    store.store.pause(EVERYTHING)
    store.store.clear()
    assert not store.store.find(JobQuery(), 10)
    assert not store.store.find(TriggerQuery(), 10)
    assert not store.store.calendars(["weekdays"])
    assert not store.store.pauses().trigger_groups
    assert not store.store.pauses().job_groups
    assert not store.store.pauses().everything
    assert [row.fire_id for row in store.store.list_running()] == [fired.fire_id]
    assert not store.complete(node, fired).fenced
    store.clock.advance(HOUR)
    assert store.acquire(node).next_due is None
