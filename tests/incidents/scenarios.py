"""The incidents, one function each: its cause, what is seen of it, its mend, and what stays to be seen.

A sentence that an operator reads is compared with what the tables say at that moment.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from quartzpy import CronTrigger, DateTrigger, JobDetail, RateLimit, Scheduler, SimpleTrigger
from quartzpy.errors import QuartzpyError
from quartzpy.keys import JobKey
from quartzpy.operations import Operations
from tests.dashboard import troubles
from tests.database import connect_to, libpq_url
from tests.incidents.app import MODULES_VARIABLE, Deployed, Long, Quick, Serial
from tests.incidents.stage import SEEN_WITHIN, Stage, instants_of
from tests.proxy import Proxy

Scenario = Callable[[Stage], None]
SCENARIOS: dict[str, Scenario] = {}
SECOND = timedelta(seconds=1)
LATE = timedelta(seconds=10)
"""The lateness from which a trigger is late."""


def scenario(play: Scenario) -> Scenario:
    SCENARIOS[play.__name__.replace("_", "-")] = play
    return play


def now() -> datetime:
    return datetime.now(UTC)


def every(name: str, span: timedelta, **options: object) -> SimpleTrigger:
    return SimpleTrigger(name, interval=span, **options)  # type: ignore[arg-type]


# --- nodes


@scenario
def a_node_is_killed(stage: Stage) -> None:
    pid = stage.pid("b")
    stage.kill("b")
    incident = stage.sees("late-node")
    assert incident.subject == "b"
    assert f"process {pid}" in incident.why[0]
    [(checked_in,)] = stage.rows("SELECT last_checkin FROM qrtz_scheduler_state WHERE instance_id = 'b'") or [(None,)]
    assert checked_in is None or incident.since == checked_in
    stage.calms()
    [lost] = [end for end in stage.look().lost_nodes if end.node == "b"]
    assert lost.recovered_by == "a"
    stage.start_with("b")


@scenario
def a_node_hangs(stage: Stage) -> None:
    before = len([end for end in stage.look().lost_nodes if end.node == "b"])
    stage.send("b", signal.SIGSTOP)
    try:
        assert stage.sees("late-node").subject == "b"
        stage.calms()
        stage.until(
            lambda: len([end for end in stage.look().lost_nodes if end.node == "b"]) > before, "a lost node that hangs"
        )
    finally:
        stage.send("b", signal.SIGCONT)
    stage.until(lambda: len(stage.look().nodes) == 2, "the node to come back")


@scenario
def no_node_runs(stage: Stage) -> None:
    stage.store(JobDetail(Quick, "beat"), every("beat", SECOND))
    for name in ("a", "b"):
        stage.terminate(name)
    assert stage.sees("no-node").what.startswith("No node")
    late = "next_fire_time < now() - interval '10 s'"
    due = f"SELECT count(*) FROM qrtz_triggers WHERE trigger_state = 'WAITING' AND {late}"
    stage.until(lambda: stage.look().number("late").number, "a late trigger")
    assert stage.look().number("late").number == stage.rows(due)[0][0]
    for name in ("a", "b"):
        stage.start_with(name)
    stage.calms()


@scenario
def nodes_have_the_wrong_name(stage: Stage) -> None:
    stage.store(JobDetail(Quick, "beat"), every("beat", timedelta(hours=1)))
    for name in ("a", "b"):
        stage.terminate(name)
    stage.start_with_name("prod-a", "incidents-prod")
    try:
        incident = stage.sees("no-node")
        assert any("'incidents-prod'" in sentence and "Is the name wrong?" in sentence for sentence in incident.why)
        other = stage.client_named("incidents-prod")
        try:
            [astray] = [one for one in Operations(other).overview().incidents if one.kind == "names-mixed-up"]
            assert "'incidents'" in astray.what
        finally:
            other.shutdown()
    finally:
        stage.terminate("prod-a")
    for name in ("a", "b"):
        stage.start_with(name)
    stage.calms()


# --- workers and limits


@scenario
def a_job_holds_the_whole_pool(stage: Stage) -> None:
    hogs = [DateTrigger(now(), f"archive-{number}") for number in range(12)]
    stage.store(JobDetail(Long, "archive", data={"seconds": 600}), *hogs)
    incident = stage.sees("full-pool", visible_after=2 * SECOND)
    running, waiting = stage.rows(
        "SELECT (SELECT count(*) FROM qrtz_fired_triggers),"
        " (SELECT count(*) FROM qrtz_triggers WHERE job_name = 'archive' AND trigger_state = 'WAITING')"
    )[0]
    assert incident.what == f"All {running} workers of executor 'default' are busy, and {waiting} triggers are due."
    assert f"{running} of {running} workers run job DEFAULT.archive." in incident.why
    stage.mend(incident, "pause job")
    stage.mend(incident, "cancel all")
    stage.until(lambda: "full-pool" not in {one.kind for one in stage.look().incidents}, "free workers")
    stage.client.delete_job("archive")
    stage.calms()


@scenario
def a_serial_job_waits_for_an_execution_that_hangs(stage: Stage) -> None:
    stage.store(JobDetail(Serial, "warehouse", data={"seconds": 600}), every("load", SECOND))
    incident = stage.sees("blocked-job", visible_after=LATE + SECOND)
    [(fire_id, node)] = stage.rows("SELECT fire_id, instance_id FROM qrtz_fired_triggers WHERE job_name = 'warehouse'")
    assert str(fire_id) in incident.why[0]
    assert f"node {node}" in incident.why[0]
    stage.mend(incident, "cancel execution")
    stage.client.delete_job("warehouse")
    stage.calms()


@scenario
def a_rate_limit_is_far_too_low(stage: Stage) -> None:
    limit = RateLimit(2, timedelta(seconds=20))
    stage.store(JobDetail(Quick, "partner", rate_limit=limit), every("call", SECOND, misfire="ignore"))
    incident = stage.sees("rate-limit-backlog", visible_after=timedelta(seconds=62), within=30)
    assert incident.subject == "DEFAULT.partner"
    [due] = instants_of(stage.rows("SELECT next_fire_time FROM qrtz_triggers WHERE job_name = 'partner'"))
    assert incident.since is not None
    assert incident.since <= due
    stage.client.delete_job("partner")
    stage.calms()


# --- triggers and jobs


@scenario
def a_row_is_edited_by_hand(stage: Stage) -> None:
    stage.store(JobDetail(Quick, "closing"), CronTrigger("0 0 3 1 * ?", "monthly"))
    [(schedule,)] = stage.rows("SELECT schedule::text FROM qrtz_triggers WHERE trigger_name = 'monthly'")
    edited = "UPDATE qrtz_triggers SET {} WHERE trigger_name = 'monthly'; SELECT 1"
    stage.rows(edited.format("schedule = '{\"expression\": \"never\"}', upcoming = '{}', next_fire_time = now()"))
    incident = stage.sees("trigger-error")
    assert incident.subject == "DEFAULT.monthly"
    [(state, error)] = stage.rows("SELECT trigger_state, error FROM qrtz_triggers WHERE trigger_name = 'monthly'")
    assert state == "ERROR"
    assert incident.why[0] in error
    stage.rows(edited.format("schedule = '{}'".format(schedule.replace("'", "''"))))
    stage.mend(incident, "reset")
    stage.calms()


@scenario
def a_release_is_missing_on_all_nodes(stage: Stage) -> None:
    directory = stage.directory / "release15"
    directory.mkdir(exist_ok=True)
    (directory / "release15.py").write_text(
        "from quartzpy import Job\n\n\nclass Recommend(Job):\n    def execute(self, context):\n        pass\n"
    )
    sys.path.insert(0, str(directory))
    try:
        import release15  # type: ignore[import-not-found]
    finally:
        sys.path.remove(str(directory))
    stage.store(JobDetail(release15.Recommend, "recommend"), every("often", SECOND))
    incident = stage.sees("unknown-type", visible_after=LATE + SECOND)
    [(job_type,)] = stage.rows("SELECT job_type FROM qrtz_job_details WHERE job_name = 'recommend'")
    assert incident.subject == job_type
    assert "job DEFAULT.recommend" in incident.what
    places = os.pathsep.join([str(directory), os.environ.get("PYTHONPATH", ""), str(stage.root)])
    stage.start_with("newer", {"PYTHONPATH": places, MODULES_VARIABLE: "release15"})
    stage.calms()
    stage.client.delete_job("recommend")
    stage.terminate("newer")
    stage.calms()


@scenario
def a_deployment_fails(stage: Stage) -> None:
    stage.store(JobDetail(Deployed, "charge"), *(every(f"tenant-{number}", 3 * SECOND) for number in range(20)))
    incident = stage.sees("failures-in-a-row", visible_after=3 * SECOND)
    assert incident.job is not None
    assert str(incident.job) == "DEFAULT.charge"
    assert "AttributeError: 'NoneType' object has no attribute 'amount'" in incident.why[0]
    assert [one.kind for one in stage.look().incidents] == ["failures-in-a-row"], "one incident for all triggers"
    stage.fix.touch()
    stage.mend(incident, "run the last one again")
    stage.calms()
    stage.client.delete_job("charge")
    stage.fix.unlink()


@scenario
def a_user_holds_a_row(stage: Stage) -> None:
    stage.store(JobDetail(Quick, "held"), every("held", SECOND))
    notebook = libpq_url(stage.dsn)
    with psycopg.connect(notebook, application_name="bobs-notebook") as holder:
        holder.execute("SELECT FROM qrtz_triggers WHERE trigger_name = 'held' FOR UPDATE")
        incident = stage.sees("late-triggers", visible_after=LATE + SECOND)
        assert "trigger of job DEFAULT.held is late" in incident.what
        assert any(
            "bobs-notebook" in sentence and str(holder.info.backend_pid) in sentence for sentence in incident.why
        )
        holder.rollback()
    stage.calms()
    stage.client.delete_job("held")


@scenario
def a_group_is_paused_and_forgotten(stage: Stage) -> None:
    for number in range(7):
        stage.store(
            JobDetail(Quick, f"reminder-{number}", "reminders"), every(f"r-{number}", SECOND, group="reminders")
        )
    stage.client.pause_trigger_group("reminders", reason="The provider's contract ended.", by="oper")
    stage.age_pauses()
    incident = stage.sees("paused-overdue")
    assert incident.subject == "reminders"
    what = "The group 'reminders' of triggers is paused, and 7 triggers of it have missed"
    # Each of them has to have missed a fire.
    stage.until(lambda: any(one.what.startswith(what) for one in stage.look().incidents), what, SEEN_WITHIN)
    assert "by oper: The provider's contract ended." in incident.why[0]
    stage.mend(incident, "resume the group")
    assert stage.rows("SELECT count(*) FROM qrtz_paused_trigger_groups")[0][0] == 0
    stage.calms()
    for number in range(7):
        stage.client.delete_job(JobKey(f"reminder-{number}", "reminders"))


@scenario
def the_clock_changes_soon(stage: Stage) -> None:
    with troubles.changing_zone(stage.directory / "zones", now()) as environment:
        del environment
        around = troubles.change_after(now()).astimezone(UTC) + timedelta(hours=1, minutes=30)
        trigger = CronTrigger(f"0 30 {around.hour} * * ?", "nightly", time_zone=troubles.ZONE)
        stage.store(JobDetail(Quick, "nightly"), trigger)
        incident = stage.sees("clock-change")
        assert troubles.ZONE in incident.what
        stage.mend(incident, "skip")
        stage.calms()
        stage.client.delete_job("nightly")


# --- the database


@scenario
def the_database_is_down(stage: Stage) -> None:
    with Proxy.to(stage.dsn) as network:
        dsn = network.through(stage.dsn)
        for name in ("a", "b"):
            stage.terminate(name)
            stage.start_with(name, dsn=dsn)
        client = Scheduler(dsn, **stage.settings)
        operations = Operations(client)
        stage.calms()
        network.refuse()
        network.cut()
        with pytest.raises(QuartzpyError):
            operations.overview()
        said = subprocess.run(
            [sys.executable, "-m", "quartzpy", "incidents", "--dsn", dsn, "--name", "incidents"],
            capture_output=True,
            text=True,
            check=False,
            cwd=stage.root,
        )
        assert said.returncode == 3, said
        stage.rest(6)
        network.admit()
        stage.until(lambda: stage.answers(operations), "the database to answer")
        for _ in range(40):
            kinds = {one.kind for one in operations.overview().incidents}
            assert not kinds & {"dead-node", "no-node"}, f"a false death after an outage: {kinds}"
            stage.rest(0.2)
        client.shutdown()
        for name in ("a", "b"):
            stage.terminate(name)
    for name in ("a", "b"):
        stage.start_with(name)
    stage.calms()


@scenario
def the_history_is_long(stage: Stage) -> None:
    with connect_to(stage.dsn) as connection:
        connection.execute(
            "INSERT INTO qrtz_executions (fire_id, sched_name, trigger_group, trigger_name, generation, job_group,"
            " job_name, job_type, instance_id, fired_time, scheduled_time, ended_at, outcome)"
            " SELECT -n, 'incidents', 'DEFAULT', 't' || n % 300, 1, 'DEFAULT', 'j' || n % 50, 'old', 'a', at, at,"
            " at + interval '1 s', 'SUCCEEDED' FROM (SELECT n, now() - n * interval '3 s' AS at"
            " FROM generate_series(1, 400000) AS n) AS s"
        )
        connection.execute("ANALYZE")
    assert stage.is_calm()
