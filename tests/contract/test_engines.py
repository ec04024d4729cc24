"""What a node relies on in every engine. The calls have no ticket: what runs twice here has run twice."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from quartzpy.node.engines.protocol import Found
from tests.contract.engine_harness import OURS, EngineHarness, Stand, is_running, stand_of
from tests.contract.engine_jobs import Stubborn
from tests.contract.options import given_engine
from tests.waiting import stays_false, wait_until


@pytest.fixture(scope="module")
def harness(request: pytest.FixtureRequest) -> Iterator[EngineHarness]:
    made = (given_engine(request.config) or OURS[request.param])()
    yield made
    made.close()


@pytest.fixture(scope="module")
def stand(harness: EngineHarness, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    with stand_of(harness, tmp_path_factory.mktemp("calls")) as made:
        yield made


# --- the end of a call


def test_a_call_ends_with_what_its_job_returned(stand: Stand) -> None:
    token = stand.submit(opened=True)
    assert stand.end_of(token).result == int(token.partition(".")[0])


def test_each_of_many_calls_runs_once_and_ends_once(stand: Stand) -> None:
    tokens = stand.run_many(12)
    assert stays_false(lambda: [token for token in tokens if len(stand.pids(token)) != 1], stand.harness.watched_for)


def test_no_end_is_told_before_the_job_has_ended(stand: Stand) -> None:
    token = stand.submit()
    stand.begun(token)
    assert token not in stand.told.ends
    stand.open(token)
    assert stand.end_of(token).job_had_ended


# --- what an engine knows of a call


def test_a_call_is_found_while_it_runs_and_not_after_its_end(stand: Stand) -> None:
    token = stand.submit()
    stand.begun(token)
    expected = Found.RUNNING if stand.engine.abilities.can_find else Found.UNKNOWN
    assert stand.engine.find([token]).get(token, Found.UNKNOWN) is expected
    stand.open(token)
    stand.end_of(token)
    assert stand.engine.find([token]).get(token, Found.UNKNOWN) not in (Found.RUNNING, Found.FAILED)


def test_nothing_is_made_up_about_a_call_that_was_never_submitted(stand: Stand) -> None:
    call = stand.call()
    token = call.token
    assert stand.engine.find([token]).get(token, Found.UNKNOWN) in (Found.UNKNOWN, Found.GONE)
    assert not stand.engine.stop(token)
    assert not stand.engine.adopt(call)


def test_a_call_that_is_adopted_does_not_run_again(stand: Stand) -> None:
    token = stand.submit()
    stand.begun(token)
    with stand_of(stand.harness, stand.directory) as other:
        adopts = stand.engine.abilities.can_adopt
        assert [other.engine.adopt(stand.calls[token]) for _ in range(2)] == [adopts, adopts]
        stand.open(token)
        for hears in (stand, other) if adopts else (stand,):
            assert hears.end_of(token).how == "ended"
        assert stays_false(lambda: len(stand.pids(token)) > 1, stand.harness.watched_for)


# --- the ways to stop a call


def test_what_an_engine_says_about_a_stop_is_so(stand: Stand) -> None:
    token = stand.submit()
    stand.begun(token)
    is_over = stand.engine.stop(token)
    if is_over or not stand.engine.abilities.can_stop:
        stand.open(token)
    if is_over:
        assert stays_false(lambda: stand.pids(token, "ended"), stand.harness.watched_for)
    else:
        assert stand.end_of(token).job_had_ended
        assert bool(stand.pids(token, "stopped")) is stand.engine.abilities.can_stop


def test_what_an_engine_says_about_a_kill_is_so(stand: Stand) -> None:
    token = stand.submit(Stubborn)
    pid = stand.begun(token)
    is_over = stand.engine.stop(token, kill=True)
    if stand.engine.abilities.can_kill:
        assert is_over or stand.end_of(token).how == "killed"
        wait_until(lambda: not is_running(pid), seconds=stand.harness.seconds)
    else:
        assert not is_over
        stand.open(token)
        assert stand.end_of(token).how == "ended"
    [after] = stand.run_many(1)
    assert stand.end_of(after).how == "ended"


# --- losses


def test_a_worker_that_dies_loses_its_call_and_the_engine_goes_on(stand: Stand) -> None:
    token = stand.submit()
    pid = stand.begun(token)
    if pid != os.getpid():
        os.kill(pid, signal.SIGKILL)
        if stand.engine.abilities.repeats:
            stand.open(token)
        end = stand.end_of(token)
        assert end.how == "ended" if stand.engine.abilities.repeats else end.may_have_begun
    stand.open(token)
    # The calls behind it may be lost with the worker, or be refused: a node submits them again.
    wait_until(lambda: _ends(stand), "a call ends again", seconds=stand.harness.seconds)


def _ends(stand: Stand) -> bool:
    try:
        token = stand.submit(opened=True)
    except Exception:
        return False
    return stand.end_of(token).how == "ended"


# --- connecting


def test_an_engine_starts_again(stand: Stand) -> None:
    token = stand.submit()
    stand.begun(token)
    stand.engine.start(stand.told)
    stand.open(token)
    # A new connection may know nothing of the call, and then says so.
    assert stand.end_of(token).how in ("ended", "lost")
    [after] = stand.run_many(1)
    assert stand.end_of(after).how == "ended"
    assert len(stand.pids(after)) == 1


def test_an_engine_closes_after_the_calls_that_end_in_time(harness: EngineHarness, tmp_path: Path) -> None:
    with stand_of(harness, tmp_path) as stand:
        token = stand.submit()
        stand.begun(token)
        closing = threading.Thread(target=stand.close, args=(stand.harness.seconds,))
        closing.start()
        stand.open(token)
        closing.join()
        assert stand.end_of(token).how == "ended"


def test_an_engine_does_not_wait_for_a_call_that_does_not_end(harness: EngineHarness, tmp_path: Path) -> None:
    with stand_of(harness, tmp_path) as stand:
        token = stand.submit(Stubborn)
        pid = stand.begun(token)
        stand.close()
        if not stand.engine.abilities.can_adopt:
            wait_until(lambda: not is_running(pid), seconds=stand.harness.seconds)
        stand.open(token)
