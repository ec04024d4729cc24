"""The actions of operators: what each changes, who may do it, and what the audit log keeps."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest

from quartzpy import Job, JobExecutionContext, Scheduler
from quartzpy.errors import (
    ExecutionNotFoundError,
    ForbiddenError,
    IllegalStateChangeError,
    InvalidJobDataError,
    InvalidKeyError,
    InvalidValueError,
    JobNotFoundError,
    ObjectNotFoundError,
    OutcomeUnknownError,
    StoreUnavailableError,
    TriggerNotFoundError,
)
from quartzpy.events.events import TriggerPaused
from quartzpy.keys import MANUAL_TRIGGERS, JobKey, TriggerKey
from quartzpy.matchers import GroupMatcher
from quartzpy.operations import Actor, Operations, Role, Selection
from quartzpy.operations.actions import log
from quartzpy.states import JobMode, Outcome, TriggerState
from quartzpy.store.protocol import Notification
from quartzpy.store.records import ActionRecord
from quartzpy.triggers.cron import CronTrigger
from tests.contract.harness import (
    HOUR,
    MINUTE,
    Harness,
    at,
    every,
    job,
    job_key,
    key,
    once,
    stored_job,
    stored_mode,
    stored_trigger,
)

DAY = 24 * HOUR


@dataclass
class Invoice:
    number: int
    api_token: str = ""


class TypedReport(Job):
    data_type = Invoice

    def execute(self, context: JobExecutionContext) -> None:
        """Do nothing: the jobs of these tests are not run."""


@pytest.fixture
def stored(store: Harness) -> Harness:
    """A store with a job and its hourly trigger."""
    store.schedule(job(), every(3600, "hourly", start=at(3600)))
    return store


def latest(operations: Operations) -> ActionRecord:
    return operations.audit_log(limit=1)[0]


# --- one subject


def test_a_pause_is_recorded_with_its_reason_and_the_values_before_and_after(
    stored: Harness, operations: Operations
) -> None:
    ann = operations.acting_as(Actor("ann", Role.OPERATOR))
    result = ann.actions.pause(key("hourly"), reason="the warehouse moves")
    assert stored.state("hourly") == "PAUSED"
    assert (result.action, result.keys, result.count) == ("pause", (key("hourly"),), 1)
    assert str(result) == "Paused trigger DEFAULT.hourly."
    found = latest(operations)
    assert found.action_id == result.action_id
    assert (found.actor, found.role, found.action, found.subject) == (
        *("ann", "operator", "pause"),
        "trigger DEFAULT.hourly",
    )
    assert (found.reason, found.state, found.count, found.error) == ("the warehouse moves", "SUCCEEDED", 1, None)
    assert (found.at, found.ended_at) == (stored.clock.now(), stored.clock.now())
    assert found.before["state"] == "WAITING"
    assert found.after["state"] == "PAUSED"
    record = stored_trigger(stored.store, key("hourly"))
    assert record is not None
    assert (record.paused_by, record.pause_reason) == ("ann", "the warehouse moves")


def test_resume_applies_the_policy_for_missed_fires(stored: Harness, operations: Operations) -> None:
    operations.actions.pause(key("hourly"))
    stored.clock.advance(3.5 * HOUR)
    with pytest.raises(InvalidValueError, match="missed: must be one of misfire, skip, once"):
        operations.actions.resume(key("hourly"), "never")
    operations.actions.resume(key("hourly"), "skip")
    stored.misfire(stored.node())
    assert stored.progress("hourly").next_fire_time == at(4 * 3600)
    assert latest(operations).after["missed"] == "skip"


def test_a_group_and_everything_are_paused_and_resumed(stored: Harness, operations: Operations) -> None:
    stored.schedule(job("other"), once("o", at(60), group="g"))
    result = operations.actions.pause(Selection.trigger_group("g"), reason="why")
    assert (result.keys, stored.state("o", "g")) == (("g",), "PAUSED")
    assert result.text == "Paused trigger group g: g. 1 trigger was paused."
    assert (latest(operations).subject, latest(operations).after["triggers"]) == ("trigger group g", 1)
    again = operations.actions.pause(Selection.trigger_group("g"), reason="why")
    assert again.text == "Paused trigger group g: g. No triggers were paused."
    resumed = operations.actions.resume(Selection.trigger_group("g"))
    assert resumed.text == "Resumed trigger group g: g. 1 trigger was resumed."
    paused = operations.actions.pause(Selection.job_group("DEFAULT"))
    assert paused.text == "Paused job group DEFAULT: DEFAULT. 2 triggers were paused."
    assert [stored.state("o", "g"), stored.state("hourly")] == ["PAUSED", "PAUSED"]
    operations.actions.resume(Selection.job_group("DEFAULT"))
    operations.actions.pause(Selection.everything())
    assert stored.store.pauses().everything
    assert latest(operations).subject == "everything"
    assert operations.actions.resume(Selection.everything()).text == (
        "Resumed everything: DEFAULT, g. 2 triggers were resumed."
    )
    assert stored.state("hourly") == "WAITING"


def test_a_selection_is_counted_before_anything_is_changed(stored: Harness, operations: Operations) -> None:
    stored.schedule(job("other", "g"), once("o", at(60), group="g"), once("p", at(60), group="g"))
    for selection, count in (
        (Selection.triggers(), 3),
        (Selection.jobs(group="g"), 1),
        (Selection.trigger_group("g"), 2),
        (Selection.job_group("g"), 1),
        (Selection.everything(), 3),
        ([key("hourly"), key("none")], 2),
    ):
        assert operations.actions.count(selection) == count, str(selection)


def test_triggering_a_job_carries_the_data_and_the_log_hides_its_secrets(
    stored: Harness, operations: Operations
) -> None:
    ann = operations.acting_as(Actor("ann", Role.OPERATOR))
    result = ann.actions.trigger(JobKey("job"), {"region": "eu", "api_token": "abc"}, reason="late customer")
    [made] = result.keys
    record = stored_trigger(stored.store, made)
    assert record is not None
    assert made.group == MANUAL_TRIGGERS
    assert record.trigger.data == {"region": "eu", "api_token": "abc", "QRTZ_TRIGGERED_BY": "ann"}
    assert latest(operations).after["data"] == {"region": "eu", "api_token": "[redacted]"}


def test_data_that_does_not_fit_the_type_of_the_job_is_refused(store: Harness, operations: Operations) -> None:
    operations.scheduler.schedule_job(TypedReport, name="typed", data={"number": 1})
    with pytest.raises(InvalidJobDataError, match="numer"):
        operations.actions.trigger(JobKey("typed"), {"numer": 2})
    found = latest(operations)
    assert (found.state, found.subject) == ("FAILED", "job DEFAULT.typed")
    assert "numer" in (found.error or "")
    assert not store.store.keys(TriggerKey, GroupMatcher.anything())
    operations.actions.trigger(JobKey("typed"), Invoice(2, "t0p"))
    found = latest(operations)
    assert (found.state, found.after["data"]) == ("SUCCEEDED", {"number": 2, "api_token": "[redacted]"})
    described = operations.actions.data_fields(JobKey("typed"))
    assert described is not None
    assert [(one.name, one.type, one.required, one.default) for one in described] == [
        ("number", "int", True, None),
        ("api_token", "str", False, "''"),
    ]


def test_what_operators_run_names_them_wherever_it_is_listed(stored: Harness, operations: Operations) -> None:
    ann, bob = (operations.acting_as(Actor(name, Role.ADMIN)) for name in ("ann", "bob"))
    node = stored.node()
    ann.actions.trigger(JobKey("job"))
    [waiting] = [row for row in operations.triggers() if row.key.group == MANUAL_TRIGGERS]
    fired = stored.fire_one(node)
    [running] = operations.running()
    stored.complete(node, fired)
    [ended] = operations.executions()
    assert [row.triggered_by for row in (waiting, running, ended)] == ["ann"] * 3
    assert operations.execution(fired.fire_id).data == {}

    bob.actions.run_again(fired.fire_id)
    stored.complete(node, stored.fire_one(node))
    bob.actions.backfill(key("hourly"), at(2 * 3600), at(2 * 3600 + 1))
    stored.complete(node, stored.fire_one(node))
    assert [row.triggered_by for row in operations.executions()] == ["bob", "bob", "ann"]


def test_an_ended_execution_runs_again_and_a_running_one_does_not(stored: Harness, operations: Operations) -> None:
    node = stored.node()
    stored.clock.advance(HOUR)
    fired = stored.fire_one(node)
    with pytest.raises(IllegalStateChangeError, match="only an execution that has ended"):
        operations.actions.run_again(fired.fire_id)
    stored.complete(node, fired, outcome=Outcome.FAILED, error="no")
    result = operations.actions.run_again(fired.fire_id, reason="the disk was full")
    [made] = result.keys
    assert stored_trigger(stored.store, made) is not None
    assert latest(operations).subject == f"execution {fired.fire_id}"


def test_cancel_asks_one_execution_or_all_of_a_job(stored: Harness, operations: Operations) -> None:
    node = stored.node()
    stored.clock.advance(HOUR)
    fired = stored.fire_one(node)
    operations.actions.cancel(fired.fire_id)
    assert stored.store.cancel_requests(node) == {fired.fire_id}
    result = operations.actions.cancel(JobKey("job"))
    assert (result.keys, result.count) == ((fired.fire_id,), 1)
    stored.complete(node, fired)
    with pytest.raises(IllegalStateChangeError, match="is SUCCEEDED; only a running one can be cancelled"):
        operations.actions.cancel(fired.fire_id)
    with pytest.raises(ExecutionNotFoundError, match="execution 999999999 is not known"):
        operations.actions.cancel(999999999)
    with pytest.raises(JobNotFoundError):
        operations.actions.cancel(JobKey("none"))


def test_skip_next_reset_enable_disable_and_delete(stored: Harness, operations: Operations) -> None:
    actions = operations.actions
    text = actions.skip_next(key("hourly"), 2).text
    assert text == "Skipped 2 fires of trigger DEFAULT.hourly, which fires next at 2026-03-02 15:00:00+00:00."
    with pytest.raises(IllegalStateChangeError):
        actions.reset(key("hourly"))
    stored.set_state(key("hourly"), TriggerState.ERROR)
    actions.reset(key("hourly"))
    assert (latest(operations).before["state"], latest(operations).after["state"]) == ("ERROR", "WAITING")
    actions.disable(JobKey("job"))
    assert stored_mode(stored.store, job_key()) is JobMode.DISABLED
    with pytest.raises(IllegalStateChangeError, match="is disabled"):
        actions.trigger(JobKey("job"))
    actions.enable(JobKey("job"))
    assert (latest(operations).before, latest(operations).after) == ({"mode": "DISABLED"}, {"mode": "ENABLED"})
    actions.delete(JobKey("job"), reason="not needed any more")
    assert stored_job(stored.store, job_key()) is None
    assert latest(operations).before["triggers"][0]["trigger"] == "DEFAULT.hourly"
    with pytest.raises(JobNotFoundError):
        actions.delete(JobKey("job"))


def test_deleting_the_last_trigger_of_a_job_deletes_the_job(stored: Harness, operations: Operations) -> None:
    operations.actions.delete(key("hourly"))
    assert stored_job(stored.store, job_key()) is None


def test_a_backfill_tells_its_instants_before_and_runs_them(stored: Harness, operations: Operations) -> None:
    stored.schedule(job("nightly"), CronTrigger("0 0 2 * * ?", "nightly"))
    start, end = at(-3 * 86_400), at(0)
    instants = operations.actions.backfill_times(key("nightly"), start, end)
    assert [one.isoformat() for one in instants] == [
        f"2026-{day}T02:00:00+00:00" for day in ("02-28", "03-01", "03-02")
    ]
    result = operations.actions.backfill(key("nightly"), start, end, reason="the export was wrong")
    assert (result.count, len(result.keys)) == (3, 3)
    assert latest(operations).after == {"start": start.isoformat(), "end": end.isoformat(), "runs": 3}
    with pytest.raises(InvalidValueError, match="until: must be after since"):
        operations.actions.backfill(key("nightly"), end, start)


# --- schedules


def test_a_schedule_is_edited_and_everything_else_stays(store: Harness, operations: Operations) -> None:
    trigger = CronTrigger(
        "0 0 2 * * ?",
        "nightly",
        time_zone="Europe/Berlin",
        priority=7,
        misfire="do_nothing",
        data={"region": "eu"},
        description="of last night",
        end_time=at(400 * 86_400),
    )
    store.schedule(job(), trigger)
    operations.actions.pause(key("nightly"), reason="wait")
    preview = operations.actions.preview_schedule("30 3 * * *", trigger=key("nightly"))
    result = operations.actions.reschedule(key("nightly"), "30 3 * * *", reason="after the backup")
    record = stored_trigger(store.store, key("nightly"))
    assert record is not None
    assert record.next_fire_time == preview.next_times[0].at == datetime.fromisoformat("2026-03-03T03:30+01:00")
    changed = record.trigger
    assert isinstance(changed, CronTrigger)
    assert (changed.expression, changed.time_zone, changed.dialect) == ("30 3 * * *", "Europe/Berlin", "crontab")
    for name in ("priority", "misfire", "data", "description", "end_time", "job_key"):
        assert getattr(changed, name) == getattr(trigger.bound_to(job_key()), name), name
    assert (record.state, record.pause_reason) == ("PAUSED", "wait"), "an edit does not resume"
    found = latest(operations)
    assert found.before == {"schedule": "0 0 2 * * ?", "zone": "Europe/Berlin"}
    assert found.after == {"schedule": "30 3 * * *", "zone": "Europe/Berlin"}
    assert "the next time is 2026-03-03 02:30:00+00:00" in result.text


def test_an_edited_interval_does_not_fire_at_once(store: Harness, operations: Operations) -> None:
    store.schedule(job(), every(600, "often", misfire="reschedule_next_with_remaining_count"))
    node = store.node()
    store.complete(node, store.fire_one(node))
    store.clock.advance(MINUTE)
    operations.actions.reschedule(key("often"), "every 15m")
    assert store.progress("often").next_fire_time == at(900), "counted from the last fire"
    assert store.fire_due(node) == []
    operations.actions.reschedule(key("often"), "0 0 4 * * ?", "Asia/Tokyo")
    record = stored_trigger(store.store, key("often"))
    assert record is not None
    assert record.next_fire_time == datetime.fromisoformat("2026-03-03T04:00+09:00")
    assert record.trigger.misfire == "do_nothing", "the misfire instruction means the same"
    operations.actions.reschedule(key("often"), "2026-12-24T18:00+01:00")
    assert store.progress("often").next_fire_time == datetime.fromisoformat("2026-12-24T18:00+01:00")


def test_a_wrong_schedule_changes_nothing_and_is_recorded_as_failed(stored: Harness, operations: Operations) -> None:
    before = stored_trigger(stored.store, key("hourly"))
    with pytest.raises(InvalidValueError):
        operations.actions.reschedule(key("hourly"), "0 0 25 * * ?")
    with pytest.raises(TriggerNotFoundError):
        operations.actions.reschedule(key("none"), "0 0 2 * * ?")
    assert stored_trigger(stored.store, key("hourly")) == before
    assert [one.state for one in operations.audit_log()] == ["FAILED", "FAILED"]


@pytest.mark.parametrize(
    ("text", "zone", "words", "first"),
    [
        ("0 0 2 ? * MON-FRI", "Europe/Berlin", "02:00", "2026-03-03 02:00:00+01:00"),
        ("*/5 * * * *", None, "5 minutes", "2026-03-02 12:00:00+00:00"),
        ("@daily", None, "00:00", "2026-03-03 00:00:00+00:00"),
        ("every 90m", None, "every 1h30m", "2026-03-02 12:00:00+00:00"),
        ("1 hour 30 min", None, "every 1h30m", "2026-03-02 12:00:00+00:00"),
        ("every hour", None, "every 1h", "2026-03-02 12:00:00+00:00"),
        ("2026-12-24T18:00", "Europe/Berlin", "once", "2026-12-24 18:00:00+01:00"),
    ],
)
def test_a_preview_has_the_schedule_in_words_and_its_next_times(
    operations: Operations, text: str, zone: str | None, words: str, first: str
) -> None:
    found = operations.actions.preview_schedule(text, zone)
    assert (found.error, found.position) == (None, None)
    assert words in (found.words or "")
    assert found.next_times[0].local == first
    assert len(found.next_times) == (1 if "once" in words else 10)


def test_a_preview_marks_changes_of_the_clock(store: Harness, operations: Operations) -> None:
    store.clock.set(datetime.fromisoformat("2026-03-27T12:00+00:00"))
    found = operations.actions.preview_schedule("0 0 9 * * ?", "Europe/Berlin")
    assert [one.clock_change is not None for one in found.next_times[:3]] == [False, True, False]


@pytest.mark.parametrize(
    ("text", "zone", "error", "position"),
    [
        ("0 0 25 * * ?", None, "hours", 4),
        ("  0 0 25 * * ?", None, "hours", 6),
        ("0 61 * * *", None, "hour", 2),
        ("0 0 12 * * ?", "Mars/Olympus", "Mars/Olympus", None),
        ("soon", None, "which has 1 fields", None),
        ("30", None, "an interval such as 'every 15m'", None),
        ("", None, "a cron expression of five fields", None),
        ("2026-12-24T18:00", None, "needs a time zone", None),
        ("0 0 0 1 1 ? 2020", None, "no fire time after", None),
    ],
)
def test_a_preview_of_a_wrong_schedule_says_what_is_wrong_and_where(
    operations: Operations, text: str, zone: str | None, error: str, position: int | None
) -> None:
    found = operations.actions.preview_schedule(text, zone)
    assert error in (found.error or "")
    assert (found.position, found.next_times) == (position, ())


# --- many subjects


def test_many_subjects_are_changed_in_slices_and_recorded_as_one_action(
    store: Harness, operations: Operations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "SLICE", 3)
    store.schedule(job(), *(once(f"t{n}", at(3600)) for n in range(10)), once("other", at(3600), group="g"))
    selection = Selection.triggers(group="DEFAULT")
    assert operations.actions.count(selection) == 10
    result = operations.actions.pause(selection, reason="stocktaking")
    assert (result.count, result.failed, result.text) == (10, 0, "Paused 10 triggers.")
    assert store.states(*(f"t{n}" for n in range(10))) == ["PAUSED"] * 10
    assert store.state("other", "g") == "WAITING"
    [found] = operations.audit_log()
    assert (found.subject, found.count, found.state) == ("triggers with group=DEFAULT", 10, "SUCCEEDED")
    operations.actions.resume([key("t1"), key("t2"), key("none")])
    [found, _] = operations.audit_log()
    assert (found.subject, found.count) == ("3 triggers: DEFAULT.t1, DEFAULT.t2, DEFAULT.none", 2)
    assert found.after == {
        "failed": 1,
        "failures": [{"key": "DEFAULT.none", "error": "trigger DEFAULT.none is not stored"}],
    }


def test_subjects_that_cannot_be_changed_do_not_prevent_the_others(
    store: Harness, operations: Operations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "SLICE", 2)
    store.schedule(job(), *(once(f"t{n}", at(3600)) for n in range(5)))
    for n in range(1, 5):
        store.set_state(key(f"t{n}"), TriggerState.ERROR)
    result = operations.actions.reset([key(f"t{n}") for n in range(5)])
    assert (result.count, result.failed) == (4, 1)
    assert "t0" in result.failures[0].key
    assert result.text.startswith("Reset 4 triggers. 1 trigger could not be changed; the first:")
    assert store.states(*(f"t{n}" for n in range(5))) == ["WAITING"] * 5
    assert latest(operations).state == "SUCCEEDED"
    result = operations.actions.reset([key("t0"), key("t1")])
    assert (result.count, latest(operations).state) == (0, "FAILED")


def test_an_action_whose_store_fails_keeps_the_slices_that_are_done(
    store: Harness, operations: Operations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "SLICE", 2)
    store.schedule(job(), *(once(f"t{n}", at(3600)) for n in range(6)))
    together, calls = operations.scheduler._store.together, []

    def failing(work: Callable[[Any], Any], **how: Any) -> Any:
        calls.append(work)
        if len(calls) == 3:
            raise StoreUnavailableError("the server closed the connection")
        return together(work, **how)

    monkeypatch.setattr(operations.scheduler._store, "together", failing)
    with pytest.raises(StoreUnavailableError):
        operations.actions.pause(Selection.triggers())
    found = latest(operations)
    assert (found.subject, found.count, found.state) == ("all triggers", 4, "FAILED")
    assert "the server closed the connection" in (found.error or "")
    assert store.states(*(f"t{n}" for n in range(6))) == ["PAUSED"] * 4 + ["WAITING"] * 2


@pytest.mark.parametrize(
    ("error", "state"),
    [(OutcomeUnknownError("the answer was lost"), "FAILED"), (KeyboardInterrupt(), "INTERRUPTED")],
    ids=str,
)
def test_a_slice_that_is_committed_before_an_error_is_counted(
    store: Harness, operations: Operations, monkeypatch: pytest.MonkeyPatch, error: BaseException, state: str
) -> None:
    monkeypatch.setattr(log, "SLICE", 2)
    store.schedule(job(), *(once(f"t{n}", at(3600)) for n in range(6)))
    together, calls = operations.scheduler._store.together, []

    def lose_the_answer(work: Callable[[Any], Any], **how: Any) -> Any:
        calls.append(together(work, **how))
        if len(calls) == 2:
            raise error
        return calls[-1]

    monkeypatch.setattr(operations.scheduler._store, "together", lose_the_answer)
    with pytest.raises(type(error)):
        operations.actions.pause(Selection.triggers())
    assert store.states(*(f"t{n}" for n in range(6))) == ["PAUSED"] * 4 + ["WAITING"] * 2
    found = latest(operations)
    assert (found.count, found.state, found.ended_at is not None) == (4, state, True)


def test_failed_executions_run_again_by_filter(store: Harness, operations: Operations) -> None:
    node = store.node()
    for name, outcome in (("a", Outcome.FAILED), ("b", Outcome.SUCCEEDED), ("c", Outcome.FAILED)):
        store.schedule(job(name, durable=True), once(name))
        store.complete(node, store.fire_one(node), outcome=outcome)
    result = operations.actions.run_again(Selection.executions(state="FAILED"))
    assert (result.count, result.failed) == (2, 0)
    assert sorted(one.job_key.name for one in operations.scheduler.triggers(group=MANUAL_TRIGGERS)) == ["a", "c"]


def test_only_triggers_that_change_are_counted_as_paused_and_resumed(store: Harness, operations: Operations) -> None:
    store.schedule(job("ended"), once("ended"))
    store.fire_one(store.node())
    store.schedule(job("later"), once("a", at(3600)), once("b", at(3600)), once("c", at(3600)))
    assert store.state("ended") == "COMPLETE"
    actions = operations.actions
    actions.pause(TriggerKey("c"))
    paused = actions.pause(Selection.triggers())
    assert (paused.count, paused.failed, paused.keys) == (2, 0, (key("a"), key("b")))
    assert latest(operations).count == 2
    assert actions.pause(Selection.triggers()).text == "Paused no triggers."
    assert actions.pause(Selection.triggers(), reason="stocktaking").count == 3, "their note changes"
    actions.resume(TriggerKey("c"))
    assert actions.resume(Selection.triggers()).count == 2
    named = actions.pause([key("ended"), key("a"), key("absent")])
    assert (named.count, [one.key for one in named.failures]) == (1, ["DEFAULT.absent", "DEFAULT.ended"])
    assert "COMPLETE and does not fire" in named.failures[1].error


def test_jobs_are_paused_enabled_and_deleted_by_filter(store: Harness, operations: Operations) -> None:
    for name in ("a", "b"):
        store.schedule(job(name, "g"), once(name, at(3600), group="g"))
    store.schedule(job("other"), once("other", at(3600)))
    of_group = Selection.jobs(group="g")
    operations.actions.pause(of_group)
    assert [store.state(name, "g") for name in "ab"] == ["PAUSED", "PAUSED"]
    operations.actions.resume(of_group)
    operations.actions.disable(of_group)
    assert operations.actions.count(Selection.jobs(mode="DISABLED")) == 2
    assert operations.actions.enable(Selection.jobs(mode="DISABLED")).count == 2
    assert operations.actions.delete(of_group).count == 2
    assert [one.key.name for one in operations.jobs()] == ["other"]


@pytest.mark.parametrize(
    ("selection", "error"),
    [
        ((), "selection: .*needed, one or several of one kind .got no key"),
        ("nightly", "a JobKey or a TriggerKey|a TriggerKey or a JobKey"),
        ([TriggerKey("a"), JobKey("a")], "one or several of one kind"),
        (Selection.executions(), "got all executions"),
        (True, "got True"),
    ],
)
def test_a_selection_of_another_kind_is_refused(operations: Operations, selection: Any, error: str) -> None:
    with pytest.raises(InvalidValueError, match=error):
        operations.actions.pause(selection)
    assert not operations.audit_log()


def test_a_selection_has_the_filters_of_its_query() -> None:
    with pytest.raises(
        InvalidValueError, match="triggers have no filter colour; the filters are by_schedule, calendar, contains"
    ):
        Selection.triggers(colour="red")
    with pytest.raises(InvalidValueError, match="order_by"):
        Selection.triggers(order_by="key")
    assert str(Selection.triggers(state=["ERROR", "PAUSED"], job=JobKey("a"))) == (
        "triggers with state=ERROR|PAUSED, job=DEFAULT.a"
    )
    assert Selection.jobs(group=None) == Selection.jobs()


def test_a_filter_with_a_wrong_value_is_refused_before_anything_is_changed(
    stored: Harness, operations: Operations
) -> None:
    with pytest.raises(InvalidValueError, match="state"):
        operations.actions.pause(Selection.triggers(state="SLEEPY"))
    assert stored.state("hourly") == "WAITING"
    assert latest(operations).state == "FAILED"


# --- who may do what


@pytest.mark.parametrize("role", list(Role))
def test_each_role_may_do_what_it_includes(stored: Harness, operations: Operations, role: Role) -> None:
    one = operations.acting_as(Actor("ann", role)).actions
    calls: dict[str, Callable[[], Any]] = {
        "pause": lambda: one.pause(key("hourly")),
        "resume": lambda: one.resume(key("hourly")),
        "skip_next": lambda: one.skip_next(key("hourly")),
        "trigger": lambda: one.trigger(JobKey("job")),
        "reschedule": lambda: one.reschedule(key("hourly"), "every 2h"),
        "backfill": lambda: one.backfill(key("hourly"), at(3600), at(7200)),
        "disable": lambda: one.disable(JobKey("job")),
        "enable": lambda: one.enable(JobKey("job")),
        "delete": lambda: one.delete(key("hourly")),
    }
    least = {"reschedule", "backfill", "disable", "enable", "delete"}
    for name, call in calls.items():
        needed = Role.ADMIN if name in least else Role.OPERATOR
        assert one.permits(name) is role.includes(needed), name
        if role.includes(needed):
            call()
            continue
        before = stored.everything()
        with pytest.raises(ForbiddenError, match=rf"{name}: ann is an? {role}; only an? .*admin may do this"):
            call()
        assert stored.everything() == before
        found = latest(operations)
        assert (found.action, found.state) == (name, "REFUSED")


def test_read_only_operations_change_and_record_nothing(stored: Harness) -> None:
    scheduler = Scheduler(stored.store, name="contract")
    operations = Operations(scheduler, read_only=True)
    with pytest.raises(ForbiddenError, match="these operations are read-only"):
        operations.actions.pause(key("hourly"))
    assert not operations.actions.permits("pause")
    assert stored.state("hourly") == "WAITING"
    assert not operations.audit_log()


def test_a_wrong_reason_is_refused_before_anything_is_changed(stored: Harness, operations: Operations) -> None:
    for reason in ("x" * 1001, "a\0b", 5):
        with pytest.raises(InvalidValueError, match=r"^reason: "):
            operations.actions.pause(key("hourly"), reason=reason)  # type: ignore[arg-type]
    assert stored.state("hourly") == "WAITING"
    assert not operations.audit_log()


# --- nodes


def test_a_command_sets_the_mode_of_a_node_and_notifies(stored: Harness, operations: Operations) -> None:
    node = stored.node("app-1")
    subscription = stored.store.subscribe()
    assert subscription is not None
    for command, mode in (("drain", "DRAINING"), ("standby", "STANDBY"), ("resume_node", "RUNNING")):
        getattr(operations.actions, command)("app-1", reason="maintenance")
        [seen] = operations.cluster().nodes
        assert seen.mode == mode
    assert Notification.COMMANDED in subscription.wait(30)
    subscription.close()
    assert latest(operations).subject == "node app-1"
    assert (latest(operations).before, latest(operations).after) == ({"mode": "STANDBY"}, {"mode": "RUNNING"})
    with pytest.raises(ObjectNotFoundError, match=r"there is no node 'app-2'; did you mean app-1\?"):
        operations.actions.drain("app-2")
    for wrong in ("\ud800", "a\0", "", "x" * 201):
        with pytest.raises(InvalidKeyError, match=r"node: "):
            operations.actions.drain(wrong)
    stored.store.leave(node)


# --- the audit log


def test_the_audit_log_is_filtered_and_read_page_by_page(stored: Harness, operations: Operations) -> None:
    ann, bob = (operations.acting_as(Actor(name, Role.ADMIN)).actions for name in ("ann", "bob"))
    for _ in range(3):
        ann.pause(key("hourly"))
        stored.clock.advance(MINUTE)
    bob.resume(key("hourly"))
    with pytest.raises(JobNotFoundError):
        bob.delete(JobKey("none"))
    assert [one.action for one in operations.audit_log(actor="bob")] == ["delete", "resume"]
    assert len(operations.audit_log(subject="trigger DEFAULT.hourly", action="pause")) == 3
    assert [one.action for one in operations.audit_log(state="FAILED")] == ["delete"]
    assert len(operations.audit_log(since=at(60), until=at(120))) == 1
    first = operations.audit_log(limit=2)
    assert [one.action for one in operations.audit_log(limit=2, after=first.next_cursor)] == ["pause", "pause"]
    with pytest.raises(InvalidValueError, match="state: must be one of RUNNING"):
        operations.audit_log(state="OK")
    with pytest.raises(InvalidValueError, match="actor: must be a text"):
        operations.audit_log(actor="")


def test_old_actions_are_purged_and_clear_keeps_the_others(stored: Harness, operations: Operations) -> None:
    operations.actions.pause(key("hourly"))
    stored.clock.advance(DAY)
    operations.actions.resume(key("hourly"))
    operations.scheduler.clear()
    assert len(operations.audit_log()) == 2
    assert stored.store.purge_history(None, limit=10, actions=DAY / 2).rows == 1
    assert [one.action for one in operations.audit_log()] == ["resume"]
    assert stored.store.purge_history(DAY, limit=10).rows == 0, "without a retention they are kept"


def test_hostile_names_are_kept_as_they_are(store: Harness, operations: Operations) -> None:
    name = "<script>alert('x')</script>"
    store.schedule(job(name), once(name, at(60)))
    operations.acting_as(Actor(name, Role.ADMIN)).actions.pause(key(name), reason='"><b>')
    found = latest(operations)
    assert (found.actor, found.subject, found.reason) == (name, f"trigger DEFAULT.{name}", '"><b>')
    json.dumps(found.after)


def test_listeners_of_this_scheduler_learn_of_an_action_after_its_commit(
    stored: Harness, operations: Operations
) -> None:
    emitted: list[object] = []
    operations.scheduler._emit = emitted.append  # type: ignore[method-assign]
    operations.actions.pause(key("hourly"))
    assert emitted == [TriggerPaused(key("hourly"))]
    with pytest.raises(TriggerNotFoundError):
        operations.actions.pause(key("none"))
    assert len(emitted) == 1


def test_the_result_says_how_many_in_words(store: Harness, operations: Operations) -> None:
    store.schedule(job(), once("one", at(60)))
    assert operations.actions.reset(Selection.triggers(state="ERROR")).text == "Reset no triggers."
    assert operations.actions.pause(Selection.triggers()).text == "Paused 1 trigger."
    assert operations.actions.cancel(JobKey("job")).text == "No execution of job DEFAULT.job is running."
    assert (
        "1 run of trigger DEFAULT.one was stored" in operations.actions.backfill(TriggerKey("one"), at(59), at(61)).text
    )
