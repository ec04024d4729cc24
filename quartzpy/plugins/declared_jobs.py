"""A plugin that stores the jobs which files declare, and updates them (Quartz's `XMLSchedulingDataProcessorPlugin`)."""

from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path

from quartzpy.calendars.calendar import BaseCalendar
from quartzpy.config.file_watch import FileWatch
from quartzpy.definitions.files import load_definitions
from quartzpy.errors import (
    OutcomeUnknownError,
    PluginStartError,
    QuartzpyError,
    SettingsError,
    StoreUnavailableError,
)
from quartzpy.instants import Span, as_span
from quartzpy.scheduler.scheduler import BaseScheduler
from quartzpy.scheduler.sync import Declarations, SyncPlan
from quartzpy.texts import quoted

logger = logging.getLogger(__name__)


class DeclaredJobs:
    """Stores the jobs, triggers and calendars that files declare, at the start and whenever a file changes.

    It calls `Scheduler.sync` with `owner`, `prune`, `existing` and `version`. All nodes may use the plugin: they
    synchronize one after another, and the later ones find no differences. The scheduler does not start if the
    declarations cannot be stored, for example because a trigger uses a calendar that is neither declared nor stored. A
    changed file is read again once it has been unchanged for `reread_every` (None: never). If it cannot be read then,
    the error is logged and the stored jobs do not change.
    """

    _scheduler: BaseScheduler

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
        self._watch: FileWatch | None = None

    def initialize(self, scheduler: BaseScheduler) -> None:
        """Read the files.

        Raises:
            SettingsError: a file cannot be read, or is invalid.
        """
        self._scheduler = scheduler
        self._definitions()

    def start(self) -> None:
        """Store the declarations, and begin to watch the files.

        Raises:
            PluginStartError: the declarations cannot be stored, for example because a calendar is missing.
        """
        watch = FileWatch(self._paths, self._reread, "quartzpy-declared-jobs")
        is_stored = True
        try:
            self.sync()
        except (StoreUnavailableError, OutcomeUnknownError) as error:
            logger.warning("the declared jobs will be stored when the database is available: %s", error)
            is_stored = False
        except QuartzpyError as error:
            files = ", ".join(map(str, self._paths))
            raise PluginStartError(f"the jobs declared in {files} cannot be stored: {error}") from error
        if self._pause is not None:
            self._watch = watch
            watch.start(self._pause, is_read=is_stored)

    def shutdown(self) -> None:
        if self._watch is not None:
            self._watch.stop()

    def sync(self) -> SyncPlan:
        """Store the current declarations. Return the plan that was carried out."""
        declared = self._definitions()
        return self._scheduler.sync(
            declared.jobs,
            calendars=declared.calendars,
            windows=declared.windows,
            owner=self._owner,
            prune=self._prune,
            existing=self._existing,
            version=self._version,
        )

    def _definitions(self) -> Declarations:
        files = [load_definitions(path, types=self._scheduler.job_types) for path in self._paths]
        calendars: dict[str, BaseCalendar] = {}
        for declared in files:
            for name in calendars.keys() & declared.calendars.keys():
                raise SettingsError(f"calendar {quoted(name)} is declared in two files")
            calendars.update(declared.calendars)
        windows = [window for declared in files for window in declared.windows or ()]
        for name, number in Counter(window.name for window in windows).items():
            if number > 1:
                raise SettingsError(f"window {quoted(name)} is declared in two files")
        return Declarations([pair for declared in files for pair in declared.jobs], calendars, windows)

    def _reread(self) -> bool:
        """Store what the files declare now, and return whether that is done."""
        try:
            logger.info("%s: reloaded:\n%s", ", ".join(map(str, self._paths)), self.sync())
        except (StoreUnavailableError, OutcomeUnknownError) as error:
            logger.warning("the declared jobs will be updated when the database is available: %s", error)
            return False
        except BaseException:
            # Invalid files must not end the thread: the next change is read again.
            logger.exception("the changed declarations cannot be stored; the stored jobs do not change")
        return True
