"""`quartzpy top`: the frames as text, what keys do, and the program itself in a pseudo-terminal."""

from __future__ import annotations

import fcntl
import io
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

import click
import pytest
from rich.console import Console

from quartzpy import JobDetail, JobKey, SimpleTrigger, TriggerKey
from quartzpy.cli.cells import Cells, width_of
from quartzpy.cli.keyboard import keys_of
from quartzpy.cli.top.frame import draw_frame, sparkline
from quartzpy.cli.top.view import FAILED, LATE, NEXT, TABS, WRONG, Details, Proposal, Snapshot, View
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
from quartzpy.store.findings import Severity
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


def snapshot() -> Snapshot:
    rows = (running(41, "import", 72, 0.4), running(42, "report", 3, None, "app-02"))
    minutes = [NOW - timedelta(minutes=60 - n) for n in range(60)]
    dead = node("app-03", 0, state=NodeState.DEAD, checkin_age=45 * SECOND, load=0.0)
    overview = Overview(
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
    return Snapshot(overview, rows)


def text(view: View, width: int = 80, height: int = 24, shown: Snapshot | None = None) -> str:
    console = Console(file=io.StringIO(), width=width, height=height, color_system=None)
    console.print(draw_frame(shown or snapshot(), view, Cells("UTC"), "billing", width, height))
    plain = console.file.getvalue().removesuffix("\n").split("\n")  # type: ignore[attr-defined]
    assert len(plain) == height
    assert all(width_of(line) <= width for line in plain), plain
    return "\n".join(line.rstrip() for line in plain)


@pytest.mark.parametrize(("width", "height"), [(40, 10), (80, 24), (120, 30), (200, 60)])
def test_each_frame_fills_the_terminal_and_is_never_wider(width: int, height: int) -> None:
    for tab in range(len(TABS)):
        for view in (View(tab=tab), View(tab=tab, help=True), View(tab=tab, text=["x" * 300] * 100, scrolled=50)):
            text(view, width, height)
            text(view, width, height, Snapshot())
            text(view, width, height, Snapshot(error="connection refused " * 20))
    hostile = replace(snapshot(), running=(running(1, "報告 <b>", 5, 0.5, "n" * 200),))
    assert "報告 <b>" in text(View(), 120, 30, hostile)


def test_the_frame_shows_nodes_incidents_the_last_hour_and_the_table() -> None:
    shown = text(View())
    assert "2 of 3 nodes   2 running   1 late   1 dead   08:30:00" in shown
    lines = shown.splitlines()
    assert lines[1:3] == [
        "! node app-03 is dead: Its last check-in is 45 s old.",
        "! trigger billing.broken is in ERROR: no such region",
    ]
    assert re.fullmatch(r"app-01 +█+ +8/8 alive +2s", lines[3])
    assert re.fullmatch(r"app-02 +█+░+ +3/8 alive draining +2s", lines[4])
    assert re.fullmatch(r"app-03 +░+ +0/8 dead +45s", lines[5])
    assert lines[6].startswith("ended  ▁")
    assert lines[6].endswith("58/min")
    assert "9/h" in lines[7]
    assert lines[8].endswith("p50 0.1s p99 5.9s")
    assert "1 Running 2  2 Late 1  3 Failed 2  4 Next 2  5 Wrong 2" in lines[9]
    assert lines[10].split()[:4] == ["ID", "JOB", "STATE", "FOR"]
    assert lines[11].split()[:4] == ["41", "billing.import", "PROCESSING", "1m12s"]
    assert "████░░░░░░  40%" in lines[11]
    assert "No node knows the type app:Slow." in text(View(tab=LATE), 120, 30)
    assert "SMTPError: 451 try later" in text(View(tab=FAILED), 120, 30)
    assert "reset trigger" in text(View(tab=WRONG), 120, 30)


def test_rows_are_sorted_filtered_and_selected_and_the_selection_stays_with_its_row() -> None:
    view, shown = View(), snapshot()
    assert [row.fire_id for row in view.rows(shown)] == [41, 42]
    view.press("r", shown)
    assert [row.fire_id for row in view.rows(shown)] == [42, 41]
    view.press("down", shown)
    assert view.position(view.rows(shown)) == 1
    view.press("r", shown)
    assert view.position(view.rows(shown)) == 0, "the same row, 41"
    view.press("s", shown)
    assert view.order == "job"
    for key in "/REPX":
        view.press(key, shown)
    view.press("backspace", shown)
    view.press("enter", shown)
    assert view.contains == "REP"
    assert [row.fire_id for row in view.rows(shown)] == [42]
    assert 'with "REP"' in text(view, 120, 30)
    view.press("escape", shown)
    assert len(view.rows(shown)) == 2
    view.press("end", shown)
    assert view.position(view.rows(shown)) == 1
    view.press("pageup", shown)
    assert view.position(view.rows(shown)) == 0


def test_actions_ask_and_only_yes_confirms() -> None:
    view, shown = View(), snapshot()
    assert view.press("c", shown) is None
    assert "Cancel execution 41 of billing.import? [y/N]" in text(view)
    assert view.press("enter", shown) is None
    assert "nothing was changed" in text(view)
    view.press("c", shown)
    confirmed = view.press("y", shown)
    assert isinstance(confirmed, Proposal)
    assert (confirmed.action, confirmed.subjects) == ("cancel", (41,))
    for tab, key, action, subject in (
        (LATE, "p", "pause", TriggerKey("late", "billing")),
        (LATE, "t", "trigger", JobKey("slow", "billing")),
        (FAILED, "a", "run_again", 40),
        (NEXT, "n", "skip_next", TriggerKey("a")),
    ):
        view = View(tab=tab)
        view.press(key, shown)
        confirmed = view.press("y", shown)
        assert isinstance(confirmed, Proposal)
        assert (confirmed.action, confirmed.subjects) == (action, (subject,))
    view = View(tab=LATE)
    view.press("c", shown)
    assert view.proposal is None
    assert "does not apply" in text(view)
    view = View(tab=WRONG)
    view.press("down", shown)
    view.press("m", shown)
    confirmed = view.press("y", shown)
    assert isinstance(confirmed, Proposal)
    assert (confirmed.action, confirmed.arguments) == ("reset", {"selection": TriggerKey("broken", "billing")})


def test_details_help_and_quit() -> None:
    view, shown = View(), snapshot()
    assert view.press("enter", shown) == Details("execution", 41)
    assert View(tab=LATE).press("w", shown) == Details("trigger", TriggerKey("late", "billing"))
    assert shown.overview is not None
    assert View(tab=WRONG).press("enter", shown) == Details("incident", shown.overview.incidents[0])
    view.text = [f"line {n}" for n in range(100)]
    view.press("down", shown)
    assert "line 1\n" in text(view)
    assert "line 0\n" not in text(view)
    view.press("q", shown)
    assert not view.quit
    assert not view.text
    view.press("?", shown)
    assert "freeze the screen" in text(view)
    view.press("x", shown)
    view.press(" ", shown)
    assert text(view).startswith("FROZEN")
    view.press("q", shown)
    assert view.quit


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
        deadline = time.monotonic() + 40
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
        deadline = time.monotonic() + 40
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
    session.send("p")
    session.wait_for("Pause trigger DEFAULT.soon? [y/N]")
    session.send("y")
    session.wait_for("Paused trigger DEFAULT.soon.")
    assert terminal.scheduler.trigger_state(TriggerKey("soon")) is PublicState.PAUSED
    session.resize(30, 8)
    session.process.send_signal(signal.SIGWINCH)
    session.wait_for("too small: 30x8")
    session.send("q")
    session.end(0)


def test_without_rich_it_names_the_extra(postgres_dsn: str, tmp_path: Path) -> None:
    (tmp_path / "rich.py").write_text("raise ModuleNotFoundError(name='rich')\n")
    session = Session(postgres_dsn, "top", PYTHONPATH=str(tmp_path))
    try:
        session.wait_for("pip install 'quartzpy[terminal]'")
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
