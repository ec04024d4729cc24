"""The checker is checked: it passes what is right, and finds each invariant that a made-up history breaks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import psycopg
import pytest

from tests.chaos import history
from tests.chaos.audit import Auditor, processor_share
from tests.chaos.checker import match
from tests.chaos.lives import fire_times
from tests.chaos.made_up import EPOCH, INSTANTS, LIMITS, History, good, iso, lines_of
from tests.chaos.records import SECOND
from tests.waiting import LIMIT


def test_a_good_history_passes() -> None:
    report = good().report()
    assert report.violations == []
    # The last instants may have been held up by the pause that ended the run.
    assert 50 <= report.figures["targets"] <= report.figures["matched"]


def test_a_node_that_says_it_cannot_go_on_is_counted() -> None:
    made = good()
    made.say("exited", 20, name="n1", child=1, status=75)
    report = made.report()
    assert report.violations == []
    assert report.figures["gave_up"] == 1


def test_the_last_error_decides_about_a_failure() -> None:
    """A statement that is prepared no more is sent anew: that may meet a fault, and only then does the job fail."""
    first = 'Traceback (most recent call last):\n  ...\nInvalidSqlStatementName: statement "q_1" does not exist\n\n'
    last = "Traceback (most recent call last):\n  ...\nStoreUnavailableError: injected\n"
    made = good()
    made.fault("sqlstates", "all", 30, 32, "X10")
    made.executed("chaos.plain", 31, 9_998, "FAILED", error=f"{first}During handling of it:\n\n{last}")
    assert made.violated() == set()
    made.executed("chaos.plain", 31, 9_999, "FAILED", error=first)
    assert made.violated() == {"unplanned_failure"}


def test_deadlocks_are_counted_through_a_crash_of_the_server() -> None:
    made = good()
    for second, deadlocks in enumerate((1, 3, 0, 2)):
        made.say("epochs", 12 + second, before=0, nodes=[], held=[], connections=9, deadlocks=deadlocks)
    assert made.report().figures["deadlocks"] == 5


def _start(made: History, trigger: str, instant: float) -> dict[str, Any]:
    [line] = lines_of(made, "start", trigger=trigger, instant=iso(instant))
    return line


def _without(made: History, trigger: str, instant: float) -> None:
    fire_id = _start(made, trigger, instant)["fire_id"]
    made.lines = [line for line in made.lines if line.get("fire_id") != fire_id]
    made.end["executions"] = [row for row in made.end["executions"] if row["fire_id"] != fire_id]


RECOVERY = "RECOVERING_JOBS.recover_1"


def _tenants(made: History, **flags: Any) -> None:
    """Triggers of a job that runs once at a time for each of two tenants. They need not run: their life is unsure."""
    names = {"chaos.keyed-a0": "a", "chaos.keyed-a1": "a", "chaos.keyed-a2": "a", "chaos.keyed-b0": "b"}
    answer = {} if "start" in flags else {"answer": "unknown"}
    options: dict[str, Any] = {"start": 12, "period": 100, **answer, **flags}
    for name in names:
        made.schedule(name, job="keyed", limit=1, keys=names, **options)


def _wide(made: History) -> None:
    """Triggers of a job that runs three times at a time at most; their life is unsure."""
    for place in range(5):
        made.schedule(f"chaos.wide-{place}", start=12, period=100, job="wide", limit=3, answer="unknown")


def _backlog(made: History, *order: int, until: float = 14) -> None:
    """Triggers of one serial job, due 0.1 s after each other, which are fired in some order from second 13 on."""
    for place in sorted(order):
        start = 12 + place / 10
        made.schedule(f"chaos.deep-{place}", start=start, period=100, job="deep", serial=True, ordered=True)
    for turn, place in enumerate(order):
        at = until - 1 + turn / 10
        made.run(f"chaos.deep-{place}", 12 + place / 10, at=at, seconds=0.05, job="deep")


BROKEN: dict[str, tuple[str, Callable[[History], Any]]] = {}


def breaks(kind: str) -> Callable[[Callable[[History], Any]], Callable[[History], Any]]:
    def known(function: Callable[[History], Any]) -> Callable[[History], Any]:
        BROKEN[function.__name__] = (kind, function)
        return function

    return known


@breaks("lost")
def an_instant_without_a_run(made: History) -> None:
    _without(made, "chaos.plain", 20)


@breaks("lost")
def an_acknowledged_one_shot_that_never_ran(made: History) -> None:
    _without(made, "once.shot", 15)


@breaks("lost")
def a_fire_ended_as_terminated_on_a_node_that_nobody_harmed(made: History) -> None:
    _without(made, "chaos.plain", 20)
    made.executed("chaos.plain", 20, 9_999, "TERMINATED")


@breaks("lost")
def an_instant_without_a_run_where_one_fault_followed_the_other(made: History) -> None:
    """However long the chain of excuses: in the end it had to run."""
    _without(made, "chaos.plain", 15)
    for second in range(14, 30, 2):
        made.fault("cut", "n1", second, second + 0.5, "X8")


@breaks("lost")
def a_fire_that_never_began_on_a_node_that_died_much_later(made: History) -> None:
    _without(made, "chaos.plain", 14)
    made.executed("chaos.plain", 14, 9_999, "TERMINATED", ended=26)
    made.fault("kill", "n1", 23.5, 24)


@breaks("duplicated")
def an_instant_run_twice(made: History) -> None:
    made.run("chaos.plain", 20, at=20.5)


@breaks("duplicated")
def an_instant_run_twice_under_a_fault(made: History) -> None:
    made.fault("lose", "n1", 19, 22, "X9")
    made.run("chaos.plain", 20, at=21.5)


@breaks("unexpected")
def an_instant_that_there_is_not(made: History) -> None:
    made.run("chaos.plain", 20.5)


@breaks("unexpected")
def a_trigger_that_nobody_scheduled(made: History) -> None:
    made.run("chaos.other", 20)


@breaks("unexpected")
def a_run_before_the_schedule_starts(made: History) -> None:
    made.run("chaos.plain", 9)


@breaks("early")
def a_run_before_its_instant(made: History) -> None:
    _without(made, "chaos.plain", 20)
    made.run("chaos.plain", 20, at=19.9)


@breaks("late")
def a_run_long_after_its_instant(made: History) -> None:
    _without(made, "chaos.plain", 20)
    made.run("chaos.plain", 20, at=23)


@breaks("labels_lie")
def a_run_at_its_time_under_the_label_of_another_instant(made: History) -> None:
    _start(made, "chaos.plain", 20).update(instant=iso(19), coalesced_fire_times=[iso(19)])


@breaks("recovery_not_owed")
def a_recovery_that_no_death_explains(made: History) -> None:
    made.once("once.safe", 15, recovers=True)
    made.run("once.safe", 15)
    made.run("once.safe", 15, at=20, recovering=True, trigger="RECOVERING_JOBS.recover_1")


@breaks("recovery_not_owed")
def a_recovery_of_a_job_that_does_not_ask_for_one(made: History) -> None:
    made.fault("kill", "n1", 15.1, 16)
    made.run("once.shot", 15, at=20, recovering=True, trigger="RECOVERING_JOBS.recover_1", node="n2")


@breaks("lost_recovery")
def a_death_after_which_nobody_ran_the_job_again(made: History) -> None:
    made.once("once.safe", 12, recovers=True)
    made.run("once.safe", 12, seconds=None)
    made.fault("kill", "n1", 12.5, 13)


@breaks("body_overlap")
def two_executions_of_a_serial_job_at_once(made: History) -> None:
    [end] = lines_of(made, "end", trigger="chaos.serial", instant=iso(20))
    end["at"] = round(21.1 * SECOND)


@breaks("body_overlap")
def a_beat_after_the_next_has_begun(made: History) -> None:
    made.say("beat", 21.5, job="serial", fire_id=_start(made, "chaos.serial", 20)["fire_id"])


@breaks("fire_overlap")
def two_fires_of_a_serial_job(made: History) -> None:
    made.say("audit", 20, found={}, above_limit=["chaos.serial"])


@breaks("body_overlap")
def two_executions_of_one_key_at_once(made: History) -> None:
    _tenants(made)
    made.run("chaos.keyed-a0", 12, at=13, seconds=0.5, job="keyed")
    made.run("chaos.keyed-a1", 12, at=13.2, job="keyed")


@breaks("body_overlap")
def a_recovery_beside_another_execution_of_its_key(made: History) -> None:
    _tenants(made, recovers=True)
    made.run("chaos.keyed-a0", 12, seconds=None, job="keyed")
    made.fault("kill", "n1", 12.5, 13)
    made.run("chaos.keyed-a0", 12, at=18, seconds=0.5, job="keyed", node="n2", recovering=True, trigger=RECOVERY)
    made.run("chaos.keyed-a1", 12, at=18.2, job="keyed", node="n2")


@breaks("body_overlap")
def one_execution_more_than_the_limit(made: History) -> None:
    _wide(made)
    for place in range(4):
        made.run(f"chaos.wide-{place}", 12, at=12.1 + place / 10, seconds=0.5, job="wide")


@breaks("body_overlap")
def one_execution_more_than_the_limit_beside_a_zombie_too_few(made: History) -> None:
    _wide(made)
    made.fault("freeze", "n1", 12.3, 18)
    made.run("chaos.wide-0", 12, at=12.1, seconds=7, job="wide")
    for place in range(1, 5):
        made.run(f"chaos.wide-{place}", 12, at=18.5 + place / 100, seconds=0.4, job="wide", node="n2")


@breaks("lost")
def a_trigger_that_was_left_behind_by_the_others_of_its_key(made: History) -> None:
    _tenants(made, start=12, period=100)
    for place in (0, 2):
        made.run(f"chaos.keyed-a{place}", 12, job="keyed", at=12.1 + place)
    made.run("chaos.keyed-b0", 12, job="keyed")


@breaks("duplicated")
def a_trigger_that_was_let_go_twice(made: History) -> None:
    _wide(made)
    made.run("chaos.wide-0", 12, job="wide")
    made.run("chaos.wide-0", 12, at=13, job="wide")


@breaks("wrong_order")
def a_trigger_of_a_serial_job_that_overtakes_an_earlier_one(made: History) -> None:
    _backlog(made, 0, 2, 1)


@breaks("wrong_order")
def a_trigger_of_a_serial_job_that_is_passed_over_again_and_again(made: History) -> None:
    _backlog(made, 1, 2, 0)


@breaks("stale_effect")
def a_fenced_effect_with_a_smaller_fire_id(made: History) -> None:
    made.end["fenced"] = [{"job": "f", "fire_id": fire_id, "kind": "fenced"} for fire_id in (1, 3, 2)]


@breaks("half_committed")
def an_effect_of_an_execution_that_failed(made: History) -> None:
    made.end["fenced"] = [{"job": "transactional-0", "fire_id": 7, "kind": "transaction"}]
    made.executed("chaos.transactional-0", 20, 7, "FAILED")


@breaks("half_committed")
def a_success_without_its_effect(made: History) -> None:
    made.executed("chaos.transactional-0", 20, 7, "SUCCEEDED")


@breaks("lost_data")
def a_counter_that_lost_an_update(made: History) -> None:
    for line in lines_of(made, "start", trigger="chaos.counter", instant=iso(20)):
        line["seen"] -= 1


@breaks("lost_data")
def a_counter_whose_last_write_is_gone(made: History) -> None:
    made.end["counters"]["counter"] -= 1


@breaks("false_verdict")
def a_node_declared_dead_that_was_well(made: History) -> None:
    made.say("verdict", 20, nodes=["n2"])


@breaks("false_verdict")
def a_node_declared_dead_after_a_short_pause(made: History) -> None:
    made.fault("freeze", "n2", 18, 19.5, "X3")
    made.say("verdict", 20, nodes=["n2"])


@breaks("false_verdict")
def a_node_declared_dead_long_after_it_was_well_again(made: History) -> None:
    made.fault("freeze", "n2", 5, 10, "X2")
    made.say("verdict", 20, nodes=["n2"])


@breaks("false_verdict")
def a_node_declared_dead_after_its_next_process_has_joined(made: History) -> None:
    _killed_and_declared_dead(made, epoch=2)


@breaks("stuck")
def a_fire_that_is_left(made: History) -> None:
    row = {"trigger": "chaos.plain", "instant": iso(20), "fire_id": 999, "instance": "n1"}
    made.end["fired"] = [row]


@breaks("stuck")
def a_trigger_that_is_left_blocked(made: History) -> None:
    made.end["triggers"] = [{"trigger": "chaos.serial", "state": "BLOCKED", "next": None, "error": None}]


@breaks("stuck")
def a_finding_of_the_audit_that_stays(made: History) -> None:
    for second in range(15, 35):
        made.say("audit", second, found={"fire_without_node": ["3"]}, above_limit=[])


@breaks("stuck")
def an_execution_that_waits_long_for_a_thread(made: History) -> None:
    _begins_late(made, pid=1)


def _begins_late(made: History, pid: int) -> None:
    made.say("spawn", 1, name="n1", child=1)
    made.once("once.late", 14, slack=30)
    fire_id = made.run("once.late", 14, fired=14.02, at=33, pid=pid)
    for second in range(16, 32):
        made.say("audit", second, found={"endless_fire": [f"{fire_id} of once.late"]}, above_limit=[])
    made.say("audit", 33.05, found={"endless_fire": [f"{fire_id} of once.late"]}, above_limit=[])
    made.say("audit", 34, found={}, above_limit=[])


@breaks("error_state")
def a_trigger_in_error(made: History) -> None:
    made.end["triggers"] = [{"trigger": "chaos.plain", "state": "ERROR", "next": None, "error": "?"}]


@breaks("fired_while_quiet")
def a_fire_after_a_pause_was_acknowledged(made: History) -> None:
    made.api("pause", "chaos.plain", 20.5)
    made.api("resume", "chaos.plain", 24.5)


@breaks("fired_while_quiet")
def a_fire_after_a_deletion_was_acknowledged(made: History) -> None:
    made.api("delete", "chaos.plain", 25.5)


@breaks("unexpected")
def an_instant_that_came_well_after_a_deletion_was_acknowledged(made: History) -> None:
    for instant in range(26, INSTANTS.stop):
        _without(made, "chaos.plain", instant)
    made.api("delete", "chaos.plain", 24.9)


@breaks("rolled_back_ran")
def a_trigger_of_a_rolled_back_transaction(made: History) -> None:
    made.api("rolled_back", "once.never", 2, spec={"kind": "once", "start": iso(12)}, job="never")
    made.run("once.never", 12)


@breaks("not_accounted")
def a_missed_instant_of_which_nothing_is_known(made: History) -> None:
    made.schedule("chaos.misfire", policy="merge")
    for instant in (*range(10, 20), *range(21, 30)):
        made.run("chaos.misfire", instant)


@breaks("unplanned_failure")
def a_failure_that_nothing_explains(made: History) -> None:
    made.executed("chaos.plain", 31, 9_999, "FAILED", error="OSError: no")


@breaks("lost_retry")
def a_retry_that_never_came(made: History) -> None:
    made.once("once.again", 12, fails=[1])
    made.run("once.again", 12, ended="fail")


@breaks("late")
def a_retry_that_still_waits_when_the_run_ends(made: History) -> None:
    made.once("once.again", 12, fails=[1])
    fire_id = made.run("once.again", 12, ended="fail")
    waits = {"trigger": f"RETRYING_JOBS.retry_1_{fire_id}", "state": "PAUSED", "next": iso(12.5), "error": None}
    made.end["triggers"] = [waits]


@breaks("lost_retry")
def a_retry_that_ended_as_terminated_on_a_node_that_nobody_harmed(made: History) -> None:
    made.once("once.again", 12, fails=[1])
    fire_id = made.run("once.again", 12, ended="fail")
    made.executed(f"RETRYING_JOBS.retry_1_{fire_id}", 12.5, 9_999, "TERMINATED", node="n2", job="again")


@breaks("node_gone")
def a_node_that_is_not_there_at_the_end(made: History) -> None:
    made.end["alive"]["n1"] = False


@breaks("bad_exit")
def a_node_that_did_not_stop_as_asked(made: History) -> None:
    made.end["statuses"]["n1"] = None


@breaks("bad_exit")
def a_node_that_abandoned_executions_as_it_was_deployed_anew(made: History) -> None:
    made.say("deployed", 20, name="n1", release="next", status=1)


@breaks("node_exit")
def a_node_that_ended_by_itself(made: History) -> None:
    made.say("exited", 20, name="n1", child=1, status=1)


@pytest.mark.parametrize("name", sorted(BROKEN))
def test_each_broken_invariant_is_found(name: str) -> None:
    kind, function = BROKEN[name]
    made = good()
    function(made)
    assert kind in made.violated()


PASSES: dict[str, Callable[[History], Any]] = {}


def passes(function: Callable[[History], Any]) -> Callable[[History], Any]:
    PASSES[function.__name__] = function
    return function


@passes
def a_fire_that_was_committed_just_before_its_instant_and_a_deletion(made: History) -> None:
    for instant in range(26, INSTANTS.stop):
        _without(made, "chaos.plain", instant)
    made.api("delete", "chaos.plain", 24.97)


@passes
def executions_of_several_keys_at_once(made: History) -> None:
    _tenants(made)
    made.run("chaos.keyed-a0", 12, at=13, seconds=0.5, job="keyed")
    made.run("chaos.keyed-b0", 12, at=13.2, job="keyed")
    made.run("chaos.keyed-a1", 12, at=13.6, job="keyed")


@passes
def as_many_executions_at_once_as_the_limit_allows(made: History) -> None:
    _wide(made)
    for place in range(5):
        made.run(f"chaos.wide-{place}", 12, at=12.1 + place / 5, seconds=0.5, job="wide")


@passes
def a_zombie_beside_as_many_executions_as_the_limit_allows(made: History) -> None:
    _wide(made)
    made.fault("freeze", "n1", 12.3, 18)
    made.run("chaos.wide-0", 12, at=12.1, seconds=7, job="wide")
    for place in range(1, 4):
        made.run(f"chaos.wide-{place}", 12, at=18.5 + place / 100, seconds=0.4, job="wide", node="n2")


@passes
def a_backlog_in_its_order(made: History) -> None:
    _backlog(made, 0, 1, 2)


@passes
def a_backlog_in_another_order_while_a_row_was_held(made: History) -> None:
    made.fault("hold", "all", 12.5, 12.9, "X18")
    _backlog(made, 0, 2, 1)


@passes
def a_trigger_that_came_first_because_the_other_was_hardly_due(made: History) -> None:
    _backlog(made, 1, 0, until=13.2)


@passes
def a_fire_lost_with_the_node_that_was_killed(made: History) -> None:
    _without(made, "chaos.plain", 20)
    made.executed("chaos.plain", 20, 9_999, "TERMINATED", ended=24)
    made.fault("kill", "n1", 20.01, 24)


@passes
def a_fire_lost_with_the_node_that_was_killed_while_its_process_started(made: History) -> None:
    made.once("once.process", 14, slack=15, in_process=True)
    made.executed("once.process", 14, 9_999, "TERMINATED", ended=26)
    made.fault("kill", "n1", 23.5, 24)


@passes
def a_retry_lost_with_the_node_that_was_killed(made: History) -> None:
    made.once("once.again", 12, fails=[1])
    fire_id = made.run("once.again", 12, ended="fail")
    made.executed(f"RETRYING_JOBS.retry_1_{fire_id}", 12.5, 9_999, "TERMINATED", node="n2", job="again", ended=16)
    made.fault("kill", "n2", 12.6, 16)


@passes
def a_recovery_after_a_kill(made: History) -> None:
    made.once("once.safe", 12, recovers=True)
    made.run("once.safe", 12, seconds=None)
    made.fault("kill", "n1", 12.5, 13)
    made.run("once.safe", 12, at=16, recovering=True, trigger="RECOVERING_JOBS.recover_1", node="n2")


@passes
def a_run_that_a_fault_delayed(made: History) -> None:
    made.fault("server_restart", "all", 19.5, 22, "X5")
    _without(made, "chaos.plain", 20)
    made.run("chaos.plain", 20, at=24)


@passes
def a_zombie_that_did_not_know_yet(made: History) -> None:
    fire_id = _start(made, "chaos.serial", 20)["fire_id"]
    made.fault("freeze", "n2", 20.05, 28, "X2")
    made.forget(event="end", fire_id=fire_id)
    made.say("beat", 28.01, job="serial", fire_id=fire_id)
    made.end["executions"] = [row for row in made.end["executions"] if row["fire_id"] != fire_id]


@passes
def a_verdict_on_a_node_that_was_killed(made: History) -> None:
    made.fault("kill", "n2", 15, 21)
    made.say("verdict", 18.5, nodes=["n2"])


@passes
def a_schedule_of_unknown_outcome_that_did_nothing(made: History) -> None:
    made.once("once.perhaps", 15, answer="unknown")


@passes
def a_schedule_of_unknown_outcome_that_did_run(made: History) -> None:
    made.once("once.perhaps", 15, answer="unknown")
    made.run("once.perhaps", 15)


@passes
def a_pause_that_was_kept(made: History) -> None:
    made.schedule("moved.one", start=10)
    made.api("pause", "moved.one", 15.5)
    made.api("resume", "moved.one", 19.5)
    for instant in (*range(10, 16), *range(20, 30)):
        made.run("moved.one", instant)


@passes
def misfires_that_are_told_of(made: History) -> None:
    made.schedule("chaos.misfire", policy="merge")
    for instant in (*range(10, 20), *range(22, 30)):
        made.run("chaos.misfire", instant)
    made.end["misfires"] = [{"trigger": "chaos.misfire", "action": "SKIPPED", "missed": [iso(20), iso(21)]}]


@passes
def one_run_that_covers_several_instants(made: History) -> None:
    made.schedule("chaos.misfire", policy="merge")
    for instant in (*range(10, 20), *range(23, 30)):
        made.run("chaos.misfire", instant)
    made.run("chaos.misfire", 22.4, at=22.5, coalesced_fire_times=[20, 21, 22])


@passes
def one_run_within_the_millisecond_of_an_instant_that_it_covers(made: History) -> None:
    made.schedule("chaos.misfire", policy="merge")
    for instant in (*range(10, 20), *range(23, 30)):
        made.run("chaos.misfire", instant)
    made.run("chaos.misfire", 22.0007, at=22.5, coalesced_fire_times=[20, 21, 22])
    for line in (*lines_of(made, "start", instant=iso(22.0007)), *lines_of(made, "end", instant=iso(22.0007))):
        line["execution_key"] = f"chaos.misfire@{iso(22)}"


@passes
def a_failure_that_a_database_takes_no_more_before_its_node_is_killed(made: History) -> None:
    made.once("once.again", 12, fails=[1])
    made.run("once.again", 12, ended="fail")
    made.end["executions"][-1]["outcome"] = "TERMINATED"
    made.fault("read_only", "all", 12.05, 17, "X11")
    made.fault("kill", "n1", 18.5, 19)


def _killed_and_declared_dead(made: History, epoch: int) -> None:
    """Its process was killed ten seconds ago; its row has this epoch then."""
    rest: dict[str, Any] = {"held": [], "connections": 4, "deadlocks": 0}
    made.say("spawn", 1, name="n2", child=2)
    made.say("epochs", 9, before=round(9e9), nodes=[["n2", 1]], **rest)
    made.say("spawn", 10, name="n2", child=3)
    made.say("epochs", 18, before=round(18e9), nodes=[["n2", epoch]], **rest)
    made.say("verdict", 20, nodes=["n2"])


@passes
def a_killed_node_declared_dead_before_its_next_process_has_joined(made: History) -> None:
    _killed_and_declared_dead(made, epoch=1)


@passes
def a_schedule_that_was_replaced_late(made: History) -> None:
    """Both the old and the new one had this instant, and were there when it came."""
    made.schedule("moved.one", start=10)
    spec = {"kind": "interval", "start": iso(15), "period_us": 1_000_000}
    made.api("reschedule", "moved.one", 15.5, spec=spec)
    for instant in (*range(10, 30), 15):
        made.run("moved.one", instant, at=15.6 if instant == 15 else None)


@passes
def a_retry_that_came(made: History) -> None:
    made.once("once.again", 12, fails=[1])
    made.run("once.again", 12, ended="fail")
    made.run("once.again", 12, at=12.5, attempt=2, trigger="RETRYING_JOBS.retry_1")


@passes
def a_finding_of_the_audit_that_is_settled(made: History) -> None:
    for second in (15, 16, 17):
        made.say("audit", second, found={"fire_without_node": ["3"]}, above_limit=[])
    made.say("audit", 18, found={}, above_limit=[])


@passes
def an_execution_that_waits_long_for_the_start_of_its_process(made: History) -> None:
    _begins_late(made, pid=7)


@passes
def what_began_late_while_the_machine_was_slow(made: History) -> None:
    _slow_machine(made, 11, 16)
    _start(made, "chaos.plain", 12)["at"] = round(16.5 * SECOND)


@pytest.mark.parametrize("name", sorted(PASSES))
def test_what_is_right_passes(name: str) -> None:
    made = good()
    PASSES[name](made)
    assert made.report().violations == []


def _slow_machine(made: History, begin: int, end: int) -> None:
    """The auditor measures each half second."""
    for half in range(2 * begin, 2 * end):
        made.say("machine_slow", half / 2 + 0.5, since=round(half / 2 * SECOND), share=0.1)


def test_a_slow_machine_excuses_lateness_for_as_long_as_it_is_slow_and_nothing_that_is_lost() -> None:
    made = good()
    _slow_machine(made, 11, 16)
    assert made.report().figures["machine_slow"] == {"spans": 1, "seconds": 5.0}
    _start(made, "chaos.plain", 12)["at"] = round(39 * SECOND)
    assert made.violated() == {"late"}
    _without(made, "chaos.plain", 12)
    assert made.violated() == {"lost"}


def test_a_machine_that_is_slow_to_the_end_excuses_lateness_and_a_verdict_about_who_had_no_time() -> None:
    made = good()
    _start(made, "chaos.plain", 12)["at"] = round(39 * SECOND)
    made.say("verdict", 20, node="n1", nodes=["n2"], recovered=0, terminated=0)
    assert made.violated() == {"late", "false_verdict"}
    _slow_machine(made, 11, 40)
    assert made.violated() == set()
    _without(made, "chaos.serial", 12)
    assert made.violated() == {"lost"}


@pytest.mark.parametrize("is_slow", [True, False])
def test_what_a_slow_machine_leaves_behind_may_be_so_late_that_it_misfires(is_slow: bool) -> None:
    made = good()
    if is_slow:
        _slow_machine(made, 11, 16)
    _without(made, "chaos.plain", 12)
    made.end["misfires"] = [{"trigger": "chaos.plain", "action": "SKIPPED", "missed": [iso(12)]}]
    assert made.violated(replace(LIMITS, misfires_after=5.0)) == (set() if is_slow else {"late"})


def test_the_auditor_notes_how_little_of_a_processor_it_gets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = tmp_path / "history"
    monkeypatch.setenv(history.FILE_VARIABLE, str(record))
    shares = iter([0.9, 0.1, 0.1, 0.9, 0.9])
    measured = threading.Event()

    def share() -> float:
        found = next(shares, None)
        if found is None:
            measured.set()
        return found or 1.0

    auditor = Auditor(refuse, share=share)
    auditor.start()
    assert measured.wait(LIMIT)
    auditor.stop()
    first, second = (line for line in history.read(record) if line["event"] == "machine_slow")
    assert (first["share"], second["share"]) == (0.1, 0.1)
    assert first["since"] < second["since"] <= first["at"] < second["at"]
    assert 0 < processor_share() <= 1.1


def refuse() -> NoReturn:
    raise psycopg.OperationalError("nothing is there")


def test_the_reference_of_cron_looks_at_each_second_in_its_zone() -> None:
    spec = {"kind": "cron", "start": iso(0), "zone": "Asia/Kolkata", "seconds": [1, 4]}
    found = [(at - EPOCH) // SECOND for at in fire_times(spec, EPOCH + 130 * SECOND)]
    seconds = [(EPOCH // SECOND + at) % 60 for at in found]
    assert seconds == [1, 4] * (len(found) // 2) + [1] * (len(found) % 2) or seconds == [4, *[1, 4] * (len(found) // 2)]


@pytest.mark.parametrize(
    ("windows", "starts", "left"),
    [
        ([(0, 5, True), (1, 6, True)], [2, 3], (0, 0)),
        ([(0, 5, True), (1, 6, True)], [2], (1, 0)),
        ([(0, 5, True)], [2, 3], (0, 1)),
        ([(0, 5, True)], [6], (1, 1)),
        ([(0, 5, False)], [], (0, 0)),
        ([(0, 5, False), (0, 5, True)], [3], (0, 0)),
        # The one that closes first takes the first start, or the second would find nothing.
        ([(0, 9, True), (1, 4, True)], [2, 8], (0, 0)),
        # So does one that nothing has to start in, unless that leaves a required one.
        ([(0, 9, True), (1, 4, False)], [2, 8], (0, 0)),
        ([(0, 5, True), (1, 4, False)], [2, 8], (0, 1)),
    ],
)
def test_blind_matching_is_a_largest_one(
    windows: list[tuple[int, int, bool]], starts: list[int], left: tuple[int, int]
) -> None:
    assert match(windows, starts) == left


def test_what_is_handed_back_and_recovered_afterwards_counts_as_its_original() -> None:
    """The execution key names the original, where the trigger of a recovery is that of the repetition."""
    made = good()
    made.schedule("chaos.burst", recovers=True)
    for instant in (one for one in range(10, 30) if one != 20):
        made.run("chaos.burst", instant)
    made.fault("kill", "n1", 20.5, 23)
    made.executed("chaos.burst", 20, 9_001, "SNOOZED")
    made.run("chaos.burst", 20, at=25, recovering=True, trigger="RECOVERING_JOBS.retry_9002", node="n2")
    assert made.violated() == set()


def test_an_execution_key_that_names_another_fire_is_found() -> None:
    made = good()
    _start(made, "chaos.plain", 15)["execution_key"] = f"chaos.plain@{iso(16)}"
    assert "labels_lie" in made.violated()


def test_a_job_that_works_off_its_backlog_at_its_rate_is_not_stuck_and_one_that_stands_still_is() -> None:
    made = good()
    made.schedule("chaos.rated", start=10, period=2, rated=True)
    for instant in range(10, 30, 2):
        made.run("chaos.rated", instant)
    for second in range(13, 29):
        made.say("audit", second, found={"blocked_by_nobody": ["chaos.rated"]}, above_limit=[])
    assert made.violated() == set()
    made.forget(event="start", trigger="chaos.rated")
    assert "stuck" in made.violated()


def test_fires_above_a_rate_limit_are_found() -> None:
    made = good()
    made.schedule("chaos.rated", start=10, period=2, rated=True)
    for instant in range(10, 30, 2):
        made.run("chaos.rated", instant)
    assert made.violated() == set()
    made.executed("chaos.rated", 20.1, 9_001, "SUCCEEDED")
    assert made.violated() == {"rate_exceeded"}


@pytest.mark.parametrize(
    "log", [None, "", "INFO executing chaos.logged@1999", "INFO executing {0}\nINFO executing {0}", "{0} and more"]
)
def test_a_log_that_is_lost_or_mixed_up_is_found(log: str | None) -> None:
    made = good()
    made.schedule("chaos.logged", logs=True)
    for instant in range(10, 30):
        fire_id = made.run("chaos.logged", instant)
        [row] = [row for row in made.end["executions"] if row["fire_id"] == fire_id]
        row["log"] = f"12:00:00 INFO executing chaos.logged@{iso(instant)}"
    assert made.violated() == set()
    row["log"] = None if log is None else log.format(f"chaos.logged@{iso(instant)}")
    assert made.violated() == {"wrong_log"}


def test_a_fire_on_an_engine_runs_once() -> None:
    """Also where the runs are of different workers, and where another attempt is another fire."""
    made = good()
    made.schedule("chaos.remote", period=30, engine=True)
    fire_id = made.run("chaos.remote", 10, ended="fail")
    made.run("chaos.remote", 10, at=12, attempt=2, trigger="RETRYING_JOBS.retry_1_1")
    assert made.violated() == set()
    made.run("chaos.remote", 10, at=14, attempt=2, trigger="RETRYING_JOBS.retry_1_1", fire_id=fire_id, pid=2)
    assert "two_tickets" in made.violated()


def test_a_worker_of_an_engine_that_dies_may_cost_a_run() -> None:
    made = good()
    made.schedule("chaos.remote", period=30, engine=True)
    made.executed("chaos.remote", 10, 9_999, "FAILED")
    assert made.violated() == {"unplanned_failure"}
    made.fault("worker_kill", "n1", 9, 10.5, "E", executor="pool")
    assert made.violated() == set()
