"""A job that runs outside of the process of its node: in a child process, or on a worker of an engine.

It is called with a real context, and comes to an `Ending`, which the node records as if the job had run there.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
from collections.abc import Awaitable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NoReturn

from quartzpy.errors import InvalidValueError, JobExecutionError, UnknownJobTypeError
from quartzpy.job_data import MAX_BYTES, encode
from quartzpy.jobs.context import Cancellation, JobExecutionContext, Progress
from quartzpy.jobs.fired_trigger import FiredTrigger
from quartzpy.jobs.internal_entries import Within
from quartzpy.jobs.job import Job, JobFactory, job_types
from quartzpy.keys import MAIN, MAIN_IN_CHILD
from quartzpy.logs.captured import LogCapture, capturing, level_number
from quartzpy.node.engines.process_messages import Ending, error_to_json, fired_from_json, import_modules
from quartzpy.node.workers.execution import CUT_OFF_AFTER
from quartzpy.node.workers.forks import ended_if_forked
from quartzpy.node.workers.loop_work import LoopWork
from quartzpy.texts import reason


class RemoteJob:
    """One call of a job, and the execution behind its context. Each kind of worker has its own subclass."""

    place = "a process worker"
    in_the_main_module = (
        "define it at the top level of the program's file. A notebook and an interactive session have no file: write"
        " the function into one (begin a cell with %%writefile my_jobs.py), and import it from there"
    )
    without_transactions = (
        "a process worker has no connection to the store; run the job on a thread, or use its own transaction and"
        " context.fire_id as a fencing token"
    )

    def __init__(self, message: Mapping[str, Any]) -> None:
        self.written: dict[str, Any] = message["fired"]
        self._trace = message.get("trace") or {}
        self._refire_count: int = message.get("refire_count", 0)
        self._instance_id: str = message.get("instance_id", "")
        self.cancelled = Cancellation()
        self.log_capture: LogCapture | None = None
        self.fired: FiredTrigger | None = None
        self.context: JobExecutionContext | None = None
        self._has_lost_lease = False
        self._work: LoopWork | None = None

    @property
    def fire_id(self) -> int:
        return int(self.written["fire_id"])

    def stop(self, cut_off_after: float = CUT_OFF_AFTER, *, lease_lost: bool = False) -> None:
        """Ask the job to stop, from any thread; an `async def` job is cancelled after `cut_off_after` seconds."""
        self._has_lost_lease = self._has_lost_lease or lease_lost
        self.cancelled.set()
        # Read once, because the job may end.
        work = self._work
        if work is not None:
            work.cancel_after(cut_off_after)

    def run(self, job_factory: JobFactory, max_job_data_bytes: int, within_trace: Within | None = None) -> Ending:
        """Run the job on this thread. Whatever it raises, also SystemExit, ends this execution only."""
        ending = Ending(noticed_stop=False)
        error: BaseException | None = None
        try:
            fired, context = self._begin(job_factory)
            try:
                traced = nullcontext() if within_trace is None else within_trace(self._trace)
                with nullcontext() if self.log_capture is None else capturing(self.log_capture), traced:
                    returned = self._execute(context)
                if returned is not None:
                    context.result = returned
            except BaseException as raised:
                error = raised
            refires = isinstance(error, JobExecutionError) and error.refire_immediately
            keep(ending, context, max_job_data_bytes if fired.persists_data or refires else None)
        except BaseException as raised:
            error = error or raised
        ending.noticed_stop = self.cancelled.noticed
        if error is not None:
            ending.error = error_to_json(self.failed(error, ending))
        return ending

    def _begin(self, job_factory: JobFactory) -> tuple[FiredTrigger, JobExecutionContext]:
        self.import_modules()
        try:
            job_class = job_types.find(self.written["type_name"])
        except UnknownJobTypeError as unknown:
            module = self.written["modules"][0]
            in_main = module in (MAIN, MAIN_IN_CHILD)
            raise UnknownJobTypeError(
                f"job type {self.written['type_name']!r} is not defined by {module} when {self.place} imports it;"
                f" {self.in_the_main_module if in_main else 'define it at the top level of that module'}"
            ) from unknown
        fired = fired_from_json(self.written)
        level = level_number(fired.capture_logs)
        if level is not None:
            root = logging.getLogger()
            if not root.handlers:
                # Nothing has configured logging in this process, so the level has no other purpose.
                root.setLevel(level)
            self.log_capture = LogCapture(level, self.add_log)
        context = JobExecutionContext(
            fired,
            self,
            scheduler=_NoScheduler(self.place),
            job_instance=job_factory(job_class),
            data_type=job_class.data_type,
            instance_id=self._instance_id,
            refire_count=self._refire_count,
        )
        self.fired, self.context = fired, context
        return fired, context

    def _execute(self, context: JobExecutionContext) -> Any:
        job = context.job_instance
        with ended_if_forked(os.getpid(), f"job {context.job_key}"):
            if inspect.iscoroutinefunction(job.execute):
                return asyncio.run(self._execute_async(job, context))
            result = job.execute(context)
            return asyncio.run(self._awaited(result)) if inspect.isawaitable(result) else result

    async def _execute_async(self, job: Job, context: JobExecutionContext) -> Any:
        return await self._awaited(job.execute(context))

    async def _awaited(self, work: Awaitable[Any]) -> Any:
        self._work = LoopWork(asyncio.get_running_loop())
        self._work.task = asyncio.current_task()
        if self.cancelled.is_requested:
            self._work.cancel_after(CUT_OFF_AFTER)
        return await work

    # --- what a kind of worker does in its own way

    def import_modules(self) -> None:
        import_modules(self.written)

    def failed(self, error: BaseException, ending: Ending) -> BaseException:
        """Return the error that the ending tells."""
        return error

    def add_log(self, text: str) -> None:
        """Take captured lines. Any thread may call it, also one that the job has left behind."""
        raise NotImplementedError

    # --- for the context

    @property
    def lease_lost(self) -> bool:
        return self._has_lost_lease

    def report_progress(self, progress: Progress) -> None:
        raise NotImplementedError

    def transaction(self) -> AbstractContextManager[Any]:
        self._no_transaction("transaction")

    def fenced_transaction(self) -> AbstractContextManager[Any]:
        self._no_transaction("fenced_transaction")

    def _no_transaction(self, method: str) -> NoReturn:
        raise InvalidValueError(f"context.{method}(): {self.without_transactions}")


def keep(ending: Ending, context: JobExecutionContext, max_job_data_bytes: int | None) -> None:
    """Add the result and, within `max_job_data_bytes`, the job's data to the ending, or why the result is not kept.

    Raises:
        InvalidJobDataError: the data cannot be encoded.
    """
    if max_job_data_bytes is not None:
        ending.job_data = context.job_detail_data.encode_if_changed(max_bytes=max_job_data_bytes)
    if context.result is not None:
        keep_result(ending, context.result)


def keep_result(ending: Ending, value: Any) -> None:
    """Add a result to the ending, or why it is not kept."""
    try:
        result = encode({"result": value})
        # The node would keep far less of it, and has to read it as a whole.
        if result is not None and len(result) > MAX_BYTES:
            ending.result_problem = f"result: {len(result)} bytes are too many"
        else:
            ending.result = result
    except Exception as error:
        ending.result_problem = reason(error).replace("data['result']", "result")


class _NoScheduler:
    """The value of `context.scheduler` outside of the node's process. It only raises errors."""

    def __init__(self, place: str) -> None:
        self._place = place

    def __getattr__(self, name: str) -> Any:
        raise InvalidValueError(
            f"context.scheduler.{name}: {self._place} has no scheduler; create a Scheduler(url) in the job, let a"
            " listener schedule the result of the job, or run the job on a thread"
        )
