"""Tests of job modes (disabled, by hand only) and of the manual mode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from quartzpy.keys import MANUAL_TRIGGERS
from quartzpy.matchers import GroupMatcher
from quartzpy.placement import Placement
from quartzpy.states import JobMode, Missed, Outcome
from quartzpy.store.protocol import EVERYTHING, NamedTriggers, TriggerGroups, TriggersOfJobs
from quartzpy.store.records import JobHeader
from tests.contract.harness import HOUR, SECOND, Harness, at, every, job, job_key, key, once, stored_mode


def by_hand(name: str = "by-hand") -> object:
    return once(name, group=MANUAL_TRIGGERS)


def fired(store: Harness, node: object) -> list[str]:
    return sorted(one.trigger_name for one in store.fire_due(node))  # type: ignore[arg-type]


def test_a_job_is_enabled_by_default(store: Harness) -> None:
    store.schedule(job(), once())
    assert stored_mode(store.store, job_key()) is JobMode.ENABLED
    header = JobHeader(job_key(), job().job_type, JobMode.ENABLED, Placement(), timeout=None)
    assert store.store.job_headers([job_key()]).get(job_key()) == header
    store.schedule(job(timeout=timedelta(minutes=3)), replace=True)
    assert store.store.job_headers([job_key()]).get(job_key()) == replace(header, timeout=timedelta(minutes=3))
    assert stored_mode(store.store, job_key("none")) is None
    assert store.store.job_headers([job_key("none")]).get(job_key("none")) is None
    assert store.store.set_mode(job_key("none"), JobMode.DISABLED) is None


def test_nothing_of_a_disabled_job_fires(store: Harness) -> None:
    node = store.node()
    store.schedule(job(durable=True), every(60), once("once"))
    store.schedule(job("other"), once("other"))
    store.store.set_mode(job_key(), JobMode.DISABLED)
    store.add_triggers(job_key(), once("later"), by_hand())  # type: ignore[arg-type]
    assert fired(store, node) == ["other"]
    assert store.states("every", "once", "later") == ["PAUSED"] * 3
    assert store.state("by-hand", MANUAL_TRIGGERS) == "PAUSED"
    assert store.store.set_mode(job_key(), JobMode.ENABLED) == at(0)
    assert fired(store, node) == ["by-hand", "every", "later", "once"]


def test_a_job_that_runs_by_hand_only_does_so(store: Harness) -> None:
    node = store.node()
    store.schedule(job(durable=True), every(60))
    store.store.set_mode(job_key(), JobMode.MANUAL)
    store.add_triggers(job_key(), once("later"), by_hand())  # type: ignore[arg-type]
    assert fired(store, node) == ["by-hand"]
    assert store.states("every", "later") == ["PAUSED"] * 2
    store.store.set_mode(job_key(), JobMode.DISABLED)
    store.add_triggers(job_key(), by_hand("again"))  # type: ignore[arg-type]
    store.store.set_mode(job_key(), JobMode.MANUAL)
    assert fired(store, node) == ["again"], "what was made by hand goes on"


@pytest.mark.parametrize("resume", ["trigger", "job", "group", "all"])
def test_resuming_does_not_enable(store: Harness, resume: str) -> None:
    node = store.node()
    store.schedule(job(durable=True), every(60))
    store.store.set_mode(job_key(), JobMode.DISABLED)
    match resume:
        case "trigger":
            store.store.resume(NamedTriggers([key("every")]))
        case "job":
            store.store.resume(TriggersOfJobs([job_key()]))
        case "group":
            store.store.resume(TriggerGroups(GroupMatcher.anything()))
        case "all":
            store.store.resume(EVERYTHING)
    assert store.state("every") == "PAUSED"
    assert fired(store, node) == []


def test_the_mode_outlives_replacing_the_job(store: Harness) -> None:
    store.schedule(job(durable=True), once())
    store.store.set_mode(job_key(), JobMode.DISABLED)
    store.schedule(job(durable=True, description="new"), once(when=at(9)), replace=True)
    assert stored_mode(store.store, job_key()) is JobMode.DISABLED
    assert store.state("once") == "PAUSED"


def test_retries_of_a_disabled_job_wait(store: Harness) -> None:
    node = store.node()
    store.schedule(job(durable=True), once())
    running = store.fire_one(node)
    store.store.set_mode(job_key(), JobMode.DISABLED)
    store.complete(node, running, outcome=Outcome.FAILED, retry_after=SECOND)
    store.clock.advance(HOUR)
    assert fired(store, node) == []
    store.store.set_mode(job_key(), JobMode.ENABLED)
    assert [one.attempt for one in store.fire_due(node)] == [2]


def test_in_manual_mode_nothing_fires_by_its_schedule(store: Harness) -> None:
    node = store.node()
    store.schedule(job(durable=True), every(60))
    assert not store.store.pauses().is_manual
    store.store.set_mode(None, JobMode.MANUAL)
    assert store.store.pauses().is_manual
    store.add_triggers(job_key(), once("later"), by_hand())  # type: ignore[arg-type]
    store.store.resume(EVERYTHING)
    store.store.resume(NamedTriggers([key("every")]))
    assert fired(store, node) == ["by-hand"]
    assert not store.store.pauses().everything
    assert store.store.pauses().trigger_groups == set()
    assert store.store.set_mode(None, JobMode.ENABLED) == at(0)
    assert fired(store, node) == ["every", "later"]


def test_leaving_manual_mode_enables_no_disabled_job(store: Harness) -> None:
    node = store.node()
    store.schedule(job(durable=True), every(60))
    store.store.set_mode(job_key(), JobMode.DISABLED)
    store.store.set_mode(None, JobMode.MANUAL)
    store.store.set_mode(None, JobMode.ENABLED)
    assert fired(store, node) == []


def pause_in_its_own_way(store: Harness, how: str) -> None:
    match how:
        case "trigger":
            store.store.pause(NamedTriggers([key("every")]))
        case "group":
            store.store.pause(TriggerGroups(GroupMatcher.equals("DEFAULT")))
        case "all":
            store.store.pause(EVERYTHING)


@pytest.mark.parametrize("how", ["trigger", "group", "all"])
@pytest.mark.parametrize("first", ["pause", "mode"])
@pytest.mark.parametrize("mode", ["job", "manual"])
def test_the_end_of_a_mode_resumes_nothing_that_was_paused_otherwise(
    store: Harness, how: str, first: str, mode: str
) -> None:
    node = store.node()
    store.schedule(job(durable=True), every(60))
    begin: dict[str, Callable[[], object]] = {
        "pause": lambda: pause_in_its_own_way(store, how),
        "mode": lambda: (
            store.store.set_mode(job_key(), JobMode.DISABLED)
            if mode == "job"
            else store.store.set_mode(None, JobMode.MANUAL)
        ),
    }
    for step in sorted(begin, key=lambda step: step != first):
        begin[step]()
    if mode == "job":
        store.store.set_mode(job_key(), JobMode.ENABLED)
    else:
        store.store.set_mode(None, JobMode.ENABLED)
    assert store.state("every") == "PAUSED"
    assert fired(store, node) == []
    store.store.resume(EVERYTHING)
    assert fired(store, node) == ["every"]


def test_a_trigger_that_is_resumed_under_a_mode_fires_after_its_end(store: Harness) -> None:
    node = store.node()
    store.schedule(job(durable=True), every(60))
    store.store.pause(NamedTriggers([key("every")]))
    store.store.set_mode(job_key(), JobMode.DISABLED)
    store.store.resume(NamedTriggers([key("every")]))
    assert store.state("every") == "PAUSED"
    store.store.set_mode(job_key(), JobMode.ENABLED)
    assert fired(store, node) == ["every"]


def test_one_mode_may_end_under_another(store: Harness) -> None:
    node = store.node()
    store.schedule(job(durable=True), every(60))
    store.store.set_mode(job_key(), JobMode.DISABLED)
    store.store.set_mode(None, JobMode.MANUAL)
    store.store.set_mode(job_key(), JobMode.ENABLED)
    assert fired(store, node) == []
    store.store.set_mode(None, JobMode.ENABLED)
    assert fired(store, node) == ["every"]


def test_what_was_missed_under_a_mode_may_be_skipped(store: Harness) -> None:
    node = store.node()
    store.schedule(job(durable=True), every(60))
    store.store.set_mode(job_key(), JobMode.DISABLED)
    store.clock.set(at(130))
    store.store.set_mode(job_key(), JobMode.ENABLED, Missed.SKIP)
    store.misfire(node)
    assert fired(store, node) == []
    assert store.progress("every").next_fire_time == at(180)
