"""When, why and by whom a trigger was paused."""

from __future__ import annotations

from quartzpy.matchers import GroupMatcher
from quartzpy.states import JobMode
from quartzpy.store.protocol import EVERYTHING, JobGroups, NamedTriggers, PauseNote, TriggerGroups, TriggersOfJobs
from tests.contract.harness import SECOND, Harness, at, every, job, job_key, key, serial, stored_trigger

MIGRATION = PauseNote("the warehouse is being moved", "ann")


def note(store: Harness, name: str = "every") -> tuple[object, ...]:
    record = stored_trigger(store.store, key(name))
    assert record is not None
    return record.paused_at, record.paused_by, record.pause_reason


NOTHING = (None, None, None)


def test_a_pause_is_stored_with_its_note_until_it_is_resumed(store: Harness) -> None:
    store.schedule(job(), every(10, start=at(100)))
    assert note(store) == NOTHING
    store.clock.set(at(5))
    store.store.pause(NamedTriggers([key("every")]), MIGRATION)
    assert note(store) == (at(5), "ann", "the warehouse is being moved")
    store.store.resume(NamedTriggers([key("every")]))
    assert note(store) == NOTHING
    store.store.pause(NamedTriggers([key("every")]))
    assert note(store) == (at(5), None, None)


def test_every_way_to_pause_takes_a_note(store: Harness) -> None:
    store.schedule(job(), every(10, start=at(100)))
    everything = GroupMatcher.anything()
    for pause in (
        lambda: store.store.pause(TriggersOfJobs([job_key()]), MIGRATION),
        lambda: store.store.pause(TriggerGroups(everything), MIGRATION),
        lambda: store.store.pause(JobGroups(everything), MIGRATION),
        lambda: store.store.pause(EVERYTHING, MIGRATION),
    ):
        pause()
        assert note(store) == (at(0), "ann", "the warehouse is being moved")
        store.store.resume(EVERYTHING)
        assert note(store) == NOTHING


def test_a_later_reason_replaces_the_first_and_the_instant_stays(store: Harness) -> None:
    store.schedule(job(), every(10, start=at(100)))
    store.store.pause(NamedTriggers([key("every")]), MIGRATION)
    store.clock.advance(SECOND)
    store.store.pause(NamedTriggers([key("every")]))
    assert note(store) == (at(0), "ann", "the warehouse is being moved")
    store.store.pause(TriggersOfJobs([job_key()]), PauseNote("the tariff is wrong"))
    assert note(store) == (at(0), None, "the tariff is wrong")


def test_a_blocked_trigger_keeps_its_note_when_it_is_unblocked(store: Harness) -> None:
    node = store.node()
    store.schedule(serial(), every(10))
    fired = store.fire_one(node)
    store.store.pause(NamedTriggers([key("every")]), MIGRATION)
    assert store.state("every") == "PAUSED_BLOCKED"
    store.complete(node, fired)
    assert store.state("every") == "PAUSED"
    assert note(store) == (at(0), "ann", "the warehouse is being moved")


def test_a_mode_is_no_pause_with_a_note(store: Harness) -> None:
    store.schedule(job(), every(10, start=at(100)))
    store.store.set_mode(job_key(), JobMode.DISABLED)
    assert (store.state("every"), note(store)) == ("PAUSED", NOTHING)
    store.store.pause(NamedTriggers([key("every")]), MIGRATION)
    assert note(store) == (at(0), "ann", "the warehouse is being moved")
    store.store.set_mode(job_key(), JobMode.ENABLED)
    assert (store.state("every"), note(store)[1]) == ("PAUSED", "ann")


def test_storing_the_same_schedule_again_keeps_the_note(store: Harness) -> None:
    store.schedule(job(), every(10, start=at(100)))
    store.store.pause(NamedTriggers([key("every")]), MIGRATION)
    store.schedule(job(), every(10, start=at(100), description="new"), replace=True)
    assert note(store) == (at(0), "ann", "the warehouse is being moved")
    store.schedule(job(), every(20, start=at(100)), replace=True)
    assert note(store) == NOTHING
