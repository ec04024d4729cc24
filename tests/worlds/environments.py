"""Environments of other versions of Python, made when a world needs them first."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.worlds.installed import python

ROOT = Path(__file__).resolve().parents[2]
DIRECTORY = ROOT / ".cache" / "worlds"
_DONE = "complete"


def interpreter(version: str) -> Path:
    """The Python of an environment that has this checkout with its development tools.

    Raises:
        FileNotFoundError: this version of Python is not installed.
        subprocess.CalledProcessError: the environment could not be made.
    """
    if sys.version.startswith(f"{version}."):
        return Path(sys.executable)
    found = python(version)
    if found is None:
        raise FileNotFoundError(f"Python {version} is not installed")
    environment = DIRECTORY / f"python{version}"
    program = environment / "bin" / "python"
    # The tools may have become others since.
    wanted = (ROOT / "pyproject.toml").read_text()
    done = environment / _DONE
    if not done.exists() or done.read_text() != wanted:
        print(f"makes {environment}", flush=True)
        subprocess.run([found, "-m", "venv", str(environment)], check=True)
        pip = [str(program), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--editable", ".[dev]"], check=True, cwd=ROOT)
        done.write_text(wanted)
    return program
