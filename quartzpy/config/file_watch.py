"""A thread that waits for changes of files, for what reads them again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path


class FileWatch:
    """Calls `reread` whenever files have changed, once they have stayed as they are for a time.

    A file that changes is possibly still being written, and half a file would say half of it. `reread` returns whether
    it is done; otherwise it is called again after the same time, although nothing changes. It must not raise anything.
    The files that are compared with are those of the moment in which this object was made: make it before the first
    reading.
    """

    def __init__(self, paths: Sequence[Path], reread: Callable[[], bool], name: str) -> None:
        self._paths = paths
        self._reread = reread
        self._name = name
        self._read: list[tuple[int, int] | None] | None = self._stamps()
        """What the files were when they were read; None if they have to be read whatever they are."""
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, every: float, *, is_read: bool = True) -> None:
        """Begin to look, each time after so many seconds. Without `is_read`, the files are read at the first look."""
        if not is_read:
            self._read = None
        self._thread = threading.Thread(target=self._watch, args=(every,), name=self._name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread, and wait for it for at most five seconds."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(5)

    def _stamps(self) -> list[tuple[int, int] | None]:
        return [_stamp_of(path) for path in self._paths]

    def _watch(self, every: float) -> None:
        before = self._read
        while not self._ended.wait(every):
            stamps = self._stamps()
            if self._read is None or self._read != stamps == before:
                self._read = stamps if self._reread() else None
            before = stamps


def _stamp_of(path: Path) -> tuple[int, int] | None:
    """Return what changes with each write of a file; None if it cannot be looked at."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
