"""A scheduler for one machine: a schedule in a file, a PostgreSQL server in a directory, and a node, in one process."""

from __future__ import annotations

import fcntl
import logging
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from quartzpy.config.file_watch import FileWatch
from quartzpy.embedded.postgres import EmbeddedPostgres
from quartzpy.embedded.schedule_file import ScheduleFile, read_schedule
from quartzpy.errors import (
    OutcomeUnknownError,
    QuartzpyError,
    SchedulerStateError,
    SettingsError,
    StoreUnavailableError,
)
from quartzpy.factory import Scheduler
from quartzpy.installing import install_line
from quartzpy.instants import Span, as_span
from quartzpy.logs.default_handler import ensure_logging
from quartzpy.node.run import RunEnd, run_until_stopped
from quartzpy.private_files import write_private
from quartzpy.store.node_problems import SCHEDULE_FILE, NodeProblem
from quartzpy.store.postgresql import migrations
from quartzpy.store.process_identity import declare_ended, own_process
from quartzpy.texts import number_of, reason

logger = logging.getLogger(__name__)

OWNER = "schedule-file"
INSTANCE_ID = "serve"
PORT = 8686
TOKEN_FILE = "page-token"
_ACCEPTED = "accepted"
"""The name, before its suffix, of the copy of the file that was stored last. It may contain secrets."""


def accepted_schedule(data: Path, of: Path | None = None) -> ScheduleFile | None:
    """Return what the file said that was stored last in a data directory; None if none was, or it cannot be read now.

    `of` is the file itself, which relative paths in it refer to.
    """
    for path in sorted(data.glob(f"{_ACCEPTED}.*")):
        try:
            return read_schedule(path, of=of or path)
        except SettingsError:
            continue
    return None


def _to_standard_output(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


class ScheduleServer:
    """Runs the schedule of a file on this machine: `ScheduleServer("schedule.yaml", "data").run()`.

    `data` is the directory of an embedded PostgreSQL server, which keeps the schedule, the history and what was missed
    across restarts. The file is read again when it has changed; one that is wrong changes nothing, and `report` is
    called with the reason. A file that is wrong at the start leaves what was stored before, and that runs. What the
    commands and URLs of the file name is what the node allows. `run_as` is the user of PostgreSQL in a program of root,
    as for `EmbeddedPostgres`. `settings` are further settings of the scheduler.

    `run` serves the web page at `port` of this machine, as `quartzpy serve` does; None for no page. It is read-only
    without `allow_actions`, and with it whoever has the token in the file page-token of `data` may change things. `run`
    also logs to standard error, unless logging is configured. As a context manager it starts and stops without both.

    Raises:
        SettingsError: a setting is wrong.
    """

    def __init__(
        self,
        file: str | os.PathLike[str],
        data: str | os.PathLike[str],
        *,
        run_as: str | None = None,
        port: int | None = PORT,
        allow_actions: bool = False,
        reread_every: Span = "2s",
        report: Callable[[str], None] = _to_standard_output,
        **settings: Any,
    ) -> None:
        self._file = Path(file)
        self._data = Path(data)
        self._port = port
        self._allow_actions = allow_actions
        self._postgres = EmbeddedPostgres(data, run_as=run_as)
        self._pause = as_span(reread_every, "reread_every", SettingsError, above_zero=True).total_seconds()
        self._report = report
        self._settings = {"log_executions": "INFO", **settings}
        self._stack = ExitStack()
        self._scheduler: Scheduler | None = None
        self._refusal: Exception | None = None
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
            SettingsError: the file is wrong and none was stored before, or a setting is wrong; nothing was started.
            StoreUnavailableError: PostgreSQL did not start.
        """
        if self._scheduler is not None:
            return
        watch = FileWatch([self._file], self._reread, "quartzpy-schedule")
        schedule = self._readable()
        with ExitStack() as stack:
            stack.enter_context(self._postgres)
            migrations.upgrade(self._postgres.dsn)
            settings = {**self._identity(stack), **self._settings, **schedule.allowed, **schedule.at_start}
            scheduler = Scheduler(self._postgres.dsn, **settings)
            stack.callback(scheduler.shutdown, wait=True, timeout="30s")
            self._store_at_start(scheduler, schedule)
            self._stack = stack.pop_all()
        self._scheduler = scheduler
        self._tell_refusal()
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
        ensure_logging("INFO")
        self.open()
        try:
            assert self.schedule is not None
            jobs = number_of(len(self.schedule.declarations.jobs), "job")
            self._report(f"{self._file}: {jobs}, time zone {self.schedule.time_zone}, data in {self._data}")
            self._report(f"other commands reach it by --url embedded:{self._data}")
            with ExitStack() as stack:
                if self._port is not None:
                    stack.enter_context(self._page(self._port))
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

    # --- the page

    def _page(self, port: int) -> AbstractContextManager[object]:
        try:
            from quartzpy.dashboard.local_page import LocalPage
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("quartzpy"):
                raise
            raise SettingsError(
                f"{error.name} is not installed; run {install_line('dashboard')}, or serve no page (--no-page)"
            ) from error
        token_file = self._data / TOKEN_FILE if self._allow_actions else None
        return LocalPage(self.scheduler, port, token_file=token_file, title="quartzpy serve", report=self._report)

    # --- the file

    def _readable(self) -> ScheduleFile:
        """Return what the file says; if it is wrong, what the one said that was stored last."""
        try:
            return read_schedule(self._file)
        except SettingsError as error:
            schedule = accepted_schedule(self._data, self._file)
            if schedule is None:
                raise
            self._is_refused(error)
            return schedule

    def _store_at_start(self, scheduler: Scheduler, schedule: ScheduleFile) -> None:
        try:
            self._store(scheduler, schedule)
        except (StoreUnavailableError, OutcomeUnknownError):
            raise
        except QuartzpyError as error:
            accepted = accepted_schedule(self._data, self._file)
            if accepted is None:
                raise
            # It is stored already.
            scheduler._allow(**accepted.allowed)
            self.schedule = accepted
            self._is_refused(error)

    def _is_refused(self, error: Exception) -> None:
        """Say that the file is not what runs."""
        logger.error("%s is not what runs: %s; what was stored before it runs", self._file, reason(error))
        self._refusal = error
        self._tell_refusal()
        self._report(f"{self._file}: is wrong, and what was stored before it runs: {reason(error)}")

    def _tell_refusal(self) -> None:
        """Let the node report that the file is not what runs, or no longer."""
        if self._scheduler is None:
            return
        problems, error = self._scheduler._program_problems, self._refusal
        if error is None:
            problems.pop(SCHEDULE_FILE, None)
        else:
            what = f"{self._file} is not what runs, and what was stored before it runs: {reason(error)}"
            problems[SCHEDULE_FILE] = NodeProblem(SCHEDULE_FILE, what)

    def _store(self, scheduler: Scheduler, schedule: ScheduleFile) -> str:
        """Store a schedule, and return what has changed."""
        declared = schedule.declarations
        plan = scheduler.sync(
            declared.jobs, calendars=declared.calendars, windows=declared.windows, owner=OWNER, prune=True
        )
        self.schedule = schedule
        self._keep_copy(schedule.text)
        return str(plan)

    def _keep_copy(self, text: str) -> None:
        """Keep a copy of the file that was stored, for a start at which the file is wrong."""
        try:
            write_private(self._data / f"{_ACCEPTED}{self._file.suffix}", text)
        except OSError as error:
            logger.warning("%s: no copy was kept: %s", self._file, reason(error))

    def _replace(self, schedule: ScheduleFile) -> str:
        """Allow what another schedule names, and store it."""
        assert self.schedule is not None
        if schedule.at_start != self.schedule.at_start:
            logger.warning("%s: another notify, monitors or heartbeat_url is used after a restart", self._file)
        scheduler = self.scheduler
        scheduler._allow(**schedule.allowed)
        try:
            return self._store(scheduler, schedule)
        except BaseException:
            scheduler._allow(**self.schedule.allowed)
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
            self._report(f"{self._file}: not reloaded, nothing has changed: {reason(error)}")
            self._refusal = error
            self._tell_refusal()
        else:
            self._refusal = None
            self._tell_refusal()
            logger.info("%s was reloaded:\n%s", self._file, plan)
            self._report(f"{self._file}: reloaded:\n{plan}")
        return True
