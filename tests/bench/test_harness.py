"""The harness of the benchmarks, run with tiny numbers."""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from benchmarks.__main__ import SCENARIOS, command_of, main, measure
from benchmarks.bench import QUICK, Bench, Scale
from benchmarks.contestants import ceiling
from benchmarks.drains import drain
from benchmarks.figures import Result
from benchmarks.network import delaying
from benchmarks.peers import PeerError
from benchmarks.peers.known import PEERS
from benchmarks.peers.peer import rate_of, result_of
from benchmarks.peers.python_peers import PYTHON_PEERS, PythonPeer
from benchmarks.peers.quartz_peer import SOURCES
from tests.database import Server

TINY = Scale(
    rounds=1,
    drained=40,
    warm_up_runs=10,
    rates=(20,),
    latency_seconds=0.5,
    warm_up_seconds=0.0,
    scheduled_now=2,
)
STARTED = datetime(2026, 1, 2, tzinfo=UTC)


def test_a_run_measures_and_stores_its_report(postgres_server: Server, tmp_path: Path) -> None:
    def drained(bench: Bench) -> Result:
        with delaying(bench.server, 1.35) as delayed:
            return Result("drained", figures={"ours": drain(bench, delayed=delayed), "ceiling": ceiling(bench)})

    run = measure(
        ["drained", "latency"], TINY, url=postgres_server.dsn_of("postgres"), with_peers=False,
        command="test", started=STARTED, directory=tmp_path, known={**SCENARIOS, "drained": drained},
    )  # fmt: skip
    assert run.failures == {}
    rates, latency = run.results
    assert rates.figures["ours"] > 0
    assert rates.figures["ceiling"] > 0
    assert len(latency.figures["quartzpy, 20/s"]) >= 5
    assert len(latency.figures["from schedule_job"]) == TINY.scheduled_now
    assert all(late > 0 for late in latency.figures["from schedule_job"])
    assert [goal.measured is None for goal in latency.goals] == [False, False, False]
    assert len(json.loads((tmp_path / "results.json").read_text())["results"]) == 2
    with postgres_server.connect() as connection:
        # Other processes of the tests measure on the same server.
        names = [name for (name,) in connection.execute("SELECT datname FROM pg_database")]
        assert [name for name in names if name.startswith(f"quartzpy_benchmark_{os.getpid()}_")] == []


def test_a_scenario_that_fails_is_reported_and_the_others_run(postgres_server: Server, tmp_path: Path) -> None:
    def broken(bench: Bench) -> Result:
        raise ValueError("broken")

    def sound(bench: Bench) -> Result:
        assert bench.scale is TINY
        return Result("sound")

    run = measure(
        ["broken", "sound"], TINY, url=postgres_server.dsn_of("postgres"), with_peers=False,
        command="test", started=STARTED, directory=tmp_path, known={"broken": broken, "sound": sound},
    )  # fmt: skip
    assert run.failures == {"broken": "ValueError: broken"}
    assert [result.scenario for result in run.results] == ["sound"]
    assert "The scenario failed: ValueError: broken" in (tmp_path / "report.md").read_text()


def test_the_report_names_the_command_without_the_password() -> None:
    url = "postgresql://bench:secret@db:5432/main"
    assert command_of(["soak", "--url", url], url) == (
        "python -m benchmarks soak --url postgresql://bench:***@db:5432/main"
    )
    assert command_of(["soak", f"--url={url}"], url) == (
        "python -m benchmarks soak --url=postgresql://bench:***@db:5432/main"
    )
    assert command_of(["--quick"], None) == "python -m benchmarks --quick"


def test_a_quick_run_is_smaller_in_everything_that_takes_time() -> None:
    assert all(
        getattr(QUICK, name) <= getattr(Scale(), name)
        for name in ("rounds", "drained", "latency_seconds", "misfires", "not_takeable", "soak_seconds", "peer_share")
    )
    assert max(QUICK.stored) < max(Scale().stored)


def test_an_unknown_scenario_is_refused_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["througput"])
    message = capsys.readouterr().err
    assert "'througput' is not a scenario" in message
    assert all(name in message for name in SCENARIOS)


def test_an_unknown_peer_is_not_installed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install", "quarz"]) == 2
    assert "quarz: not a peer; the peers are quartz, pgqueuer" in capsys.readouterr().out


def test_a_peer_that_is_not_installed_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert [peer.missing() for peer in PYTHON_PEERS] == [
        f"python -m benchmarks install {peer.name}" for peer in PYTHON_PEERS
    ]


def test_peers_have_programs_settings_and_names_of_their_own() -> None:
    assert len({peer.name for peer in PEERS}) == len(PEERS)
    assert all(peer.settings for peer in PEERS)
    programs = Path(SOURCES).parent / "programs"
    assert {peer.program for peer in PEERS if isinstance(peer, PythonPeer)} == {
        path.stem for path in programs.glob("[a-z]*.py")
    }


def test_the_rate_of_a_program_is_its_count_by_its_seconds() -> None:
    program = [sys.executable, "-c", 'print("starting"); print(\'{"count": 30, "seconds": 1.5}\')']
    assert rate_of(program) == 20.0


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("import sys; sys.exit('the port is taken')", "it ended with status 1: the port is taken"),
        ("print('no result')", "it ended with status 0: no result"),
        ("pass", "it ended with status 0: no output"),
    ],
)
def test_a_program_without_a_result_fails_with_its_last_words(program: str, message: str) -> None:
    with pytest.raises(PeerError, match=message):
        result_of([sys.executable, "-c", program])
