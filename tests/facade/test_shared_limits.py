"""Limits that jobs share: the methods of the scheduler. The contract tests of the stores show the rules themselves."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from quartzpy import JobDetail, Limit, Scheduler, every, job
from quartzpy.definitions.files import load_definitions
from quartzpy.errors import InvalidLimitError, LimitNotFoundError
from tests.waiting import wait_until

_running, _most, _ended = 0, 0, 0
_lock = threading.Lock()


def _work() -> None:
    global _running, _most, _ended
    with _lock:
        _running += 1
        _most = max(_most, _running)
    time.sleep(0.005)
    with _lock:
        _running -= 1
        _ended += 1


@job(limits=["erp"])
def book() -> None:
    _work()


@job(limits=["erp", "mail"])
def remind() -> None:
    _work()


def test_jobs_of_a_node_share_a_limit_that_changes_while_they_run(postgres_dsn: str) -> None:
    global _most, _ended
    _most = _ended = 0
    with Scheduler(postgres_dsn, name="sharing", workers=20) as scheduler:
        scheduler.set_limit("erp", 3)
        scheduler.set_limit("mail", 50)
        for function in (book, remind):
            scheduler.add_job(function.detail(function.__name__, durable=True))
        scheduler.start()
        for number in range(40):
            scheduler.trigger_job(("book", "remind")[number % 2])
        wait_until(lambda: _ended >= 15)
        with _lock:
            assert 1 <= _most <= 3
        scheduler.set_limit("erp", 10)
        wait_until(lambda: _ended == 40)
        assert _most <= 10
        wait_until(lambda: scheduler.limits()["erp"].used == 0)
        assert scheduler.limits()["mail"].limit == Limit(50)


def test_the_first_line_of_a_stranger_is_refused_with_the_one_that_is_missing() -> None:
    with Scheduler("memory://") as scheduler:
        with pytest.raises(LimitNotFoundError, match=r"scheduler\.set_limit\('erp', 5\).*quartzpy limit set erp 5"):
            scheduler.schedule_job(book, every("1h"))
        scheduler.set_limit("erp", 5)
        scheduler.schedule_job(book, every("1h"))
        with pytest.raises(InvalidLimitError, match="'erp 2' is no name of a limit"):
            scheduler.set_limit("erp 2", 5)
        with pytest.raises(LimitNotFoundError, match=r"'epr' is not stored; did you mean 'erp'\?"):
            scheduler.delete_limit("epr")
        assert not scheduler.delete_limit("epr", missing_ok=True)


def test_a_declared_file_names_limits(tmp_path: Path) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text(
        "job:\n- type: tests.facade.test_shared_limits:book\n  name: book\n  limits: [erp]\n  trigger: every 1h\n"
    )
    [(declared, _)] = load_definitions(file).jobs
    assert isinstance(declared, JobDetail)
    assert declared.limits == ("erp",)
