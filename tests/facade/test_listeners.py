"""Who is told of what; whoever raises while being told harms nothing."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from quartzpy import (
    JobDetail,
    JobExecutionContext,
    JobKey,
    JobListener,
    KeyMatcher,
    Scheduler,
    SchedulerListener,
    SimpleTrigger,
    TriggerKey,
    TriggerListener,
)
from quartzpy.errors import InvalidListenerError, InvalidMatcherError
from quartzpy.events import events
from quartzpy.states import CompletionInstruction, Outcome
from tests.facade import jobs

SOON = timedelta(seconds=30)
HOUR = timedelta(hours=1)


def run(scheduler: Scheduler, job: JobDetail, *, executions: int = 1, trigger: SimpleTrigger | None = None) -> None:
    scheduler.schedule_job(job, trigger or SimpleTrigger("t"))
    assert scheduler.wait_until_recorded(executions, SOON)


def heard(scheduler: Scheduler, *kinds: type[events.Event]) -> list[Any]:
    seen: list[Any] = []
    scheduler.listeners.add_listener(seen.append, *kinds)
    return seen


def test_events_of_an_execution_come_in_order(scheduler: Scheduler) -> None:
    seen = heard(scheduler, events.ExecutionEvent, events.TriggerFinalized)
    run(scheduler, JobDetail(jobs.Recorded, "job"))
    assert [type(event).__name__ for event in seen] == [
        "TriggerFired",
        "JobToBeExecuted",
        "JobWasExecuted",
        "TriggerComplete",
        "TriggerFinalized",
    ]
    told = seen[2]
    assert (told.outcome, told.error, told.context.result) == (Outcome.SUCCEEDED, None, "a result")
    assert told.context.job_run_time is not None


def test_the_event_of_a_failure_has_its_error(scheduler: Scheduler) -> None:
    seen = heard(scheduler, events.JobWasExecuted)
    run(scheduler, JobDetail(jobs.Raising, "job", data={"what": "Exception"}))
    assert (seen[0].outcome, repr(seen[0].error)) == (Outcome.FAILED, "ValueError('wrong')")


def test_each_refire_has_an_event(scheduler: Scheduler) -> None:
    seen = heard(scheduler, events.TriggerFired, events.JobToBeExecuted, events.JobWasExecuted)
    run(scheduler, JobDetail(jobs.Asking, "job", data={"flag": "refire_immediately"}))
    assert [type(event).__name__ for event in seen] == ["TriggerFired", "JobToBeExecuted", "JobWasExecuted"] * 4


@pytest.mark.parametrize("kind", [jobs.Recorded, jobs.RecordedAsync])
def test_a_veto_skips_the_execution_and_the_trigger_continues(scheduler: Scheduler, kind: Any) -> None:
    class Veto(TriggerListener):
        def veto_job_execution(self, context: JobExecutionContext) -> bool:
            return context.previous_fire_time is None

    seen = heard(scheduler, events.JobExecutionVetoed)
    scheduler.listeners.add_trigger_listener(Veto())
    often = SimpleTrigger("t", interval=timedelta(milliseconds=20), repeat_count=2)
    run(scheduler, JobDetail(kind, "job"), executions=3, trigger=often)
    executions = sorted(scheduler.executions(), key=lambda execution: execution.scheduled_fire_time)
    outcomes = [execution.outcome for execution in executions]
    assert outcomes == [Outcome.SKIPPED, Outcome.SUCCEEDED, Outcome.SUCCEEDED]
    assert len(seen) == 1
    assert scheduler.job_keys() == set()


class Everything(JobListener, TriggerListener, SchedulerListener):
    def __init__(self) -> None:
        self.seen: list[str] = []

    def __getattribute__(self, name: str) -> Any:
        if name.startswith(("job_", "trigger_", "jobs_", "triggers_", "scheduler_", "scheduling_")):
            return lambda event: self.seen.append(name)
        return super().__getattribute__(name)


def test_matchers_choose_the_listeners_that_are_notified(scheduler: Scheduler) -> None:
    mine, others = Everything(), Everything()
    scheduler.listeners.add_job_listener(mine, KeyMatcher.name("starts_with", "mi"), KeyMatcher.name("equals", "x"))
    scheduler.listeners.add_trigger_listener(others, KeyMatcher.group("equals", "other"))
    run(scheduler, JobDetail(jobs.Recorded, "mine"))
    run(scheduler, JobDetail(jobs.Recorded, "yours"), executions=2, trigger=SimpleTrigger("t", "other"))
    assert mine.seen == ["job_to_be_executed", "job_was_executed"]
    assert others.seen == ["trigger_fired", "trigger_complete"]


def test_a_listener_that_raises_harms_nothing(scheduler: Scheduler) -> None:
    class Bad(JobListener, TriggerListener):
        def job_to_be_executed(self, event: events.JobToBeExecuted) -> None:
            raise SystemExit(1)

        def veto_job_execution(self, context: JobExecutionContext) -> bool:
            raise KeyboardInterrupt

        def trigger_complete(self, event: events.TriggerComplete) -> None:
            raise ValueError("wrong")

    bad = Bad()
    scheduler.listeners.add_trigger_listener(bad)
    with pytest.raises(InvalidListenerError, match="already"):
        scheduler.listeners.add_job_listener(bad)
    also = Bad()
    scheduler.listeners.add_job_listener(also)
    seen = heard(scheduler, events.TriggerComplete)
    run(scheduler, JobDetail(jobs.Recorded, "job"))
    assert [execution.outcome for execution in scheduler.executions()] == [Outcome.SUCCEEDED]
    assert len(seen) == 1, "others are told all the same"


def test_methods_of_the_scheduler_have_events(client: Scheduler) -> None:
    seen = heard(client)
    later = datetime.now(UTC) + HOUR
    job, key = JobDetail(jobs.Recorded, "job", durable=True), TriggerKey("t", "DEFAULT")
    client.schedule_job(job, SimpleTrigger("t", start_time=later))
    client.pause_trigger(key)
    client.resume_trigger(key)
    client.pause_trigger_group("DEFAULT")
    client.resume_trigger_group("DEFAULT")
    client.pause_job(job.key)
    client.resume_job(job.key)
    client.pause_job_group("DEFAULT")
    client.resume_job_group("DEFAULT")
    client.pause_all()
    client.resume_all()
    client.reschedule_job(key, SimpleTrigger("u", start_time=later))
    client.unschedule_job(TriggerKey("u", "DEFAULT"))
    client.unschedule_job(TriggerKey("none", "DEFAULT"), missing_ok=True)
    client.delete_job(job.key)
    client.clear()
    assert [event.method for event in seen] == [
        "job_added",
        "job_scheduled",
        "trigger_paused",
        "trigger_resumed",
        "triggers_paused",
        "triggers_resumed",
        "job_paused",
        "job_resumed",
        "jobs_paused",
        "jobs_resumed",
        "triggers_paused",
        "triggers_resumed",
        "job_unscheduled",
        "job_scheduled",
        "job_unscheduled",
        "job_deleted",
        "scheduling_data_cleared",
    ]
    assert (seen[0].job_key, seen[1].trigger_key) == (job.key, key)


def test_starting_and_stopping_a_scheduler_has_events(client: Scheduler) -> None:
    listener = Everything()
    client.listeners.add_scheduler_listener(listener)
    client.start()
    client.standby()
    client.start()
    client.shutdown()
    assert listener.seen == [
        "scheduler_starting",
        "scheduler_started",
        "scheduler_in_standby",
        "scheduler_starting",
        "scheduler_started",
        "scheduler_shutting_down",
        "scheduler_shut_down",
    ]


def test_misfires_and_the_end_of_triggers_have_events(scheduler: Scheduler) -> None:
    seen = heard(scheduler, events.TriggerMisfired, events.TriggerFinalized)
    past = datetime.now(UTC) - HOUR
    over = SimpleTrigger(
        "over",
        start_time=past,
        interval=timedelta(seconds=1),
        repeat_count=3,
        misfire="reschedule_next_with_remaining_count",
    )
    scheduler.schedule_job(JobDetail(jobs.Recorded, "job"), over)
    deadline = datetime.now(UTC) + SOON
    while len(seen) < 2 and datetime.now(UTC) < deadline:
        scheduler.wait_until_recorded(1, timedelta(milliseconds=50))
    missed = tuple(past + n * timedelta(seconds=1) for n in range(4))
    assert seen == [events.TriggerMisfired(over.key, missed), events.TriggerFinalized(over.key)]


def test_one_that_was_removed_receives_no_more_events(scheduler: Scheduler) -> None:
    seen: list[Any] = []
    scheduler.listeners.add_listener(seen.append)
    assert scheduler.listeners.all() == [seen.append]
    assert scheduler.listeners.remove(seen.append)
    assert not scheduler.listeners.remove(seen.append)
    run(scheduler, JobDetail(jobs.Recorded, "job"))
    assert seen == []


@pytest.mark.parametrize("add", ["add_job_listener", "add_trigger_listener", "add_scheduler_listener", "add_listener"])
def test_an_object_that_is_no_listener_is_refused(client: Scheduler, add: str) -> None:
    with pytest.raises(InvalidListenerError, match="listener: must be a"):
        getattr(client.listeners, add)(object())


def test_what_is_no_event_is_refused(client: Scheduler) -> None:
    with pytest.raises(InvalidListenerError, match="classes of quartzpy"):
        client.listeners.add_listener(print, int)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("matcher", "matched"),
    [
        (KeyMatcher.anything(), {"a", "ab", "b"}),
        (KeyMatcher.key(JobKey("a", "g")), {"a"}),
        (KeyMatcher.name("contains", "a"), {"a", "ab"}),
        (KeyMatcher.name("ends_with", "b") & KeyMatcher.name("starts_with", "a"), {"ab"}),
        (KeyMatcher.name("equals", "a") | KeyMatcher.name("equals", "b"), {"a", "b"}),
        (~KeyMatcher.name("equals", "a"), {"ab", "b"}),
        (KeyMatcher.group("equals", "h"), set()),
    ],
)
def test_matchers_combine(matcher: KeyMatcher, matched: set[str]) -> None:
    assert {name for name in ("a", "ab", "b") if matcher.matches(JobKey(name, "g"))} == matched


def test_an_unknown_comparison_is_refused() -> None:
    with pytest.raises(InvalidMatcherError, match="operator must be one of equals"):
        KeyMatcher.name("like", "a")


def test_a_job_that_cannot_be_created_has_an_event(scheduler: Scheduler) -> None:
    seen = heard(scheduler, events.TriggersInError, events.ExecutionEvent)
    run(scheduler, JobDetail(jobs.CannotBeMade, "job"))
    [told] = seen
    assert (told.job_key, str(told.error)) == (JobKey("job", "DEFAULT"), "no such luck")


class _Misspelt(JobListener):
    def job_was_exected(self, event: events.JobWasExecuted) -> None: ...


class _OfAnotherKind(JobListener):
    def trigger_fired(self, event: events.TriggerFired) -> None: ...


class _WithoutEvent(SchedulerListener):
    def scheduler_error(self) -> None: ...  # type: ignore[override]


class _Guarded(TriggerListener):
    def veto_job_executions(self, context: JobExecutionContext) -> bool:
        return True


@pytest.mark.parametrize(
    ("add", "listener", "message"),
    [
        ("add_job_listener", _Misspelt(), "_Misspelt.job_was_exected is never called; did you mean job_was_executed?"),
        ("add_job_listener", _OfAnotherKind(), "trigger_fired is never called; only a TriggerListener has this method"),
        ("add_scheduler_listener", _WithoutEvent(), "_WithoutEvent.scheduler_error must take one argument, the event"),
        ("add_trigger_listener", _Guarded(), "did you mean veto_job_execution?"),
    ],
)
def test_a_method_that_would_never_be_called_is_refused(
    client: Scheduler, add: str, listener: object, message: str
) -> None:
    with pytest.raises(InvalidListenerError) as caught:
        getattr(client.listeners, add)(listener)
    assert message in str(caught.value)
    assert client.listeners.all() == []


def test_a_listener_may_have_methods_of_its_own(client: Scheduler) -> None:
    class Own(JobListener):
        def remember(self, text: str, more: int) -> None: ...

        def job_was_executed(self, event: events.JobWasExecuted, *, note: str = "") -> None: ...

    client.listeners.add_job_listener(Own())


def test_every_event_has_a_method_of_a_listener() -> None:
    def kinds(event: type[events.Event]) -> set[type[events.Event]]:
        return {event}.union(*(kinds(one) for one in event.__subclasses__()))

    methods = {event.method for event in kinds(events.Event) if event.method}
    listeners = (JobListener, TriggerListener, SchedulerListener)
    heard = {name for kind in listeners for name in vars(kind) if not name.startswith("_")}
    assert heard == methods | {"veto_job_execution"}


def test_matchers_of_a_listener_can_be_read_and_replaced(scheduler: Scheduler) -> None:
    listener, other = Everything(), Everything()
    mine = KeyMatcher.name("equals", "mine")
    scheduler.listeners.add_job_listener(listener, mine)
    assert scheduler.listeners.matchers_of(listener) == (mine,)
    scheduler.listeners.set_matchers(listener, KeyMatcher.name("equals", "yours"))
    run(scheduler, JobDetail(jobs.Recorded, "mine"))
    assert listener.seen == []
    run(scheduler, JobDetail(jobs.Recorded, "yours"), executions=2)
    assert listener.seen == ["job_to_be_executed", "job_was_executed"]
    with pytest.raises(InvalidListenerError, match="was not added"):
        scheduler.listeners.set_matchers(other)
    scheduler.listeners.add_scheduler_listener(other)
    with pytest.raises(InvalidListenerError, match="receives all keys"):
        scheduler.listeners.set_matchers(other, mine)
    with pytest.raises(InvalidMatcherError, match="must be a KeyMatcher"):
        scheduler.listeners.set_matchers(listener, "mine")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("flag", "instruction"),
    [
        ("unschedule_firing_trigger", CompletionInstruction.SET_TRIGGER_COMPLETE),
        ("unschedule_all_triggers", CompletionInstruction.SET_ALL_JOB_TRIGGERS_COMPLETE),
        ("delete_trigger", CompletionInstruction.DELETE_TRIGGER),
        ("set_trigger_error", CompletionInstruction.SET_TRIGGER_ERROR),
    ],
)
def test_the_end_of_a_fire_tells_its_instruction(
    scheduler: Scheduler, flag: str, instruction: CompletionInstruction
) -> None:
    seen = heard(scheduler, events.TriggerComplete)
    run(scheduler, JobDetail(jobs.Asking, "job", data={"flag": flag}))
    assert [(event.instruction, event.outcome) for event in seen] == [(instruction, Outcome.FAILED)]


def test_a_failure_outside_of_jobs_has_an_event(scheduler: Scheduler) -> None:
    told = threading.Event()
    seen: list[events.SchedulerError] = []

    class Hears(SchedulerListener):
        def scheduler_error(self, event: events.SchedulerError) -> None:
            seen.append(event)
            told.set()

    def fails() -> float:
        raise RuntimeError("a bug")

    scheduler.listeners.add_scheduler_listener(Hears())
    node = scheduler._node
    assert node is not None
    node.parts.misfires.run_once = fails  # type: ignore[method-assign]
    node.parts.misfires.wakeup.set()
    assert told.wait(20)
    assert seen[0].message.endswith("misfire-handler: a pass failed")
    assert str(seen[0].error) == "a bug"
