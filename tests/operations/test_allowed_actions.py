"""The views offer an action only if it is possible at that moment: each offer is taken, and each refusal is right."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from quartzpy import EVERYTHING, Scheduler
from quartzpy.errors import IllegalStateChangeError, JobNotFoundError
from quartzpy.keys import JobKey
from quartzpy.operations import Operations
from quartzpy.scheduler.explain import COMMANDS, PAGE
from quartzpy.states import Outcome, TriggerState
from tests.contract.harness import (
    MINUTE,
    SECOND,
    START,
    Harness,
    at,
    every,
    job,
    key,
    once,
    serial,
    stored_trigger,
)
from tests.database import empty_tables

Prepare = Callable[[Harness, Scheduler], object]
Make = Callable[[Prepare], tuple[Harness, Operations]]
GIVEN = {"text": "every 5m", "start": at(-600), "end": at(0), "even_if_paused": True}
OF_PAUSES = GIVEN | {"end": at(86_400)}
JOB, TRIGGER = JobKey("job"), key("t")


def nothing(store: Harness, scheduler: Scheduler) -> None: ...


def in_error(store: Harness, scheduler: Scheduler) -> None:
    store.set_state(TRIGGER, TriggerState.ERROR)


def disabled(store: Harness, scheduler: Scheduler) -> None:
    scheduler.set_mode(JOB, "DISABLED")


def by_hand(store: Harness, scheduler: Scheduler) -> None:
    scheduler.set_mode(JOB, "MANUAL")


def manual(store: Harness, scheduler: Scheduler) -> None:
    scheduler.set_mode(EVERYTHING, "MANUAL")


def paused(store: Harness, scheduler: Scheduler) -> None:
    scheduler.pause_trigger(TRIGGER)


def all_paused(store: Harness, scheduler: Scheduler) -> None:
    scheduler.pause_all()


def ended(store: Harness, scheduler: Scheduler) -> None:
    """Let the last fire of a job that disallows concurrent execution run: its trigger is COMPLETE until it ends."""
    scheduler.unschedule_job(TRIGGER)
    store.schedule(serial(durable=True), once("t"), replace=True)
    store.fire_one(store.node())


def running(store: Harness, scheduler: Scheduler) -> None:
    store.clock.advance(MINUTE)
    store.fire_one(store.node())


def cancelled(store: Harness, scheduler: Scheduler) -> None:
    running(store, scheduler)
    [row] = scheduler.running()
    scheduler.cancel(row.fire_id)


def claimed(store: Harness, scheduler: Scheduler) -> None:
    store.clock.advance(59 * SECOND)
    store.acquire(store.node(), look_ahead=2 * SECOND)


SCENES = (nothing, in_error, disabled, by_hand, manual, paused, all_paused, ended, running, cancelled, claimed)


@pytest.fixture
def make(store: Harness) -> Make:
    """Makes the scene anew, on tables that are empty."""

    def made(prepare: Prepare) -> tuple[Harness, Operations]:
        empty_tables(store._connection)  # type: ignore[attr-defined]
        store.clock.set(START)
        store.store.open()
        return fill(store, prepare)

    return made


def fill(store: Harness, prepare: Prepare) -> tuple[Harness, Operations]:
    store.schedule(job(durable=True), every(60, "t", start=at(60)))
    operations = Operations(Scheduler(store.store, name="contract"))
    prepare(store, operations.scheduler)
    return store, operations


def do(operations: Operations, action: str, subject: Any) -> None:
    method = getattr(operations.actions, action)
    values = OF_PAUSES if action == "pause" else GIVEN
    method(subject, **{name: values[name] for name in inspect.signature(method).parameters if name in values})


def offers(operations: Operations) -> Iterator[tuple[str, Any]]:
    """Yield each action that a view offers, with its subject."""
    yield from ((action, TRIGGER) for action in operations.trigger(TRIGGER).actions)
    yield from ((action, JOB) for action in operations.job(JOB).actions)
    for row in operations.running():
        yield from ((action, row.fire_id) for action in row.actions)
        assert row.actions == operations.execution(row.fire_id).actions
    for node in operations.cluster().nodes:
        yield from ((action, node.node) for action in node.actions)


def effect(store: Harness) -> Any:
    """Return what an action on the trigger may change."""
    record = stored_trigger(store.store, TRIGGER)
    return None if record is None else (record.state, record.next_fire_time, record.trigger)


@pytest.mark.parametrize("prepare", SCENES)
def test_each_action_that_is_offered_is_possible(make: Make, prepare: Prepare) -> None:
    for number in range(len(list(offers(make(prepare)[1])))):
        store, operations = make(prepare)
        action, subject = list(offers(operations))[number]
        before = effect(store)
        do(operations, action, subject)
        if subject == TRIGGER and action != "backfill":
            assert effect(store) != before, f"{action} changed nothing"


@pytest.mark.parametrize(
    ("prepare", "missing"),
    [
        (nothing, {"reset", "resume"}),
        (in_error, {"pause", "resume", "skip_next"}),
        (disabled, {"pause", "resume", "backfill", "reset"}),
        (by_hand, {"pause", "resume", "reset"}),
        (manual, {"pause", "resume", "reset"}),
        (paused, {"pause", "reset"}),
        (all_paused, {"pause", "reset"}),
        (ended, {"pause", "resume", "skip_next", "reset"}),
    ],
)
def test_what_a_trigger_does_not_offer_changes_nothing(make: Make, prepare: Prepare, missing: set[str]) -> None:
    all_actions = {"reset", "pause", "resume", "skip_next", "reschedule", "backfill", "delete"}
    store, operations = make(prepare)
    assert set(operations.trigger(TRIGGER).actions) == all_actions - missing
    before = effect(store)
    for action in sorted(missing):
        with suppress(IllegalStateChangeError):
            do(operations, action, TRIGGER)
        assert effect(store) == before, action


@pytest.mark.parametrize(
    ("prepare", "offered"),
    [
        (nothing, ("trigger", "pause", "disable", "delete")),
        (paused, ("trigger", "resume", "disable", "delete")),
        (disabled, ("enable", "delete")),
        (by_hand, ("trigger", "enable", "disable", "delete")),
        (in_error, ("trigger", "disable", "delete")),
    ],
)
def test_a_job_offers_what_its_mode_and_its_triggers_permit(
    make: Make, prepare: Prepare, offered: tuple[str, ...]
) -> None:
    assert make(prepare)[1].job(JOB).actions == offered


def test_an_execution_whose_job_is_gone_cannot_run_again(make: Make) -> None:
    store, operations = make(nothing)
    store.clock.advance(MINUTE)
    node = store.node()
    fired = store.fire_one(node)
    fire_id = fired.fire_id
    assert operations.execution(fire_id).actions == ("cancel",)
    store.complete(node, fired, outcome=Outcome.FAILED)
    operations.scheduler.set_mode(JOB, "DISABLED")
    assert operations.execution(fire_id).actions == ()
    operations.scheduler.set_mode(JOB, "ENABLED")
    assert operations.execution(fire_id).actions == ("run_again",)
    operations.scheduler.delete_job(JOB)
    assert operations.execution(fire_id).actions == ()
    gone = rf"execution {fire_id} cannot run again: its job DEFAULT\.job is not stored any more"
    with pytest.raises(JobNotFoundError, match=gone):
        operations.actions.run_again(fire_id)


def test_a_dead_node_is_sent_no_command(make: Make) -> None:
    store, operations = make(nothing)
    store.node("a")
    [node] = operations.cluster().nodes
    assert node.actions == ("drain", "standby")
    operations.actions.drain("a")
    [node] = operations.cluster().nodes
    assert node.actions == ("resume_node",)
    store.clock.advance(10 * MINUTE)
    [node] = operations.cluster().nodes
    assert node.actions == ()


@pytest.mark.parametrize("prepare", [disabled, by_hand, manual])
def test_a_resumption_that_a_mode_holds_back_says_so(make: Make, prepare: Prepare) -> None:
    _, operations = make(prepare)
    assert "does not fire" in operations.actions.resume(TRIGGER).text
    assert operations.trigger(TRIGGER).trigger.state == "PAUSED"


def test_a_trigger_in_error_is_reset_in_the_words_of_the_reader(make: Make) -> None:
    _, operations = make(in_error)
    assert operations.why(TRIGGER)[0].endswith("then call reset_trigger_from_error.")
    assert operations.advising(COMMANDS).why(TRIGGER)[0].endswith("then run `quartzpy reset DEFAULT.t`.")
    on_page = operations.advising(PAGE).acting_as(operations.actor)
    assert on_page.trigger(TRIGGER).why[0].endswith("then choose “Reset from error”.")
