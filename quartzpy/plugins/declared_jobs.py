"""Jobs that a file declares, kept in step with it (Quartz's `XMLSchedulingDataProcessorPlugin`)."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any

from quartzpy.declarations import load_definitions
from quartzpy.errors import (
    OutcomeUnknownError,
    PluginStartError,
    QuartzpyError,
    SettingsError,
    StoreUnavailableError,
)
from quartzpy.instants import Span, as_span
from quartzpy.sync import SyncPlan

logger = logging.getLogger(__name__)


class DeclaredJobs:
    """Makes the store hold what files declare: at the start, and again when one of them changes.

    It does so by `Scheduler.sync`, whose `owner`, `prune`, `existing` and `version` these are. All nodes may have the
    plugin: they do it one after the other, and the second finds nothing to do. A scheduler whose files cannot be
    stored, as they name a calendar that is not stored, does not start. A file is read again when it changed and then
    stood still for `reread_every` (None: never); one that cannot be read is logged, and what is stored stays as it is.
    """

    def __init__(
        self,
        *paths: str | Path,
        owner: str = "declared-jobs",
        prune: bool = True,
        existing: str = "update",
        version: int | float | str | None = None,
        reread_every: Span | None = "10s",
    ) -> None:
        self._paths = [Path(path) for path in paths]
        self._owner = owner
        self._prune = prune
        self._existing = existing
        self._version = version
        pause = None if reread_every is None else as_span(reread_every, "reread_every", SettingsError)
        self._pause = None if pause is None else pause.total_seconds()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._scheduler: Any = None

    def initialize(self, scheduler: Any) -> None:
        """Read the files. Raises SettingsError: one cannot be read, or is wrong."""
        self._scheduler = scheduler
        self._definitions()

    def start(self) -> None:
        """Make the store hold what the files declare.

        Raises:
            PluginStartError: the store refuses it, for instance as a calendar is not stored.
        """
        seen = self._stamps()
        try:
            self.sync()
        except (StoreUnavailableError, OutcomeUnknownError) as error:
            logger.warning("the declared jobs are stored as soon as the store is there: %s", error)
            seen = []
        except QuartzpyError as error:
            files = ", ".join(map(str, self._paths))
            raise PluginStartError(f"the jobs that {files} declares cannot be stored: {error}") from error
        if self._pause is not None:
            self._thread = threading.Thread(
                target=self._watch, args=(self._pause, seen), name="quartzpy-declared-jobs", daemon=True
            )
            self._thread.start()

    def shutdown(self) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join(5)

    def sync(self) -> SyncPlan:
        """Make the store hold what the files say now; return what was done."""
        plan: SyncPlan = self._scheduler.sync(
            self._definitions(),
            owner=self._owner,
            prune=self._prune,
            existing=self._existing,
            version=self._version,
        )
        return plan

    def _definitions(self) -> list[Any]:
        return [pair for path in self._paths for pair in load_definitions(path, types=self._scheduler.job_types)]

    def _stamps(self) -> list[tuple[int, int] | None]:
        return [_stamp(path) for path in self._paths]

    def _watch(self, pause: float, seen: list[tuple[int, int] | None]) -> None:
        before = seen
        while not self._ended.wait(pause):
            try:
                stamps = self._stamps()
                if stamps == seen or (seen and stamps != before):
                    # Unchanged, or perhaps still being written: half a file declares half of the jobs.
                    before = stamps
                    continue
                logger.info("%s: read again:\n%s", ", ".join(map(str, self._paths)), self.sync())
                seen = stamps
            except (StoreUnavailableError, OutcomeUnknownError) as error:
                logger.warning("the declared jobs stay as they are until the store is there: %s", error)
            except BaseException:
                seen = before
                # Whatever a file holds, the next change of it is looked at again.
                logger.exception("the declared jobs stay as they are")


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
