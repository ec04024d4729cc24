"""The first commands in worlds that strangers have: `python -m tests.worlds.first_use [NAME...] [--list]`.

In each world the checkout is installed into an environment of its own, as the README says. Then the demo, `quartzpy
serve` (killed with -9 and started again), the tutorial and a program with `EmbeddedPostgres("data")` run there, as the
user and with the environment of that world. Prints a table; the status is 1 if something failed. Worlds of other users
and file systems need root. Before the world `root-0700`, the copies of PostgreSQL and the databases of demos that root
has on this machine are removed.
"""

from __future__ import annotations

import argparse
import functools
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.docs.code_blocks import write_files
from tests.worlds.installed import python

ROOT = Path(__file__).resolve().parents[2]
EXTRAS = "embedded,yaml,dashboard,http"
LIMIT = 180.0
"""The longest wait for a step, in seconds."""
SHARED_COPIES = Path("/var/lib/quartzpy-embedded"), Path("/var/tmp/quartzpy")
SCHEDULE = "jobs:\n  tick:\n    command: date +%s.%N >> ticks\n    schedule: every 1s\n"
UNNAMED = 12345


@dataclass(frozen=True)
class World:
    """Where, as whom and with what somebody types the first command."""

    title: str
    directory: str = "home"
    mode: int = 0o755
    uid: int = 0
    variables: dict[str, str | None] = field(default_factory=dict)
    """Variables of the environment, None for those that are missing; `{here}` is the directory."""
    before: str = ""
    """Commands of a shell of root, before the user is changed."""
    python: str = ""
    resolution: str = "highest"
    closed_home: bool = False


def _someone() -> int:
    return pwd.getpwnam("games").pw_uid


def worlds() -> dict[str, World]:
    user, nobody = _someone(), pwd.getpwnam("nobody").pw_uid
    return {
        "root": World("root, a directory of mode 0755"),
        "root-0700": World("root, a directory of mode 0700", mode=0o700),
        "user": World("an ordinary user", uid=user),
        "read-only-home": World("a user whose HOME is read-only", uid=user, closed_home=True),
        "no-home": World("a user without HOME", uid=user, variables={"HOME": None}),
        "no-name": World("a user id without an entry in /etc/passwd", uid=UNNAMED, variables={"HOME": "/"}),
        "nobody": World("the user nobody, HOME does not exist", uid=nobody, variables={"HOME": "/nonexistent"}),
        "spaces": World("a path with spaces and umlauts", directory="Müllers Büro, ş"),
        "long-tmpdir": World("TMPDIR of more than 108 letters", variables={"TMPDIR": "{here}/" + "t" * 110}),
        "few-files": World("ulimit -n 256", before="ulimit -n 256"),
        "no-shm": World("no /dev/shm", before="umount -l /dev/shm"),
        "small-tmp": World("/tmp of 8 MB", before="mount -t tmpfs -o size=8m,mode=1777 tmpfs /tmp"),
        "lang-c": World("LANG=C", variables={"LANG": "C", "LC_ALL": "C"}),
        "turkish": World("LANG=tr_TR.UTF-8", variables={"LC_ALL": "tr_TR.UTF-8", "LOCPATH": "{locales}"}),
        "lowest": World("the lowest versions that pyproject.toml admits, Python 3.11", resolution="lowest-direct"),
        "python3.12": World("Python 3.12", python="3.12"),
        "lowest-3.12": World("the lowest versions, Python 3.12", python="3.12", resolution="lowest-direct"),
        "python3.13": World("Python 3.13", python="3.13"),
    }


class Failure(Exception):
    """A step failed; the text is what a table can show."""


@dataclass
class Place:
    """A world on this machine: its directory, and how a command runs there."""

    world: World
    here: Path
    locales: Path

    @property
    def environment(self) -> dict[str, str]:
        environment = {"PATH": f"{self.here}/.venv/bin:/usr/bin:/bin", "HOME": f"{self.here}", "LANG": "C.UTF-8"}
        for name, value in self.world.variables.items():
            if value is None:
                environment.pop(name, None)
            else:
                environment[name] = value.format(here=self.here, locales=self.locales)
        return environment

    def command(self, *command: str) -> list[str]:
        if self.world.uid:
            change = ["setpriv", f"--reuid={self.world.uid}", f"--regid={self.world.uid}", "--clear-groups"]
            command = (*change, *command)
        if not self.world.before:
            return list(command)
        return ["unshare", "--mount", "sh", "-c", f'{self.world.before} && exec "$@"', "sh", *command]

    def start(self, *command: str, **more: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(*command),
            cwd=self.here / "work",
            env=self.environment | more,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )

    def run(self, *command: str, **more: str) -> str:
        """Run a command to its end, and return its output."""
        process = self.start(*command, **more)
        try:
            output, _ = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            raise Failure(f"no end after {LIMIT:.0f} s: {_last(output)}") from None
        if process.returncode:
            raise Failure(f"status {process.returncode}: {_last(output)}")
        return output

    def ticks(self) -> list[float]:
        path = self.here / "work" / "ticks"
        return [float(line) for line in path.read_text().split()] if path.exists() else []


def _last(output: str) -> str:
    lines = [line for line in output.strip().splitlines() if line.strip()]
    causes = [line for line in lines if re.search(r"Error|error:|(overlaps|lost|duplicated) .* [1-9]", line)]
    return (causes or lines or ["no output"])[-1].strip()[:300]


@contextmanager
def _running(place: Place, *command: str, **more: str) -> Iterator[subprocess.Popen[str]]:
    process = place.start(*command, **more)
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def _wait(what: str, condition: Callable[[], object], process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + LIMIT
    while not condition():
        if process.poll() is not None:
            raise Failure(f"status {process.returncode} before {what}: {_last(process.communicate()[0])}")
        if time.monotonic() > end:
            os.killpg(process.pid, signal.SIGKILL)
            raise Failure(f"{what}: not within {LIMIT:.0f} s: {_last(process.communicate()[0])}")
        time.sleep(0.1)


def _ended(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=LIMIT)
    if process.returncode:
        raise Failure(f"status {process.returncode} after SIGTERM: {_last(output)}")


def install(place: Place) -> str:
    world = place.world
    interpreter = python(world.python) if world.python else None
    if world.uid:
        interpreter = "/usr/bin/python3"  # that of root may be where others cannot reach it
    uv = [sys.executable, "-m", "uv", "--quiet"]
    into = ["--python", f"{place.here}/.venv/bin/python", "--link-mode=copy", f"--resolution={world.resolution}"]
    begun = time.monotonic()
    for command in (
        [*uv, "venv", "--python", str(interpreter or sys.executable), f"{place.here}/.venv"],
        [*uv, "pip", "install", *into, f"{ROOT}[{EXTRAS}]"],
    ):
        done = subprocess.run(command, check=False, text=True, capture_output=True)
        if done.returncode:
            raise Failure(f"status {done.returncode}: {_last(done.stderr)}")
    return f"{time.monotonic() - begun:.0f} s"


def demo(place: Place) -> str:
    place.run("quartzpy", "demo")
    return "ok"


def serve(place: Place) -> str:
    """How long it takes until the first run, and again after a kill, when there is no database to make."""
    (place.here / "work" / "schedule.yaml").write_text(SCHEDULE)
    command = ("quartzpy", "serve", "schedule.yaml", "--data", "data", "--port", "0")
    took = []
    for is_last in (False, True):
        before = len(place.ticks())
        begun = time.time()
        with _running(place, *command) as process:
            _wait("3 runs", functools.partial(_has_run, place, before + 3), process)
            # A command that was running may have ended after the kill.
            took.append(next(tick for tick in place.ticks() if tick > begun + 1) - begun)
            if is_last:
                _ended(process)
            else:
                os.killpg(process.pid, signal.SIGKILL)
    text = f"{took[0]:.1f} s, {took[1]:.1f} s"
    if took[1] > took[0] + 8:
        raise Failure(f"after the kill it waits: {text}")
    return f"ok, {text}"


def _has_run(place: Place, count: int) -> bool:
    return len(place.ticks()) >= count


def tutorial(place: Place) -> str:
    """The files of the first lesson: two nodes share the instants, and one that is killed is replaced."""
    directory = place.here / "work"
    write_files("tutorial/first-cluster.md", directory)
    url = directory / "database-url"
    url.unlink(missing_ok=True)
    with _running(place, "python", "database.py") as database:
        _wait("the database", lambda: url.exists() and url.read_text(), database)
        variable = {"QUARTZPY_URL": url.read_text()}
        place.run("quartzpy", "db", "upgrade", **variable)
        with _running(place, "python", "app.py", **variable) as first, _running(place, "python", "app.py", **variable):
            # Either node may take all instants.
            _wait("an execution", lambda: "SUCCEEDED" in place.run("quartzpy", "executions", **variable), first)
        _ended(database)
    return "ok"


def embedded(place: Place) -> str:
    """The program of docs/database.md, twice: it keeps its data."""
    directory = place.here / "work" / "program"
    write_files("database.md", directory)
    text = (directory / "local.py").read_text().replace('every("10s")', 'every("1s")')
    (directory / "local.py").write_text(text)
    for _ in range(2):
        with _running(place, "sh", "-c", "cd program && exec python local.py") as process:
            assert process.stdout is not None
            lines = list[str]()
            for line in process.stdout:
                lines.append(line)
                if "collected" in line:
                    break
            else:
                raise Failure(_last("".join(lines)))
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=LIMIT)
            if process.returncode:
                raise Failure(f"status {process.returncode} after SIGINT")
    return "ok"


STEPS: dict[str, Callable[[Place], str]] = {
    "install": install,
    "demo": demo,
    "serve, kill -9, again": serve,
    "tutorial": tutorial,
    "EmbeddedPostgres": embedded,
}


def lacks(world: World) -> str | None:
    """Return what a world needs and this machine does not have."""
    if os.geteuid() != 0 and (world.uid or world.before.startswith(("mount", "umount"))):
        return "root"
    if world.python and python(world.python) is None:
        return f"Python {world.python}"
    if world.uid and not os.access("/usr/bin/python3", os.X_OK):
        return "a Python for all users, /usr/bin/python3"
    return None


def visit(world: World, base: Path) -> dict[str, str]:
    """Do all steps in a world; a step that failed says why."""
    # What an earlier world has left would hide what is missing where the programs cannot be reached.
    for directory in SHARED_COPIES if os.geteuid() == 0 == world.uid and world.mode != 0o755 else ():
        shutil.rmtree(directory, ignore_errors=True)
    here = base / world.directory
    (here / "work" / "program").mkdir(parents=True)
    locales = base / "locales"
    if "LOCPATH" in world.variables:
        locales.mkdir()
        target = locales / "tr_TR.UTF-8"
        subprocess.run(["localedef", "-i", "tr_TR", "-f", "UTF-8", target], check=False, capture_output=True)
    place = Place(world, here, locales)
    if (temporary := place.environment.get("TMPDIR")) is not None:
        Path(temporary).mkdir()
    results = {}
    for name, step in STEPS.items():
        try:
            results[name] = step(place)
        except Failure as failure:
            results[name] = f"**{failure}**"
        if name == "install":
            _hand_over(place)
        print(f"  {name}: {results[name]}", flush=True)
        if name == "install" and "**" in results[name]:
            return results | dict.fromkeys(list(STEPS)[1:], "")
    return results


def _hand_over(place: Place) -> None:
    for directory in (place.here / "work", place.here / "work" / "program"):
        directory.chmod(0o755)
        os.chown(directory, place.world.uid, place.world.uid)
    if place.world.uid:
        os.chown(place.here, place.world.uid, place.world.uid)
    place.here.chmod(0o555 if place.world.closed_home else place.world.mode)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.worlds.first_use", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="the worlds; all by default")
    parser.add_argument("--list", action="store_true", help="say which worlds there are, and run nothing")
    options = parser.parse_args(arguments)
    every = worlds()
    if unknown := set(options.names) - set(every):
        parser.error(f"no world is named {', '.join(sorted(unknown))}; there are {', '.join(every)}")
    if options.list:
        for name, world in every.items():
            print(f"{name:15} {world.title}{f' (needs {lack})' if (lack := lacks(world)) else ''}")
        return 0
    rows = []
    for name in options.names or every:
        if lack := lacks(every[name]):
            rows.append([name, every[name].title, f"needs {lack}", *[""] * (len(STEPS) - 1)])
            continue
        print(f"== {name}: {every[name].title}", flush=True)
        # Not in /tmp: a world may have another one.
        with tempfile.TemporaryDirectory(prefix="quartzpy-world-", dir="/var/tmp") as base:
            Path(base).chmod(0o755)
            rows.append([name, every[name].title, *visit(every[name], Path(base)).values()])
    for row in (["world", "what differs", *STEPS], ["---"] * (2 + len(STEPS)), *rows):
        print("|", " | ".join(cell.replace("|", "\\|") for cell in row), "|")
    return int(any("**" in cell for row in rows for cell in row))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
