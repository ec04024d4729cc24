"""Moves that release claims: what `skip_next` and `skip_until` rest on."""

from __future__ import annotations

from quartzpy.calendars.calendar import Calendar
from quartzpy.store.protocol import TriggerMove
from quartzpy.store.records import TriggerRecord
from quartzpy.triggers.upcoming import PreparedTrigger, UpcomingFireTimes, moved_to
from tests.contract.harness import Harness, at, every, job, job_key, key, stored_job, stored_trigger


def skipping(store: Harness, name: str, fires: int, *, calendar: Calendar | None = None) -> bool:
    record = stored_trigger(store.store, key(name))
    assert record is not None
    return bool(store.store.move_triggers([_move(record, fires)]))


def _move(record: TriggerRecord, fires: int) -> TriggerMove:
    following = record.trigger.following(record.progress, None, fires)
    progress = record.trigger.skipping_to(record.progress, following[-1] if len(following) == fires else None)
    there = PreparedTrigger(record.trigger, progress, UpcomingFireTimes())
    return TriggerMove(record, moved_to(there, progress, None))


def test_skipped_fires_are_taken_from_a_repeat_count(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), every(10, times=4))
    assert skipping(store, "every", 2)
    fired = []
    for second in range(0, 100, 10):
        store.clock.set(at(second))
        for one in store.fire_due(node):
            fired.append(one.scheduled_fire_time)
            store.complete(node, one)
    assert fired == [at(20), at(30)]
    assert store.state("every") == "gone"


def test_what_skips_its_last_fire_is_complete_and_no_claim_stays(store: Harness) -> None:
    node = store.node()
    store.schedule_exhausted(job(), every(10, times=2))
    store.acquire(node)
    assert skipping(store, "every", 2)
    assert store.state("every") == "COMPLETE"
    assert store.claims() == []
    assert stored_job(store.store, job_key()) is not None
