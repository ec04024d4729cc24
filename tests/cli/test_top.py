"""`quartzpy top`: the frames as text, what keys do, and the program itself in a pseudo-terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest

from quartzpy import JobDetail, JobKey, SimpleTrigger, TriggerKey
from quartzpy.cli.formatter import Formatter, sparkline, width_of
from quartzpy.cli.keyboard import keys_of
from quartzpy.cli.top import TABS, Screen, _obey
from quartzpy.installing import install_line
from quartzpy.operations import (
    ExecutionSummary,
    Incident,
    LateTrigger,
    MinuteLateness,
    MinuteThroughput,
    NodeState,
    NodeView,
    Overview,
    PlannedRun,
    Remedy,
    RunningView,
)
from quartzpy.states import ExecutionState, NodeMode, PublicState
from quartzpy.store.health_findings import Severity
from tests.cli.conftest import Terminal
from tests.cluster.app import Quick

ROOT = Path(__file__).resolve().parents[2]
NOW = datetime(2026, 11, 22, 8, 30, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def node(name: str, executing: int, **values: object) -> NodeView:
    of_a_node: dict[str, object] = {
        "state": NodeState.ALIVE,
        "mode": NodeMode.RUNNING,
        "mode_since": None,
        "host": "vm",
        "pid": 1,
        "epoch": 1,
        "version": "0.1.0",
        "started_at": NOW - 3600 * SECOND,
        "last_checkin": NOW - 2 * SECOND,
        "checkin_age": 2 * SECOND,
        "checkin_interval": 5 * SECOND,
        "failure_window": 20 * SECOND,
        "clock_ahead": None,
        "claimed": 0,
        "workers": 8,
        "load": executing / 8,
        "executors": {"default": 8},
        "engines": {},
        "labels": (),
        "group_limits": {},
        "job_types": (),
    }
    return NodeView(node=name, executing=executing, **{**of_a_node, **values})  # type: ignore[arg-type]


def running(number: int, job: str, seconds: float, progress: float | None, on: str = "app-01") -> RunningView:
    return RunningView(
        fire_id=number,
        state=ExecutionState.PROCESSING,
        trigger=TriggerKey(f"every-{job}", "billing"),
        job=JobKey(job, "billing"),
        node=on,
        attempt=1,
        scheduled_fire_time=NOW - seconds * SECOND,
        fire_time=NOW - seconds * SECOND,
        elapsed=seconds * SECOND,
        cancel_requested=False,
        progress=progress,
        progress_message=None if progress is None else "invoice 1200 of 3000",
        recovering=False,
    )


def failure(number: int, job: str, error: str) -> ExecutionSummary:
    return ExecutionSummary(
        fire_id=number,
        state=ExecutionState.FAILED,
        trigger=TriggerKey("nightly", "mail"),
        job=JobKey(job, "mail"),
        job_type="app:Mail",
        node="app-02",
        attempt=3,
        scheduled_fire_time=NOW - 90 * SECOND,
        fire_time=NOW - 90 * SECOND,
        started_at=NOW - 90 * SECOND,
        ended_at=NOW - 60 * SECOND,
        retry_at=None,
        waited=timedelta(),
        queued=timedelta(),
        ran=30 * SECOND,
        error=error,
    )


RUNNING, LATE, FAILED, NEXT, WRONG = range(len(TABS))


def overview() -> Overview:
    rows = (running(41, "import", 72, 0.4), running(42, "report", 3, None, "app-02"))
    minutes = [NOW - timedelta(minutes=60 - n) for n in range(60)]
    dead = node("app-03", 0, state=NodeState.DEAD, checkin_age=45 * SECOND, load=0.0)
    return Overview(
        now=NOW,
        incidents=(
            Incident(Severity.ERROR, "dead-node", "app-03", "node app-03 is dead", ("Its last check-in is 45 s old.",)),
            Incident(
                Severity.ERROR,
                "trigger-error",
                "billing.broken",
                "trigger billing.broken is in ERROR",
                ("no such region",),
                NOW - 600 * SECOND,
                (Remedy("reset", {"selection": TriggerKey("broken", "billing")}, "reset trigger"),),
                TriggerKey("broken", "billing"),
            ),
        ),
        running=rows,
        late=(
            LateTrigger(
                *(TriggerKey("late", "billing"), JobKey("slow", "billing"), "app:Slow"),
                *(NOW - 95 * SECOND, 95 * SECOND, ("No node knows the type app:Slow.",)),
            ),
        ),
        failed=(failure(40, "send", "SMTPError: 451 try later"), failure(39, "digest", "ValueError: no such region")),
        agenda=(
            PlannedRun(NOW + 5 * SECOND, TriggerKey("a"), JobKey("job"), "2026-11-22 08:30:05+00:00", "UTC"),
            PlannedRun(NOW + 9 * SECOND, TriggerKey("b"), JobKey("job"), "2026-11-22 08:30:09+00:00", "UTC"),
        ),
        throughput=tuple(
            MinuteThroughput(at, {"SUCCEEDED": n, "FAILED": n % 7 == 0}, n) for n, at in enumerate(minutes)
        ),
        lateness=tuple(MinuteLateness(at, SECOND / 10, n * SECOND / 10) for n, at in enumerate(minutes)),
        series_since=minutes[0],
        nodes=(node("app-01", 8), node("app-02", 3, mode=NodeMode.DRAINING), dead),
        counts={},
    )


def screen(tab: int = RUNNING, **values: Any) -> Screen:
    return Screen("billing", Formatter("UTC"), tab=tab, **{"overview": overview(), **values})


def text(shown: Screen, width: int = 80, height: int = 24) -> str:
    lines = [click.unstyle(line) for line in shown.lines(width, height)]
    assert len(lines) <= height
    return "\n".join(lines)


@pytest.mark.parametrize(("width", "height"), [(40, 10), (80, 24), (120, 30), (200, 60)])
def test_each_table_fills_the_terminal_and_the_last_line_has_the_keys(width: int, height: int) -> None:
    for tab in range(len(TABS)):
        lines = text(screen(tab), width, height).split("\n")
        assert len(lines) == height
        assert lines[-1].startswith("q quit  ? help")
        table = lines[next(n for n, line in enumerate(lines) if " 1 Running" in line) + 1 :]
        assert all(width_of(line) <= max(width, 80) for line in table[:-1]), table
    assert "reading the database" in text(screen(overview=None), width, height)
    waiting = text(screen(overview=None, error="connection refused " * 20), width, height)
    assert "DATABASE UNAVAILABLE" in waiting
    assert "the database cannot be read: connection refused" in " ".join(waiting.split())
    hostile = replace(overview(), running=(running(1, "報告 <b>", 5, 0.5, "n" * 200),))
    assert "報告 <b>" in text(screen(overview=hostile), 120, 30)


def test_the_screen_shows_incidents_nodes_the_last_hour_and_the_table() -> None:
    lines = text(screen()).split("\n")
    assert lines[0] == "quartzpy top: billing   2 of 3 nodes   08:30:00 UTC"
    assert lines[1:3] == [
        "! node app-03 is dead: Its last check-in is 45 s old.",
        "! trigger billing.broken is in ERROR: no such region",
    ]
    assert lines[3].split()[:4] == ["NODE", "STATE", "MODE", "BUSY"]
    assert re.match(r"app-01 +alive +RUNNING +8/8 +100%", lines[4])
    assert re.match(r"app-02 +alive +DRAINING +3/8", lines[5])
    assert re.match(r"app-03 +dead +RUNNING +0/8", lines[6])
    assert lines[7].startswith("ended  ")
    assert lines[7].endswith("58/min")
    assert lines[8].endswith("9/h")
    assert lines[9].endswith("p50 0.1s p99 5.9s")
    assert "1 Running 2  2 Late 1  3 Failed 2  4 Next 2  5 Wrong 2" in lines[10]
    assert lines[11].split()[:4] == ["ID", "JOB", "STATE", "FOR"]
    assert lines[12].split()[:5] == ["41", "billing.import", "PROCESSING", "1m12s", "40%"]
    assert "No node knows the type app:Slow." in text(screen(LATE), 120, 30)
    assert "SMTPError: 451 try later" in text(screen(FAILED), 120, 30)
    assert "reset trigger" in text(screen(WRONG), 120, 30)


def test_many_nodes_and_incidents_leave_room_for_the_table() -> None:
    many = overview()
    nodes = tuple(node(f"app-{number:02}", 1) for number in range(40))
    crowded = screen(overview=replace(many, nodes=nodes, incidents=many.incidents * 4))
    lines = text(crowded).split("\n")
    assert len(lines) == 24
    assert "40 of 40 nodes" in lines[0]
    assert any(line.split()[:2] == ["41", "billing.import"] for line in lines)
    assert "no node is running" in text(screen(overview=replace(many, nodes=())))


def test_rows_are_sorted_filtered_and_selected_and_the_selection_stays_with_its_row() -> None:
    shown = screen()
    assert [row.fire_id for row in shown.rows()] == [41, 42]
    shown.press("r")
    assert [row.fire_id for row in shown.rows()] == [42, 41]
    shown.press("down")
    assert shown.position(shown.rows()) == 1
    shown.press("r")
    assert shown.position(shown.rows()) == 0, "the same row, 41"
    for _ in range(4):
        shown.press("s")
    assert "by for" in text(shown, 120, 30)
    assert [row.fire_id for row in shown.rows()] == [42, 41]
    for key in "/REPX":
        shown.press(key)
    assert "/REPX_" in text(shown)
    shown.press("backspace")
    shown.press("enter")
    assert shown.contains == "REP"
    assert [row.fire_id for row in shown.rows()] == [42]
    assert 'with "REP"' in text(shown, 120, 30)
    shown.press("escape")
    assert len(shown.rows()) == 2
    shown.press("end")
    assert shown.position(shown.rows()) == 1
    shown.press("pageup")
    assert shown.position(shown.rows()) == 0


def test_each_column_can_be_the_order_also_where_values_are_missing() -> None:
    for tab, (_, _, columns, _) in enumerate(TABS):
        shown = screen(tab)
        for _ in range(sum(not column.extra for column in columns)):
            shown.press("s")
            assert len(shown.rows()) == len(screen(tab).rows())
        shown.press("s")
        assert shown.rows() == screen(tab).rows(), "after the last column comes the order of the overview again"


def test_a_key_for_a_row_returns_the_selected_one() -> None:
    shown = screen()
    assert shown.press("c").fire_id == 41
    shown.press("down")
    for key in ("enter", "w", "a", "m", "t", "p", "u", "n"):
        assert shown.press(key).fire_id == 42
    assert shown.press("x") is None
    assert screen(overview=replace(overview(), running=())).press("c") is None
    assert shown.press("?") == "?"
    for key in "/cp":
        assert shown.press(key) is None, "it is a letter of the filter"
    assert shown.contains == "cp"


class Operations:
    """Records the actions of `quartzpy top`."""

    def __init__(self) -> None:
        self.done: list[tuple[str, dict[str, Any]]] = []
        self.actions = self

    def __getattr__(self, name: str) -> Any:
        def act(**arguments: Any) -> Any:
            self.done.append((name, arguments))
            return SimpleNamespace(text=f"{name} is done")

        return act


@pytest.mark.parametrize(
    ("tab", "key", "question", "action", "arguments"),
    [
        (RUNNING, "c", "Cancel execution 41?", "cancel", {"selection": 41}),
        (LATE, "p", "Pause trigger billing.late?", "pause", {"selection": TriggerKey("late", "billing")}),
        (LATE, "u", "Resume trigger billing.late?", "resume", {"selection": TriggerKey("late", "billing")}),
        (LATE, "t", "Run job billing.slow?", "trigger", {"job": JobKey("slow", "billing")}),
        (FAILED, "a", "Run again execution 40?", "run_again", {"selection": 40}),
        (NEXT, "n", "Skip the next fire of trigger DEFAULT.a?", "skip_next", {"selection": TriggerKey("a")}),
        (WRONG, "m", "Reset trigger billing.broken?", "reset", {"selection": TriggerKey("broken", "billing")}),
    ],
)
def test_actions_ask_and_only_yes_confirms(
    tab: int,
    key: str,
    question: str,
    action: str,
    arguments: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    operations, row = Operations(), screen(tab).rows()[-1 if tab == WRONG else 0]
    questions: list[str] = []
    monkeypatch.setattr("quartzpy.cli.top.ask_key", lambda text: questions.append(text) or "enter")
    assert _obey(operations, Formatter("UTC"), key, row) == "nothing was changed"  # type: ignore[arg-type]
    assert questions == [f"{question} [y/N] "]
    assert operations.done == []
    monkeypatch.setattr("quartzpy.cli.top.ask_key", lambda text: "y")
    assert _obey(operations, Formatter("UTC"), key, row) == f"{action} is done"  # type: ignore[arg-type]
    assert operations.done == [(action, {**arguments, "reason": "quartzpy top"})]


def test_an_action_that_does_not_fit_the_row_is_refused() -> None:
    for tab, key in ((LATE, "c"), (LATE, "m"), (WRONG, "p")):
        text = _obey(Operations(), Formatter("UTC"), key, screen(tab).rows()[0])  # type: ignore[arg-type]
        assert text == "this action does not apply to the selected row"


def test_keys_and_sparklines() -> None:
    assert keys_of("a\x1b[A\x1b[6~\x1b\r\x7fé\x1b[1;5Cz\x1bOH") == [
        *("a", "up", "pagedown", "escape", "enter", "backspace", "é", "z", "home")
    ]
    assert sparkline([0, 1, 1000]) == "▁▂█", "a number above zero is never the lowest bar"
    assert sparkline([0, 0]) == "▁▁"
    assert sparkline([]) == ""


def test_without_a_terminal_it_says_so(terminal: Terminal) -> None:
    done = terminal.run("top")
    assert (done.status, done.out) == (2, "")
    assert "top needs a terminal" in done.err


class Session:
    """The program in a pseudo-terminal."""

    def __init__(self, dsn: str, name: str, columns: int = 100, lines: int = 30, **environment: str) -> None:
        self.master, slave = pty.openpty()
        self.resize(columns, lines)
        self.before = termios.tcgetattr(slave)
        self._slave = slave
        command = [sys.executable, "-m", "quartzpy", "top", "--url", dsn, "--name", name, "--every", "200ms"]
        kept = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "COLUMNS", "LINES")}
        environment = {**kept, "TERM": "xterm-256color", **environment}
        self.process = subprocess.Popen(command, cwd=ROOT, stdin=slave, stdout=slave, stderr=slave, env=environment)
        self.output = ""

    def resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def send(self, keys: str) -> None:
        self.output = ""
        os.write(self.master, keys.encode())

    def wait_for(self, wanted: str) -> None:
        deadline = time.monotonic() + 120
        while wanted not in click.unstyle(self.output):
            assert time.monotonic() < deadline, (wanted, self.output[-3000:])
            self._read(0.2)

    def _read(self, seconds: float) -> None:
        if select.select([self.master], [], [], seconds)[0]:
            try:
                self.output += os.read(self.master, 65536).decode(errors="replace")
            except OSError:
                return

    def end(self, status: int) -> None:
        """The process has ended, and the terminal is as it was."""
        deadline = time.monotonic() + 120
        while self.process.poll() is None:
            assert time.monotonic() < deadline
            self._read(0.1)
        self._read(0.1)
        assert self.process.returncode == status, self.output
        assert "\x1b[?25h\x1b[?1049l" in self.output, "the cursor and the screen are back"
        assert termios.tcgetattr(self._slave) == self.before

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
        os.close(self._slave)


@pytest.fixture
def start_top(terminal: Terminal, postgres_dsn: str) -> Iterator[Callable[[], Session]]:
    sessions: list[Session] = []

    def start() -> Session:
        sessions.append(Session(postgres_dsn, terminal.scheduler.name))
        return sessions[-1]

    yield start
    for session in sessions:
        session.close()


def test_in_a_terminal_it_acts_after_a_question_and_restores_the_terminal(
    terminal: Terminal, start_top: Callable[[], Session]
) -> None:
    soon = datetime.now(UTC) + timedelta(minutes=30)
    terminal.scheduler.schedule_job(JobDetail(Quick, "job"), SimpleTrigger("soon", start_time=soon))
    session = start_top()
    session.wait_for(f"quartzpy top: {terminal.scheduler.name}")
    session.wait_for("nothing runs")
    session.send("4")
    session.wait_for("DEFAULT.soon")
    session.send("\r")
    session.wait_for("trigger DEFAULT.soon  WAITING")
    session.wait_for("any key goes back")
    session.send(" ")
    session.wait_for("DEFAULT.soon")
    session.send("p")
    session.wait_for("Pause trigger DEFAULT.soon? [y/N]")
    session.send("y")
    session.wait_for("Paused trigger DEFAULT.soon.")
    session.wait_for("No node is running")
    session.send("?")
    session.wait_for("freeze the screen, or go on")
    session.wait_for("any key goes back")
    session.send(" ")
    session.wait_for("quartzpy top:")
    assert terminal.scheduler.trigger_state(TriggerKey("soon")) is PublicState.PAUSED
    session.resize(30, 8)
    session.wait_for("too small: 30x8")
    session.send("q")
    session.end(0)


def test_without_rich_it_names_the_extra(postgres_dsn: str, tmp_path: Path) -> None:
    (tmp_path / "rich.py").write_text("raise ModuleNotFoundError(name='rich')\n")
    session = Session(postgres_dsn, "top", PYTHONPATH=str(tmp_path))
    try:
        session.wait_for(install_line("terminal"))
        assert session.process.wait(20) == 2
    finally:
        session.close()


def test_a_signal_restores_the_terminal_as_well(start_top: Callable[[], Session]) -> None:
    session = start_top()
    session.wait_for("nothing runs")
    session.process.send_signal(signal.SIGTERM)
    session.end(128 + signal.SIGTERM)


def test_a_stop_gives_the_terminal_back_until_the_program_goes_on(start_top: Callable[[], Session]) -> None:
    session = start_top()
    session.wait_for("nothing runs")
    session.output = ""
    session.process.send_signal(signal.SIGTSTP)
    while "\x1b[?1049l" not in session.output:
        session._read(0.2)
    _, status = os.waitpid(session.process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    assert termios.tcgetattr(session._slave) == session.before
    session.output = ""
    session.process.send_signal(signal.SIGCONT)
    session.wait_for("nothing runs")
    assert "\x1b[?1049h" in session.output
    session.send("q")
    session.end(0)
