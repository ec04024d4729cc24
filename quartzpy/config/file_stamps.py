"""What tells a file that is read again when it changes from the one that was read."""

from __future__ import annotations

from pathlib import Path


def stamp_of(path: Path) -> tuple[int, int] | None:
    """Return what changes with each write of a file; None if it cannot be looked at."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
