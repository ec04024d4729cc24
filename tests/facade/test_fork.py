"""A scheduler that was made before a fork: gunicorn with --preload, Celery's prefork, uWSGI, multiprocessing."""

from __future__ import annotations

import subprocess
import sys
import textwrap

BEGINNING = """
import os, sys, traceback
from quartzpy import JobDetail, JobKey, Scheduler
from quartzpy.errors import SchedulerStateError
from tests.facade.jobs import Recorded

def forked(work):
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0

def add(name):
    scheduler.add_job(JobDetail(Recorded, name, durable=True))

scheduler = Scheduler(sys.argv[1])
"""


def program(dsn: str, text: str) -> None:
    source = BEGINNING + textwrap.dedent(text)
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", source, dsn],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_one_that_was_only_made_works_in_each_process(postgres_dsn: str) -> None:
    program(
        postgres_dsn,
        """
        forked(lambda: add("one"))
        forked(lambda: add("two"))
        add("three")
        assert {key.name for key in scheduler.job_keys()} == {"one", "two", "three"}
        """,
    )


def test_one_that_was_only_made_starts_in_the_child(postgres_dsn: str) -> None:
    program(
        postgres_dsn,
        """
        def node():
            with scheduler:
                assert scheduler.nodes().nodes[0].pid == os.getpid()

        forked(node)
        forked(node)
        """,
    )


def test_one_that_was_used_makes_connections_of_its_own_in_the_child(postgres_dsn: str) -> None:
    """The parent's connections go on, whether the child ends with a shutdown or without."""
    program(
        postgres_dsn,
        """
        def session():
            with scheduler._store._connections.checked_out() as connection:
                return connection.info.backend_pid

        add("parent")
        first = session()

        def child(ends):
            add(f"child-{ends}")
            assert JobKey("parent") in scheduler.job_keys()
            if ends:
                scheduler.shutdown()

        for ends in (False, True):
            forked(lambda: child(ends))
            assert JobKey(f"child-{ends}") in scheduler.job_keys()
        forked(scheduler.shutdown)
        add("again")
        assert session() == first, "no child ended it"
        """,
    )


def test_one_that_was_started_says_how_to_do_it_right(postgres_dsn: str) -> None:
    program(
        postgres_dsn,
        """
        scheduler.start()

        def child():
            for use in (scheduler.start, scheduler.jobs):
                try:
                    use()
                except SchedulerStateError as error:
                    assert "was started in process" in str(error) and "post_fork" in str(error), error
                else:
                    raise AssertionError("it was accepted")

        forked(child)
        assert scheduler.nodes().nodes
        scheduler.shutdown()
        """,
    )


def test_memory_belongs_to_the_process_that_uses_it_first() -> None:
    program(
        "memory://",
        """
        forked(lambda: add("child"))
        add("parent")

        def child():
            try:
                add("copy")
            except SchedulerStateError as error:
                assert "memory:// belongs to process" in str(error), error
            else:
                raise AssertionError("it was accepted")

        forked(child)
        assert scheduler.job_keys() == {JobKey("parent")}
        """,
    )
