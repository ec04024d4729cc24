"""What a job sees, and what becomes of what it does: on both stores, with a real node."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from quartzpy import (
    JobDetail,
    JobExecutionContext,
    JobKey,
    PublicState,
    Scheduler,
    SimpleTrigger,
    TriggerKey,
    TriggerListener,
)
from quartzpy.errors import InvalidValueError, SchedulerStateError, UnableToInterruptJobError
from quartzpy.events import events
from quartzpy.keys import MANUAL_TRIGGERS
from quartzpy.states import Outcome
from tests.facade import jobs
from tests.waiting import wait_until

SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)
MakeScheduler = Callable[..., Scheduler]


def recorded(scheduler: Scheduler, executions: int) -> None:
    assert scheduler.wait_until_recorded(executions, 30 * SECOND)


def test_a_context_says_all_about_its_execution(scheduler: Scheduler) -> None:
    start = datetime.now(UTC) - SECOND
    detail = JobDetail(jobs.Recorded, "job", "group", data={"a": 1, "b": 1}, description="of the job")
    trigger = SimpleTrigger(
        "trigger", "triggers", start_time=start, interval=HOUR, repeat_count=2, data={"b": 2, "c": 2}, priority=7
    )
    assert scheduler.schedule_job(detail, trigger).key == detail.key
    context = jobs.next_run()
    recorded(scheduler, 1)
    assert context.job_data == {"a": 1, "b": 2, "c": 2}, "the trigger's data over the job's"
    assert context.job_detail_data == {"a": 1, "b": 1}
    assert context.job_key == JobKey("job", "group")
    assert context.trigger_key == TriggerKey("trigger", "triggers")
    assert context.job_detail.description == "of the job"
    assert context.trigger.priority == 7
    assert context.scheduled_fire_time == start
    assert timedelta() <= context.fire_time - start < 10 * SECOND
    assert context.previous_fire_time is None
    assert context.next_fire_time == start + HOUR
    assert context.refire_count == 0
    assert not context.recovering
    assert context.calendar is None
    assert context.scheduler is scheduler
    assert isinstance(context.job_instance, jobs.Recorded)
    assert context.result == "a result"
    assert context.job_run_time is not None
    assert isinstance(context.fire_id, int)
    assert context.instance_id == scheduler.instance_id
    [execution] = scheduler.executions()
    assert execution.outcome is Outcome.SUCCEEDED
    assert execution.fire_id == context.fire_id
    assert execution.instance_id == scheduler.instance_id


def test_an_async_job_runs_on_the_event_loop(scheduler: Scheduler) -> None:
    scheduler.schedule_job(JobDetail(jobs.RecordedAsync, "job"), SimpleTrigger("t"))
    context = jobs.next_run()
    recorded(scheduler, 1)
    assert "event-loop" in context.result
    assert [execution.outcome for execution in scheduler.executions()] == [Outcome.SUCCEEDED]


@pytest.mark.parametrize("what", jobs.RAISES)
@pytest.mark.parametrize("kind", [jobs.Raising, jobs.RaisingAsync])
def test_whatever_a_job_raises_ends_that_execution_only(
    scheduler: Scheduler, kind: type[jobs.Raising], what: str
) -> None:
    trigger = SimpleTrigger("t", interval=timedelta(milliseconds=50), repeat_count=1)
    scheduler.schedule_job(JobDetail(kind, "job", data={"what": what}), trigger)
    for _ in range(2):
        jobs.next_run()
    recorded(scheduler, 2)
    executions = scheduler.executions()
    assert [execution.outcome for execution in executions] == [Outcome.FAILED] * 2
    # Python turns a StopIteration of a coroutine into a RuntimeError.
    name = "RuntimeError" if (kind, what) == (jobs.RaisingAsync, "StopIteration") else type(jobs.RAISES[what]).__name__
    assert all(name in (execution.error or "") for execution in executions)
    scheduler.schedule_job(JobDetail(jobs.Recorded, "another"), SimpleTrigger("another"))
    assert jobs.next_run().job_key.name == "another"


def test_a_job_that_cannot_be_made_fails_that_execution(scheduler: Scheduler) -> None:
    scheduler.schedule_job(JobDetail(jobs.CannotBeMade, "job"), SimpleTrigger("t"))
    recorded(scheduler, 1)
    [execution] = scheduler.executions()
    assert execution.outcome is Outcome.FAILED
    assert "no such luck" in (execution.error or "")


def test_a_job_can_ask_to_be_run_again_at_once(scheduler: Scheduler) -> None:
    scheduler.schedule_job(JobDetail(jobs.Asking, "job", data={"flag": "refire_immediately"}), SimpleTrigger("t"))
    contexts = [jobs.next_run() for _ in range(4)]
    recorded(scheduler, 1)
    assert len({id(context) for context in contexts}) == 1, "as in Quartz, it stays the same execution"
    assert contexts[0].refire_count == 3
    assert [execution.outcome for execution in scheduler.executions()] == [Outcome.SUCCEEDED]


@pytest.mark.parametrize("kind", [jobs.Mending, jobs.MendingAsync, jobs.MendingDetail])
@pytest.mark.parametrize("persist", [True, False])
def test_a_refire_sees_what_the_job_has_changed(scheduler: Scheduler, kind: Any, persist: bool) -> None:
    """Quartz's sixth example: a job mends its data and asks to be fired again, which succeeds."""
    scheduler.schedule_job(
        JobDetail(kind, "job", data={"denominator": 0}, persist_data=persist, durable=True), SimpleTrigger("t")
    )
    recorded(scheduler, 1)
    assert [jobs.next_run() for _ in range(2)] == [(0, 0, None), (1, 1, None)]
    [execution] = scheduler.executions()
    assert (execution.outcome, execution.result) == (Outcome.SUCCEEDED, 6.0)
    stored = scheduler.get_job_detail(JobKey("job"))
    assert stored is not None
    assert stored.data == {"denominator": 7 if persist else 0}


def test_a_refired_attempt_tells_its_own_run_time(scheduler: Scheduler) -> None:
    times: list[timedelta | None] = []
    scheduler.listeners.add_listener(lambda event: times.append(event.context.job_run_time), events.JobWasExecuted)
    scheduler.schedule_job(JobDetail(jobs.Mending, "job", data={"denominator": 0}), SimpleTrigger("t"))
    recorded(scheduler, 1)
    assert len(times) == 2
    assert None not in times


def test_a_veto_is_possible_at_each_refire(scheduler: Scheduler) -> None:
    class Veto(TriggerListener):
        def veto_job_execution(self, context: JobExecutionContext) -> bool:
            return context.refire_count == 5

    scheduler.listeners.add_trigger_listener(Veto())
    scheduler.schedule_job(JobDetail(jobs.AlwaysAgain, "job"), SimpleTrigger("t"))
    recorded(scheduler, 1)
    assert [jobs.next_run() for _ in range(5)] == [0, 1, 2, 3, 4]
    assert [execution.outcome for execution in scheduler.executions()] == [Outcome.SKIPPED]


@pytest.mark.parametrize(
    ("flag", "left"),
    [
        ("unschedule_firing_trigger", ["COMPLETE", "NORMAL"]),
        ("unschedule_all_triggers", ["COMPLETE", "COMPLETE"]),
        ("delete_trigger", ["NONE", "NORMAL"]),
        ("set_trigger_error", ["ERROR", "NORMAL"]),
    ],
)
def test_a_job_can_ask_that_its_trigger_or_all_are_ended(scheduler: Scheduler, flag: str, left: list[str]) -> None:
    job = JobDetail(jobs.Asking, "job", data={"flag": flag}, durable=True)
    often = SimpleTrigger("often", interval=timedelta(milliseconds=50), repeat_count=None)
    other = SimpleTrigger("other", start_time=datetime.now(UTC) + HOUR)
    scheduler.schedule_job(job, [often, other])
    jobs.next_run()
    recorded(scheduler, 1)
    assert [str(scheduler.trigger_state(trigger.key)) for trigger in (often, other)] == left
    assert scheduler.check_exists(job.key)


def test_persisted_data_is_what_the_next_execution_sees(scheduler: Scheduler) -> None:
    job = JobDetail(jobs.Counting, "job", data={"count": 10}, durable=True)
    scheduler.schedule_job(job, SimpleTrigger("t", interval=timedelta(milliseconds=20), repeat_count=4))
    for _ in range(5):
        jobs.next_run()
    recorded(scheduler, 5)
    stored = scheduler.get_job_detail(job.key)
    assert stored is not None
    assert stored.data == {"count": 15}


def test_data_that_cannot_be_stored_fails_the_execution_and_keeps_the_old(scheduler: Scheduler) -> None:
    job = JobDetail(jobs.NotJson, "job", data={"a": 1}, durable=True, persist_data=True)
    scheduler.schedule_job(job, SimpleTrigger("t"))
    recorded(scheduler, 1)
    [execution] = scheduler.executions()
    assert execution.outcome is Outcome.FAILED
    assert "bad" in (execution.error or "")
    stored = scheduler.get_job_detail(job.key)
    assert stored is not None
    assert stored.data == {"a": 1}


def test_a_serial_job_runs_once_at_a_time_and_its_triggers_are_blocked_meanwhile(scheduler: Scheduler) -> None:
    scheduler.schedule_job(JobDetail(jobs.SerialWaiting, "job"), [SimpleTrigger("one"), SimpleTrigger("two")])
    context = jobs.next_run()
    assert jobs.nothing_ran()
    states = {key.name: scheduler.trigger_state(key) for key in scheduler.trigger_keys()}
    assert states.pop(context.trigger_key.name) in (PublicState.BLOCKED, PublicState.COMPLETE)
    assert list(states.values()) == [PublicState.BLOCKED]
    jobs.go_on.set()
    assert jobs.next_run().trigger_key != context.trigger_key


def test_a_running_job_is_seen_and_can_be_interrupted(scheduler: Scheduler) -> None:
    scheduler.schedule_job(JobDetail(jobs.Waiting, "job"), SimpleTrigger("t"))
    context = jobs.next_run()
    assert [one.fire_id for one in scheduler.currently_executing_jobs()] == [context.fire_id]
    [running] = scheduler.running()
    [processing] = scheduler.executions(state="PROCESSING")
    assert processing.fire_id == context.fire_id
    assert (running.state, running.instance_id) == ("EXECUTING", scheduler.instance_id)
    assert not scheduler.interrupt(JobKey("another", "DEFAULT"))
    assert not scheduler.interrupt_execution("0")
    assert scheduler.interrupt(context.job_key)
    recorded(scheduler, 1)
    assert context.get("cancelled")
    assert scheduler.currently_executing_jobs() == []
    assert scheduler.running() == []


def test_a_client_has_nothing_to_interrupt(client: Scheduler) -> None:
    with pytest.raises(UnableToInterruptJobError):
        client.interrupt(JobKey("job", "DEFAULT"))


def test_a_job_run_by_hand_has_the_data_that_came_with_it(scheduler: Scheduler) -> None:
    job = JobDetail(jobs.Recorded, "job", data={"a": 1, "b": 1}, durable=True)
    scheduler.add_job(job)
    key = scheduler.trigger_job(job.key, {"b": 2}).key
    context = jobs.next_run()
    assert context.job_data == {"a": 1, "b": 2}
    assert context.trigger_key == key
    assert key.group == MANUAL_TRIGGERS
    recorded(scheduler, 1)
    assert scheduler.trigger_keys() == set()


def test_a_client_schedules_and_a_node_that_is_started_later_runs(url: str, make_scheduler: MakeScheduler) -> None:
    node = make_scheduler()
    client = make_scheduler() if url != "memory://" else node
    client.schedule_job(JobDetail(jobs.Recorded, "job"), SimpleTrigger("t"))
    assert jobs.nothing_ran()
    assert client.instance_id is None
    assert not client.is_started
    node.start()
    jobs.next_run()


def test_in_standby_nothing_is_fired_until_start(scheduler: Scheduler) -> None:
    scheduler.standby()
    assert scheduler.is_in_standby
    scheduler.schedule_job(JobDetail(jobs.Recorded, "job"), SimpleTrigger("t"))
    assert jobs.nothing_ran()
    scheduler.start()
    assert not scheduler.is_in_standby
    jobs.next_run()


def test_a_node_may_start_in_standby(client: Scheduler) -> None:
    client.start(standby=True)
    assert client.is_started
    assert client.is_in_standby
    client.schedule_job(JobDetail(jobs.Recorded, "job"), SimpleTrigger("t"))
    assert jobs.nothing_ran()
    client.start()
    assert jobs.next_run().trigger_key.name == "t"


def test_standby_of_a_scheduler_that_was_not_started_is_refused(client: Scheduler) -> None:
    with pytest.raises(SchedulerStateError, match="not started"):
        client.standby()


def test_a_delayed_start_comes_by_itself_and_can_be_called_off(make_scheduler: MakeScheduler) -> None:
    later = make_scheduler()
    later.schedule_job(JobDetail(jobs.Recorded, "job"), SimpleTrigger("t"))
    later.start_delayed(timedelta(milliseconds=100))
    jobs.next_run()
    never = make_scheduler()
    never.start_delayed(2 * SECOND)
    assert not never.is_started
    never.shutdown()
    assert jobs.nothing_ran(2.5)
    assert not never.is_started


def test_shutdown_waits_for_what_runs(scheduler: Scheduler) -> None:
    scheduler.schedule_job(JobDetail(jobs.Waiting, "job", durable=True), SimpleTrigger("t"))
    jobs.next_run()
    threading.Timer(0.3, jobs.go_on.set).start()
    assert scheduler.shutdown(wait=True)
    assert scheduler.is_shut_down
    with pytest.raises(SchedulerStateError, match="was shut down"):
        scheduler.start()
    with pytest.raises(SchedulerStateError, match="was shut down"):
        scheduler.jobs()
    assert scheduler.shutdown(), "once more does no harm"


def test_shutdown_ends_after_its_timeout_and_asks_the_jobs_to_stop(scheduler: Scheduler) -> None:
    scheduler.schedule_job(JobDetail(jobs.Waiting, "job"), SimpleTrigger("t"))
    context = jobs.next_run()
    scheduler.shutdown(wait=True, timeout=timedelta(milliseconds=200))
    assert context.wait_cancelled(60)


def test_a_job_that_shuts_its_scheduler_down_and_waits_is_refused(make_scheduler: MakeScheduler) -> None:
    scheduler = make_scheduler()
    refused: list[SchedulerStateError] = []

    def from_within() -> None:
        try:
            scheduler.shutdown(wait=True)
        except SchedulerStateError as error:
            refused.append(error)
            scheduler.shutdown(wait=False)

    WITHIN.append(from_within)
    scheduler.schedule_job(JobDetail(CallsWithin, "job"), SimpleTrigger("t"))
    scheduler.start()
    assert scheduler.wait_until_shut_down(60 * SECOND)
    assert "would wait for the job itself" in str(refused[0])


WITHIN: list[Callable[[], None]] = []


class CallsWithin(jobs.Recorded):
    def execute(self, context: object) -> str:
        WITHIN.pop()()
        return "called"


def test_as_a_context_manager_it_runs_within_and_is_shut_down_after(make_scheduler: MakeScheduler) -> None:
    with make_scheduler() as scheduler:
        scheduler.schedule_job(JobDetail(jobs.Recorded, "job"), SimpleTrigger("t"))
        jobs.next_run()
        metadata = scheduler.metadata
        assert metadata.is_started
        assert metadata.workers == 4
        assert metadata.running_since is not None
    assert scheduler.metadata.is_shut_down


def test_no_thread_of_a_scheduler_outlives_it(make_scheduler: MakeScheduler) -> None:
    before = set(threading.enumerate())
    with make_scheduler() as scheduler:
        scheduler.schedule_job(
            JobDetail(jobs.RecordedAsync, "job"), SimpleTrigger("t", interval=timedelta(milliseconds=5), repeat_count=9)
        )
        recorded(scheduler, 10)
    for thread in set(threading.enumerate()) - before:
        thread.join(60)
        assert not thread.is_alive(), thread.name


def test_fires_missed_in_a_pause_are_skipped_or_coalesced(scheduler: Scheduler) -> None:
    scheduler.pause_trigger_group("paused")
    start = scheduler.nodes().now - timedelta(minutes=61)
    for name in ("let-go", "once", "by-instruction"):
        often = SimpleTrigger(name, "paused", interval=timedelta(hours=1), repeat_count=None, start_time=start)
        scheduler.schedule_job(JobDetail(jobs.Recorded, name), often)
    scheduler.resume_trigger(TriggerKey("let-go", "paused"), missed="skip")
    scheduler.resume_job(JobKey("once", "DEFAULT"), missed="once")
    context = jobs.next_run()
    assert context.job_key.name == "once"
    assert len(context.coalesced_fire_times) == 2
    scheduler.resume_trigger_group("paused")
    wait_until(
        lambda: all(record.progress.next_fire_time > scheduler.nodes().now for record in scheduler.triggers()),
        "each trigger to be past now",
        seen=scheduler.triggers,
    )
    assert jobs.nothing_ran(0), "for ever: the next one, as Quartz's smart policy says"
    with pytest.raises(InvalidValueError, match="missed: must be one of misfire, skip, once"):
        scheduler.resume_all(missed="twice")


def test_modifying_a_job_leaves_the_data_that_it_writes_meanwhile(scheduler: Scheduler) -> None:
    runs = 40
    job = JobDetail(jobs.Counting, "counting", data={"count": 0}, durable=True)
    often = SimpleTrigger("t", interval=timedelta(milliseconds=5), repeat_count=runs - 1, misfire="ignore")
    scheduler.schedule_job(job, often)
    for n in range(10_000):
        scheduler.modify_job(job.key, description=f"{n}")
        if scheduler.wait_until_recorded(runs, timedelta(milliseconds=10)):
            break
    stored = scheduler.get_job_detail(job.key)
    assert stored is not None
    assert stored.data == {"count": runs}
