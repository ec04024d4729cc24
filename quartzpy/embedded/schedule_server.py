"""A scheduler for one machine: a schedule in a file, a PostgreSQL server in a directory, and a node, in one process."""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from quartzpy.config.file_watch import FileWatch
from quartzpy.embedded.schedule_file import ScheduleFile, read_schedule
from quartzpy.embedded.server import EmbeddedPostgres
from quartzpy.errors import OutcomeUnknownError, SchedulerStateError, SettingsError, StoreUnavailableError
from quartzpy.factory import Scheduler
from quartzpy.instants import Span, as_span
from quartzpy.node.run import RunEnd, run_until_stopped
from quartzpy.store.postgresql import migrations
from quartzpy.store.process_identity import declare_ended, own_process
from quartzpy.texts import reason

logger = logging.getLogger(__name__)

OWNER = "schedule-file"
INSTANCE_ID = "serve"


class ScheduleServer:
    """Runs the schedule of a file on this machine: `ScheduleServer("schedule.yaml", "data").run()`.

    `data` is the directory of an embedded PostgreSQL server, which keeps the schedule, the history and what was missed
    across restarts. The file is read again when it has changed; one that is wrong changes nothing, and `report` is
    called with the reason. What the commands and URLs of the file name is what the node allows. `run_as` is the user
    of PostgreSQL in a program of root, as for `EmbeddedPostgres`. `settings` are further settings of the scheduler. As
    a context manager it starts and stops without `run`.

    Raises:
        SettingsError: a setting is wrong.
    """

    def __init__(
        self,
        file: str | os.PathLike[str],
        data: str | os.PathLike[str],
        *,
        run_as: str | None = None,
        reread_every: Span = "2s",
        report: Callable[[str], None] = lambda text: None,
        **settings: Any,
    ) -> None:
        self._file = Path(file)
        self._postgres = EmbeddedPostgres(data, run_as=run_as)
        self._pause = as_span(reread_every, "reread_every", SettingsError, above_zero=True).total_seconds()
        self._report = report
        self._settings = {"log_executions": "INFO", **settings}
        self._stack = ExitStack()
        self._scheduler: Scheduler | None = None
        self.schedule: ScheduleFile | None = None
        """What the file says, as it was read last without an error."""

    @property
    def scheduler(self) -> Scheduler:
        """The scheduler, once the server is open.

        Raises:
            SchedulerStateError: it is not.
        """
        if self._scheduler is None:
            raise SchedulerStateError("the server was not started, or was stopped")
        return self._scheduler

    def open(self) -> None:
        """Read the file, start PostgreSQL, and store the schedule. Nothing runs before `start` or `run`.

        Raises:
            SettingsError: the file is wrong, or a setting is; nothing was started.
            StoreUnavailableError: PostgreSQL did not start.
        """
        if self._scheduler is not None:
            return
        watch = FileWatch([self._file], self._reread, "quartzpy-schedule")
        schedule = read_schedule(self._file)
        with ExitStack() as stack:
            stack.enter_context(self._postgres)
            migrations.upgrade(self._postgres.dsn)
            settings = {**self._identity(stack), **self._settings, **schedule.settings, **schedule.at_start}
            scheduler = Scheduler(self._postgres.dsn, **settings)
            stack.callback(scheduler.shutdown, wait=True, timeout="30s")
            self._store(scheduler, schedule)
            self._stack = stack.pop_all()
        self._scheduler = scheduler
        self._stack.callback(watch.stop)
        watch.start(self._pause)

    def start(self) -> None:
        """Begin to run the jobs, in this process and in the background. Errors as for `open` and `Scheduler.start`."""
        self.open()
        self.scheduler.start()

    def stop(self) -> None:
        """Wait up to 30 seconds for running jobs, and stop the node and PostgreSQL."""
        try:
            self._stack.close()
        finally:
            self._scheduler = None

    def run(self, *, drain_timeout: Span = "30s") -> RunEnd:
        """Run the jobs until SIGTERM, SIGINT or a call of `scheduler.shutdown`, and stop. Errors as for `start`.

        Running jobs have `drain_timeout` to end. Returns how the run has ended.
        """
        seconds = as_span(drain_timeout, "drain_timeout", SettingsError).total_seconds()
        self.open()
        try:
            return run_until_stopped(self.scheduler, seconds)
        finally:
            self.stop()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _identity(self, stack: ExitStack) -> dict[str, Any]:
        """Return the identity of the node, which holds a lock of the data until `stack` is closed or the process ends.

        Whoever gets the lock knows that the former holder has ended, however it did, and takes its work over at once. A
        second server on the same data is another node.
        """
        descriptor = self._postgres.open_file("node.lock")
        stack.callback(os.close, descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return {}
        former = os.pread(descriptor, 1_000, 0).decode(errors="replace")
        if former != own_process():
            declare_ended(former)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, own_process().encode(), 0)
        return {"instance_id": INSTANCE_ID}

    # --- the file

    def _store(self, scheduler: Scheduler, schedule: ScheduleFile) -> str:
        """Store a schedule, and return what has changed."""
        declared = schedule.declarations
        plan = scheduler.sync(
            declared.jobs, calendars=declared.calendars, windows=declared.windows, owner=OWNER, prune=True
        )
        self.schedule = schedule
        return str(plan)

    def _replace(self, schedule: ScheduleFile) -> str:
        """Allow what another schedule names, and store it."""
        assert self.schedule is not None
        if schedule.at_start != self.schedule.at_start:
            logger.warning("%s: another notify, monitors or heartbeat_url is used after a restart", self._file)
        scheduler = self.scheduler
        scheduler._allow(**schedule.settings)
        try:
            return self._store(scheduler, schedule)
        except BaseException:
            scheduler._allow(**self.schedule.settings)
            raise

    def _reread(self) -> bool:
        """Take over the file, and return whether that is done."""
        try:
            plan = self._replace(read_schedule(self._file))
        except (StoreUnavailableError, OutcomeUnknownError) as error:
            logger.warning("%s will be reloaded when the database is available: %s", self._file, error)
            return False
        except Exception as error:
            # A wrong file must not end the thread: the next change is read again.
            logger.error("%s was not reloaded, and nothing has changed: %s", self._file, reason(error))
            self._report(f"not reloaded, nothing has changed: {reason(error)}")
        else:
            logger.info("%s was reloaded:\n%s", self._file, plan)
            self._report(f"reloaded:\n{plan}")
        return True
