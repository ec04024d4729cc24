"""What the demo shows: lanes, narration, counts, and a terminal that is as it was before."""

from __future__ import annotations

import importlib
import io
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fcntl import ioctl
from pathlib import Path

import pytest
from rich.console import Console

from quartzpy.demo import jobs
from quartzpy.demo.audit import Summary
from quartzpy.demo.screen import LiveScreen, draw
from quartzpy.demo.views import NEXT_STEPS, JsonLines, PlainLines, Scene
from quartzpy.installing import install_line
from quartzpy.keys import RECOVERING_JOBS, JobKey, TriggerKey
from quartzpy.states import ExecutionState
from quartzpy.store.protocol import CheckIn
from quartzpy.store.records import ExecutionRecord, NodeRecord, RunningRecord

# The package's attribute of that name is the command.
cli_demo = importlib.import_module("quartzpy.cli.demo")
ROOT = Path(__file__).resolve().parents[2]
START = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def node(name: str, last_checkin: float) -> NodeRecord:
    half, window = timedelta(seconds=0.5), timedelta(seconds=3)
    return NodeRecord(name, 1, "host", 1, START, at(last_checkin), 1, half, window)


def running(job: JobKey, on: str, since: float, *, group: str = jobs.GROUP, fire_id: int = 1) -> RunningRecord:
    key = TriggerKey("t", group)
    return RunningRecord(fire_id, key, job, on, 1, "EXECUTING", at(since), at(since), 1, False)


def ended(
    job: JobKey, on: str, scheduled: float, begun: float, end: float, *, fire_id: int, state: str = "SUCCEEDED"
) -> ExecutionRecord:
    return ExecutionRecord(
        state=ExecutionState(state),
        fire_id=fire_id,
        trigger_key=TriggerKey("t", jobs.GROUP),
        job_key=job,
        job_type="type",
        instance_id=on,
        scheduled_fire_time=at(scheduled),
        fire_time=at(begun),
        started_at=at(begun),
        ended_at=at(end),
        attempt=1,
        error=None,
    )


def scene(seconds: float, *, live: tuple[RunningRecord, ...] = (), history: tuple[ExecutionRecord, ...] = ()) -> Scene:
    return Scene(
        elapsed=seconds,
        duration=20,
        alive=["node-1", "node-2"],
        killed={},
        cluster=CheckIn(at(seconds), (node("node-1", seconds), node("node-2", seconds))),
        running=live,
        history=list(history),
    )


def picture(shown: Scene, width: int = 120) -> str:
    console = Console(width=width, file=io.StringIO(), record=True)
    console.print(draw(shown, width))
    return console.export_text()


# --- what is shown


def test_one_sees_the_killed_job_move_from_lane_to_lane() -> None:
    first = running(jobs.LONG_EXPORT, "node-1", 2)
    quick = ended(jobs.HEARTBEAT, "node-2", 2, 2, 2, fire_id=7)
    failed = ended(jobs.FLAKY_IMPORT, "node-2", 3, 3, 3, fire_id=8, state="FAILED")
    shown = scene(1)
    shown.lengthen_lanes([])
    shown.running = (first,)
    shown.lengthen_lanes([quick])
    shown.lengthen_lanes([failed, quick])
    shown.alive, shown.killed = ["node-2"], {"node-1": at(4)}
    shown.lengthen_lanes([])
    shown.lengthen_lanes([])
    again = running(jobs.LONG_EXPORT, "node-2", 7, group=RECOVERING_JOBS, fire_id=2)
    shown.running, shown.cluster = (first, again), CheckIn(at(10), (node("node-2", 10),))
    shown.lengthen_lanes([])
    assert "".join(letter for letter, _ in shown.lanes["node-1"]) == "·EE✗··"
    assert "".join(letter for letter, _ in shown.lanes["node-2"]) == "·hi··E"
    assert [style for _, style in shown.lanes["node-2"]][1:3] == ["ended", "failed"]
    assert shown.lanes["node-2"][-1] == ("E", "again")
    assert "·EE✗··" in picture(shown)
    assert shown.narrate() == "node-2 runs long-export again, which node-1 left"


def test_each_phase_has_its_sentence() -> None:
    quiet = scene(1)
    assert quiet.narrate() == "2 nodes share one schedule: there is no leader"
    export = scene(3, live=(running(jobs.LONG_EXPORT, "node-1", 2),))
    assert export.narrate() == "node-1 runs long-export and will be killed in 1.0 s"
    silent = replace(scene(5), alive=["node-2"], killed={"node-1": at(4)})
    silent = replace(silent, cluster=CheckIn(at(5), (node("node-1", 4), node("node-2", 5))))
    assert silent.narrate() == "node-1 is silent: 2.0 s to its removal by the others"
    thumbnail = ended(jobs.THUMBNAILS, "node-1", 1, 1, 1.1, fire_id=1)
    burst = replace(quiet, burst_due=at(1), history=[thumbnail] * 59)
    assert burst.narrate().startswith("burst: 60 thumbnails are due")
    burst.history.append(thumbnail)
    assert burst.narrate() == "2 nodes share one schedule: there is no leader"


def test_the_picture_has_all_its_parts_and_fits_a_narrow_terminal() -> None:
    failed = ended(jobs.FLAKY_IMPORT, "node-1", 1, 1, 1.1, fire_id=1, state="FAILED")
    shown = replace(scene(4, history=(failed,)), notes=["killed node-1 (pid 11) with SIGKILL"])
    text = picture(shown)
    for part in ("● node-1", "fails on purpose", "a burst", "killed node-1", "q quit", "4 s of 20 s"):
        assert part in text
    for width in (80, 94, 112, 120):
        lines = picture(shown, width).splitlines()
        assert all(len(line) <= width for line in lines)
        assert len(lines) < 24
        [header] = [line for line in lines if line.startswith("job ")]
        assert header.rstrip().endswith("failed"), "the last column is whole"


@pytest.mark.parametrize("kept", [True, False])
def test_the_last_panel_says_what_was_found_and_three_commands(kept: bool) -> None:
    summary = Summary(3, 9, {"heartbeat": 9}, lost=0 if kept else 1)
    console = Console(width=120, file=io.StringIO(), record=True)
    LiveScreen(console).summary(summary)
    out = io.StringIO()
    PlainLines(out).summary(summary)
    for text in (console.export_text(), out.getvalue()):
        assert ("every promise was kept" in text) == kept
        assert ("A PROMISE WAS BROKEN" in text) == (not kept)
        assert all(command in text for command, _ in NEXT_STEPS)


# --- in a terminal


class Terminal:
    """A pseudo-terminal with the demo in it."""

    def __init__(self, *arguments: str) -> None:
        self._master, self._slave = pty.openpty()
        ioctl(self._slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self.settings = termios.tcgetattr(self._slave)
        self.output = b""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "quartzpy", "demo", *arguments],
            cwd=ROOT,
            env={**os.environ, "TERM": "xterm-256color"},
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
            # Ctrl-C makes a signal only for the session whose controlling terminal this is.
            preexec_fn=lambda: os.login_tty(os.dup(0)),
        )

    def press(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def read_until(self, found: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 90
        while not found():
            assert time.monotonic() < deadline, self.output[-4_000:].decode(errors="replace")
            if select.select([self._master], [], [], 0.1)[0]:
                self.output += os.read(self._master, 65_536)

    def shows(self, text: str) -> Callable[[], bool]:
        seen = len(self.output)
        return lambda: text.encode() in self.output[seen:]

    def ended(self) -> bool:
        return self.process.poll() is not None

    def restored(self) -> bool:
        return termios.tcgetattr(self._slave) == self.settings

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(30)
        os.close(self._master)
        os.close(self._slave)


@pytest.mark.cluster
@pytest.mark.parametrize("leaving", [b"q", b"\x03"], ids=["q", "ctrl-c"])
def test_keys_work_and_the_terminal_is_as_it_was_afterwards(postgres_dsn: str, leaving: bytes) -> None:
    terminal = Terminal("--dsn", postgres_dsn, "--nodes", "1", "--duration", "60s")
    try:
        terminal.read_until(terminal.shows("share one schedule"))
        assert not terminal.restored(), "keys are read one by one"
        if leaving == b"q":
            terminal.press(b"k")
            terminal.read_until(terminal.shows("the last node is not killed"))
            terminal.press(b"n")
            terminal.read_until(terminal.shows("node-2 is being started"))
        terminal.press(leaving)
        terminal.read_until(terminal.ended)
        terminal.read_until(lambda: b"What to try next" in terminal.output)
        assert terminal.process.returncode == 0
        assert terminal.restored()
        entered, left = terminal.output.index(b"\x1b[?1049h"), terminal.output.rindex(b"\x1b[?1049l")
        assert entered < left < terminal.output.index(b"every promise was kept"), "the last panel stays on the screen"
        assert re.search(rb"\x1b\[\?25h", terminal.output[left - 50 :]), "the cursor is visible again"
    finally:
        terminal.close()


def test_without_rich_there_are_plain_lines_and_the_way_to_the_screen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    assert isinstance(cli_demo.chosen_audience(json_output=False), LiveScreen)
    monkeypatch.delitem(sys.modules, "quartzpy.demo.screen")
    monkeypatch.setitem(sys.modules, "rich.console", None)
    assert isinstance(cli_demo.chosen_audience(json_output=False), PlainLines)
    assert f"the live screen needs {install_line('embedded')}" in capsys.readouterr().err
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(cli_demo.chosen_audience(json_output=False), PlainLines)
    assert isinstance(cli_demo.chosen_audience(json_output=True), JsonLines)


def test_the_first_signal_ends_the_show_and_the_second_one_everything() -> None:
    ended: list[str] = []
    handler = cli_demo.interrupting(lambda: ended.append("early"))
    handler(2, None)
    assert ended == ["early"]
    with pytest.raises(KeyboardInterrupt):
        handler(2, None)
    assert ended == ["early"]


# --- pictures


def test_the_recorded_pictures_are_whole_and_load_nothing_from_elsewhere() -> None:
    pictures = sorted((ROOT / "docs" / "img").glob("*.svg"))
    assert {"demo.svg", "summary.svg"} <= {path.name for path in pictures}
    for path in pictures:
        text = path.read_text()
        hosts = set(re.findall(r"https?://([^/\"]+)", text))
        assert hosts <= {"www.w3.org"}, f"{path.name} loads from {hosts}"
        assert text.startswith("<svg")
        assert text.endswith("</svg>\n")
    assert "long-export" in (ROOT / "docs" / "img" / "demo.svg").read_text()
