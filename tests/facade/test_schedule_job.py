"""`schedule_job` in all its forms, the handles that it returns, and what methods do with what is not stored."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from quartzpy import CronTrigger, Job, JobDetail, JobKey, Scheduler, SimpleTrigger, Trigger, TriggerKey, errors
from quartzpy.events.events import Event
from quartzpy.jobs.job import JobTypes
from quartzpy.keys import MANUAL_TRIGGERS
from quartzpy.states import Outcome, PublicState
from quartzpy.testing import SchedulerHarness
from tests.facade import functions, jobs

HOUR = timedelta(hours=1)
LATER = datetime.now(UTC) + timedelta(days=1)
SOON = timedelta(seconds=30)


def only_trigger(client: Scheduler, name: str) -> Trigger:
    [trigger] = client.triggers_of_job(JobKey(name))
    return trigger


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (jobs.Recorded, "Recorded"),
        (functions.greet, "greet"),
        (functions.without_parameters, "without_parameters"),
        (functions.coroutine, "coroutine"),
        (JobDetail(jobs.Recorded, "detail"), "detail"),
    ],
)
def test_a_job_is_a_class_a_function_or_a_detail(client: Scheduler, given: Any, name: str) -> None:
    handle = client.schedule_job(given, LATER)
    assert handle.key == JobKey(name)
    assert handle.next_fire_time == LATER
    client.schedule_job(given, LATER)
    assert len(handle.triggers) == 1, "the same again changes nothing"


@pytest.mark.parametrize(
    ("given", "kind", "schedule"),
    [
        ("0 0 2 * * ?", "cron", {"expression": "0 0 2 * * ?"}),
        ("30 2 * * *", "cron", {}),
        ("@daily", "cron", {}),
        (timedelta(minutes=5), "simple", {"repeat_count": None}),
        (LATER, "simple", {"start_time": LATER, "repeat_count": 0}),
        (SimpleTrigger(start_time=LATER, interval=HOUR, repeat_count=3), "simple", {"repeat_count": 3}),
    ],
)
def test_a_trigger_is_a_text_a_span_an_instant_or_a_trigger(
    client: Scheduler, given: Any, kind: str, schedule: dict[str, Any]
) -> None:
    client.schedule_job(jobs.Recorded, given)
    trigger = only_trigger(client, "Recorded")
    assert (trigger.name, trigger.group, trigger.kind) == ("Recorded", "DEFAULT", kind)
    assert {name: getattr(trigger, name) for name in schedule} == schedule


def test_unnamed_triggers_take_the_name_of_their_job(client: Scheduler) -> None:
    def schedule() -> None:
        client.schedule_job(
            jobs.Recorded,
            ["0 0 2 * * ?", CronTrigger("0 0 3 * * ?", "report-2"), "0 0 4 * * ?", LATER],
            name="report",
            group="billing",
            replace=True,
        )

    expected = {TriggerKey(name, "billing") for name in ("report", "report-3", "report-4")} | {TriggerKey("report-2")}
    schedule()
    found = client.trigger_keys()
    schedule()
    assert client.trigger_keys() == found, "also at the next start"
    assert {key.name for key in found if key.group == "billing"} >= {"report"}
    assert len(found) == len(expected)


def test_a_job_without_a_trigger_is_durable(client: Scheduler) -> None:
    assert client.schedule_job(jobs.Recorded, name="by-hand").detail.durable
    with pytest.raises(errors.InvalidJobError, match="no trigger and is not durable"):
        client.schedule_job(JobDetail(jobs.Recorded, "detail"))


def test_the_data_of_a_function_is_passed_to_its_parameters(scheduler: Scheduler) -> None:
    handle = scheduler.schedule_job(functions.greet, data={"name": "Ada"})
    assert handle.trigger().wait(SOON).result == "hello Ada"
    assert handle.trigger({"name": "Bob"}).wait(SOON).result == "hello Bob"


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda c: c.schedule_job("0 0 2 * * ?", jobs.Recorded), errors.InvalidTriggerError, "the job comes first"),
        (lambda c: c.schedule_job(jobs.Recorded, jobs.Recorded), errors.InvalidTriggerError, "the job comes first"),
        (lambda c: c.schedule_job(jobs.Recorded, 5), errors.InvalidTriggerError, "a trigger, a cron text"),
        (lambda c: c.schedule_job(5, "@daily"), errors.InvalidJobError, "a Job subclass, a function or a JobDetail"),
        (lambda c: c.schedule_job(print, "@daily"), errors.InvalidJobTypeError, "cannot be found by other nodes"),
        (lambda c: c.schedule_job(lambda: 1, "@daily"), errors.InvalidJobTypeError, "cannot be found by other nodes"),
        (
            lambda c: c.schedule_job(JobDetail(jobs.Recorded, "d"), "@daily", data={}, timeout=HOUR),
            errors.InvalidJobError,
            "data, timeout cannot be combined with a JobDetail",
        ),
        (lambda c: c.schedule_job(jobs.Recorded, "@daily", tiemout=1), errors.InvalidJobError, "no option 'tiemout'"),
        (lambda c: c.schedule_job(functions.greet, "@daily", data={"nam": 1}), errors.InvalidJobDataError, "'nam'"),
        (lambda c: c.schedule_job(jobs.Recorded, "nonsense"), errors.InvalidValueError, "nonsense"),
    ],
)
def test_what_is_no_job_or_trigger_is_refused_with_words(
    client: Scheduler, call: Callable[[Scheduler], object], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        call(client)
    assert client.job_keys() == set()
    assert client.trigger_keys() == set()


def test_a_handle_does_with_its_job_what_the_methods_do(client: Scheduler) -> None:
    handle = client.schedule_job(jobs.Recorded, timedelta(hours=1), name="report")
    assert client.job("report") == handle
    handle.pause()
    assert client.trigger_state(handle.triggers[0].key) is PublicState.PAUSED
    handle.resume()
    assert handle.modify(description="new").description == "new"
    assert handle.detail.description == "new"
    assert handle.reschedule(LATER) == LATER
    assert handle.next_fire_time == LATER
    client.schedule_job(jobs.Recorded, SimpleTrigger("more", start_time=LATER), name="report", replace=True)
    with pytest.raises(errors.InvalidTriggerError, match="a job with one trigger"):
        handle.reschedule(LATER)
    assert handle.delete()
    assert handle.delete(missing_ok=True) is False
    assert (handle.triggers, handle.next_fire_time) == ([], None)
    for method in (handle.pause, handle.resume, handle.trigger, handle.modify, handle.delete, lambda: handle.detail):
        with pytest.raises(errors.JobNotFoundError, match=r"job DEFAULT\.report is not stored"):
            method()


def test_a_triggered_execution_is_waited_for(scheduler: Scheduler) -> None:
    handle = scheduler.schedule_job(jobs.Recorded, LATER)
    execution = handle.trigger({"a": 1})
    record = execution.wait(SOON)
    assert record.outcome is Outcome.SUCCEEDED
    assert (record.trigger_key, record.job_key) == (execution.key, handle.key)
    assert execution.record == record
    assert execution.key.group == MANUAL_TRIGGERS
    assert not execution.cancel(), "it has ended"


def test_a_triggered_execution_can_be_taken_back(client: Scheduler) -> None:
    execution = client.schedule_job(jobs.Recorded, LATER).trigger(delay=HOUR)
    with pytest.raises(errors.WaitTimeoutError, match=r"did not end within 0\.02 s"):
        execution.wait(0.02)
    assert execution.cancel()
    assert not client.check_exists(execution.key)


def test_the_next_execution_of_a_job_is_waited_for(scheduler: Scheduler) -> None:
    every = scheduler.schedule_job(jobs.Recorded, timedelta(milliseconds=50), name="often")
    assert every.wait(SOON).job_key == every.key
    once = scheduler.schedule_job(jobs.Recorded, datetime.now(UTC), name="once")
    assert once.wait(SOON).job_key == once.key
    assert once.wait(SOON).job_key == once.key, "it has ended, and is not stored any more"


def test_the_test_scheduler_moves_its_clock_while_a_handle_waits() -> None:
    harness = SchedulerHarness()
    began = harness.now
    record = harness.schedule_job(jobs.Recorded, began + timedelta(seconds=3)).wait("1m")
    assert record.scheduled_fire_time == began + timedelta(seconds=3)


@pytest.mark.parametrize(
    "method",
    [
        *("pause_job", "resume_job", "trigger_job", "modify_job", "delete_job", "job"),
    ],
)
def test_a_method_on_a_job_takes_a_key_a_name_or_what_has_a_key_and_says_what_is_not_stored(
    client: Scheduler, method: str
) -> None:
    call = getattr(client, method)
    for wrong, meant in (
        (JobKey("reporting", "DEFAULT"), r'; did you mean JobKey\("reporting", "billing"\)\?'),
        (JobKey("billing", "reporting"), r'; did you mean JobKey\("reporting", "billing"\)\?'),
        (JobKey("reportin", "billing"), r'; did you mean JobKey\("reporting", "billing"\)\?'),
        ("another", "$"),
    ):
        client.schedule_job(jobs.Recorded, LATER, name="reporting", group="billing")
        with pytest.raises(errors.JobNotFoundError, match=rf"is not stored{meant}"):
            call(wrong)
    for no_key in (5, None, TriggerKey("reporting"), jobs.Recorded):
        with pytest.raises(errors.InvalidKeyError, match=r'as "nightly" or JobKey\("nightly", "reports"\)'):
            call(no_key)
    for key in ("plain", JobKey("plain"), client.schedule_job(jobs.Recorded, LATER, name="plain")):
        client.schedule_job(jobs.Recorded, LATER, name="plain")
        if method != "trigger_job":
            call(key)
    assert isinstance(client.job_keys(), set)


@pytest.mark.parametrize(
    "method", ["pause_trigger", "resume_trigger", "unschedule_job", "reset_trigger_from_error", "trigger"]
)
def test_a_method_on_a_trigger_does_so_too(client: Scheduler, method: str) -> None:
    trigger = SimpleTrigger("t", start_time=LATER)
    client.schedule_job(jobs.Recorded, trigger)
    call = getattr(client, method)
    with pytest.raises(errors.TriggerNotFoundError, match=r'did you mean TriggerKey\("t", "DEFAULT"\)\?'):
        call(TriggerKey("t", "other"))
    with pytest.raises(errors.InvalidKeyError, match=r"TriggerKey\("):
        call(JobKey("t"))
    for key in ("t", TriggerKey("t"), trigger):
        if method == "reset_trigger_from_error":
            with pytest.raises(errors.IllegalStateChangeError, match="not ERROR"):
                call(key)
        else:
            client.schedule_job(jobs.Recorded, trigger)
            call(key)


@pytest.mark.parametrize(
    ("pause", "cure"),
    [
        (lambda c: c.pause_all(), "everything is paused; resume everything first"),
        (lambda c: c.pause_job_group("DEFAULT"), "job group DEFAULT is paused; resume that group first"),
        (
            lambda c: c.pause_trigger_group(MANUAL_TRIGGERS),
            "trigger group MANUAL_TRIGGERS is paused; resume that group first",
        ),
    ],
)
def test_a_fire_by_hand_that_a_pause_would_hold_is_refused(
    client: Scheduler, pause: Callable[[Scheduler], object], cure: str
) -> None:
    client.schedule_job(jobs.Recorded, LATER, name="report")
    pause(client)
    with pytest.raises(errors.IllegalStateChangeError, match=f"would not run now, because {cure}, .*even_if_paused"):
        client.trigger_job("report")
    held = client.trigger_job("report", even_if_paused=True)
    assert client.trigger_state(held.key) is PublicState.PAUSED


def test_a_pause_of_other_groups_does_not_hold_a_fire_by_hand(client: Scheduler) -> None:
    client.schedule_job(jobs.Recorded, LATER, name="report")
    client.pause_trigger_group("DEFAULT")
    client.pause_job_group("other")
    assert client.trigger_state(client.trigger_job("report").key) is PublicState.NORMAL


def test_enabling_a_job_skips_what_it_missed_and_leaves_other_pauses(client: Scheduler) -> None:
    start = datetime.now(UTC) - timedelta(minutes=30)
    hourly = SimpleTrigger("hourly", start_time=start, interval=HOUR, repeat_count=None)
    client.schedule_job(jobs.Recorded, [hourly, SimpleTrigger("paused", start_time=LATER)], name="report")
    client.set_mode("report", "DISABLED")
    client.pause_trigger("paused")
    client.set_mode("report", "ENABLED")
    assert client.trigger_state(TriggerKey("paused")) is PublicState.PAUSED
    assert client.trigger_state(TriggerKey("hourly")) is PublicState.NORMAL
    client.start()
    assert not client.wait_until_recorded(1, timedelta(seconds=1)), "what was missed is skipped"
    record = client.trigger_record(TriggerKey("hourly"))
    assert record is not None
    assert record.progress.next_fire_time == start + HOUR


def test_listeners_hear_of_each_trigger_of_a_deleted_job(client: Scheduler) -> None:
    client.schedule_job(jobs.Recorded, [SimpleTrigger("a", start_time=LATER), SimpleTrigger("b", start_time=LATER)])
    seen: list[Event] = []
    client.listeners.add_listener(seen.append)
    client.delete_job("Recorded")
    assert [event.method for event in seen] == ["job_unscheduled", "job_unscheduled", "job_deleted"]


# --- job defaults and registries


def test_defaults_override_the_class_and_not_the_detail(make_scheduler: Callable[..., Scheduler]) -> None:
    client = make_scheduler(job_defaults={"timeout": HOUR, "requests_recovery": True, "disallow_concurrent": False})
    unsaid = client.schedule_job(jobs.Recorded, LATER, name="unsaid").detail
    assert (unsaid.timeout, unsaid.requests_recovery) == (HOUR, True)
    said = client.schedule_job(jobs.Recorded, LATER, name="said", timeout=2 * HOUR, requests_recovery=False).detail
    assert (said.timeout, said.requests_recovery) == (2 * HOUR, False)
    limited = client.schedule_job(jobs.Recorded, LATER, name="limited", max_concurrent=3).detail
    assert limited.max_concurrent == 3
    client.add_job(JobDetail(jobs.Recorded, "added", durable=True))
    assert client.job("added").detail.timeout == HOUR
    plan = client.sync([(JobDetail(jobs.Recorded, "unsaid"), SimpleTrigger("unsaid", start_time=LATER))], owner="me")
    assert client.job("unsaid").detail.timeout == HOUR, plan


@pytest.mark.parametrize(
    ("defaults", "said"),
    [
        ({"tiemout": 1}, r"job_defaults: 'tiemout' cannot have a default; did you mean timeout\?"),
        ({"name": "x"}, "job_defaults: 'name' cannot have a default"),
        ({"max_concurrent": 0}, "job_defaults: max_concurrent"),
        ([1], "job_defaults: a mapping"),
    ],
)
def test_wrong_defaults_are_refused(defaults: Any, said: str) -> None:
    with pytest.raises(errors.InvalidJobError, match=said):
        Scheduler("memory://", job_defaults=defaults)


def test_the_registry_that_is_handed_in_is_asked() -> None:
    from dataclasses import dataclass

    @dataclass
    class Wanted:
        region: str

    class Own(Job, type_name="tests.own-registry", data_type=Wanted):
        def execute(self, context: Any) -> None:
            """Nothing."""

    types = JobTypes()
    harness = SchedulerHarness(job_types=types)
    harness.schedule_job(JobDetail("tests.own-registry", "unknown", data={"wrong": 1}), LATER)
    types.register(Own, "tests.own-registry")
    with pytest.raises(errors.InvalidJobDataError, match="wrong"):
        harness.schedule_job(JobDetail("tests.own-registry", "known", data={"wrong": 1}), LATER)
    with pytest.raises(errors.InvalidJobDataError):
        harness.trigger_job("unknown", {"wrong": 2})
