"""Records the pictures of the documentation by real runs: `python docs/img/record.py [demo|first-program]`.

`demo.svg` is the demo's screen at the moment when a node has died and another one runs its job again; `summary.svg` its
last panel; `first-program.svg` the output of the README's first program.
"""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from datetime import timedelta
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from rich.console import Console
from rich.text import Text

from quartzpy.demo import jobs
from quartzpy.demo.audit import Summary
from quartzpy.demo.screen import draw, draw_summary
from quartzpy.demo.stage import run_demo
from quartzpy.demo.views import Scene
from quartzpy.embedded import EmbeddedPostgres
from quartzpy.store.postgresql import migrations

ROOT = Path(__file__).resolve().parents[2]
PICTURES = Path(__file__).resolve().parent
WIDTH = 112
PROGRAM_SECONDS = 6.0


def recording() -> Console:
    """Return a console that keeps what is printed on it."""
    return Console(width=WIDTH, file=io.StringIO(), record=True, force_terminal=True, color_system="truecolor")


def save(console: Console, name: str, title: str) -> None:
    """Write a picture. It uses a font of the reader's, and nothing from another host."""
    svg = console.export_svg(title=title, unique_id=f"quartzpy-{name}")
    svg = re.sub(r"@font-face\s*\{.*?\}", "", svg, flags=re.S).replace("Fira Code", "ui-monospace, Menlo, Consolas")
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.S)
    (PICTURES / f"{name}.svg").write_text("\n".join(line.rstrip() for line in svg.splitlines() if line.strip()) + "\n")


class Camera:
    """Watches the demo and keeps the scene in which the interrupted job has run again for a while."""

    def __init__(self) -> None:
        self.best: Scene | None = None
        self.result: Summary | None = None

    def opened(self) -> AbstractContextManager[None]:
        return nullcontext()

    def event(self, name: str, text: str, **facts: Any) -> None:
        print(text)

    def scene(self, scene: Scene) -> None:
        export = scene.running_job(jobs.LONG_EXPORT)
        if scene.burst_due is None and export is not None and export.recovering:
            # The demo goes on in the same scene.
            self.best = deepcopy(scene)

    def summary(self, summary: Summary) -> None:
        self.result = summary


def record_demo() -> None:
    """Run the demo, and draw its best scene and its last panel."""
    camera = Camera()
    run_demo(camera, SimpleQueue(), nodes=3, duration=timedelta(seconds=22), dsn=None, keep=False)
    assert camera.best is not None
    assert camera.result is not None
    console = recording()
    console.print(draw(camera.best, WIDTH))
    save(console, "demo", "quartzpy demo")
    console = recording()
    console.print(draw_summary(camera.result))
    save(console, "summary", "quartzpy demo")


def record_first_program() -> None:
    """Run the README's first program on a database of its own until Ctrl-C, and draw what it printed.

    Its job runs every two seconds here, as nobody would wait until two o'clock.
    """
    block = re.search(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.S | re.M)
    assert block is not None
    text, replaced = re.subn(r'"0 0 2 \? \* MON-FRI"', '"0/2 * * * * ?"', block[1])
    assert replaced == 1, "the README's first program has another schedule"
    # As a server in production: a node warns of one that is not.
    durable = {"fsync": "on", "full_page_writes": "on"}
    with EmbeddedPostgres.temporary(settings=durable) as server, tempfile.TemporaryDirectory() as directory:
        migrations.upgrade(server.dsn)
        program = Path(directory) / "app.py"
        program.write_text(re.sub(r"postgresql[^\"]*", server.dsn, text))
        process = subprocess.Popen(
            [sys.executable, "-u", program.name],
            cwd=directory,
            env={**os.environ, "QUARTZPY_URL": server.dsn},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        timer = threading.Timer(PROGRAM_SECONDS, process.send_signal, [signal.SIGINT])
        timer.start()
        output, _ = process.communicate(timeout=60)
        timer.cancel()
        if "Traceback" in output or process.returncode:
            raise SystemExit(f"the first program ended with status {process.returncode}:\n{output}")
        output = output.replace(server.dsn, "postgresql+psycopg://app@db/app").replace(f":{server.port}", "")
    console = recording()
    console.print(Text.assemble(("$ ", "bold green"), "python app.py"))
    console.print(Text(output.rstrip()))
    save(console, "first-program", "python app.py")


if __name__ == "__main__":
    wanted = sys.argv[1:] or ["demo", "first-program"]
    if "demo" in wanted:
        record_demo()
    if "first-program" in wanted:
        record_first_program()
