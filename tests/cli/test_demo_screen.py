"""What the demo shows: lanes, narration, delays by their cause, and a terminal that is as it was before."""

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
from quartzpy.demo.screen import LiveScreen, draw, lane
from quartzpy.demo.spans import OURS, explain_delay, subtract
from quartzpy.demo.story import DEAD_NODE, OWN_JOB, Burst, Memory, Scene, describe_delay, narrate
from quartzpy.demo.views import NEXT_STEPS, JsonLines, PlainLines
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


def scene(seconds: float, memory: Memory | None = None, *, live: tuple[RunningRecord, ...] = ()) -> Scene:
    memory = memory or Memory()
    return Scene(
        elapsed=seconds,
        duration=20,
        now=at(seconds),
        alive={"node-1": 11, "node-2": 12},
        killed={},
        cluster=CheckIn(at(seconds), (node("node-1", seconds), node("node-2", seconds))),
        triggers=(),
        running=live,
        history=list(memory.executions.values()),
        lanes=memory.lanes(live, at(seconds)),
        delays=memory.delays({}),
    )


def picture(shown: Scene, width: int = 120) -> str:
    console = Console(width=width, file=io.StringIO(), record=True)
    console.print(draw(shown, width))
    return console.export_text()


# --- delays


def test_a_delay_is_divided_and_no_moment_counts_twice() -> None:
    parts = explain_delay((at(0), at(10)), {"a": [(at(0), at(4))], "b": [(at(2), at(6)), (at(8), at(20))]})
    assert {cause: part.total_seconds() for cause, part in parts.items()} == {"a": 4, "b": 4, OURS: 2}
    assert explain_delay((at(1), at(0)), {"a": [(at(0), at(9))]})[OURS] == timedelta(), "it fired early, so to speak"
    assert subtract([(at(0), at(3))], (at(1), at(2))) == [(at(0), at(1)), (at(2), at(3))]


def test_waiting_for_its_own_job_and_for_a_dead_node_is_not_the_schedulers_delay() -> None:
    memory = Memory()
    first = ended(jobs.SERIAL_REPORT, "node-1", 0, 0.01, 0.7, fire_id=1)
    second = ended(jobs.SERIAL_REPORT, "node-1", 0, 0.72, 1.4, fire_id=2)
    memory.see([second, first])
    parts = memory.delay(second, {})
    assert (parts[OWN_JOB], parts[OURS]) == (timedelta(seconds=0.69), timedelta(seconds=0.03))
    assert describe_delay(parts) == "waited 690 ms for its own job, 30 ms ours"
    memory.removed["node-2"] = at(6)
    freed = ended(jobs.HEARTBEAT, "node-1", 4, 6.1, 6.2, fire_id=3)
    parts = memory.delay(freed, {"node-2": at(3)})
    assert (parts[DEAD_NODE], parts[OURS]) == (timedelta(seconds=2), timedelta(seconds=0.1))


def test_a_serial_job_that_was_killed_blocks_in_the_name_of_the_dead_node() -> None:
    memory = Memory(removed={"node-2": at(6)})
    killed = ended(jobs.SERIAL_REPORT, "node-2", 2, 2, 6, fire_id=1, state="TERMINATED")
    after = ended(jobs.SERIAL_REPORT, "node-1", 2, 6.5, 7, fire_id=2)
    memory.see([after, killed])
    parts = memory.delay(after, {"node-2": at(3)})
    assert [parts[cause].total_seconds() for cause in (OWN_JOB, DEAD_NODE, OURS)] == [1, 3, 0.5]


# --- what is shown


def test_one_sees_the_killed_job_move_from_lane_to_lane() -> None:
    memory = Memory()
    before = (running(jobs.LONG_EXPORT, "node-1", 2),)
    memory.see_kill("node-1", before, at(4))
    again = running(jobs.LONG_EXPORT, "node-2", 7, group=RECOVERING_JOBS, fire_id=2)
    shown = replace(scene(10, memory, live=(*before, again)), alive={"node-2": 12}, killed={"node-1": at(4)})
    assert lane(shown, "node-1", 20).plain == "··EE✗·····" + " " * 10, "it was killed in the fifth second"
    assert lane(shown, "node-2", 20).plain == "·······EEE" + " " * 10
    assert narrate(replace(shown, cluster=CheckIn(at(10), (node("node-2", 10),)))) == (
        "node-2 runs long-export again, which node-1 left"
    )


def test_each_phase_has_its_sentence() -> None:
    quiet = scene(1)
    assert narrate(quiet) == "2 nodes share one schedule: there is no leader"
    export = scene(3, live=(running(jobs.LONG_EXPORT, "node-1", 2),))
    assert narrate(export) == "node-1 runs long-export and will be killed in 1.0 s"
    silent = replace(scene(5), alive={"node-2": 1}, killed={"node-1": at(4)})
    silent = replace(silent, cluster=CheckIn(at(5), (node("node-1", 4), node("node-2", 5))))
    assert narrate(silent) == "node-1 is silent: 2.0 s to its removal by the others"
    assert narrate(replace(quiet, burst=Burst(60, {"node-1": 3}, 0.4))).startswith("burst: 60 thumbnails are due")
    assert narrate(replace(quiet, burst=Burst(3, {"node-1": 3}, 0.4))) == "the burst is over: 3 thumbnails in 0.4 s"
    assert "paused" in narrate(replace(quiet, paused=True))


def test_the_picture_has_all_its_parts_and_fits_a_narrow_terminal() -> None:
    memory = Memory()
    memory.see([ended(jobs.FLAKY_IMPORT, "node-1", 1, 1, 1.1, fire_id=1, state="FAILED")])
    shown = replace(
        scene(4, memory),
        burst=Burst(60, {"node-1": 20, "node-2": 14}, 0.4),
        notes=("killed node-1 (pid 11) with SIGKILL",),
        why=None,
    )
    text = picture(shown)
    for part in (
        "● node-1",
        "fails on purpose",
        "34 of 60 thumbnails",
        "node-1 20, node-2 14",
        "killed node-1",
        "q quit",
    ):
        assert part in text
    why = picture(replace(shown, why=("demo.every-2s", ["It is paused."])))
    assert "why: demo.every-2s" in why
    assert "It is paused." in why
    for width in (80, 94, 112, 120):
        lines = picture(shown, width).splitlines()
        assert all(len(line) <= width for line in lines)
        [header] = [line for line in lines if line.startswith("job ")]
        assert header.rstrip().endswith("ours"), "the last column is whole"
        assert ("dead node" in header) == (width >= 112)


def test_a_pause_of_the_spectator_is_remembered_with_its_ends() -> None:
    memory = Memory()
    assert memory.toggle_pause(at(1))
    assert memory.pauses_until(at(2)) == [(at(1), at(2))]
    assert not memory.toggle_pause(at(3))
    assert memory.pauses_until(at(9)) == [(at(1), at(3))]


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
            terminal.press(b"p")
            terminal.read_until(terminal.shows("you paused all triggers"))
            terminal.press(b"p")
            terminal.read_until(terminal.shows("you resumed all triggers"))
            terminal.press(b"k")
            terminal.read_until(terminal.shows("the last node is not killed"))
            terminal.press(b"w")
            terminal.read_until(terminal.shows("why: demo."))
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
    assert "the live screen needs pip install 'quartzpy[embedded]'" in capsys.readouterr().err
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
