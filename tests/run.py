"""All checks with one command: `python3 tests/run.py [pytest arguments]`.

`python3 tests/run.py --worlds [NAME,NAME]` runs the suites of the worlds instead (see tests/worlds).

Makes `.venv` beside `pyproject.toml` where it is missing, installs the project with its development extra, and
runs format check, lint, import layers, types and tests. Needs Python 3.11 or later and a package index, nothing
else.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv"
PYTHON = ENVIRONMENT / "bin" / "python"
MEMORY = Path("/dev/shm")
ROOM = 4 * 2**30
"""What the tests' files may need at the same time, in bytes, several times over."""


def run(*command: str | Path) -> None:
    """Run a command; end with its status where it failed."""
    print("$", *command[1:] if command[0] == PYTHON else command, flush=True)
    status = subprocess.run([str(part) for part in command], cwd=ROOT, check=False).returncode
    if status:
        sys.exit(status)


@contextmanager
def beside(*command: str | Path) -> Iterator[None]:
    """Run a command beside others, and print what it says after them; end with its status where it failed."""
    process = subprocess.Popen(
        [str(part) for part in command], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        yield
    except KeyboardInterrupt:
        process.terminate()
        raise
    finally:
        said, _ = process.communicate()
        print("$", " ".join(map(str, command[1:])) + "\n" + said, end="", flush=True)
    if process.returncode:
        sys.exit(process.returncode)


def install() -> None:
    """Install the project with its development extra.

    uv takes a tenth of the time of pip, but knows nothing of pip's configuration, perhaps not even the package index.
    """
    if not PYTHON.exists():
        venv.create(ENVIRONMENT, with_pip=True)
    what = ("install", "--quiet", "--editable", ".[dev]")
    # Only a part of what is installed is ever imported: the interpreter compiles that part when it needs it.
    pip = (PYTHON, "-m", "pip", "--disable-pip-version-check")
    for command in (
        [*pip, "install", "--quiet", "--no-compile", "uv"],
        [PYTHON, "-m", "uv", "pip", *what, "--python", PYTHON],
    ):
        if subprocess.run([str(part) for part in command], cwd=ROOT, check=False).returncode:
            run(*pip, *what, "--no-compile")
            return


@contextmanager
def temporary_files_in_memory() -> Iterator[None]:
    """Keep temporary files in memory, unless the caller has chosen a place, or there is no room.

    The tests make and drop hundreds of databases of a thousand files each. On a disk, a tenth of all processor time
    is spent on the bookkeeping of its file system.
    """
    if "TMPDIR" in os.environ or not _has_room():
        yield
        return
    directory = tempfile.mkdtemp(prefix="quartzpy-", dir=MEMORY)
    # Servers run as another user where the tests run as root.
    os.chmod(directory, 0o755)
    os.environ["TMPDIR"] = directory
    try:
        yield
    finally:
        del os.environ["TMPDIR"]
        shutil.rmtree(directory, ignore_errors=True)


def _has_room() -> bool:
    try:
        place = os.statvfs(MEMORY)
        [available] = re.findall(r"MemAvailable: +(\d+) kB", Path("/proc/meminfo").read_text())
    except (OSError, ValueError):
        return False
    return os.access(MEMORY, os.W_OK) and min(place.f_bavail * place.f_frsize, int(available) * 1024) >= ROOM


@contextmanager
def bytecode_of_the_tests() -> Iterator[None]:
    """Write the bytecode of the tests beside the checks, of which none uses more than one core.

    Each worker would compile all tests otherwise. Two processes have one half of the folders each.
    """
    folders = sorted(path.parent for path in (ROOT / "tests").glob("*/__init__.py"))
    command = [PYTHON, "-m", "pytest", "--collect-only", "--quiet"]
    writers = [
        subprocess.Popen([*command, *half], cwd=ROOT, stdout=subprocess.DEVNULL)
        for half in (folders[::2], folders[1::2])
    ]
    try:
        yield
    except BaseException:
        for writer in writers:
            writer.terminate()
        raise
    finally:
        for writer in writers:
            writer.wait()


def main(arguments: list[str]) -> None:
    if sys.version_info < (3, 11):  # noqa: UP036 - this file is what tells the user so
        sys.exit(f"quartzpy needs Python 3.11 or later (this is {sys.version.split()[0]})")
    install()
    # The linters' programs are beside the environment's Python.
    os.environ["PATH"] = f"{PYTHON.parent}{os.pathsep}{os.environ['PATH']}"
    # The tests start some hundred processes; without bytecode each would compile the package anew.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if arguments[:1] == ["--worlds"] or (arguments and arguments[0].startswith("--worlds=")):
        # Without names, all that are installed.
        named = arguments if "=" in arguments[0] or (arguments[1:2] and arguments[1][:1] != "-") else arguments[1:]
        run(PYTHON, "-m", "tests.worlds", *named)
        return
    with beside(PYTHON, "-m", "mypy"):
        with bytecode_of_the_tests():
            run(PYTHON, "-m", "ruff", "format", "--check", ".")
            run(PYTHON, "-m", "ruff", "check", ".")
            run("lint-imports", "--no-cache")
        # Many tests wait for most of their time: three workers for each of two cores leave 1 % of them idle.
        with temporary_files_in_memory():
            run(PYTHON, "-m", "pytest", "-n", "6", "--dist", "loadscope", *arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
