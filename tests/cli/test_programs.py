"""Programs of users, as scripts: what a person sees who starts one, stops it, or forgets something."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from quartzpy import Scheduler

ROOT = Path(__file__).parents[2]

FIRST = """
    from quartzpy import (
        CronTrigger,
        Job,
        JobDetail,
        JobExecutionContext,
        Scheduler,
        disallow_concurrent_execution,
    )


    @disallow_concurrent_execution
    class NightlyReport(Job):
        def execute(self, context: JobExecutionContext) -> None:
            print("report for", context.job_data["region"], context.scheduled_fire_time.date())


    scheduler = Scheduler("{url}", name="billing")
    scheduler.schedule_job(
        JobDetail(NightlyReport, "nightly-report", data={{"region": "eu"}}, requests_recovery=True),
        CronTrigger("0 0 2 ? * MON-FRI", "at-two", time_zone="Europe/Berlin"),
        replace=True,
    )
    scheduler.run()
"""

LONG = """
    import threading
    from quartzpy import Job, JobDetail, Scheduler, SimpleTrigger

    class Long(Job):
        def execute(self, context):
            print("runs", flush=True)
            while not context.wait_cancelled(30):
                pass
            context.raise_if_cancelled()

    class Later(Job):
        def execute(self, context): ...

    scheduler = Scheduler("{url}", name="long", instance_id="n1", {settings})
    scheduler.schedule_job(JobDetail(Long, "long", "reports"), SimpleTrigger("t"))
    {end}
"""


class Program:
    """A script `app.py` in a directory of its own, which runs."""

    def __init__(self, directory: Path, text: str, **values: str) -> None:
        path = directory / "app.py"
        path.write_text(textwrap.dedent(text).format(**values))
        self.process = subprocess.Popen(
            [sys.executable, "app.py"],
            cwd=directory,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait_for_line(self, part: str) -> list[str]:
        """Read its standard error up to the line that has `part`."""
        assert self.process.stderr is not None
        lines: list[str] = []
        for line in self.process.stderr:
            lines.append(line)
            if part in line:
                return lines
        raise AssertionError("".join(lines))

    def end(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=200)
        return self.process.returncode, out, err


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Program]]:
    started: list[Program] = []

    def make(text: str, **values: str) -> Program:
        started.append(Program(tmp_path, text, **values))
        return started[-1]

    yield make
    for program in started:
        program.process.kill()
        program.process.communicate()


def test_without_tables_the_first_program_says_which_command_makes_them(
    start: Callable[..., Program], fresh_database: Callable[[], str]
) -> None:
    status, _, err = start(FIRST, url=fresh_database()).end()
    assert status == 1
    assert err.rstrip().endswith("there are no quartzpy tables in the database; run `quartzpy db upgrade`")


def test_the_first_program_says_what_it_is_and_stays_up_until_ctrl_c(
    start: Callable[..., Program], new_database: str
) -> None:
    program = start(FIRST, url=new_database)
    banner = "".join(program.wait_for_line("checks in every"))
    for part in ("of cluster 'billing' has started", "database: PostgreSQL", "default 10 threads", "app:NightlyReport"):
        assert part in banner
    client = Scheduler(new_database, name="billing")
    [job] = client.jobs()
    assert job.job_type == "app:NightlyReport", "another node imports it by this name"
    assert program.process.poll() is None
    program.process.send_signal(signal.SIGINT)
    status, _, err = program.end()
    assert status == 0
    assert "SIGINT: stopping" in err
    assert "has stopped" in err
    assert client.nodes().nodes == ()
    client.shutdown()


def test_a_program_that_stops_names_what_it_waits_for(start: Callable[..., Program], postgres_dsn: str) -> None:
    program = start(LONG, url=postgres_dsn, settings="log_executions='INFO'", end="scheduler.run(drain_timeout=1.5)")
    program.wait_for_line("reports.long starts")
    program.process.send_signal(signal.SIGTERM)
    status, _, err = program.end()
    assert status == 0
    assert "waits for 1 execution: reports.long" in err
    assert "1 execution: reports.long did not end in time" in err


def test_a_program_can_ask_its_jobs_to_stop_first(start: Callable[..., Program], postgres_dsn: str) -> None:
    program = start(
        LONG, url=postgres_dsn, settings="log_executions='INFO'", end="scheduler.run(drain_timeout=90, interrupt=True)"
    )
    program.wait_for_line("reports.long starts")
    began = time.monotonic()
    program.process.send_signal(signal.SIGTERM)
    status, _, err = program.end()
    assert (status, time.monotonic() - began < 85) == (0, True)
    assert "reports.long is CANCELLED" in err
    assert "did not end in time" not in err


def test_a_process_that_ends_without_shutdown_leaves_the_cluster(
    start: Callable[..., Program], postgres_dsn: str
) -> None:
    end = "scheduler.unschedule_job(__import__('quartzpy').TriggerKey('t')); scheduler.start()"
    status, _, err = start(LONG, url=postgres_dsn, settings="", end=end).end()
    assert status == 0
    assert "without shutdown()" not in err
    client = Scheduler(postgres_dsn, name="long")
    assert client.nodes().nodes == ()
    client.shutdown()


def test_a_process_that_ends_while_it_executes_keeps_its_place_until_its_window_has_passed(
    start: Callable[..., Program], postgres_dsn: str
) -> None:
    wait = "threading.Event().wait(0.05)"
    end = f"scheduler.start(); [{wait} for _ in range(200) if not scheduler.currently_executing_jobs()]"
    status, out, err = start(LONG, url=postgres_dsn, settings="", end=end).end()
    assert (status, out) == (0, "runs\n")
    assert "exits without shutdown(), with 1 execution: reports.long" in err
    client = Scheduler(postgres_dsn, name="long")
    assert [node.instance_id for node in client.nodes().nodes] == ["n1"]
    client.shutdown()


def test_a_job_of_an_interactive_session_is_refused_where_others_would_have_to_run_it(postgres_dsn: str) -> None:
    text = f"""
        from quartzpy import Job, JobDetail, Scheduler, SimpleTrigger
        class Mine(Job):
            def execute(self, context): ...
        Scheduler("memory://").schedule_job(JobDetail(Mine, "job"), SimpleTrigger("t"))
        Scheduler("{postgres_dsn}").schedule_job(JobDetail(Mine, "job"), SimpleTrigger("t"))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "InvalidJobTypeError: job DEFAULT.job: its type __main__:Mine is defined in an interactive" in done.stderr


def test_a_script_in_a_package_has_the_package_s_name_where_that_can_be_imported(tmp_path: Path) -> None:
    package = tmp_path / "billing"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('nothing is imported to find a name')")
    (package / "jobs.py").write_text(
        "from quartzpy import Job\nclass Mine(Job):\n    def execute(self, context): ...\nprint(Mine.type_name)\n"
    )
    (package / "not-a-name.py").write_text((package / "jobs.py").read_text())

    def printed(script: str, *path: Path) -> str:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ROOT, *path)))}
        command = [sys.executable, str(package / script)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()

    assert printed("jobs.py", tmp_path) == "billing.jobs:Mine"
    assert printed("jobs.py") == "jobs:Mine"
    assert printed("not-a-name.py") == "__main__:Mine"
