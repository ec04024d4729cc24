"""What is written twice has the same parameters: a handle and its scheduler, an awaitable and what it awaits."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from quartzpy import (
    EVERYTHING,
    GroupMatcher,
    Job,
    JobDetail,
    JobExecutionContext,
    JobGroups,
    JobKey,
    PublicState,
    Query,
    ScheduledJob,
    ScheduledTrigger,
    Scheduler,
    TriggeredExecution,
    TriggerGroups,
    TriggerKey,
    every,
)
from quartzpy.errors import InvalidKeyError, InvalidValueError, JobNotFoundError, TriggerNotFoundError
from quartzpy.events import JobWasExecuted
from quartzpy.scheduler.awaitable.results import (
    AsyncQuery,
    AsyncScheduledJob,
    AsyncScheduledTrigger,
    AsyncTriggeredExecution,
)
from quartzpy.scheduler.methods.quartz import QuartzMethods, QuartzNodeMethods
from quartzpy.testing import SchedulerHarness


class Tick(Job):
    def execute(self, context: Any) -> None:
        pass


TWINS = {
    "pause": "pause",
    "resume": "resume",
    "set_mode": "set_mode",
    "why": "why",
    "trigger": "trigger_job",
    "modify": "modify_job",
    "delete": "delete_job",
}
"""The methods of a job's handle, with those of the scheduler that take its key."""
TRIGGER_TWINS = {
    "pause": "pause",
    "resume": "resume",
    "reschedule": "reschedule_job",
    "skip_next": "skip_next",
    "skip_until": "skip_until",
    "backfill": "backfill",
    "backfill_times": "backfill_times",
    "reset_from_error": "reset_trigger_from_error",
    "delete": "unschedule_job",
    "why": "why",
}
"""The same of a trigger's handle."""


def parameters(function: Callable[..., Any], *, without: int = 1) -> dict[str, tuple[Any, Any, Any]]:
    listed = [*inspect.signature(function).parameters.values()][without:]
    return {one.name: (one.kind, one.default, str(one.annotation)) for one in listed}


@pytest.mark.parametrize("name", TWINS)
def test_a_handle_takes_what_the_scheduler_takes(name: str) -> None:
    assert parameters(getattr(ScheduledJob, name)) == parameters(getattr(Scheduler, TWINS[name]), without=2)


@pytest.mark.parametrize("name", TRIGGER_TWINS)
def test_a_handle_of_a_trigger_takes_what_the_scheduler_takes(name: str) -> None:
    assert parameters(getattr(ScheduledTrigger, name)) == parameters(getattr(Scheduler, TRIGGER_TWINS[name]), without=2)


def test_what_is_shown_first_is_small_and_quartzs_verbs_are_apart() -> None:
    verbs = {name for mix_in in (QuartzMethods, QuartzNodeMethods) for name in vars(mix_in)}
    shown = [name for name in dir(Scheduler) if not name.startswith("_") and name not in verbs]
    assert len(shown) <= 63, "what only plugins need belongs to scheduler.node, and a verb of Quartz to the mix-in"


def test_one_pause_takes_whatever_is_paused() -> None:
    harness = SchedulerHarness()
    job = harness.schedule_job(JobDetail(Tick, "tick", "g"), every("1h"))
    trigger = harness.trigger(TriggerKey("tick", "g"))
    subjects = (
        job,
        job.key,
        job.detail,
        harness.jobs().first(),
        trigger,
        trigger.key,
        trigger.record,
        trigger.record.trigger,
        JobGroups("g"),
        TriggerGroups(GroupMatcher.starts_with("g")),
        EVERYTHING,
    )
    for what in subjects:
        assert what is not None
        harness.pause(what, reason="a test", by="ann")
        states = [trigger.state]
        harness.resume(what)
        assert [*states, trigger.state] == ["PAUSED", "NORMAL"], what
    for wrong in (5, None, Tick, GroupMatcher.anything()):
        with pytest.raises(InvalidKeyError, match=r"JobGroups\(\.\.\.\), TriggerGroups\(\.\.\.\) or EVERYTHING"):
            harness.pause(wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidKeyError, match="EVERYTHING is all of them"):
        harness.pause("*")
    with pytest.raises(JobNotFoundError, match="is not stored"):
        harness.resume("nobody")
    with pytest.raises(InvalidValueError, match="ENABLED, MANUAL, DISABLED"):
        harness.set_mode(job, "off")
    with pytest.raises(InvalidValueError, match=r"MANUAL, ENABLED .*pause\(EVERYTHING\)"):
        harness.set_mode(EVERYTHING, "DISABLED")


def test_a_handle_of_a_trigger_does_what_the_scheduler_does() -> None:
    harness = SchedulerHarness()
    job = harness.schedule_job(JobDetail(Tick, "tick", durable=True), every("1h"))
    trigger = harness.trigger("tick")
    first = trigger.next_fire_time
    assert first is not None
    assert trigger.job == job
    assert trigger.skip_next() == first + timedelta(hours=1)
    assert trigger.reschedule(first + timedelta(days=1)) == trigger.next_fire_time
    assert trigger.why() == harness.why(trigger.key)
    assert trigger.delete()
    assert trigger.state is PublicState.NONE
    with pytest.raises(TriggerNotFoundError):
        trigger.record  # noqa: B018
    with pytest.raises(TriggerNotFoundError):
        harness.trigger("tick")


@pytest.mark.parametrize(
    ("behind", "twin"),
    [
        (ScheduledJob, AsyncScheduledJob),
        (ScheduledTrigger, AsyncScheduledTrigger),
        (TriggeredExecution, AsyncTriggeredExecution),
        (Query, AsyncQuery),
    ],
)
def test_an_awaitable_has_what_is_behind_it(behind: type, twin: type) -> None:
    names = [name for name in vars(behind) if not name.startswith("_")]
    assert [name for name in names if not hasattr(twin, name)] == []
    for name in names:
        if inspect.isfunction(vars(behind)[name]):
            assert parameters(vars(twin)[name]) == parameters(vars(behind)[name]), name


def test_the_harness_has_all_that_a_scheduler_has() -> None:
    public = {name for name in dir(Scheduler) if not name.startswith("_")}
    assert public - set(dir(SchedulerHarness())) == set()
    for name in ("run", "start_delayed", "cluster_events"):
        assert parameters(getattr(SchedulerHarness, name)) == parameters(getattr(Scheduler, name)), name


def test_the_harness_does_what_it_has(tmp_path: Path) -> None:
    path = tmp_path / "quartzpy.toml"
    path.write_text('url = "postgresql+psycopg://app@db/app"\nname = "shop"\nworkers = 3\n')
    harness = SchedulerHarness.from_config(path)
    assert (harness.name, harness.config.workers) == ("shop", 3)
    called = []

    @contextmanager
    def around(context: JobExecutionContext) -> Iterator[None]:
        called.append(context.job_key)
        yield

    harness.node.add_middleware(around)
    harness.node.trace_with(lambda: {"traceparent": "00-1-2-03"})
    harness.node.set_execution_groups({"heavy": 1})
    harness.start_delayed("5s")
    ended = []
    harness.listeners.add_listener(ended.append, JobWasExecuted)
    with harness.cluster_events() as events:
        harness.schedule_job(JobDetail(Tick, "tick"), every("1h"))
        harness.run_pending()
        assert events.next(5) is not None
    assert (called, len(ended)) == ([JobKey("tick")], 1)


def test_a_handles_pause_has_an_end_and_says_what_becomes_of_missed_fires() -> None:
    harness = SchedulerHarness()
    handle = harness.schedule_job(JobDetail(Tick, "tick"), every("1h"))
    handle.pause(until="2h", missed="skip", reason="the warehouse moves", by="ann")
    [record] = harness.triggers(job=handle)
    assert record.paused_until is not None


def test_the_next_fire_time_is_one_question(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = Scheduler("memory://", name="one-question")
    handle = scheduler.schedule_job(JobDetail(Tick, "many"), [every("1h", name=f"t{n}") for n in range(50)])
    store, asked = scheduler._usable_store(), []
    for name in ("find", "triggers", "triggers_of_job", "job_headers"):
        inner = getattr(store, name, None)
        if inner is not None:
            monkeypatch.setattr(
                type(store),
                name,
                lambda self, *values, inner=inner, name=name, **more: (asked.append(name), inner(*values, **more))[1],
                raising=False,
            )
    assert handle.next_fire_time == min(
        record.next_fire_time for record in scheduler.triggers(job=handle) if record.next_fire_time
    )
    assert asked.count("find") <= 2
    assert set(asked) == {"find"}
