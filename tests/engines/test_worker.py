"""What a worker of an engine does with a call: the ticket, the job, and its ending in the row."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url

from quartzpy.embedded import EmbeddedPostgres
from quartzpy.errors import LeaseLostError, OutcomeUnknownError
from quartzpy.job_data import decode
from quartzpy.node.engines import worker
from quartzpy.node.engines.process_messages import Ending, ending_from_json
from quartzpy.store.postgresql import migrations
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.postgresql.worker_store import WorkerStore
from tests.database import execute
from tests.engines import worker_jobs as jobs
from tests.engines.calls import Call, Submitter, until_lost
from tests.proxy import Proxy
from tests.waiting import LIMIT, wait_until

LOGS: dict[str, Any] = {"capture_logs": "INFO"}


def elsewhere(call: Call, after: str = "") -> subprocess.CompletedProcess[str]:
    """Run a call in a process of its own, which then executes `after`."""
    program = (
        "import sys; from quartzpy.node.engines.worker import run\n"
        f"answer = run(sys.stdin.read())\n{after}\nprint(answer)"
    )
    return subprocess.run(
        [sys.executable, "-c", program], input=json.dumps(call.message), text=True, capture_output=True, timeout=LIMIT
    )


# --- a job, and what it comes to


@pytest.mark.parametrize(
    ("job_class", "result"),
    [(jobs.Adds, {"sum": 5}), (jobs.AddsAsync, 2), (jobs.ReturnsAwaitable, "awaited")],
)
def test_the_answer_is_the_ending_that_stands_in_the_row(submitter: Submitter, job_class: Any, result: object) -> None:
    call = submitter.call(job_class, a=2, b=3)
    call.run()
    assert call.result == result
    assert submitter.written(call) == call.ending


def test_the_row_says_which_process_has_taken_the_ticket(submitter: Submitter) -> None:
    call = submitter.call(jobs.Waits)
    with call.running():
        row = submitter.store.submitted(submitter.node, [call.fire_id])[call.fire_id]
    assert row.worker is not None
    assert f":{os.getpid()}" in row.worker
    assert row.silent_for is not None


def test_the_changed_data_of_a_job_is_a_part_of_its_ending(submitter: Submitter) -> None:
    call = submitter.call(jobs.Counts, count=1)
    call.run()
    assert decode(call.ending["job_data"]) == {"count": 2}


@pytest.mark.parametrize("what", ["exit", "interrupt", "memory"])
def test_whatever_a_job_raises_ends_its_own_execution_only(submitter: Submitter, what: str) -> None:
    call, other = submitter.call(jobs.Raises, what=what), submitter.call(jobs.Adds, a=1, b=1)
    call.run()
    assert call.ending["error"]["type"] in ("SystemExit", "KeyboardInterrupt", "MemoryError")
    assert submitter.written(call) == call.ending
    other.run()
    assert other.result == {"sum": 2}


@pytest.mark.parametrize(("what", "problem"), [("large", "more than 1048576 bytes"), ("object", "result")])
def test_a_result_that_cannot_be_kept_is_no_error_of_the_job(submitter: Submitter, what: str, problem: str) -> None:
    call = submitter.call(jobs.Returns, what=what)
    call.run()
    assert call.result is None
    assert problem in call.ending["result_problem"]
    assert submitter.written(call) == call.ending


def test_a_job_is_made_by_the_factory_that_the_message_names(submitter: Submitter) -> None:
    call = submitter.call(jobs.Named)
    call.message["job_factory"] = "tests.engines.worker_jobs:named"
    call.run()
    assert call.result == "made by a factory"


def test_there_is_no_scheduler_on_a_worker(submitter: Submitter) -> None:
    call = submitter.call(jobs.AsksTheScheduler)
    call.run()
    assert "has no scheduler; create a Scheduler(url)" in call.ending["error"]["message"]


def test_progress_and_log_lines_are_written_while_the_job_runs(submitter: Submitter) -> None:
    call = submitter.call(jobs.Reports, touch_every=60.0, options=LOGS)
    with call.running():
        [row] = wait_until(lambda: [row for row in submitter.store.list_running() if row.progress == 0.25])
        assert row.progress_message == "a quarter"
    assert "began" in call.ending["log"]


def test_of_ten_megabytes_of_log_lines_the_first_and_the_last_are_kept(submitter: Submitter) -> None:
    call = submitter.call(jobs.Reports, options=LOGS, lines=10_000)
    with call.running():
        pass
    log = call.ending["log"]
    assert len(log) < 100_000
    assert "began" in log
    assert "line 9999" in log
    assert "lines are left out here" in log


# --- once


def test_a_second_run_is_refused_and_imports_nothing(
    submitter: Submitter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "never_imported_job.py").write_text("raise SystemExit('imported')")
    call = submitter.call(jobs.Waits)
    again = Call(call.fired, call.submission, json.loads(json.dumps(call.message)))
    again.message["fired"]["modules"] = ["never_imported_job"]
    again.message["job_factory"] = "never_imported_job:factory"
    with call.running():
        again.run()
        assert "another run has the ticket" in again.refusal
    again.run()
    assert list(again.answers[-1]) == ["refused"]
    assert "never_imported_job" not in sys.modules
    assert jobs.RUNS.count(call.fire_id) == 1


def test_of_many_runs_at_once_one_runs_the_job(submitter: Submitter) -> None:
    calls = submitter.calls(5, jobs.Adds, a=1, b=2)
    with ThreadPoolExecutor(20) as pool:
        list(pool.map(Call.run, calls * 8))
    for call in calls:
        assert jobs.RUNS.count(call.fire_id) == 1
        assert sorted(kind for answer in call.answers for kind in answer) == ["ending"] + ["refused"] * 7


def test_processes_share_the_tickets_too(submitter: Submitter) -> None:
    call = submitter.call(jobs.Adds, a=1, b=2)
    with ThreadPoolExecutor(3) as pool:
        answers = [json.loads(ran.stdout) for ran in pool.map(elsewhere, [call] * 3)]
    assert sorted(kind for answer in answers for kind in answer) == ["ending", "refused", "refused"]


def test_a_run_after_the_node_has_given_the_call_up_is_refused(submitter: Submitter) -> None:
    call = submitter.call(jobs.Adds, a=1, b=2)
    submitter.give_away(call)
    call.run()
    assert "another run has the ticket, or the execution is not there any more" in call.refusal
    assert call.fire_id not in jobs.RUNS


def test_a_run_long_after_the_end_of_the_fire_is_refused(submitter: Submitter, postgres_dsn: str) -> None:
    call = submitter.call(jobs.Adds, a=1, b=2)
    execute(postgres_dsn, "DELETE FROM qrtz_fired_triggers")
    call.run()
    assert call.refusal
    assert call.fire_id not in jobs.RUNS


def test_a_run_with_an_earlier_submission_is_refused_and_the_later_one_runs(submitter: Submitter) -> None:
    call = submitter.call(jobs.Adds, a=1, b=2)
    [later] = submitter.store.submit(submitter.node, {call.fire_id: False}).values()
    call.run()
    assert call.refusal
    call.answers.clear()
    call.message["submission"] = later
    call.run()
    assert call.result == {"sum": 3}


def test_an_ending_outlives_the_process_that_wrote_it(submitter: Submitter) -> None:
    call = submitter.call(jobs.Adds, a=1, b=2)
    ran = elsewhere(call, "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert ran.returncode == -signal.SIGKILL
    ending = submitter.store.settle(submitter.node, {call.fire_id: call.submission})[call.fire_id]
    assert ending is not None
    assert decode(json.loads(ending)["result"])["result"] == {"sum": 3}


def test_a_call_whose_process_died_in_the_job_has_no_ending_and_cannot_run_again(submitter: Submitter) -> None:
    call = submitter.call(jobs.Ends)
    assert elsewhere(call).returncode == 9
    assert submitter.written(call) is None
    call.run()
    assert call.refusal


def test_a_call_without_a_ticket_needs_no_database(submitter: Submitter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(worker.URL)
    call = submitter.call(jobs.Adds, a=1, b=2)
    call.message["submission"] = None
    call.run()
    assert call.result == {"sum": 3}
    fenced = submitter.call(jobs.WritesFenced)
    fenced.message["submission"] = None
    fenced.run()
    assert "context.fenced_transaction(): its call has no ticket" in fenced.ending["error"]["message"]


# --- stopped, and given away


@pytest.mark.parametrize("job_class", [jobs.WaitsToStop, jobs.SleepsAsync])
def test_a_request_to_stop_reaches_the_job_by_its_touches(submitter: Submitter, job_class: Any) -> None:
    call = submitter.call(job_class)
    with call.running():
        assert submitter.store.request_cancel(call.fire_id)
        wait_until(lambda: call.answers)
    error = call.ending["error"]
    assert error["is_cancelled"] or error["is_task_cancelled"]
    assert submitter.written(call) == call.ending


@pytest.mark.parametrize("job_class", [jobs.WaitsToStop, jobs.SleepsAsync])
def test_a_job_that_is_given_up_is_told_to_stop(submitter: Submitter, job_class: Any) -> None:
    call = submitter.call(job_class)
    with call.running():
        submitter.give_away(call)
        wait_until(lambda: call.answers)
    assert "the execution was given up while it ran" in call.refusal
    assert jobs.SEEN[call.fire_id]
    assert submitter.written(call) is None


def test_each_fenced_write_of_a_hundred_executions_that_were_given_away_is_refused(
    submitter: Submitter, saved: Callable[[], list[int]]
) -> None:
    calls = submitter.calls(100, jobs.WritesFenced, first=False, touch_every=60.0)
    threads = [threading.Thread(target=call.run, daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    for call in calls:
        assert jobs.AT[call.fire_id].wait(LIMIT)
    submitter.give_away(*calls)
    for call in calls:
        jobs.GO[call.fire_id].set()
    for thread in threads:
        thread.join(LIMIT)
    assert saved() == []
    assert all(isinstance(jobs.SEEN[call.fire_id], LeaseLostError) for call in calls)
    assert all(call.refusal for call in calls)


def test_what_a_job_writes_counts_until_its_node_is_declared_dead(
    submitter: Submitter, saved: Callable[[], list[int]]
) -> None:
    call = submitter.call(jobs.WritesFenced, options={"requests_recovery": True})
    with call.running():
        other = submitter.register("other")
        dead = [record for record in submitter.store.list_nodes().nodes if record.instance_id == "node"]
        submitter.store.recover(other, dead)
        until_lost(call)
    assert saved() == [call.fire_id]
    assert isinstance(jobs.SEEN[call.fire_id], LeaseLostError)
    assert call.refusal


def test_the_clock_of_a_worker_decides_nothing(
    submitter: Submitter, saved: Callable[[], list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for hours in (-1, 1):
        with monkeypatch.context() as patched:
            now = time.time
            patched.setattr(time, "time", lambda hours=hours, now=now: now() + 3_600 * hours)
            call = submitter.call(jobs.WritesFenced)
            with call.running():
                pass
            assert call.ending["error"] is None
            lost = submitter.call(jobs.WritesFenced, first=False)
            with lost.running():
                submitter.give_away(lost)
            assert lost.refusal
    assert len(saved()) == 4


# --- transactions


def test_a_transaction_commits_the_ending_with_what_the_job_writes(
    submitter: Submitter, saved: Callable[[], list[int]], caplog: pytest.LogCaptureFixture
) -> None:
    call = submitter.call(jobs.Commits, fails=True)
    with call.running():
        assert saved() == [call.fire_id]
        written = submitter.written(call)
        # The row is void for touches from now on, which must not look like a loss.
        time.sleep(1.5)
    assert written == call.ending
    assert call.result == "committed"
    assert call.ending["is_committed"]
    assert decode(call.ending["job_data"])["committed"] is True
    cancelled, lease_lost, *refusals = jobs.SEEN[call.fire_id]
    assert (cancelled, lease_lost) == (False, False)
    assert all("already committed its transaction" in refusal for refusal in refusals)
    assert len(refusals) == 2
    assert "failed after it committed its transaction" in caplog.text


def test_an_error_in_a_transaction_rolls_it_back_and_is_that_of_the_job(
    submitter: Submitter, saved: Callable[[], list[int]]
) -> None:
    call = submitter.call(jobs.FailsInItsTransaction)
    call.run()
    assert call.ending["error"]["message"] == "inside"
    assert not call.ending["is_committed"]
    assert submitter.written(call) == call.ending
    assert saved() == []


def test_a_transaction_of_an_execution_that_was_given_away_commits_nothing(
    submitter: Submitter, saved: Callable[[], list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    call = submitter.call(jobs.Commits)
    began = worker._TicketedJob.answer

    def late(job: Any) -> str:
        submitter.give_away(call)
        return began(job)

    monkeypatch.setattr(worker._TicketedJob, "answer", late)
    call.run()
    assert call.refusal
    assert saved() == []


def test_a_commit_whose_answer_was_lost_is_judged_by_the_row(
    submitter: Submitter, saved: Callable[[], list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = WorkerStore.transaction

    @contextmanager
    def lost(self: WorkerStore, *values: Any) -> Iterator[Any]:
        with commit(self, *values) as connection:
            yield connection
        time.sleep(1.5)  # A touch finds that the row is void, and the job must not take that for a loss.
        raise OutcomeUnknownError("the answer was lost")

    monkeypatch.setattr(WorkerStore, "transaction", lost)
    call = submitter.call(jobs.CommitsAndLooks, touch_every=0.1)
    call.run()
    assert jobs.SEEN[call.fire_id] == (False, False)
    assert "has an ending already" in call.refusal
    assert saved() == [call.fire_id]
    written = submitter.written(call)
    assert written is not None
    assert written["is_committed"]


# --- the database is away


def test_a_job_goes_on_while_the_database_restarts(
    own_postgres: EmbeddedPostgres, make_store: Callable[[str], SqlJobStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    migrations.upgrade(own_postgres.dsn)
    monkeypatch.setenv(worker.URL, own_postgres.dsn)
    submitter = Submitter(make_store(own_postgres.dsn))
    call = submitter.call(jobs.Waits)
    with call.running():
        own_postgres.restart("immediate")
        time.sleep(2.5)
    assert call.result == {"cancelled": False, "lease_lost": False}
    assert wait_until(lambda: submitter.written(call)) == call.ending


def test_an_ending_that_cannot_be_written_is_not_told_as_one(
    submitter: Submitter,
    proxy: Proxy,
    postgres_dsn: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv(worker.URL, proxy.through(postgres_dsn))
    call = submitter.call(jobs.Waits)
    call.message["window"] = 2.0
    with call.running():
        proxy.refuse()
        proxy.cut()
        wait_until(lambda: "cannot be touched" in caplog.text)
        until_lost(call)
    assert f"worker {os.uname().nodename}:{os.getpid()}: " in call.refusal
    assert submitter.written(call) is None


# --- other releases, other processes


def test_a_message_of_a_newer_release_is_understood(submitter: Submitter) -> None:
    call = submitter.call(jobs.Adds, a=1, b=2)
    call.message |= {"new": 1}
    call.message["fired"] |= {"new": 1}
    call.message["fired"]["stored"] = call.message["fired"]["stored"].replace("{", '{"new": 1, ', 1)
    call.message["fired"]["trigger"]["common"] = call.message["fired"]["trigger"]["common"].replace(
        "{", '{"new": 1, ', 1
    )
    call.run()
    assert call.result == {"sum": 3}
    assert ending_from_json({**call.ending, "new": 1}) == Ending(**call.ending)


def test_a_message_of_an_older_release_is_understood(submitter: Submitter) -> None:
    call = submitter.call(jobs.Adds, a=1, b=2)
    needed = ("scheduler", "prefix", "submission", "fired", "max_job_data_bytes")
    call.message = {name: call.message[name] for name in needed}
    stored = json.loads(call.message["fired"]["stored"])
    del stored["gate_key"]
    call.message["fired"]["stored"] = json.dumps(stored)
    call.run()
    assert call.result == {"sum": 3}


def test_a_process_that_a_job_forks_ends_with_the_job_and_has_no_transactions(submitter: Submitter) -> None:
    call = submitter.call(jobs.Forks)
    answer = json.loads(elsewhere(call).stdout)
    assert json.loads(answer["ending"]["result"])["result"] == 70 << 8
    call = submitter.call(jobs.UsesItsContextInAFork)
    answer = json.loads(elsewhere(call).stdout)
    assert json.loads(answer["ending"]["result"])["result"] == 33


def test_a_forked_worker_has_its_own_connection(submitter: Submitter) -> None:
    first, *others = submitter.calls(5, jobs.Adds, a=1, b=2)
    first.run()
    context = multiprocessing.get_context("fork")
    with context.Pool(2) as pool:
        messages = [json.dumps(call.message) for call in others[:-1]]
        answers = [json.loads(answer) for answer in pool.map(worker.run, messages)]
    assert [list(answer) for answer in answers] == [["ending"]] * 3
    others[-1].run()
    assert others[-1].result == {"sum": 3}


def test_a_thread_that_a_job_leaves_behind_writes_nothing(submitter: Submitter, saved: Callable[[], list[int]]) -> None:
    call = submitter.call(jobs.LeavesThreads)
    call.run()
    assert call.result is None
    jobs.GO[call.fire_id].set()
    assert jobs.AT[call.fire_id].wait(LIMIT)
    assert isinstance(jobs.SEEN[call.fire_id], LeaseLostError)
    assert saved() == []
    assert [row.progress for row in submitter.store.list_running()] == [None]


def test_one_thread_touches_all_rows_and_ends_when_there_are_none(submitter: Submitter) -> None:
    def touching() -> list[str]:
        return [thread.name for thread in threading.enumerate() if "worker-touches" in thread.name]

    first, second = submitter.calls(2, jobs.Waits)
    wait_until(lambda: not touching())
    with first.running(), second.running():
        assert len(touching()) == 1
    wait_until(lambda: not touching())


# --- what is missing


def test_a_call_fails_where_nothing_says_where_the_database_is(
    submitter: Submitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(worker.URL)
    call = submitter.call(jobs.Adds, a=1, b=2)
    failed = call.run()["failed"]
    assert failed.startswith(
        f"worker {os.uname().nodename}:{os.getpid()}: the environment variable QUARTZPY_WORKER_URL"
    )


def test_a_call_fails_where_the_database_cannot_be_reached(
    submitter: Submitter, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(worker.URL, "postgresql://nobody@127.0.0.1:1/none")
    monkeypatch.setattr(worker, "TAKE_WINDOW", 1.0)
    call = submitter.call(jobs.Adds, a=1, b=2)
    assert "cannot be reached" in call.run()["failed"]
    assert caplog.text.count("a call of this worker waits for the database: ") == 1


def test_a_call_fails_where_the_role_of_the_worker_lacks_a_privilege(
    submitter: Submitter, postgres_dsn: str, administrator_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"poor_{uuid.uuid4().hex[:8]}"
    execute(administrator_dsn, f"CREATE ROLE {name} LOGIN PASSWORD 'poor'")
    try:
        url = make_url(postgres_dsn).set(username=name, password="poor")
        monkeypatch.setenv(worker.URL, url.render_as_string(hide_password=False))
        failed = submitter.call(jobs.Adds, a=1, b=2).run()["failed"]
    finally:
        execute(administrator_dsn, f"DROP ROLE {name}")
    assert "the database role lacks a privilege" in failed
    assert "quartzpy db roles" in failed


def test_a_call_fails_where_the_message_is_none(submitter: Submitter) -> None:
    for message in ("", "[]", "{}"):
        assert list(json.loads(worker.run(message))) == ["failed"]


def test_a_job_fails_whose_module_is_not_on_the_worker(submitter: Submitter) -> None:
    call = submitter.call(jobs.Adds, a=1, b=2)
    call.message["fired"]["modules"] = ["no_such_module"]
    call.run()
    message = call.ending["error"]["message"]
    assert f"worker {os.uname().nodename}:{os.getpid()} cannot import no_such_module" in message


@pytest.mark.parametrize(
    ("module", "advice"),
    [("json", "define it at the top level of that module"), ("__main__", "define it in a module that the workers")],
)
def test_a_job_fails_whose_type_its_module_does_not_define(submitter: Submitter, module: str, advice: str) -> None:
    call = submitter.call(jobs.Adds, a=1, b=2)
    call.message["fired"] |= {"modules": [module], "type_name": f"{module}:Missing"}
    call.run()
    message = call.ending["error"]["message"]
    assert f"'{module}:Missing' is not defined by {module} when worker " in message
    assert advice in message


def test_a_job_fails_whose_factory_cannot_be_imported(submitter: Submitter) -> None:
    call = submitter.call(jobs.Adds, a=1, b=2)
    call.message["job_factory"] = "no_such_module:make"
    call.run()
    assert "job_factory on worker" in call.ending["error"]["message"]


def test_tracing_that_the_worker_does_not_have_is_no_error(
    submitter: Submitter, caplog: pytest.LogCaptureFixture
) -> None:
    call = submitter.call(jobs.Adds, a=1, b=2)
    call.message["within"] = "no_such_module:within"
    with caplog.at_level("INFO"):
        call.run()
    assert call.result == {"sum": 3}
    assert "is not traced" in caplog.text
