"""Tests of pausing and resuming triggers, jobs, groups and everything."""

from __future__ import annotations

import pytest

from quartzpy.errors import IllegalStateChangeError, TriggerNotFoundError
from quartzpy.matchers import GroupMatcher
from quartzpy.scheduler.singles import reset_from_error
from quartzpy.states import TriggerState
from quartzpy.store.protocol import EVERYTHING, JobGroups, NamedTriggers, TriggerGroups, TriggersOfJobs
from tests.contract.harness import HOUR, Harness, at, every, job, job_key, key, names, once, serial

GROUPS = ["billing", "billing-eu", "eu-billing", "100%", "100x", "a_b", "axb"]
MATCHES = [
    (GroupMatcher.equals("billing"), {"billing"}),
    (GroupMatcher.starts_with("billing"), {"billing", "billing-eu"}),
    (GroupMatcher.ends_with("billing"), {"billing", "eu-billing"}),
    (GroupMatcher.contains("-"), {"billing-eu", "eu-billing"}),
    (GroupMatcher.anything(), set(GROUPS)),
    (GroupMatcher.equals("100%"), {"100%"}),
    (GroupMatcher.starts_with("100%"), {"100%"}),
    (GroupMatcher.ends_with("%"), {"100%"}),
    (GroupMatcher.contains("%"), {"100%"}),
    (GroupMatcher.starts_with("a_"), {"a_b"}),
    (GroupMatcher.contains("_"), {"a_b"}),
    (GroupMatcher.ends_with("_b"), {"a_b"}),
    (GroupMatcher.contains("BILLING"), set()),
]
each_match = pytest.mark.parametrize(
    ("matcher", "matched"), MATCHES, ids=[f"{m.operator}-{m.value}" for m, _ in MATCHES]
)


def test_a_paused_trigger_does_not_fire_until_it_is_resumed(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), once(), once("other"))
    store.store.pause(NamedTriggers([key("once"), key("absent")]))
    assert store.state("once") == "PAUSED"
    assert names(store.fire_due(node)) == ["other"]
    assert store.store.resume(NamedTriggers([key("once"), key("absent")])) == at(0)
    assert names(store.fire_due(node)) == ["once"]


def test_pausing_and_resuming_nothing_is_possible(store: Harness) -> None:
    store.store.pause(NamedTriggers([]))
    assert store.store.resume(NamedTriggers([])) is None
    store.store.pause(TriggersOfJobs([]))
    assert store.store.resume(TriggersOfJobs([])) is None


def test_resuming_what_is_not_paused_changes_nothing(store: Harness) -> None:
    store.schedule(job(), once(when=at(100)))
    before = store.everything()
    assert store.store.resume(NamedTriggers([key("once")])) is None
    assert store.everything() == before


def test_resuming_answers_with_the_soonest_fire_time(store: Harness) -> None:
    store.schedule(job(), once("a", at(30)), once("b", at(20)), once("c", at(10)))
    store.store.pause(EVERYTHING)
    assert store.store.resume(NamedTriggers([key("a"), key("b")])) == at(20)


def test_a_blocked_trigger_is_paused_and_blocked(store: Harness) -> None:
    node = store.node()
    store.schedule(serial(), every(10))
    fired = store.fire_one(node)
    store.store.pause(NamedTriggers([key("every")]))
    assert store.state("every") == "PAUSED_BLOCKED"
    store.complete(node, fired)
    assert store.state("every") == "PAUSED"


def test_a_trigger_that_is_resumed_while_its_serial_job_runs_is_blocked(store: Harness) -> None:
    node = store.node()
    store.schedule(serial(), every(10), once("other", at(5)))
    store.store.pause(NamedTriggers([key("other")]))
    fired = store.fire_one(node)
    assert store.state("other") == "PAUSED_BLOCKED"
    store.store.resume(NamedTriggers([key("other")]))
    assert store.state("other") == "BLOCKED"
    store.complete(node, fired)
    assert store.state("other") == "WAITING"


def test_a_running_execution_is_not_touched_by_pausing(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), every(10))
    fired = store.fire_one(node)
    store.store.pause(EVERYTHING)
    assert not store.complete(node, fired).fenced
    assert store.state("every") == "PAUSED"


def test_complete_triggers_are_neither_paused_nor_resumed(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), once())
    store.fire_one(node)
    store.store.pause(EVERYTHING)
    assert store.state("once") == "COMPLETE"
    store.store.resume(EVERYTHING)
    assert store.state("once") == "COMPLETE"


def test_triggers_in_error_are_neither_paused_nor_resumed(store: Harness) -> None:
    store.schedule(job(), once())
    store.set_state(key("once"), TriggerState.ERROR)
    store.store.pause(EVERYTHING)
    store.store.resume(EVERYTHING)
    assert store.state("once") == "ERROR"
    assert not store.fire_due(store.node())


# --- jobs


def test_pausing_a_job_pauses_all_its_triggers(store: Harness) -> None:
    store.schedule(job("one"), once("a", at(9)), once("b", at(8), group="other"))
    store.schedule(job("two"), once("c", at(7)))
    store.store.pause(TriggersOfJobs([job_key("one"), job_key("absent")]))
    assert (store.states("a", "c"), store.state("b", "other")) == (["PAUSED", "WAITING"], "PAUSED")
    assert store.store.resume(TriggersOfJobs([job_key("one"), job_key("absent")])) == at(8)
    assert (store.states("a", "c"), store.state("b", "other")) == (["WAITING", "WAITING"], "WAITING")


def test_pausing_a_job_does_not_pause_triggers_that_come_later(store: Harness) -> None:
    store.schedule(job(), once("a"))
    store.store.pause(TriggersOfJobs([job_key()]))
    store.add_triggers(job_key(), once("b"))
    assert store.states("a", "b") == ["PAUSED", "WAITING"]


# --- groups


def schedule_groups(store: Harness) -> None:
    for group in GROUPS:
        store.schedule(job(group, group), once(group, at(5), group=group))


def paused(store: Harness) -> set[str]:
    return {group for group in GROUPS if store.state(group, group) == "PAUSED"}


@each_match
def test_trigger_groups_are_paused_by_each_operator(store: Harness, matcher: GroupMatcher, matched: set[str]) -> None:
    schedule_groups(store)
    assert store.store.pause(TriggerGroups(matcher)) == matched
    assert paused(store) == matched
    assert store.store.pauses().trigger_groups == matched
    assert store.store.pauses().job_groups == set()


@each_match
def test_trigger_groups_are_resumed_by_each_operator(store: Harness, matcher: GroupMatcher, matched: set[str]) -> None:
    schedule_groups(store)
    store.store.pause(TriggerGroups(GroupMatcher.anything()))
    assert store.store.resume(TriggerGroups(matcher)) == (at(5) if matched else None)
    assert paused(store) == set(GROUPS) - matched
    assert store.store.pauses().trigger_groups == set(GROUPS) - matched


@each_match
def test_job_groups_are_paused_by_each_operator(store: Harness, matcher: GroupMatcher, matched: set[str]) -> None:
    schedule_groups(store)
    assert store.store.pause(JobGroups(matcher)) == matched
    assert paused(store) == matched
    assert store.store.pauses().job_groups == matched
    assert store.store.pauses().trigger_groups == set()


@each_match
def test_job_groups_are_resumed_by_each_operator(store: Harness, matcher: GroupMatcher, matched: set[str]) -> None:
    schedule_groups(store)
    store.store.pause(JobGroups(GroupMatcher.anything()))
    assert store.store.resume(JobGroups(matcher)) == (at(5) if matched else None)
    assert paused(store) == set(GROUPS) - matched
    assert store.store.pauses().job_groups == set(GROUPS) - matched


def test_a_paused_trigger_group_is_remembered_for_triggers_that_come_later(store: Harness) -> None:
    store.schedule(job(durable=True), once("a", group="quiet"))
    store.store.pause(TriggerGroups(GroupMatcher.equals("quiet")))
    store.store.delete_triggers([key("a", "quiet")])
    store.add_triggers(job_key(), once("b", group="quiet"), once("c", group="loud"))
    assert (store.state("b", "quiet"), store.state("c", "loud")) == ("PAUSED", "WAITING")
    store.store.resume(TriggerGroups(GroupMatcher.equals("quiet")))
    store.add_triggers(job_key(), once("d", group="quiet"))
    assert (store.state("b", "quiet"), store.state("d", "quiet")) == ("WAITING", "WAITING")


def test_a_paused_job_group_is_remembered_for_triggers_that_come_later(store: Harness) -> None:
    quiet = job("quiet", "quiet", durable=True)
    store.schedule(quiet)
    store.schedule(job("loud", "loud"), once("l"))
    assert store.store.pause(JobGroups(GroupMatcher.equals("quiet"))) == {"quiet"}
    store.add_triggers(quiet.key, once("a"))
    assert store.states("a", "l") == ["PAUSED", "WAITING"]
    store.store.resume(JobGroups(GroupMatcher.equals("quiet")))
    store.add_triggers(quiet.key, once("b"))
    assert store.states("a", "b") == ["WAITING", "WAITING"]


def test_a_group_that_does_not_exist_yet_is_paused_by_its_name(store: Harness) -> None:
    assert store.store.pause(TriggerGroups(GroupMatcher.equals("later"))) == {"later"}
    assert store.store.pause(JobGroups(GroupMatcher.equals("jobs"))) == {"jobs"}
    assert (store.store.pauses().trigger_groups, store.store.pauses().job_groups) == ({"later"}, {"jobs"})
    store.schedule(job(), once("a", group="later"))
    store.schedule(job("j", "jobs"), once("b"))
    assert (store.state("a", "later"), store.state("b")) == ("PAUSED", "PAUSED")


def test_other_operators_pause_only_groups_that_exist(store: Harness) -> None:
    assert store.store.pause(TriggerGroups(GroupMatcher.starts_with("la"))) == set()
    store.schedule(job(), once("a", group="later"))
    assert store.state("a", "later") == "WAITING"


def test_a_trigger_of_a_paused_group_can_be_resumed_by_itself(store: Harness) -> None:
    store.schedule(job(), once("a"), once("b"))
    store.store.pause(TriggerGroups(GroupMatcher.equals("DEFAULT")))
    store.store.resume(NamedTriggers([key("a")]))
    assert store.states("a", "b") == ["WAITING", "PAUSED"]
    assert store.store.pauses().trigger_groups == {"DEFAULT"}
    store.add_triggers(job_key(), once("c"))
    assert store.state("c") == "PAUSED"


# --- everything


def test_everything_is_paused_and_what_comes_later_too(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), once("a", group="one"), once("b", group="two"))
    store.store.pause(EVERYTHING)
    assert store.store.pauses().everything
    assert store.store.pauses().trigger_groups == {"one", "two"}
    store.schedule(job("later", "later"), once("c", group="three"))
    assert [store.state("a", "one"), store.state("b", "two"), store.state("c", "three")] == ["PAUSED"] * 3
    assert not store.fire_due(node)


def test_everything_is_resumed_and_nothing_remembered(store: Harness) -> None:
    store.schedule(job(), once("a", at(9), group="one"), once("b", at(8)))
    store.store.pause(NamedTriggers([key("b")]))
    store.store.pause(TriggerGroups(GroupMatcher.equals("empty")))
    store.store.pause(JobGroups(GroupMatcher.equals("jobs")))
    store.store.pause(EVERYTHING)
    assert store.store.resume(EVERYTHING) == at(8)
    assert not store.store.pauses().everything
    assert store.store.pauses().trigger_groups == set()
    assert store.store.pauses().job_groups == set()
    assert (store.state("a", "one"), store.state("b")) == ("WAITING", "WAITING")
    store.schedule(job("later", "jobs"), once("c", group="empty"))
    assert store.state("c", "empty") == "WAITING"


def test_resuming_one_group_leaves_everything_paused(store: Harness) -> None:
    store.schedule(job(), once("a", group="one"), once("b", group="two"))
    store.store.pause(EVERYTHING)
    store.store.resume(TriggerGroups(GroupMatcher.equals("one")))
    assert (store.state("a", "one"), store.state("b", "two")) == ("WAITING", "PAUSED")
    assert store.store.pauses().everything
    store.add_triggers(job_key(), once("c", group="three"))
    assert store.state("c", "three") == "PAUSED"


def test_pausing_twice_is_as_pausing_once(store: Harness) -> None:
    store.schedule(job(), once())
    for _ in range(2):
        store.store.pause(EVERYTHING)
        store.store.pause(TriggerGroups(GroupMatcher.equals("DEFAULT")))
    store.store.resume(EVERYTHING)
    assert store.state("once") == "WAITING"


# --- errors


def test_a_trigger_in_error_waits_again_when_it_is_reset(store: Harness) -> None:
    store.schedule(job(), once(when=at(7)))
    store.set_state(key("once"), TriggerState.ERROR)
    assert reset_from_error(store.store, key("once")) == at(7)
    assert store.state("once") == "WAITING"


@pytest.mark.parametrize(
    "pause",
    [
        pytest.param(lambda h: h.store.pause(EVERYTHING), id="all"),
        pytest.param(lambda h: h.store.pause(TriggerGroups(GroupMatcher.equals("DEFAULT"))), id="group"),
        pytest.param(lambda h: h.store.pause(JobGroups(GroupMatcher.equals("DEFAULT"))), id="job group"),
    ],
)
def test_a_trigger_that_is_reset_is_paused_where_a_new_one_would_be(store: Harness, pause: object) -> None:
    store.schedule(job(), once())
    pause(store)  # type: ignore[operator]
    store.set_state(key("once"), TriggerState.ERROR)
    reset_from_error(store.store, key("once"))
    assert store.state("once") == "PAUSED"


def test_a_trigger_that_is_reset_while_its_serial_job_runs_is_blocked(store: Harness) -> None:
    node = store.node()
    store.schedule(serial(), every(10), once("broken", at(5)))
    store.set_state(key("broken"), TriggerState.ERROR)
    fired = store.fire_one(node)
    reset_from_error(store.store, key("broken"))
    assert store.state("broken") == "BLOCKED"
    store.complete(node, fired)
    assert store.state("broken") == "WAITING"


def test_what_is_in_no_error_cannot_be_reset(store: Harness) -> None:
    store.schedule(job(), once())
    with pytest.raises(IllegalStateChangeError, match="WAITING"):
        reset_from_error(store.store, key("once"))
    with pytest.raises(TriggerNotFoundError):
        reset_from_error(store.store, key("absent"))


def test_many_triggers_are_reset_at_once_and_the_others_stay(store: Harness) -> None:
    store.schedule(job(), *(once(f"t{n}", at(n)) for n in range(4)))
    for n in (1, 2):
        store.set_state(key(f"t{n}"), TriggerState.ERROR)
    reset = store.store.reset_from_error([key("t0"), key("t1"), key("t2"), key("absent")])
    assert reset == {key("t1"): at(1), key("t2"): at(2)}
    assert store.states("t0", "t1", "t2", "t3") == ["WAITING"] * 4
    assert store.store.reset_from_error([]) == {}


def test_pausing_works_on_many_triggers_at_once(store: Harness) -> None:
    store.schedule(job(), *[once(f"t{n}", at(n)) for n in range(200)])
    store.store.pause(TriggerGroups(GroupMatcher.anything()))
    store.clock.advance(HOUR)
    assert not store.fire_due(store.node(), threshold=2 * HOUR)
    assert store.store.resume(TriggerGroups(GroupMatcher.anything())) == at(0)
    assert len(store.fire_due(store.node("b"), limit=500, threshold=2 * HOUR)) == 200
