"""Commands as jobs: what they get, what their end means, and that nothing of them outlives their execution."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quartzpy import Command, CommandJob, JobDetail, Outcome, RetryPolicy, Scheduler, SimpleTrigger
from quartzpy.errors import InvalidJobDataError, NotAllowedError, SettingsError
from quartzpy.jobs.command import AllowedPrograms
from quartzpy.store.records import ExecutionRecord
from quartzpy.testing import SchedulerHarness
from tests.waiting import wait_until

PYTHON = sys.executable
LINUX = sys.platform == "linux"


@pytest.fixture
def harness() -> SchedulerHarness:
    return SchedulerHarness(commands=(PYTHON, "/bin/sh"))


def python(code: str, *arguments: str, **values: Any) -> Command:
    return Command([PYTHON, "-c", textwrap.dedent(code), *arguments], **values)


def run(harness: SchedulerHarness, command: Command, **options: Any) -> tuple[ExecutionRecord, list[str]]:
    """Run a command now, and return its record and the lines of its log without their heads."""
    harness.schedule_job(JobDetail(CommandJob, data=command, **options), SimpleTrigger("now", "test"))
    [record] = harness.advance("1s")
    text = harness.execution_log(record.fire_id) or ""
    return record, [line.partition("quartzpy.jobs.command: ")[2] or line for line in text.splitlines()]


def is_running(pid: int) -> bool:
    """Return whether a process runs; one that has ended and was not waited for does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text() if LINUX else ""
        os.kill(pid, 0)
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[:1] != ["Z"]


# --- what it gets, and what its end means


def test_the_output_is_logged_and_the_exit_status_is_the_result(harness: SchedulerHarness) -> None:
    record, lines = run(harness, python("import sys; print('a'); print('b', end=''); print('c', file=sys.stderr)"))
    assert record.outcome is Outcome.SUCCEEDED, record.error
    assert record.result == {"exit_status": 0}
    assert sorted(lines) == ["a", "b", "stderr: c"]


@pytest.mark.parametrize(
    ("status", "success", "outcome"),
    [(3, (0,), Outcome.FAILED), (3, (0, 3), Outcome.SUCCEEDED), (0, (3,), Outcome.FAILED)],
)
def test_the_exit_status_decides(
    harness: SchedulerHarness, status: int, success: tuple[int, ...], outcome: Outcome
) -> None:
    record, _ = run(
        harness, python("import sys; print('why'); sys.exit(int(sys.argv[1]))", str(status), success=success)
    )
    assert record.outcome is outcome
    assert record.result == {"exit_status": status}
    if outcome is Outcome.FAILED:
        assert f"ended with exit status {status}; the end of its output:\nwhy" in (record.error or "")
        assert (record.error or "").startswith("quartzpy.errors.CommandFailedError: "), "the reason, and no traceback"


def test_a_signal_is_told_by_its_name(harness: SchedulerHarness) -> None:
    record, _ = run(harness, python("import os; os.kill(os.getpid(), 11)"))
    assert record.result == {"exit_status": -11}
    assert "was ended by SIGSEGV" in (record.error or "")


@pytest.mark.parametrize(("status", "attempts"), [(75, 3), (1, 1)])
def test_a_status_that_means_retry_is_retried_and_others_are_not(
    harness: SchedulerHarness, status: int, attempts: int
) -> None:
    command = python(f"import sys; sys.exit({status})", retry=(75,))
    job = JobDetail(CommandJob, "job", data=command, retry=RetryPolicy(attempts=3, delay="1s"))
    harness.schedule_job(job, SimpleTrigger("now"))
    assert [record.attempt for record in harness.advance("1m")] == [*range(1, attempts + 1)]


def test_without_such_a_status_each_failure_is_retried(harness: SchedulerHarness) -> None:
    job = JobDetail(CommandJob, "job", data=python("raise SystemExit(1)"), retry=RetryPolicy(attempts=2, delay="1s"))
    harness.schedule_job(job, SimpleTrigger("now"))
    assert len(harness.advance("1m")) == 2


def test_a_program_that_cannot_be_started_fails_and_says_why(tmp_path: Path) -> None:
    harness = SchedulerHarness(commands=(f"{tmp_path}/",))
    (tmp_path / "text").write_text("not a program")
    record, _ = run(harness, Command([str(tmp_path / "text")]))
    assert "cannot be started: Permission denied" in (record.error or "")


def test_it_gets_the_facts_of_its_fire_and_the_variables_that_are_allowed(
    harness: SchedulerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUARTZPY_URL", "postgresql://user:secret@host/db")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    code = "import os, json; print(json.dumps(dict(os.environ)))"
    record, [line] = run(harness, python(code, values={"region": "eu"}))
    variables = json.loads(line)
    facts = {name.removeprefix("QUARTZPY_FIRE_"): variables.pop(name) for name in list(variables) if "_FIRE_" in name}
    assert variables.keys() <= {*harness.config.command_environment, "LC_CTYPE", "__CF_USER_TEXT_ENCODING"}
    assert variables["TZ"] == "Asia/Tokyo"
    assert json.loads(facts.pop("VALUES")) == {"region": "eu"}
    assert facts == {
        "ID": str(record.fire_id),
        "JOB": str(record.job_key),
        "TRIGGER": "test.now",
        "TIME": record.fire_time.isoformat(),
        "SCHEDULED_TIME": record.scheduled_fire_time.isoformat(),
        "NOMINAL_TIME": record.scheduled_fire_time.isoformat(),
        "PREVIOUS_TIME": "",
        "NEXT_TIME": "",
        "ATTEMPT": "1",
        "KEY": f"test.now@{record.scheduled_fire_time.isoformat(timespec='milliseconds')}",
        "NODE": "testing",
    }


INHERITED = """
    import os, signal, sys
    print(repr(sys.stdin.read()))
    print(os.getcwd())
    print(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL, signal.pthread_sigmask(signal.SIG_BLOCK, []))
    print(os.getsid(0) == os.getpid() == os.getpgrp())
    for descriptor in range(3, 256):
        try:
            print("open:", descriptor, os.fstat(descriptor))
        except OSError:
            pass
"""


def test_it_inherits_nothing_of_the_node(harness: SchedulerHarness, tmp_path: Path) -> None:
    _, lines = run(harness, python(INHERITED, directory=str(tmp_path)))
    assert lines == ["''", os.path.realpath(tmp_path), "True set()", "True"]


def test_a_pipe_that_ends_early_ends_its_writer(harness: SchedulerHarness) -> None:
    """Python ignores SIGPIPE, and a program that inherits this would go on, or complain."""
    record, lines = run(harness, Command(shell="yes | head -n 1"))
    assert record.outcome is Outcome.SUCCEEDED
    assert lines == ["y"]


# --- its data


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "a command needs either argv"),
        ({"argv": "ls -l"}, "argv must be a list of texts"),
        ({"argv": ["ls", 5]}, "argv: must be a text"),
        ({"argv": ["ls", "a\0b"]}, "cannot receive NUL"),
        ({"argv": ["ls"], "shell": "ls"}, "a command needs either argv"),
        ({"argv": ["ls"], "directory": "tmp"}, "directory must be an absolute path"),
        ({"argv": ["ls"], "success": []}, "success: at least one"),
        ({"argv": ["ls"], "success": [True]}, "success: an exit status is a number"),
        ({"argv": ["ls"], "retry": [0]}, "success and retry both contain 0"),
        ({"argv": ["ls"], "grace": "soon"}, "grace"),
    ],
)
def test_wrong_data_is_refused(values: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidJobDataError, match=said):
        Command(**values)


def test_an_unknown_name_is_refused_when_the_job_is_stored(harness: SchedulerHarness) -> None:
    with pytest.raises(InvalidJobDataError, match="agrv"):
        harness.add_job(JobDetail(CommandJob, "job", durable=True, data={"agrv": ["ls"]}))
    with pytest.raises(InvalidJobDataError, match="agrv"):
        harness.add_job(JobDetail("quartzpy.CommandJob", "job", durable=True, data={"agrv": ["ls"]}))


# --- hostile tries


@pytest.mark.parametrize("argument", ["-rf", "--exec=/bin/sh", "a b", "$(id)", "`id`", "a;b", "*", "a\nb", "'\"", ""])
def test_an_argument_is_passed_as_it_is(harness: SchedulerHarness, argument: str) -> None:
    _, lines = run(harness, python("import sys; print(ascii(sys.argv[1:]))", argument))
    assert lines == [ascii([argument])]


@pytest.mark.parametrize(
    "program",
    [
        "/bin/cat", "cat", "./python3", "../bin/python3", "", "/", "/bin/../bin/cat", "//bin/cat", "/bin/sh ",
        "/bin/SH", "/bin/sh/", "/bin/sh/.", "sh -c id", "~/python3", "$SHELL", "/proc/self/exe",
    ],
)  # fmt: skip
def test_a_program_that_is_not_allowed_does_not_run(program: str) -> None:
    with pytest.raises(NotAllowedError, match="does not allow the program"):
        AllowedPrograms(["/bin/sh", PYTHON]).path_of(program)


def test_an_allowed_program_is_found_by_its_name_or_another_way_to_its_directory(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "backup").touch(mode=0o755)
    (tmp_path / "link").symlink_to("tools")
    allowed = AllowedPrograms([f"{tmp_path}/tools/backup"])
    path = f"{tmp_path}/tools/backup"
    assert allowed.path_of("backup") == allowed.path_of(f"{tmp_path}/link/backup") == allowed.path_of(path) == path


def test_one_file_that_is_many_programs_is_allowed_by_name_only(tmp_path: Path) -> None:
    """As BusyBox, where /bin/date and /bin/sh are links to one file."""
    (tmp_path / "busybox").touch(mode=0o755)
    for name in ("date", "sh"):
        (tmp_path / name).symlink_to("busybox")
    allowed = AllowedPrograms([f"{tmp_path}/date"])
    assert allowed.path_of(f"{tmp_path}/date") == f"{tmp_path}/date"
    for name in ("sh", "busybox"):
        with pytest.raises(NotAllowedError):
            allowed.path_of(f"{tmp_path}/{name}")


def test_a_directory_allows_its_own_programs_only(tmp_path: Path) -> None:
    allowed = AllowedPrograms([f"{tmp_path}/"])
    assert allowed.path_of(f"{tmp_path}/job") == f"{os.path.realpath(tmp_path)}/job"
    for program in (f"{tmp_path}/below/job", f"{tmp_path}/../job", f"{tmp_path}/", f"{tmp_path}/..", "job"):
        with pytest.raises(NotAllowedError):
            allowed.path_of(program)


def test_a_shell_is_not_allowed_by_another_program() -> None:
    harness = SchedulerHarness(commands=(PYTHON,))
    record, lines = run(harness, Command(shell="echo hello"))
    assert record.outcome is Outcome.FAILED
    assert "to allow it is to allow every command" in (record.error or "")
    assert lines == []


def test_without_the_setting_nothing_runs() -> None:
    record, _ = run(SchedulerHarness(), python("print(1)"))
    assert "does not allow the program" in (record.error or "")


@pytest.mark.parametrize("value", ["bin/ls", "./ls", "/", "..", "/usr/../bin/ls", "a\0b"])
def test_a_wrong_program_in_the_settings_is_refused(value: str) -> None:
    with pytest.raises(SettingsError, match="commands"):
        SchedulerHarness(commands=(value,))


def test_a_flood_of_output_is_bounded_and_its_end_is_kept(harness: SchedulerHarness) -> None:
    code = """
        import sys
        sys.stdout.write('first\\n' + 'x' * 1_000_000 + '\\n')
        for n in range(300_000):
            sys.stdout.write(f'line {n} of the flood\\n')
        sys.stdout.write('last')
    """
    record, lines = run(harness, python(code), timeout="2m")
    assert record.outcome is Outcome.SUCCEEDED, record.error
    assert lines[0] == "first"
    assert len(lines[1]) < 4_100
    assert lines[-1] == "last"
    text = harness.execution_log(record.fire_id)
    assert text is not None
    assert len(text.encode()) <= harness.config.max_captured_log_bytes


def test_output_that_is_no_text_is_logged(harness: SchedulerHarness) -> None:
    _, lines = run(harness, python(r"import sys; sys.stdout.buffer.write(b'\xff\x00\x1b[2J\r\n')"))
    assert len(lines) == 1


# --- its end, on a real node


@pytest.fixture
def node(make_scheduler: Callable[..., Scheduler]) -> Scheduler:
    scheduler = make_scheduler(commands=(PYTHON, "/bin/sh"))
    scheduler.start()
    return scheduler


FAMILY = """
    import os, signal, subprocess, sys, time
    def ignore():
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP): signal.signal(number, signal.SIG_IGN)
    def write(name):
        path = os.path.join(sys.argv[1], name)
        with open(path + '.new', 'w') as file: file.write(str(os.getpid()))
        os.rename(path + '.new', path)
    ignore()
    if os.fork() == 0:                  # a child
        if os.fork() == 0:              # a grandchild that leaves its parent, its group and its session
            os.setsid()
            if os.fork() == 0:
                write('daemon')
                time.sleep(600)
            os._exit(0)
        os.wait()
        write('child')
        time.sleep(600)
    write('leader')
    time.sleep(600)
"""
"""A command that ignores SIGTERM, with a child, and a daemon that nobody waits for."""
MEMBERS = ("leader", "child", "daemon") if LINUX else ("leader", "child")


def family(directory: Path) -> dict[str, int]:
    """Return the processes of the family by name, once all have begun."""
    wait_until(lambda: all((directory / name).exists() for name in MEMBERS), seconds=90)
    return {name: int((directory / name).read_text()) for name in MEMBERS}


def start_family(node: Scheduler, directory: Path, **options: Any) -> dict[str, int]:
    command = python(FAMILY, str(directory), grace="200ms")
    node.schedule_job(JobDetail(CommandJob, "job", data=command, **options), SimpleTrigger("now"))
    return family(directory)


def test_nothing_survives_a_cancellation(node: Scheduler, tmp_path: Path) -> None:
    pids = start_family(node, tmp_path)
    [running] = node.running()
    node.cancel(running.fire_id)
    wait_until(lambda: node.executions().count() == 1, seconds=90)
    [record] = node.executions()
    assert record.outcome is Outcome.CANCELLED
    assert not any(map(is_running, pids.values()))


def test_nothing_survives_a_timeout(node: Scheduler, tmp_path: Path) -> None:
    command = python(FAMILY, str(tmp_path), grace="200ms")
    node.schedule_job(JobDetail(CommandJob, "job", data=command, timeout="3s"), SimpleTrigger("now"))
    wait_until(lambda: node.executions().count() == 1, seconds=90)
    [record] = node.executions()
    assert record.outcome is Outcome.FAILED
    assert "longer than its timeout" in (record.error or "")
    # On a slow machine not all of them have begun.
    assert not any(is_running(int((tmp_path / name).read_text())) for name in MEMBERS if (tmp_path / name).exists())


def test_what_a_command_leaves_in_the_background_ends_with_it(node: Scheduler, tmp_path: Path) -> None:
    shell = f"sleep 600 & echo $! > {tmp_path}/child; echo done"
    node.schedule_job(JobDetail(CommandJob, "job", data=Command(shell=shell)), SimpleTrigger("now"))
    wait_until(lambda: node.executions().count() == 1, seconds=90)
    [record] = node.executions()
    assert record.outcome is Outcome.SUCCEEDED, record.error
    assert not is_running(int((tmp_path / "child").read_text()))


def keeper_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.mark.skipif(not LINUX, reason="only Linux tells a process that its parent has ended")
def test_a_command_ends_if_its_keeper_is_killed(node: Scheduler, tmp_path: Path) -> None:
    pids = start_family(node, tmp_path)
    os.kill(keeper_of(pids["leader"]), signal.SIGKILL)
    wait_until(lambda: node.executions().count() == 1, seconds=90)
    [record] = node.executions()
    assert "its keeper was killed" in (record.error or "")
    wait_until(lambda: not is_running(pids["leader"]) and not is_running(pids["child"]))
    os.kill(pids["daemon"], signal.SIGKILL)  # It had left the group, so nobody knows it any more.


NODE = """
import sys
from quartzpy import Command, CommandJob, JobDetail, Scheduler, SimpleTrigger
if __name__ == "__main__":
    window = {"failure_window": "4s", "checkin_interval": "500ms", "lock_timeout": "500ms"}
    scheduler = Scheduler("memory://", commands=(sys.executable,), **window)
    code = open(sys.argv[1] + "/family.py").read()
    command = Command([sys.executable, "-c", code, sys.argv[1]], grace=sys.argv[2])
    scheduler.schedule_job(JobDetail(CommandJob, "job", data=command), SimpleTrigger("now"))
    scheduler.run(drain_timeout="1s")
"""


@pytest.mark.parametrize("grace", ["200ms", "10m"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_survives_the_node(number: signal.Signals, grace: str, tmp_path: Path) -> None:
    (tmp_path / "family.py").write_text(textwrap.dedent(FAMILY))
    (tmp_path / "node.py").write_text(NODE)
    process = subprocess.Popen([PYTHON, str(tmp_path / "node.py"), str(tmp_path), grace], stderr=subprocess.DEVNULL)
    try:
        pids = family(tmp_path)
        process.send_signal(number)
        process.wait(60)
        wait_until(lambda: not any(map(is_running, pids.values())))
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("grace", ["11m", "11d", "600.000001s"])
def test_a_grace_that_others_would_have_to_wait_for_is_refused(grace: str) -> None:
    with pytest.raises(InvalidJobDataError, match="grace: at most 600s"):
        Command(["true"], grace=grace)
    assert Command(["true"], grace="10m").grace == "600s"


# --- which nodes run commands


def test_a_node_without_the_setting_does_not_take_commands_and_why_says_so(
    make_scheduler: Callable[..., Scheduler],
) -> None:
    cautious = make_scheduler()
    cautious.start()
    cautious.schedule_job(JobDetail(CommandJob, "job", data=python("print('ran')")), SimpleTrigger("now"))
    [node] = cautious.nodes().nodes
    assert "quartzpy.CommandJob" not in node.capabilities.job_types
    assert "No running node allows jobs of the type 'quartzpy.CommandJob'; see the setting commands." in cautious.why(
        SimpleTrigger("now").key
    )
    assert cautious.executions().count() == 0


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_another_node_takes_them(make_scheduler: Callable[..., Scheduler]) -> None:
    cautious = make_scheduler()
    cautious.start()
    cautious.schedule_job(JobDetail(CommandJob, "job", data=python("print('ran')")), SimpleTrigger("now"))
    allowing = make_scheduler(commands=(PYTHON,))
    allowing.start()
    wait_until(lambda: cautious.executions().count() == 1, seconds=90)
    [record] = cautious.executions()
    assert record.outcome is Outcome.SUCCEEDED, record.error
    assert record.instance_id == allowing.instance_id
