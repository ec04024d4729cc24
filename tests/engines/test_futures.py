"""The engine `futures`, beyond what the contract tests of engines say."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from quartzpy import Scheduler
from quartzpy.config import ExecutorConfig
from quartzpy.errors import SettingsError
from quartzpy.node.engines.protocol import Found
from tests.contract.engine_harness import EngineHarness, Stand, stand_of
from tests.engines import pools


class PoolHarness(EngineHarness):
    def __init__(self, pool: str, workers: str = "") -> None:
        self.setting = f"futures:{workers}tests.engines.pools:{pool}"


@pytest.fixture
def one_process(tmp_path: Path) -> Iterator[Stand]:
    pools.made.clear()
    with stand_of(PoolHarness("one_process"), tmp_path) as stand:
        yield stand


# --- what the setting names


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("tests.engines.pools", "must be module:name, such as that of futures:8:my_program.pools:pool"),
        ("tests.engines.no_pools:pool", "'tests.engines.no_pools' cannot be imported"),
        ("tests.engines.pools:thread", "has no 'thread'; did you mean threads?"),
        ("tests.engines.pools:NO_FUNCTION", "must be a function that returns an executor of concurrent.futures"),
    ],
)
def test_what_the_setting_names_must_be_a_function(address: str, words: str) -> None:
    harness = EngineHarness()
    harness.setting = f"futures:2:{address}"
    with pytest.raises(SettingsError, match=r"^executors: big: ") as raised:
        harness.new_engine()
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("pool", "words"),
    [
        ("no_executor", "tests.engines.pools:no_executor must return an executor of concurrent.futures (got 'a pool')"),
        ("of_any_number", "its executor does not tell how many calls it runs at the same time; write a number"),
        ("of_dask", "Dask has an engine of its own, such as dask:tcp://scheduler:8786"),
        ("unreachable", "unreachable() has raised ConnectionError: no route to the queue of host big-1"),
    ],
)
def test_an_executor_that_cannot_be_used_says_why_at_the_start(pool: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=f"^tests.engines.pools:{pool}") as raised:
        Stand(PoolHarness(pool), tmp_path)
    assert words in str(raised.value)


def test_calls_that_take_tickets_are_refused_at_the_start_without_a_database() -> None:
    pool = ExecutorConfig("futures", 2, address="tests.engines.pools:threads", tickets=True)
    with pytest.raises(SettingsError, match=r"^executors: big: memory:// has no tickets for its calls; use a database"):
        Scheduler("memory://", executors={"big": pool}).start()
    with Scheduler("memory://", executors={"big": replace(pool, tickets=False)}):
        pass


def test_the_number_of_workers_is_that_of_the_setting_or_of_the_executor(tmp_path: Path) -> None:
    for workers, capacity in (("", 2), ("1:", 1)):
        with stand_of(PoolHarness("threads", workers), tmp_path) as stand:
            assert stand.engine.capacity() == capacity


# --- losses


def test_of_a_broken_pool_the_calls_that_did_not_begin_are_told_apart(one_process: Stand) -> None:
    running = one_process.submit()
    pid = one_process.begun(running)
    # The pool of the standard library marks some calls that wait as running.
    waiting = [one_process.submit() for _ in range(4)]
    os.kill(pid, signal.SIGKILL)
    ends = {token: one_process.end_of(token) for token in (running, *waiting)}
    assert [end.how for end in ends.values()] == ["lost"] * 5
    assert ends[running].may_have_begun
    assert not ends[waiting[-1]].may_have_begun
    assert ends[running].answer.startswith("BrokenProcessPool: ")
    assert set(one_process.engine.find(ends).values()) == {Found.GONE}
    after = one_process.submit(opened=True)
    assert one_process.end_of(after).how == "ended"
    assert len(pools.made) == 2


def test_a_call_that_has_not_begun_is_stopped(one_process: Stand) -> None:
    running = one_process.submit()
    one_process.begun(running)
    *others, waiting = [one_process.submit() for _ in range(4)]
    assert one_process.engine.stop(waiting)
    assert not one_process.engine.stop(running)
    assert one_process.engine.find([waiting]) == {waiting: Found.GONE}
    for token in (running, *others):
        one_process.open(token)
        assert one_process.end_of(token).how == "ended"
    assert waiting not in one_process.told.ends
    assert not one_process.pids(waiting)


def test_a_pool_that_was_shut_down_is_made_anew_and_what_it_runs_ends(tmp_path: Path) -> None:
    pools.made.clear()
    with stand_of(PoolHarness("threads"), tmp_path) as stand:
        running = [stand.submit(), stand.submit()]
        waiting = stand.submit()
        pools.made[0].shutdown(wait=False, cancel_futures=True)
        end = stand.end_of(waiting)
        assert (end.how, end.may_have_begun) == ("lost", False)
        with pytest.raises(RuntimeError, match="after shutdown"):
            stand.submit()
        assert stand.end_of(stand.submit(opened=True)).how == "ended"
        for token in running:
            stand.open(token)
            assert stand.end_of(token).how == "ended"


# --- other executors


def test_executorlib_runs_calls_and_tells_the_loss_of_one(tmp_path: Path) -> None:
    with stand_of(PoolHarness("executorlib"), tmp_path) as stand:
        [token] = stand.run_many(1)
        assert len(stand.pids(token)) == 1
        token = stand.submit()
        os.kill(stand.begun(token), signal.SIGKILL)
        end = stand.end_of(token)
        assert (end.how, end.may_have_begun) == ("lost", True)
        assert stand.end_of(stand.submit(opened=True)).how == "ended"


MPI = """
from pathlib import Path
from tests.contract.engine_harness import stand_of
from tests.engines.test_futures import PoolHarness

if __name__ == "__main__":
    with stand_of(PoolHarness("mpi"), Path({directory!r})) as stand:
        tokens = stand.run_many(3)
        assert all(stand.end_of(token).how == "ended" for token in tokens)
        print("ran", len(tokens))
"""


@pytest.mark.skipif(shutil.which("mpiexec") is None, reason="there is no MPI")
def test_mpi_runs_calls(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(MPI.format(directory=str(tmp_path)))
    command = ["mpiexec", "--allow-run-as-root", "--oversubscribe", "-n", "2"]
    ran = subprocess.run(
        [*command, sys.executable, "-m", "mpi4py.futures", str(program)],
        cwd=Path(__file__).parents[2],
        env=os.environ | {"PYTHONPATH": "."},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "ran 3" in ran.stdout, ran.stderr
