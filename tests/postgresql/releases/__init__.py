"""The release before this one, as files: its wheel, and its tables as a dump that was taken under load.

`python -m tests.postgresql.releases` writes both, of the state that is released (docs/releasing.md).
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
WHEEL = HERE / "previous.whl"
DUMP = HERE / "previous.sql.gz"
NAME = "two"
"""The scheduler of the dump, and of the nodes."""
_NODE = """
import sys
from quartzpy import Scheduler, job

@job(type_name="tick")
def tick():
    pass

node = Scheduler(sys.argv[1], name="two", instance_id=sys.argv[2], idle_wait="200ms")
node.start()
print("started", flush=True)
sys.stdin.read()
node.shutdown()
"""
Start = Callable[[Path, str, str], "subprocess.Popen[str]"]


def unpacked(place: Path) -> Path:
    """The directory with the package of the release before this one."""
    with zipfile.ZipFile(WHEEL) as wheel:
        wheel.extractall(place)
    return place


def command(release: Path, *arguments: str) -> str:
    """Run a command of a release; return its output."""
    ran = subprocess.run(
        [sys.executable, "-m", "quartzpy", *arguments],
        cwd=release,
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return ran.stdout


@contextmanager
def nodes(place: Path) -> Iterator[Start]:
    """Give a function that starts a node of a release in a process of its own."""
    script = place / "node.py"
    script.write_text(_NODE)
    with ExitStack() as stack:

        def start(release: Path, dsn: str, name: str) -> subprocess.Popen[str]:
            node = stack.enter_context(
                subprocess.Popen(
                    [sys.executable, str(script), dsn, name],
                    env={"PYTHONPATH": str(release)},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            stack.callback(node.kill)
            assert node.stdout is not None
            assert node.stdout.readline() == "started\n"
            return node

        yield start
