"""The ceiling, in a process of its own like every other contestant."""

from __future__ import annotations

import sys

from sqlalchemy import make_url

from benchmarks.ceiling import BATCH
from benchmarks.machine import ROOT
from benchmarks.peers.peer import rate_of


def ceiling_rate(url: str, count: int) -> float:
    """Return the fires per second of the ceiling, in an empty database."""
    plain = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    return rate_of([sys.executable, "-m", "benchmarks.ceiling", plain, str(count), str(BATCH)], cwd=str(ROOT))
