"""Follow the pages for those who come from elsewhere to the letter, in fresh directories, and time each step.

    python -m tools.moves                     # cron, cloud-scheduler and cronjob
    python -m tools.moves cron --keep

The files and the commands of a page are taken in their order. `pip install '.[...]'` installs this checkout.
api.example.com is a server of this process, `crontab -l` prints the crontab of the page, and the page of
`quartzpy serve` is at any free port; nothing else differs.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from quartzpy.texts import number_of

ROOT = Path(__file__).resolve().parents[1]
PAGES = {
    "cron": "docs/how-to/from-cron.md",
    "cloud-scheduler": "docs/how-to/from-cloud-scheduler.md",
    "cronjob": "docs/how-to/from-cronjob.md",
}
HOST = "api.example.com"
_BLOCK = re.compile(
    r"^```(?P<kind>sh|yaml|python|text)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<text>.*?)^```", re.S | re.M
)
PATIENCE = 300.0
"""The longest time, in seconds, of one step."""


class Receiver(ThreadingHTTPServer):
    """Stands for the server that the jobs call, and counts the calls."""

    def __init__(self) -> None:
        self.calls = 0
        super().__init__(("127.0.0.1", 0), _Answers)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Answers(BaseHTTPRequestHandler):
    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        assert isinstance(self.server, Receiver)
        self.server.calls += 1
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    do_GET = do_POST = _answer  # noqa: N815 - names of the base class

    def log_message(self, *args: object) -> None: ...


@dataclass
class Move:
    """One page that is followed, in a directory of its own."""

    directory: Path
    receiver: Receiver
    installed: Path | None = None
    """An environment with quartzpy, in place of the one that the page makes."""
    steps: list[tuple[str, float]] = field(default_factory=list)
    _server: subprocess.Popen[str] | None = None
    _output: list[str] = field(default_factory=list)

    def follow(self, page: str) -> None:
        """Take the files and the commands of a page in their order."""
        try:
            for block in _BLOCK.finditer(page):
                if block["title"]:
                    self._write(block["title"], block["text"])
                elif block["kind"] == "sh":
                    self._run(block["text"])
            self._end()
        finally:
            if self._server is not None:
                self._server.kill()

    def timed(self, name: str, action: Callable[[], object]) -> None:
        began, used = time.monotonic(), _used()
        action()
        self.steps.append((name, time.monotonic() - began))
        print(f"{self.steps[-1][1]:8.1f} s {_used() - used:8.1f} s  {name}", flush=True)

    def _write(self, name: str, text: str) -> None:
        if name.startswith("/"):
            return
        if HOST in text:
            text = text.replace(f"https://{HOST}", self.receiver.url).replace(f"@{HOST}", f"@{self.receiver.url}")
            text += "networks: [127.0.0.0/8]\n"
        (self.directory / name).write_text(text)
        if name == "crontab":
            program = self.directory / "bin" / "crontab"
            program.parent.mkdir()
            program.write_text(f"#!/bin/sh\nexec cat {self.directory / name}\n")
            program.chmod(0o755)
        if self._server is not None and name == "schedule.yaml":
            # The modules of its functions come next on the page, and it is read without them at first.
            return
        if self._server is not None:
            self.timed(f"{name} is there, and schedule.yaml is taken over", self._touched)

    def _touched(self) -> None:
        (self.directory / "schedule.yaml").touch()
        self._read_until("schedule.yaml: reloaded:")

    def _run(self, text: str) -> None:
        *before, last = text.strip().splitlines()
        if last.startswith("quartzpy serve "):
            self._serve("\n".join([*before, f"exec {last} --port 0"]))
            return
        if last.startswith("pip install") and self.installed is not None:
            return
        self.timed(
            last, lambda: subprocess.run(self._shell(text), **self._surroundings(), check=True, timeout=PATIENCE)
        )  # type: ignore[call-overload]

    def _serve(self, line: str) -> None:
        def start() -> None:
            self._server = subprocess.Popen(
                self._shell(line),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                bufsize=1,
                **self._surroundings(),  # type: ignore[call-overload]
            )
            self._read_until("the page is http://")

        self.timed("quartzpy serve, until its page is there", start)
        self.timed("until the first job has run", lambda: self._read_until(" is SUCCEEDED"))

    def _end(self) -> None:
        server = self._server
        assert server is not None
        assert server.stdout is not None

        def stop() -> None:
            server.send_signal(signal.SIGINT)
            server.stdout.read()  # type: ignore[union-attr]
            assert server.wait(PATIENCE) == 0

        self.timed("Ctrl-C, until it has ended", stop)

    def _read_until(self, text: str) -> None:
        assert self._server is not None
        assert self._server.stdout is not None
        for line in self._server.stdout:
            self._output.append(line)
            if text in line:
                return
        raise SystemExit(f"{text!r} is not in the output:\n{''.join(self._output)}")

    def _shell(self, text: str) -> list[str]:
        return ["/bin/sh", "-ec", re.sub(r"pip install '(\.|quartzpy)\[", f"pip install -q '{ROOT}[", text)]

    def _surroundings(self) -> dict[str, object]:
        variables = {name: value for name, value in os.environ.items() if not name.startswith(("QUARTZPY_", "PYTHON"))}
        programs = [(self.installed or self.directory / ".venv") / "bin", self.directory / "bin"]
        path = os.pathsep.join([*map(str, programs), variables["PATH"]])
        return {"cwd": self.directory, "env": variables | {"PATH": path, "PYTHONUNBUFFERED": "1"}}


def _used() -> float:
    """Return the processor time of the processes that have ended, which does not depend on what else runs."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def follow(name: str, installed: Path | None = None, *, keep: bool = False) -> Move:
    """Follow one of the pages, and return what it took."""
    directory = Path(tempfile.mkdtemp(prefix=f"quartzpy-{name}-"))
    # PostgreSQL's own user has to reach it.
    directory.chmod(0o755)
    print(f"{name}: {PAGES[name]} in {directory}; seconds, and those of processors in processes that ended", flush=True)
    used = _used()
    with Receiver() as receiver:
        move = Move(directory, receiver, installed)
        try:
            move.follow((ROOT / PAGES[name]).read_text())
        finally:
            receiver.shutdown()
            if not keep:
                shutil.rmtree(directory, ignore_errors=True)
        total = sum(seconds for _, seconds in move.steps)
        print(
            f"{total:8.1f} s {_used() - used:8.1f} s  in all, {number_of(receiver.calls, 'call')} of {HOST}\n",
            flush=True,
        )
    return move


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="*", help=f"{', '.join(PAGES)}; by default all")
    parser.add_argument("--keep", action="store_true", help="Leave the directories.")
    parser.add_argument("--installed", type=Path, help="Use this virtual environment, and install nothing.")
    options = parser.parse_args()
    for name in options.name or PAGES:
        if name not in PAGES:
            sys.exit(f"{name}: not one of {', '.join(PAGES)}")
        follow(name, options.installed, keep=options.keep)


if __name__ == "__main__":
    main()
