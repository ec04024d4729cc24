"""Programs that run process workers: jobs of their main modules, and the end of the program."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.node.processes import pid_said

ROOT = Path(__file__).parents[2]


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
    from tests.node.processes import ended, execution_of, workers

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
        from tests.node import process_jobs
        from tests.node.processes import ended, execution_of, workers

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
        from tests.node import process_jobs
        from tests.node.processes import begun, ended, execution_of, workers

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
    assert process.communicate(timeout=60) == ("", "")


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
        from tests.node import process_jobs
        from tests.node.processes import begun, execution_of, workers

        if __name__ == "__main__":
            made = workers()
            runner = begun(made, execution_of(process_jobs.Stubborn, begun={path!r}))
            Path({path!r}).read_text()
            atexit.register(lambda: (runner.has_ended.wait(0.5), print(runner.completion)))
        """,
    )
    process = started(tmp_path, "program.py")
    assert process.communicate(timeout=30) == ("None\n", "")
