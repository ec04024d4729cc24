"""A peer: another scheduler or queue on the same server."""

from __future__ import annotations

import json
import subprocess
from typing import Any, Protocol

from benchmarks.figures import ContestantError
from benchmarks.server import Server

TIMEOUT_SECONDS = 400.0


class PeerError(ContestantError):
    """The program of a peer ended with an error or in a strange way."""


class Peer(Protocol):
    """Another scheduler or queue."""

    @property
    def name(self) -> str: ...

    @property
    def settings(self) -> str:
        """The settings that it runs with, for the tables."""
        ...

    @property
    def drained(self) -> int:
        """The number of jobs that it drains in some seconds."""
        ...

    @property
    def fires_at_instants(self) -> bool:
        """True if it can be asked for the lateness of jobs that have a schedule."""
        ...

    def missing(self) -> str | None:
        """Return how to install what the peer needs; None if all of it is there."""
        ...

    def install(self) -> None:
        """Install what can be installed without the rights of an administrator."""
        ...

    def drain(self, server: Server, url: str, count: int) -> float:
        """Run jobs that do nothing, in an empty database; return jobs per second.

        Raises:
            PeerError: it did not run them all.
        """
        ...

    def lateness_ms(self, server: Server, url: str, rate: int, warm_up: float, seconds: float) -> list[float]:
        """Fire at a steady rate; return the milliseconds from each scheduled instant to the start of the job.

        Raises:
            PeerError: it did not run them.
        """
        ...


def result_of(command: list[str], *, cwd: str | None = None) -> dict[str, Any]:
    """Run a program and return the JSON object in the last line of its output.

    Raises:
        PeerError: the program failed, or printed no such line.
    """
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        raise PeerError(f"it did not end within {TIMEOUT_SECONDS:g} s") from None
    try:
        result = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        result = None
    if done.returncode or not isinstance(result, dict):
        last = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]
        raise PeerError(f"it ended with status {done.returncode}: {last[:300]}")
    return result


def rate_of(command: list[str], *, cwd: str | None = None) -> float:
    """Run a program that drains, and return its jobs per second. Errors as for `result_of`."""
    result = result_of(command, cwd=cwd)
    return float(result["count"] / result["seconds"])
