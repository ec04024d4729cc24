"""The read models of jobs, triggers, executions, misfires, nodes, and of the whole."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from quartzpy.errors import ExecutionNotFoundError, InvalidValueError, JobNotFoundError, TriggerNotFoundError
from quartzpy.jobs.continuation import Continuation
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.operations import NodeState, Operations
from quartzpy.operations.render import to_json
from quartzpy.placement import Capabilities
from quartzpy.states import ExecutionState, Outcome, TriggerState
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.postgresql.admin.records import ActionEntry
from quartzpy.store.protocol import NamedTriggers
from quartzpy.store.queries import TriggerQuery
from quartzpy.triggers.cron import CronTrigger
from tests.contract.harness import HOUR, MINUTE, SECOND, START, Harness, at, every, job, key, once, serial
from tests.database import connect_to


def test_an_execution_on_an_engine_says_its_worker_and_the_name_of_its_call(
    postgres_dsn: str, store: Harness, operations: Operations
) -> None:
    node = store.node()
    store.schedule(job("heavy", timeout=5 * SECOND), once())
    store.schedule(job("local"), once("local"))
    fires = {fired.job_name: fired.fire_id for fired in store.fire_due(node)}
    [number] = store.store.submit(node, {fires["heavy"]: False}).values()
    call = f"its call there is {fires['heavy']}.1.{number}."
    view = operations.execution(fires["heavy"])
    assert view.why[1] == f"No worker of the engine of node {node.instance_id} has begun it; {call}"
    with connect_to(postgres_dsn) as connection:
        connection.execute(
            "UPDATE qrtz_fired_triggers SET worker = 'tcp://w1', worker_since = %s WHERE fire_id = %s",
            (START, fires["heavy"]),
        )
    store.clock.advance(30 * SECOND)
    rows = {row.fire_id: row for row in operations.running()}
    heavy, local = rows[fires["heavy"]], rows[fires["local"]]
    assert (heavy.worker, heavy.worker_since, heavy.submission) == ("tcp://w1", START, number)
    assert (local.worker, local.worker_since, local.submission) == (None, None, None)
    assert operations.execution(heavy.fire_id).why[1:] == (
        f"Worker tcp://w1 began it 30 s ago; {call}",
        "It ignores its timeout of 5.0 s, and occupies a worker. Its engine has not ended it, and it can no longer"
        " write: restart the worker of the engine.",
    )
    assert len(operations.execution(local.fire_id).why) == 1


def test_jobs_are_listed_page_by_page(store: Harness, operations: Operations) -> None:
    for name in "abc":
        store.schedule(job(name, display_name=f"Job {name}"), once(name, at(60)))
    first = operations.jobs(limit=2)
    assert [one.key.name for one in first] == ["a", "b"]
    assert [one.key.name for one in operations.jobs(limit=2, after=first.next_cursor)] == ["c"]
    assert first[0].display_name == "Job a"
    assert first[0].next_fire_time == at(60)
    assert [one.key.name for one in operations.jobs(contains="b")] == ["b"]


def test_a_job_has_its_triggers_runs_and_data_without_secrets(store: Harness, operations: Operations) -> None:
    node = store.node()
    data = {"region": "eu", "db_password": "hunter2", "nested": [{"API_TOKEN": "x", "n": 1}]}
    store.schedule(serial(data=data), every(60, "often"), once("later", at(90)))
    store.complete(node, store.fire_one(node), outcome=Outcome.FAILED, error="Traceback\nValueError: no")
    view = operations.job(JobKey("job"))
    assert view.data == {
        "region": "eu",
        "db_password": "[redacted]",
        "nested": [{"API_TOKEN": "[redacted]", "n": 1}],
    }
    assert [one.key.name for one in view.triggers] == ["later", "often"]
    assert [(run.at, run.trigger.name) for run in view.next_runs[:3]] == [
        (at(60), "often"),
        (at(90), "later"),
        (at(120), "often"),
    ]
    assert view.outcomes == {"FAILED": 1}
    assert view.last_runs[0].error == "ValueError: no"


def test_a_job_has_its_definition_without_its_data(store: Harness, operations: Operations) -> None:
    following = Continuation("load", data={"db_password": "hunter2"})
    detail = job(display_name="Nightly", timeout=HOUR, data={"region": "eu"}, durable=True, continuations=[following])
    store.schedule(detail)
    definition = operations.job(JobKey("job")).definition
    assert definition.items() >= {"display_name": "Nightly", "timeout": "1h", "durable": True}.items()
    assert "hunter2" not in json.dumps(to_json(definition))
    assert "region" not in json.dumps(to_json(definition))


def test_what_is_not_stored_is_refused(operations: Operations) -> None:
    with pytest.raises(JobNotFoundError, match=r"job DEFAULT\.none is not stored"):
        operations.job(JobKey("none"))
    with pytest.raises(TriggerNotFoundError, match=r"trigger DEFAULT\.none is not stored"):
        operations.trigger(TriggerKey("none"))
    with pytest.raises(ExecutionNotFoundError, match="execution 7 is not known"):
        operations.execution(7)


def test_a_trigger_shows_its_times_by_the_clock_of_its_zone_and_marks_changes_of_it(
    store: Harness, operations: Operations
) -> None:
    # In 2026 Berlin's clocks move on 29 March.
    store.clock.set(datetime(2026, 3, 27, 12, tzinfo=UTC))
    store.schedule(job(), CronTrigger("0 0 9 * * ?", "nine", time_zone="Europe/Berlin"))
    view = operations.trigger(key("nine"), next_times=3)
    assert [one.local for one in view.next_times] == [
        "2026-03-28 09:00:00+01:00",
        "2026-03-29 09:00:00+02:00",
        "2026-03-30 09:00:00+02:00",
    ]
    changes = [one.clock_change for one in view.next_times]
    assert changes == [None, "the clock moves from UTC+01:00 to UTC+02:00 before this fire", None]
    assert view.trigger.words == "at 09:00 (Europe/Berlin)"
    assert view.trigger.zone == "Europe/Berlin"
    assert view.why[0].startswith("It will fire at")


def test_a_late_trigger_is_late_and_one_in_error_says_why(store: Harness, operations: Operations) -> None:
    store.schedule(job(), once("late"), once("broken", at(5)))
    store.set_state(key("broken"), TriggerState.PAUSED)
    store.clock.advance(MINUTE)
    found = {one.key.name: one for one in operations.triggers()}
    assert found["late"].late == MINUTE
    assert found["broken"].late is None


def test_an_execution_says_where_its_time_went(store: Harness, operations: Operations) -> None:
    node = store.node()
    store.schedule(job(), once("first", data={"secret_key": "s"}))
    store.clock.advance(5 * SECOND)
    fired = store.fire_one(node)
    store.clock.advance(2 * SECOND)
    [running] = operations.running()
    assert running.elapsed == 2 * SECOND
    assert running.state is ExecutionState.PROCESSING
    seen = operations.execution(fired.fire_id)
    assert seen.elapsed == 2 * SECOND
    assert seen.data == {"secret_key": "[redacted]"}
    store.complete(node, fired)
    ended = operations.execution(fired.fire_id).execution
    assert (ended.waited, ended.queued, ended.ran) == (5 * SECOND, 2 * SECOND, timedelta())


def test_the_attempts_of_an_execution_are_a_chain_from_any_of_them(store: Harness, operations: Operations) -> None:
    node = store.node()
    store.schedule(job(), once("first"))
    ids = []
    for _ in range(3):
        fired = store.fire_one(node)
        ids.append(fired.fire_id)
        store.store.complete(
            node, [store.ended(fired, outcome=Outcome.FAILED, error="boom", retry_after=timedelta(seconds=10))]
        )
        store.clock.advance(11 * SECOND)
    for fire_id in ids:
        chain = operations.execution(fire_id).attempts
        assert [one.fire_id for one in chain] == [*ids, None]
        assert [one.attempt for one in chain] == [1, 2, 3, 4]
        assert chain[-1].state is ExecutionState.SCHEDULED


def test_nodes_are_judged_as_recovery_judges_them(store: Harness, operations: Operations) -> None:
    node = store.node("a")
    store.store.publish(node, Capabilities(frozenset({"report"}), workers={"default": 4}))
    store.schedule(job(), once())
    store.fire_one(node)
    [seen] = operations.cluster().nodes
    assert (seen.state, seen.executing, seen.workers, seen.load) == (NodeState.ALIVE, 1, 4, 0.25)
    for seconds, state in ((11, NodeState.LATE), (21, NodeState.DEAD)):
        store.clock.set(at(seconds))
        assert operations.cluster().nodes[0].state is state


def test_the_agenda_has_every_fire_within_the_hour(store: Harness, operations: Operations) -> None:
    store.schedule(job("often"), every(1200, "often", start=at(60)))
    store.schedule(job("once"), once("once", at(1800)), once("tomorrow", START + 24 * HOUR))
    agenda = [(run.at, run.trigger.name) for run in operations.upcoming()]
    assert agenda == [(at(60), "often"), (at(1260), "often"), (at(1800), "once"), (at(2460), "often")]
    assert len(operations.upcoming(limit=2)) == 2
    with pytest.raises(InvalidValueError, match="limit: must be a whole number from 1 to 1000"):
        operations.upcoming(limit=0)


def test_the_agenda_goes_on_after_the_fire_times_that_are_stored(store: Harness, operations: Operations) -> None:
    store.schedule(job(), every(60, "minutely", start=at(60)))
    [record] = store.store.find(TriggerQuery(), None)
    assert 0 < len(record.upcoming) < 50
    each_minute = [at(60 * minute) for minute in range(1, 60)]
    assert [run.at for run in operations.upcoming()] == each_minute
    assert [bar.start for lane in operations.timeline().lanes for bar in lane.bars] == each_minute


def test_the_agenda_keeps_a_trigger_whose_job_runs(store: Harness, operations: Operations) -> None:
    node = store.node()
    store.schedule(serial(), every(1200, "often", start=at(1)))
    following = [at(1201), at(2401)]
    assert [run.at for run in operations.upcoming()] == [at(1), *following]
    [_] = store.acquire(node, look_ahead=SECOND).fired
    store.clock.set(at(2))
    assert [run.at for run in operations.upcoming()] == [*following, at(3601)]
    assert store.state("often") == "BLOCKED"
    assert [run.at for run in operations.job(JobKey("job")).next_runs][:2] == following


def test_a_trigger_is_listed_with_the_bounds_of_its_catching_up(store: Harness, operations: Operations) -> None:
    bounded = every(60, "bounded", misfire="fire_all", catch_up_max=9, catch_up_within=timedelta(hours=1))
    store.schedule(job(), bounded, every(60, "plain"))
    listed = {one.key.name: one.misfire for one in operations.triggers()}
    assert listed == {"bounded": "fire_all max 9 within 1h", "plain": "smart"}


def test_the_overview_names_what_is_wrong(store: Harness, operations: Operations) -> None:
    store.node("gone")
    store.schedule(job(), once("due"))
    store.clock.advance(MINUTE)
    seen = operations.overview()
    assert [one.kind for one in seen.incidents] == ["no-node", "dead-node"]
    [late] = seen.late
    assert late.trigger == key("due")
    assert late.late == MINUTE
    assert "The only node has not checked in recently." in late.why


def test_the_numbers_and_the_late_triggers_are_those_of_the_overview(store: Harness, operations: Operations) -> None:
    store.node("gone")
    store.schedule(job(), *(once(f"due-{n:02}", at(n / 10)) for n in range(25)), once("later", at(3_600)))
    store.store.pause(NamedTriggers([key("due-07")]))
    store.clock.advance(MINUTE)
    seen, counts, late = operations.overview(), operations.counts(), operations.late()
    assert {"jobs", "claimed", "running", "WAITING", "PAUSED"} <= counts.keys()
    assert counts == {name: seen.counts[name] for name in counts}
    assert [one.trigger.name for one in late] == [f"due-{n:02}" for n in range(21) if n != 7]
    assert late == tuple(replace(one, why=()) for one in seen.late)


def test_every_model_becomes_json(store: Harness, operations: Operations) -> None:
    node = store.node()
    store.schedule(job(data={"n": 1.5, "at": START, "span": HOUR}), every(60))
    fired = store.fire_one(node)
    for model in (
        operations.overview(),
        operations.jobs(),
        operations.job(JobKey("job")),
        operations.trigger(key("every")),
        operations.execution(fired.fire_id),
        operations.cluster(),
    ):
        assert json.loads(json.dumps(to_json(model), allow_nan=False))
    assert to_json(operations.jobs())["items"][0]["key"] == {"group": "DEFAULT", "name": "job"}
    assert to_json(START) == "2026-03-02T12:00:00Z"


def test_a_page_with_filters_examines_a_bounded_number_of_executions(
    store: Harness, operations: Operations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quartzpy.operations.views.executions.EXAMINED", 3)
    node = store.node()
    store.schedule(job(), every(60, "often", times=8))
    for number in range(8):
        outcome = Outcome.FAILED if number in (0, 7) else Outcome.SUCCEEDED
        store.complete(node, store.fire_one(node), outcome=outcome)
        store.clock.advance(MINUTE)
    sizes, found, after = [], [], None
    while True:
        page = operations.executions(state="FAILED", limit=5, after=after)
        sizes.append(len(page))
        found += [one.scheduled_fire_time for one in page]
        after = page.next_cursor
        if after is None:
            break
    assert sizes == [1, 0, 1]
    assert found == [at(420), START]
    whole = operations.executions(trigger=key("often"), limit=8)
    assert (len(whole), whole.next_cursor) == (8, None)


def test_pages_with_filters_examine_a_bounded_number_of_rows(
    store: Harness, operations: Operations, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("views.jobs", "views.triggers", "actions.audit_log"):
        monkeypatch.setattr(f"quartzpy.operations.{module}.EXAMINED", 3)
    for number in range(5):
        name = "rare" if number == 4 else f"n{number}"
        store.schedule(job(name), once(name, at(60)))
        admin(store.store).record_action(
            ActionEntry("ann", "admin", "delete" if number == 0 else "pause", "everything")
        )
    for read, filters in (
        (operations.jobs, {"contains": "rare"}),
        (operations.triggers, {"contains": "rare"}),
        (operations.audit_log, {"action": "delete"}),
    ):
        first = read(limit=5, **filters)
        assert (len(first), first.examined) == (0, 3)
        rest = read(limit=5, after=first.next_cursor, **filters)
        assert (len(rest), rest.examined, rest.next_cursor) == (1, None, None)
        whole = read(limit=5)
        assert (len(whole), whole.examined, whole.next_cursor) == (5, None, None)


def test_past_instants_are_no_next_fire_times(store: Harness, operations: Operations) -> None:
    store.schedule(job(), every(10, "often"))
    store.clock.advance(25 * SECOND)
    seen = operations.trigger(key("often"), next_times=3)
    assert [time.at for time in seen.next_times] == [START, at(30), at(40)], "the first is due, and waits"
    assert seen.misfire_effect == "skips the missed fires"


def test_a_retry_is_of_the_trigger_that_it_repeats(store: Harness, operations: Operations) -> None:
    node = store.node()
    store.schedule(job(), every(60, "often"))
    fired = store.fire_one(node)
    store.store.complete(node, [store.ended(fired, outcome=Outcome.FAILED, error="x", retry_after=SECOND)])
    store.clock.advance(2 * SECOND)
    retried = store.fire_one(node)
    store.complete(node, retried, outcome=Outcome.FAILED, error="x")
    seen = operations.execution(retried.fire_id)
    assert (seen.execution.trigger.group, seen.of_trigger) == ("RETRYING_JOBS", key("often"))
    assert seen.data == {}, "what the scheduler itself adds is no data of the trigger"
    assert seen.why[:2] == ("It failed: x.", "It was attempt 2, and no other follows.")


def test_a_list_of_jobs_says_whether_they_are_well(store: Harness, operations: Operations) -> None:
    node = store.node()
    for name in ("bad", "good", "new"):
        store.schedule(job(name), every(60, name) if name != "new" else once(name, at(HOUR.total_seconds())))
    for _ in range(3):
        for fired in store.fire_due(node):
            outcome = Outcome.FAILED if fired.trigger_name == "bad" else Outcome.SUCCEEDED
            store.complete(node, fired, outcome=outcome, error="ValueError: x" if fired.trigger_name == "bad" else None)
        store.clock.advance(MINUTE)
    bad, good, new = operations.jobs()
    assert bad.health is not None
    assert (bad.health.runs, bad.health.failures, bad.health.last_outcome) == (3, 3, "FAILED")
    assert good.health is not None
    assert (good.health.failures, good.health.last_outcome, good.health.typical) == (0, "SUCCEEDED", timedelta())
    assert new.health is None
    assert [run.outcome for run in bad.health.last_runs] == ["FAILED"] * 3
    view = operations.job(JobKey("bad"))
    assert view.job.health == bad.health
    assert view.errors == {"ValueError: x": 3}


def test_the_health_of_a_job_is_known_however_much_ran_since(
    store: Harness, operations: Operations, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own triggers lead to its runs, and a failed attempt to its retry. Those of a day ago do not count as now."""
    monkeypatch.setattr("quartzpy.operations.views.jobs.LOOKED_AT", 3)
    node = store.node()
    store.schedule(job("rare"), every(12 * 3600, "rare"))
    for number in range(4):
        fired, started = store.fire_one(node), store.clock.now()
        store.clock.advance((number + 1) * SECOND)
        retry = {"retry_after": SECOND} if number == 3 else {}
        failed = {"outcome": Outcome.FAILED, "error": "x"} if number in (0, 3) else {}
        ended = replace(store.ended(fired, **failed, **retry), started_at=started)
        store.store.complete(node, [ended])
        store.clock.advance(12 * HOUR - (number + 1) * SECOND if number < 3 else 2 * SECOND)
    store.complete(node, store.fire_one(node))
    store.schedule(job("often"), every(1, "often", start=store.clock.now()))
    for _ in range(4):
        store.complete(node, store.fire_one(node))
        store.clock.advance(SECOND)
    [often, rare] = operations.jobs()
    assert often.health is not None
    assert rare.health is not None
    assert [run.outcome for run in rare.health.last_runs] == ["FAILED", "SUCCEEDED", "SUCCEEDED", "SUCCEEDED"]
    assert (rare.health.runs, rare.health.failures, rare.health.last_outcome) == (2, 0, "SUCCEEDED")
    assert (rare.health.typical, rare.health.slow) == (SECOND, 3 * SECOND)
    assert often.health.runs == 4
