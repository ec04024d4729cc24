from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from quartzpy import AnnualCalendar, CronTrigger, JobDetail, JobExecutionContext, RetryPolicy
from quartzpy.errors import (
    InvalidJobDataError,
    InvalidValueError,
    JobCancelledError,
    JobExecutionError,
    JobTimeoutError,
    RemoteJobError,
    SchedulerStateError,
    UnknownJobTypeError,
    WorkerDiedError,
)
from quartzpy.job import job_types
from quartzpy.job_data import ORIGINAL_NAME, decode
from quartzpy.job_factory import new_instance
from quartzpy.keys import RECOVERING_JOBS, TriggerKey
from quartzpy.repetition import LostExecution, recovery_data
from quartzpy.runtime.child_process import serve
from quartzpy.runtime.error_text import MAX_ERROR_LENGTH
from quartzpy.runtime.process_messages import BEGUN, DONE, READY, RUN, STOP, fired_to_json, pack, unpack
from quartzpy.runtime.process_workers import KILL_AFTER, ProcessWorkers
from quartzpy.states import CompletionInstruction, Outcome
from tests.runtime import process_jobs as jobs
from tests.runtime.process_calendars import OddHoursCalendar
from tests.runtime.processes import START, begun, ended, execution_of, workers

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def shared() -> Iterator[ProcessWorkers]:
    made = workers()
    yield made
    made.close(5)


@pytest.fixture
def fifo(tmp_path: Path) -> Callable[[str], str]:
    def make(name: str) -> str:
        path = tmp_path / name
        os.mkfifo(path)
        return str(path)

    return make


def pid_said(path: str) -> int:
    return int(Path(path).read_text())


def is_there(pid: int) -> bool:
    """Return whether there is a process, or a zombie, with this id."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


# --- the context and the result of a job


def test_a_job_has_its_own_process_which_the_next_one_uses_again(shared: ProcessWorkers) -> None:
    first = ended(shared, execution_of(jobs.Pid))
    assert first.completion.outcome is Outcome.SUCCEEDED
    assert first.result != os.getpid()
    assert ended(shared, execution_of(jobs.Pid)).result == first.result
    assert ended(shared, execution_of(jobs.ReturnsAsync)).result == first.result


def test_the_context_in_the_child_equals_that_of_the_node(shared: ProcessWorkers) -> None:
    calendar = AnnualCalendar([(12, 25)], time_zone="Europe/Berlin")
    original = recovery_data(LostExecution(TriggerKey("first"), START, START))
    execution = execution_of(
        JobDetail(
            jobs.Told,
            "told",
            "group",
            description="tells",
            data={"a": 1, "amount": Decimal("1.50"), **original},
            retry=RetryPolicy(on=[OSError]),
            timeout=timedelta(minutes=1),
            max_concurrent=3,
            overlap_policy="skip",
        ),
        trigger=CronTrigger(
            "0 0 2 ? * MON-FRI",
            "nightly",
            RECOVERING_JOBS,
            time_zone="Europe/Berlin",
            start_time=START,
            calendar="holidays",
            dst="once",
            data={"a": 2},
            misfire_threshold=timedelta(seconds=5),
        ),
        calendar=calendar,
        stored={"attempt": 2, "coalesced_fire_times": (START, START + timedelta(hours=1)), "previous_fire_time": START},
    )
    here = jobs.Told().execute(
        JobExecutionContext(
            execution.fired,
            execution,
            scheduler=None,
            job_instance=jobs.Told(),
            data_type=None,
            refire_count=0,
        )
    )
    # In the node, the job detail has the class or its stored name; in the child it has the class.
    here["job_detail"] = here["job_detail"].replace(str(jobs.Told), repr(jobs.Told.type_name))
    there = ended(shared, execution).result
    assert there == here
    assert there["recovering"] == "True"


def test_a_child_imports_the_class_of_an_applications_calendar(shared: ProcessWorkers) -> None:
    calendar = AnnualCalendar(base=OddHoursCalendar(1))
    told = ended(shared, execution_of(JobDetail(jobs.Told, "told"), calendar=calendar)).result
    assert told["calendar"] == str(calendar)


def test_data_of_a_type_is_built_in_the_child_and_for_listeners_in_the_node(shared: ProcessWorkers) -> None:
    done = ended(shared, execution_of(jobs.Typed, number=7, **{ORIGINAL_NAME: "first"}))
    assert done.result == done.told.context.data == jobs.Order(7, jobs.Color.RED)


def test_data_that_does_not_fit_its_type_fails_the_execution_in_the_child(shared: ProcessWorkers) -> None:
    done = ended(shared, execution_of(jobs.Typed, numbr=7))
    assert done.completion.outcome is Outcome.FAILED
    assert str(done.error) == (
        "job DEFAULT.job, trigger DEFAULT.once: the data does not fit Order:"
        " missing: number; unknown: 'numbr' (did you mean number?)"
    )


@pytest.mark.parametrize(
    "value",
    [
        None,
        "text",
        [1, 2.5, True, None, {"a": {"b": []}}],
        {"$datetime": "no date"},
        datetime(2026, 3, 2, 12, tzinfo=UTC),
        date(2026, 3, 2),
        timedelta(days=1),
        Decimal("1.50"),
        UUID(int=7),
        b"\x00\xff",
        (1, (2,)),
        jobs.Color.RED,
        "x" * 1_000_000,
    ],
    ids=lambda value: str(value)[:20],
)
def test_results_keep_their_types(shared: ProcessWorkers, value: Any) -> None:
    assert ended(shared, execution_of(jobs.Echo, value=value)).result == value


def test_a_function_is_a_job_too_and_what_it_prints_is_not_lost(capfd: pytest.CaptureFixture[str]) -> None:
    own = workers()
    detail = jobs.added.detail("added", args=[2, timedelta(seconds=3)])
    assert ended(own, execution_of(detail)).result == timedelta(seconds=6)
    assert capfd.readouterr().out == "printed in the child\n"
    own.close(5)


def test_a_result_that_is_not_valid_job_data_is_refused(shared: ProcessWorkers) -> None:
    found = ended(shared, execution_of(jobs.ReturnsSet))
    assert found.completion.outcome is Outcome.FAILED
    assert "the result of a job in a process worker must be valid job data" in str(found.error)
    assert isinstance(found.error, RemoteJobError)
    assert found.error.error_type == f"{InvalidJobDataError.__module__}.{InvalidJobDataError.__qualname__}"


@pytest.mark.parametrize(
    ("how", "stored", "outcome"),
    [
        ("appends", {"how": "appends", "list": [1, jobs.Color.RED]}, Outcome.SUCCEEDED),
        ("empties", {}, Outcome.SUCCEEDED),
        ("leaves", None, Outcome.SUCCEEDED),
        ("fails", {"how": "fails", "list": [2]}, Outcome.FAILED),
        ("spoils", None, Outcome.FAILED),
    ],
)
def test_changed_data_is_stored(
    shared: ProcessWorkers, how: str, stored: dict[str, Any] | None, outcome: Outcome
) -> None:
    detail = JobDetail(jobs.ChangesData, "job", data={"how": how, "list": [1]}, persist_data=True)
    found = ended(shared, execution_of(detail))
    assert found.completion.outcome is outcome
    written = found.completion.job_data
    assert (None if written is None else decode(written)) == stored


def test_changed_data_is_not_stored_without_the_decorator(shared: ProcessWorkers) -> None:
    found = ended(shared, execution_of(jobs.ChangesData, how="spoils", list=[1]))
    assert found.completion.outcome is Outcome.SUCCEEDED
    assert found.told.context.job_detail_data["list"] == [1]


def test_the_scheduler_and_transactions_are_unavailable_in_a_child(shared: ProcessWorkers) -> None:
    scheduler, transaction = ended(shared, execution_of(jobs.Tries)).result
    assert "context.scheduler.trigger_job: a process worker has no scheduler" in scheduler
    assert "context.transaction(): a process worker has no connection" in transaction


def test_a_child_imports_no_database_library(shared: ProcessWorkers) -> None:
    imported = ended(shared, execution_of(jobs.Modules)).result
    assert "quartzpy" in imported
    assert not {"sqlalchemy", "psycopg", "alembic", "click"} & set(imported)


# --- job instances


def test_the_job_factory_runs_in_the_child() -> None:
    own = workers(job_factory=jobs.made_with_seven)
    assert ended(own, execution_of(jobs.Needs)).result == 7
    failed = ended(own, execution_of(jobs.Pid))
    assert failed.completion.outcome is Outcome.FAILED
    assert failed.completion.instruction is CompletionInstruction.NOOP
    assert str(failed.error) == "the factory makes nothing else"
    own.close(5)


def test_a_factory_that_cannot_be_pickled_is_refused_at_once() -> None:
    with pytest.raises(InvalidValueError, match="job_factory: with process workers it must be picklable"):
        workers(job_factory=lambda job_class: new_instance(job_class))


def test_a_job_type_that_is_unknown_here_gets_no_proxy(shared: ProcessWorkers) -> None:
    with pytest.raises(UnknownJobTypeError):
        shared.proxy_for(execution_of(JobDetail("no such type", "job")))


def test_a_job_type_that_cannot_be_imported_fails_with_the_reason(shared: ProcessWorkers) -> None:
    made_here = type("MadeHere", (jobs.Pid,), {"__module__": jobs.__name__})
    found = ended(shared, execution_of(made_here))
    assert found.completion.outcome is Outcome.FAILED
    assert f"is not defined by {jobs.__name__} when a process worker imports it" in str(found.error)
    nowhere = type("Nowhere", (jobs.Pid,), {"__module__": "no_such_module"})
    assert str(ended(shared, execution_of(nowhere)).error) == "No module named 'no_such_module'"


def test_a_proxy_is_not_a_registered_job_type(shared: ProcessWorkers) -> None:
    shared.proxy_for(execution_of(jobs.Pid))
    assert not [name for name in job_types.names() if "process worker" in name or "StandIn" in name]


# --- errors


@pytest.mark.parametrize("name", jobs.ERRORS)
def test_an_error_keeps_its_type_and_text(shared: ProcessWorkers, name: str) -> None:
    original = jobs.ERRORS[name]
    found = ended(shared, execution_of(jobs.Raises, error=name))
    assert found.completion.outcome is Outcome.FAILED
    assert isinstance(found.error, RemoteJobError)
    assert str(found.error) == str(original)
    assert found.error.error_type.endswith(type(original).__qualname__)
    assert isinstance(found.error, JobCancelledError) == isinstance(original, JobCancelledError)
    told = found.completion.error
    assert told is not None
    assert len(told) <= MAX_ERROR_LENGTH + 5
    if name != "long":
        assert told.count("process_jobs.py") == 1
        assert "In the worker process:" in told


@pytest.mark.parametrize("name", ["value", "key", "own", "cancelled"])
@pytest.mark.parametrize(
    "listed",
    [
        (),
        (ValueError,),
        ("ValueError",),
        ("builtins.ValueError",),
        (OSError,),
        (LookupError, "OwnError"),
        (jobs.OwnError,),
        (JobCancelledError,),
        ("quartzpy.errors.QuartzpyError",),
        (RemoteJobError,),
        (Exception,),
    ],
)
def test_a_retry_policy_sees_the_original_error(
    shared: ProcessWorkers, name: str, listed: tuple[type[BaseException] | str, ...]
) -> None:
    error = ended(shared, execution_of(jobs.Raises, error=name)).error
    for policy in (RetryPolicy(on=listed), RetryPolicy(not_on=listed)):
        assert policy.delay_after(1, error) == policy.delay_after(1, jobs.ERRORS[name])


def test_a_retry_policy_may_name_the_type_of_an_error(shared: ProcessWorkers) -> None:
    def retried(policy: RetryPolicy) -> timedelta | None:
        detail = JobDetail(jobs.Raises, "job", data={"error": "own"}, retry=policy)
        return ended(shared, execution_of(detail)).completion.retry_after

    assert retried(RetryPolicy(delay=timedelta(seconds=7), on=["ConnectionError"])) == timedelta(seconds=7)
    assert retried(RetryPolicy(not_on=[jobs.OwnError])) is None


def test_a_job_may_request_an_immediate_refire(shared: ProcessWorkers) -> None:
    assert ended(shared, execution_of(jobs.Refires)).result == 2


def test_a_refire_in_a_child_gets_the_data_as_the_job_left_it(shared: ProcessWorkers) -> None:
    assert ended(shared, execution_of(jobs.Mends, number=0)).result == 3


@pytest.mark.parametrize(
    ("flag", "instruction"),
    [
        ("unschedule_firing_trigger", CompletionInstruction.SET_TRIGGER_COMPLETE),
        ("unschedule_all_triggers", CompletionInstruction.SET_ALL_JOB_TRIGGERS_COMPLETE),
        ("delete_trigger", CompletionInstruction.DELETE_TRIGGER),
        ("set_trigger_error", CompletionInstruction.SET_TRIGGER_ERROR),
    ],
)
def test_the_instruction_of_a_job_execution_error_is_followed(
    shared: ProcessWorkers, flag: str, instruction: CompletionInstruction
) -> None:
    found = ended(shared, execution_of(jobs.Unschedules, **{flag: True}))
    assert found.completion.instruction is instruction


def test_the_cause_of_a_job_execution_error_decides_whether_it_is_tried_again(shared: ProcessWorkers) -> None:
    found = ended(shared, execution_of(JobDetail(jobs.Unschedules, "job", retry=RetryPolicy(on=[jobs.OwnError]))))
    assert isinstance(found.error, JobExecutionError)
    assert isinstance(found.error, RemoteJobError)
    assert found.error.error_type == f"{jobs.__name__}.OwnRequest"
    assert str(found.error.__cause__) == "its own words"
    assert found.completion.retry_after is not None
    assert found.completion.error is not None
    assert found.completion.error.count("raise OwnError") == 1


def test_a_cancelled_error_stays_a_cancelled_error(shared: ProcessWorkers) -> None:
    found = ended(shared, execution_of(jobs.RaisesCancelled))
    assert type(found.error) is asyncio.CancelledError
    assert found.completion.outcome is Outcome.FAILED


def test_a_result_that_was_set_before_an_error_is_kept(shared: ProcessWorkers) -> None:
    found = ended(shared, execution_of(jobs.KeepsResult))
    assert found.completion.outcome is Outcome.FAILED
    assert found.told.context.result == "kept"


# --- stopping


@pytest.mark.parametrize("raises", [True, False])
def test_a_job_that_obeys_a_request_to_stop_is_cancelled(
    shared: ProcessWorkers, fifo: Callable[[str], str], raises: bool
) -> None:
    path = fifo("begun")
    execution = execution_of(jobs.Waits, begun=path, raises=raises)
    runner = begun(shared, execution)
    pid = pid_said(path)
    execution.stop()
    found = runner.end()
    assert found.completion.outcome is Outcome.CANCELLED
    assert found.told.context.result == (None if raises else "lease lost: False")
    assert ended(shared, execution_of(jobs.Pid)).result == pid


def test_a_request_to_stop_that_comes_first_is_obeyed_too(shared: ProcessWorkers, fifo: Callable[[str], str]) -> None:
    path = fifo("begun")
    execution = execution_of(jobs.Waits, begun=path)
    execution.stop()
    runner = begun(shared, execution)
    pid_said(path)
    assert runner.end().completion.outcome is Outcome.CANCELLED


def test_a_lost_lease_is_visible_in_the_child(shared: ProcessWorkers, fifo: Callable[[str], str]) -> None:
    path = fifo("begun")
    execution = execution_of(jobs.Waits, begun=path)
    runner = begun(shared, execution)
    pid_said(path)
    execution.epoch.lose()
    execution.stop()
    assert runner.end().told.context.result == "lease lost: True"


def test_a_request_to_stop_that_comes_late_does_not_stop_the_next_execution(fifo: Callable[[str], str]) -> None:
    path = fifo("begun")
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=serve, args=(theirs, new_instance, 65_536), daemon=True)
    process.start()
    theirs.close()
    fired = execution_of(jobs.Waits, begun=path).fired
    ours.send_bytes(pack(RUN, fired=fired_to_json(fired, jobs.Waits), refire_count=0, instance_id="n1"))
    pid_said(path)
    ours.send_bytes(pack(STOP, fire_id=fired.fire_id - 1, cut_off_after=0.0, lease_lost=True))
    ours.send_bytes(pack(STOP, fire_id=fired.fire_id, cut_off_after=0.0, lease_lost=False))
    said = [unpack(ours.recv_bytes()) for _ in range(3)]
    assert [kind for kind, _ in said] == [READY, BEGUN, DONE]
    assert decode(said[-1][1]["result"]) == {"result": "lease lost: False"}
    ours.close()
    process.join()
    assert process.exitcode == 0


def test_an_async_job_is_cancelled_at_its_next_await(shared: ProcessWorkers, fifo: Callable[[str], str]) -> None:
    path = fifo("begun")
    execution = execution_of(jobs.WaitsAsync, begun=path)
    runner = begun(shared, execution)
    pid = pid_said(path)
    execution.stop()
    found = runner.end()
    assert found.completion.outcome is Outcome.CANCELLED
    assert type(found.error) is asyncio.CancelledError
    assert ended(shared, execution_of(jobs.Pid)).result == pid


def test_a_job_that_ignores_the_request_is_killed_and_the_next_has_another_child(
    shared: ProcessWorkers, fifo: Callable[[str], str]
) -> None:
    path = fifo("begun")
    execution = execution_of(jobs.Stubborn, begun=path)
    runner = begun(shared, execution)
    pid = pid_said(path)
    execution.stop()
    asked_at = time.monotonic()
    found = runner.end()
    assert KILL_AFTER <= time.monotonic() - asked_at < KILL_AFTER + 1.5
    assert found.completion.outcome is Outcome.CANCELLED
    assert "its process was killed" in str(found.error)
    assert not is_there(pid)
    assert ended(shared, execution_of(jobs.Pid)).result != pid


def test_a_job_that_takes_longer_than_its_timeout_has_failed(
    shared: ProcessWorkers, fifo: Callable[[str], str]
) -> None:
    path = fifo("begun")
    data = {"begun": path, "raises": True}
    runner = begun(shared, execution_of(JobDetail(jobs.Waits, "job", data=data, timeout=timedelta(seconds=0.1))))
    pid_said(path)
    found = runner.end()
    assert found.completion.outcome is Outcome.FAILED
    assert isinstance(found.error, JobTimeoutError)
    assert isinstance(found.error.__cause__, JobCancelledError)


def test_a_child_ignores_signals_but_programs_that_a_job_starts_do_not(shared: ProcessWorkers) -> None:
    assert ended(shared, execution_of(jobs.TakesSignals)).result == [-signal.SIGTERM]


def test_a_signal_does_not_end_a_child_that_is_still_being_started() -> None:
    own = workers()
    before = multiprocessing.active_children()
    runner = begun(own, execution_of(jobs.Pid))
    while not (starting := [child for child in multiprocessing.active_children() if child not in before]):
        time.sleep(0.001)
    os.kill(starting[0].pid or 0, signal.SIGINT)
    assert runner.end().result == starting[0].pid
    own.close(5)


# --- the ends of children


@pytest.mark.parametrize(
    ("how", "said"),
    [("exit", "exit code 3"), ("kill", "signal SIGKILL")],
)
def test_an_execution_whose_process_ends_has_failed(shared: ProcessWorkers, how: str, said: str) -> None:
    found = ended(shared, execution_of(jobs.Dies, how=how))
    assert found.completion.outcome is Outcome.FAILED
    assert isinstance(found.error, WorkerDiedError)
    assert str(found.error) == f"the worker process ended with {said}"
    assert ended(shared, execution_of(jobs.Echo, value=how)).result == how


def test_the_death_of_an_idle_child_fails_no_execution(shared: ProcessWorkers) -> None:
    pid = ended(shared, execution_of(jobs.Pid)).result
    os.kill(pid, signal.SIGKILL)
    assert ended(shared, execution_of(jobs.Pid)).result != pid


def test_two_jobs_run_at_once_and_the_child_that_was_used_last_is_used_first(fifo: Callable[[str], str]) -> None:
    own = workers(2)
    paths = [(fifo(f"begun-{n}"), fifo(f"go-on-{n}")) for n in range(2)]
    runners = [begun(own, execution_of(jobs.Holds, begun=begin, go_on=go_on)) for begin, go_on in paths]
    pids = [pid_said(begin) for begin, _ in paths]
    assert len(set(pids)) == 2
    for runner, (_, go_on), pid in zip(runners, paths, pids, strict=True):
        Path(go_on).write_text("")
        assert runner.end().result == pid
    assert ended(own, execution_of(jobs.Pid)).result == pids[-1]
    own.close(5)
    assert not any(map(is_there, pids))


def test_there_are_no_more_children_than_slots(fifo: Callable[[str], str]) -> None:
    own = workers(1)
    begin, go_on = fifo("begun"), fifo("go-on")
    first = begun(own, execution_of(jobs.Holds, begun=begin, go_on=go_on))
    pid = pid_said(begin)
    second = begun(own, execution_of(jobs.Pid))
    Path(go_on).write_text("")
    assert first.end().result == second.end().result == pid
    own.close(5)


def test_close_asks_jobs_to_stop_and_then_kills_them(fifo: Callable[[str], str]) -> None:
    own = workers(2)
    paths = [fifo("obedient"), fifo("stubborn")]
    obedient = begun(own, execution_of(jobs.Waits, begun=paths[0]))
    stubborn = begun(own, execution_of(jobs.Stubborn, begun=paths[1]))
    pids = [pid_said(path) for path in paths]
    own.close(0.5)
    assert not any(map(is_there, pids))
    assert obedient.end().completion.outcome is Outcome.CANCELLED
    assert isinstance(stubborn.end().error, JobCancelledError)
    assert isinstance(ended(own, execution_of(jobs.Pid)).error, SchedulerStateError)


def test_closing_an_unused_pool_does_nothing() -> None:
    workers().close(5)


# --- programs


def program(directory: Path, name: str, text: str) -> Path:
    path = directory / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("from __future__ import annotations\n" + textwrap.dedent(text))
    return path


def started(directory: Path, *arguments: str | Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        cwd=directory,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


OWN_CLASSES = """
    import sys
    from enum import Enum
    from quartzpy import Job, JobDetail, RetryPolicy
    from tests.runtime.processes import ended, execution_of, workers

    class Color(Enum):
        RED = 1

    class Wrong(Exception):
        pass

    class Mine(Job):
        def execute(self, context):
            assert context.job_data["color"] is Color.RED
            return Color.RED

    class Fails(Job):
        def execute(self, context):
            raise Wrong("wrong")

    if __name__ == "__main__":
        made = workers()
        assert ended(made, execution_of(Mine, color=Color.RED)).result is Color.RED
        detail = JobDetail(Fails, "job", retry=RetryPolicy(on=[Wrong]))
        assert ended(made, execution_of(detail)).completion.retry_after
        made.close(5)
        print(Mine.type_name)
"""


@pytest.mark.parametrize(
    ("file", "arguments", "type_name"),
    [
        ("program.py", ["program.py"], "program:Mine"),
        ("package/module.py", ["-m", "package.module"], "package.module:Mine"),
        ("package/__main__.py", ["-m", "package"], "package:Mine"),
    ],
)
def test_jobs_of_the_main_module_run(tmp_path: Path, file: str, arguments: list[str], type_name: str) -> None:
    program(tmp_path, file, OWN_CLASSES)
    printed, errors = started(tmp_path, *arguments).communicate(timeout=30)
    assert printed == f"{type_name}\n", errors


def test_a_main_module_with_an_unguarded_start_fails_and_says_how_to_fix_it(tmp_path: Path) -> None:
    program(
        tmp_path,
        "program.py",
        """
        import multiprocessing
        from quartzpy import Scheduler
        from tests.runtime import process_jobs
        from tests.runtime.processes import ended, execution_of, workers

        Scheduler("memory://").start()
        made = workers()
        print(ended(made, execution_of(process_jobs.Pid)).error)
        made.close(5)
        """,
    )
    printed, errors = started(tmp_path, "program.py").communicate(timeout=30)
    assert "the worker process ended with exit code 1 before it was ready" in printed
    assert "a process worker cannot start a scheduler" in errors


def test_children_end_with_a_program_that_is_killed(tmp_path: Path, fifo: Callable[[str], str]) -> None:
    path = fifo("begun")
    program(
        tmp_path,
        "program.py",
        f"""
        import time
        from tests.runtime import process_jobs
        from tests.runtime.processes import begun, ended, execution_of, workers

        if __name__ == "__main__":
            made = workers()
            busy = begun(made, execution_of(process_jobs.Stubborn, begun={path!r}))
            idle = ended(made, execution_of(process_jobs.Pid)).result
            print(idle, flush=True)
            time.sleep(60)
        """,
    )
    process = started(tmp_path, "program.py")
    assert process.stdout
    assert process.stdout.readline(), process.communicate()
    pid_said(path)
    process.kill()
    # All children have inherited this pipe, which closes when the last of them ends.
    assert process.communicate(timeout=5) == ("", "")


def test_a_program_that_exits_without_closing_exits_at_once_and_records_nothing(
    tmp_path: Path, fifo: Callable[[str], str]
) -> None:
    path = fifo("begun")
    program(
        tmp_path,
        "program.py",
        f"""
        import atexit
        from pathlib import Path
        from tests.runtime import process_jobs
        from tests.runtime.processes import begun, execution_of, workers

        if __name__ == "__main__":
            made = workers()
            runner = begun(made, execution_of(process_jobs.Stubborn, begun={path!r}))
            Path({path!r}).read_text()
            atexit.register(lambda: (runner._thread.join(0.5), print(runner._completion)))
        """,
    )
    process = started(tmp_path, "program.py")
    assert process.communicate(timeout=30) == ("None\n", "")
