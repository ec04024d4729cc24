"""A plan from tables of Quartz is stored: at once, in slices, again, and as a rehearsal that takes over later."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from quartzpy import (
    JobDetail,
    JobKey,
    TriggerKey,
)
from quartzpy.config.config import SchedulerConfig
from quartzpy.errors import ObjectAlreadyExistsError
from quartzpy.migrate import apply
from quartzpy.migrate.slices import HELD
from quartzpy.operations.actions.action import Actor, Role
from quartzpy.states import TriggerState
from quartzpy.store.memory.store import RamJobStore
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.protocol import JobStore, NamedTriggers, NameKind, PauseNote
from quartzpy.store.queries import ActionQuery
from quartzpy.testing import SchedulerHarness
from quartzpy.triggers.trigger import TriggerProgress
from tests.contract.harness import stored_job, stored_trigger
from tests.migrate.quartz_plans import FROM, Report, changed, many, moved_on, plan_of, states


def test_states_and_pauses_come_over(quartz_tables: str, postgres_dsn: str) -> None:
    store = SqlJobStore(postgres_dsn, SchedulerConfig(name="imported"))
    plan = plan_of(quartz_tables)
    assert {one.trigger.key for one in plan.triggers().values() if one.paused} == {
        TriggerKey("one", "alone"),
        TriggerKey("held", "night"),
    }
    outcome = apply(plan, store)
    try:
        records = store.triggers(list(plan.triggers()))
        assert len(outcome.added) == len(plan.jobs) + len(records) == 5 + 36
        assert {key for key, record in records.items() if record.state is TriggerState.PAUSED} == {
            TriggerKey("one", "alone"),
            TriggerKey("held", "night"),
        }
        assert store.pauses().trigger_groups == {"night"}
        assert {key: record.progress for key, record in records.items()} == {
            key: one.progress for key, one in plan.triggers().items()
        }
        for key, record in records.items():
            # What SQL advances the trigger by agrees with what follows the imported progress.
            one = plan.triggers()[key]
            calendar = None if one.trigger.calendar is None else plan.calendars[one.trigger.calendar]
            assert list(record.upcoming) == one.trigger.following(one.progress, calendar, 8)
        assert apply(plan, store).added == frozenset()
        assert store.triggers(list(plan.triggers())) == records
    finally:
        store.close()


def test_a_rehearsal_is_held_and_the_second_import_takes_over(quartz_tables: str, postgres_dsn: str) -> None:
    store = SqlJobStore(postgres_dsn, SchedulerConfig(name="imported"))
    key, other = TriggerKey("simple 0", "times"), TriggerKey("simple 4", "times")
    plan = plan_of(quartz_tables)
    try:
        apply(plan, store, held=True)
        assert {record.state for record in store.triggers(list(plan.triggers())).values()} == {TriggerState.PAUSED}
        # Meanwhile the operator paused another trigger here, for a reason of his own.
        store.resume(NamedTriggers([other]))
        store.pause(NamedTriggers([other]), PauseNote("not yet", "me"))
        later = moved_on(plan, key)
        counter = next(job for job in later.jobs if job.job.name == "counter")
        counted = replace(counter, job=replace(counter.job, data={"count": 17}))
        later = replace(later, jobs=[counted if job is counter else job for job in later.jobs])
        outcome = apply(later, store)
        assert outcome.advanced == {key}
        records = store.triggers(list(plan.triggers()))
        paused = {key for key, record in records.items() if record.state is TriggerState.PAUSED}
        assert paused == {TriggerKey("one", "alone"), TriggerKey("held", "night"), other}
        assert records[key].progress == later.triggers()[key].progress
        assert HELD not in {record.pause_reason for record in records.values()}
        found = stored_job(store, JobKey("counter", "reports"))
        assert found is not None
        assert found.data == {"count": 17}
    finally:
        store.close()


def test_pauses_follow_the_source_until_the_user_decides(quartz_tables: str, any_store: JobStore) -> None:
    first, second, third = (TriggerKey(f"simple {number}", "times") for number in (0, 4, 5))
    plan = changed(plan_of(quartz_tables), first, paused="paused in Quartz")
    apply(plan, any_store, held=True)
    names = [key.name for key in (first, second, third)]
    assert states(any_store, *names) == [("PAUSED", "paused in Quartz"), ("PAUSED", HELD), ("PAUSED", HELD)]
    # In the source, the first was resumed, the second paused, and the schedule of the third changed.
    later = changed(plan_of(quartz_tables), second, paused="paused in Quartz")
    later = changed(later, third, interval=timedelta(minutes=7))
    apply(later, any_store, held=True)
    assert states(any_store, *names) == [("PAUSED", HELD), ("PAUSED", "paused in Quartz"), ("PAUSED", HELD)]
    any_store.pause(NamedTriggers([third]), PauseNote("not this one", "me"))
    assert apply(later, any_store).resumed >= {first}
    assert states(any_store, *names) == [("WAITING", None), ("PAUSED", "paused in Quartz"), ("PAUSED", "not this one")]
    # The user's pause stands, even if the schedule changes again.
    apply(changed(later, third, interval=timedelta(minutes=8)), any_store)
    assert states(any_store, third.name) == [("PAUSED", "not this one")]


def test_an_import_never_turns_a_trigger_back(quartz_tables: str) -> None:
    harness = SchedulerHarness(FROM, misfire_threshold=timedelta(days=30))
    plan, key = plan_of(quartz_tables), TriggerKey("simple 0", "times")
    apply(plan, harness._store)
    harness.advance(timedelta(minutes=10))
    before = harness.get_trigger(key), stored_trigger(harness._store, key).progress  # type: ignore[union-attr]
    outcome = apply(plan, harness._store)
    assert not outcome.advanced
    assert not outcome.added
    assert (harness.get_trigger(key), stored_trigger(harness._store, key).progress) == before  # type: ignore[union-attr]


def test_a_trigger_that_fired_once_and_ended_is_not_imported_again(quartz_tables: str) -> None:
    harness = SchedulerHarness(FROM, misfire_threshold=timedelta(days=30))
    plan, key = plan_of(quartz_tables), TriggerKey("simple once", "times")
    apply(plan, harness._store)
    assert sum(one.trigger_key == key for one in harness.advance(timedelta(minutes=30))) == 1
    apply(plan, harness._store)
    assert not any(one.trigger_key == key for one in harness.advance(timedelta(minutes=30)))


def test_a_failed_import_stores_nothing(quartz_tables: str, postgres_dsn: str) -> None:
    store = SqlJobStore(postgres_dsn, SchedulerConfig(name="imported"))
    plan = plan_of(quartz_tables)
    last = next(job for job in plan.jobs if job.job.name == "scheduled")
    one = last.triggers[0]
    bad = replace(
        one, trigger=replace(one.trigger, name="bad", job_key=JobKey("missing")), progress=TriggerProgress(FROM)
    )
    try:
        with pytest.raises(Exception, match="missing"):
            apply(
                replace(plan, jobs=[*plan.jobs, replace(last, job=replace(last.job, name="other"), triggers=[bad])]),
                store,
            )
        assert store.names(NameKind.CALENDARS) == []
        assert store.triggers(list(plan.triggers())) == {}
        assert store.pauses().trigger_groups == set()
    finally:
        store.close()


def test_jobs_of_others_are_not_replaced(quartz_tables: str) -> None:
    harness = SchedulerHarness(FROM)
    harness.add_job(JobDetail(Report, "scheduled", "reports", durable=True))
    with pytest.raises(
        ObjectAlreadyExistsError, match=r"job reports\.scheduled is stored already, and not by an import"
    ):
        apply(plan_of(quartz_tables), harness._store)
    assert harness.trigger_keys() == set()


def test_a_large_plan_is_stored_in_slices_and_an_aborted_import_is_continued(
    quartz_tables: str, any_store: JobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quartzpy.migrate.slices.SLICE", 10)
    plan = many(plan_of(quartz_tables), 45)
    done: list[tuple[int, int]] = []

    def progress(stored: int, total: int) -> None:
        done.append((stored, total))
        if len(done) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        apply(plan, any_store, progress=progress, actor=Actor("ann", Role.ADMIN), reason="moving")
    assert done == [(10, 51), (20, 51), (30, 51)]
    stored = any_store.triggers(list(plan.triggers()))
    assert len(stored) == 27
    assert any_store.owned(plan.owner).triggers == set(stored)
    assert len(apply(plan, any_store, dry_run=True).added) == 45 - 27 + 1
    outcome = apply(plan, any_store)
    assert (outcome.unchanged, len(outcome.added)) == (27, 45 - 27 + 1)
    after = any_store.triggers(list(plan.triggers()))
    assert len(after) == 45
    assert {key: after[key].generation for key in stored} == {key: stored[key].generation for key in stored}
    assert any_store.owned(plan.owner).triggers == set(after)
    if isinstance(any_store, RamJobStore):
        return  # It has no audit log.
    complete, aborted = admin(any_store).find(ActionQuery(), None)
    assert (aborted.actor, aborted.action, aborted.reason, str(aborted.state), aborted.count) == (
        *("ann", "import", "moving"),
        *("FAILED", 30),
    )
    assert (aborted.subject, complete.subject) == (plan.source,) * 2
    assert (str(complete.state), complete.after["triggers kept"]) == ("SUCCEEDED", 27)


def test_a_repeated_import_stores_nothing_again(quartz_tables: str, any_store: JobStore) -> None:
    plan = plan_of(quartz_tables)
    apply(plan, any_store, skip_undecided=True)
    before = any_store.triggers(list(plan.triggers()))
    apply(plan, any_store, skip_undecided=True)
    after = any_store.triggers(list(plan.triggers()))
    assert {key: (one.generation, one.progress) for key, one in after.items()} == {
        key: (one.generation, one.progress) for key, one in before.items()
    }
