"""The executions of one executor on its engine: no thread and no connection belongs to any of them.

A thread of the pool begins an execution and returns; another one goes on when the engine, or the row of the execution,
says how it has ended. In between, one thread for all of them passes on submissions and requests to stop, asks the
engine for its capacity, and compares the calls that take tickets with their rows: what an engine tells is a hint, and
the row decides.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from functools import partial

from quartzpy.clock import Clock
from quartzpy.errors import (
    InvalidValueError,
    JobCancelledError,
    JobSnoozedError,
    LeaseLostError,
    SchedulerStateError,
    WorkerDiedError,
)
from quartzpy.jobs.context import JobExecutionContext, Progress
from quartzpy.jobs.job import JobTypes
from quartzpy.node.engines.engine_link import EngineLink
from quartzpy.node.engines.engine_run import EngineRun
from quartzpy.node.engines.judgement import CallVerdict, judged
from quartzpy.node.engines.messages import MessageMaker, addressed
from quartzpy.node.engines.process_messages import Ending, ending_from_json
from quartzpy.node.engines.protocol import Call, Engine, Found
from quartzpy.node.service import Service, StoreWatch
from quartzpy.node.workers.execution import Execution
from quartzpy.node.workers.job_calls import NOT_BEGUN, NOT_STARTED
from quartzpy.node.workers.worker_pool import WorkerPool
from quartzpy.placement import EngineCapability
from quartzpy.store.node_problems import NodeProblem
from quartzpy.store.protocol import JobStore, Node, Submitted
from quartzpy.texts import reason

KILL_AFTER = 2.0
"""The time, in seconds, that a job has to end after a request to stop, before the engine ends it."""
MAX_TRIES = 3
"""The number of submissions of a call that the engine loses before it begins."""
EVERY = 1.0
"""The longest rest, in seconds, while there is something to watch."""
LONGEST_REST = 60.0
UNTRUSTED_REST = 0.05
CLOSE_GRACE = 5.0
KILLED = "this execution ignored the request to stop, and its process was killed"
NOT_OURS = "the execution does not belong to this node any more"
STOPPED_LATE = "this execution ignored the request to stop"
UNSEEN = "its call was ended, and no worker of the engine was seen to begin it before"
NEVER_BEGUN = "no worker of the engine has begun the job"
logger = logging.getLogger(__name__)


class EngineRuns(Service):
    """Runs the executions of an executor on its engine, and hears its events."""

    def __init__(
        self,
        name: str,
        engine: Engine,
        *,
        executor: str,
        workers: int | None,
        tickets: bool,
        pool: WorkerPool,
        store: JobStore,
        job_types: JobTypes,
        messages: MessageMaker,
        touch_every: float,
        window: float,
        clock: Clock,
        watch: StoreWatch | None = None,
        has_grown: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(name, watch=watch, clock=clock)
        self._engine = engine
        self._link = EngineLink(
            engine, executor=executor, workers=workers, pool=pool, has_grown=has_grown, monotonic=clock.monotonic
        )
        self._abilities = engine.abilities
        self._executor = executor
        self._tickets = tickets
        self._pool = pool
        self._store = store
        self._job_types = job_types
        self._messages = messages
        self._check_every = touch_every
        self._judge_by = partial(judged, window=window, touch_every=touch_every)
        self._clock = clock
        # Never held while the engine or the store is called.
        self._lock = threading.Lock()
        self._waiting: dict[EngineRun, None] = {}
        """What is to be submitted, for the first time or again."""
        self._in_hand: dict[str, EngineRun] = {}
        """What was submitted and has not ended, by its token."""
        self._doubts: dict[EngineRun, None] = {}
        """Those of which the engine says that they are lost, and only their rows can tell."""
        self._stops: deque[EngineRun] = deque()
        self._late: list[tuple[float, EngineRun]] = []
        """Those that were asked to stop, with the time from which they ignore it."""
        self._settling: dict[EngineRun, BaseException | None] = {}
        """The submissions to be made void, with the errors with which they end; None: it still runs."""
        self._adopting: deque[EngineRun] = deque()
        self._looks_at = 0.0
        self._close_within: float | None = None
        self._closed = threading.Event()

    # --- for executions

    def begin(self, execution: Execution, context: JobExecutionContext) -> bool:
        """Begin an execution on the engine, and return. Return False if it has failed: `execution.error` is set."""
        execution.error = None
        try:
            job_class = self._job_types.find(execution.fired.job_type)
            ticket = self._tickets and not job_class.may_repeat
            outlives = ticket and job_class.outlives_node and self._abilities.can_adopt
            run = EngineRun(self.ask_to_stop, execution, context, ticket=ticket, outlives=outlives)
            run.enter()
        except BaseException as error:
            execution.error = error
            return False
        try:
            # Its trace is that of the middleware.
            run.message = run.within.run(self._messages.message_of, execution.fired, job_class, context)
            if not execution.epoch.wait_until_trusted():
                raise LeaseLostError(NOT_BEGUN)
            if execution.cancelled.is_requested:
                raise asyncio.CancelledError(NOT_STARTED)
            if self._close_within is not None:
                raise SchedulerStateError(f"the executor {self._executor} of this node is closed and starts no more")
        except BaseException as error:
            execution.error = run.leave(error)
            return False
        execution.work = run
        if run.takes_ticket or not self._link.is_connected:
            with self._lock:
                self._waiting[run] = None
            self.wakeup.set()
        else:
            self._pass_on(run, None)
        if execution.cancelled.is_requested:
            self.ask_to_stop(run)
        return True

    def adopt(self, execution: Execution, context: JobExecutionContext, row: Submitted) -> None:
        """Watch an execution that a node has submitted which is gone. Its job is not begun here."""
        run = EngineRun(self.ask_to_stop, execution, context, ticket=True, outlives=True)
        # Without the class of the job, the engine cannot be asked, and the row tells how it ends.
        if (job_class := self._job_types.class_of(execution.fired.job_type)) is not None:
            run.message = self._messages.message_of(execution.fired, job_class, context)
        run.submission, run.worker, run.seen_at = row.submission, row.worker, self._clock.monotonic()
        run.token = self._token_of(run, row.submission)
        execution.work = run
        if (former := self._in_hand.get(run.token)) is not None:
            # This node has begun it itself, in an epoch that it has lost.
            self._end(former, LeaseLostError(NOT_OURS))
        with self._lock:
            self._in_hand[run.token] = run
        if row.ending is not None:
            self._end(run, row.ending)
        elif run.message:
            self._adopting.append(run)
            self.wakeup.set()
        if execution.cancelled.is_requested:
            self.ask_to_stop(run)

    def hand_over(self, chosen: Callable[[Execution], bool] = lambda execution: True) -> None:
        """Forget executions that outlive this node: their rows stay, and a node adopts them."""
        with self._lock:
            leaving = [
                run
                for run in self._in_hand.values()
                if run.outlives and run not in self._settling and chosen(run.execution)
            ]
            for run in leaving:
                self._forget(run)
        for run in leaving:
            run.execution.runner.end_as(run.execution, None)
            # Middleware may block, and the thread that is here may be that of the check-ins.
            self._pool.resume(partial(run.leave, None))

    def ask_to_stop(self, run: EngineRun) -> None:
        self._stops.append(run)
        self.wakeup.set()

    def problem(self) -> NodeProblem | None:
        return self._link.problem()

    def capability(self, engine: str) -> EngineCapability:
        """Return what the node says about the engine, which the setting calls so."""
        can = self._abilities
        words = {
            "kill a job": can.can_kill,
            "stop a job that takes no ticket": can.can_stop or self._tickets,
            "say what became of a call": can.can_find,
            "adopt a job of another node": can.can_adopt,
        }
        cannot = tuple(what for what, is_able in words.items() if not is_able)
        return EngineCapability(engine, cannot, self._tickets, can.repeats and not self._tickets)

    def close(self, timeout: float) -> None:
        """Stop what runs, and end the connection with the engine within `timeout` seconds."""
        self._close_within = timeout
        if self.ident is None or not self._thread.is_alive():
            self._close()
        else:
            self.wakeup.set()
            self._closed.wait(timeout + CLOSE_GRACE)

    # --- the events of the engine

    def began(self, token: str, worker: str) -> None:
        if run := self._in_hand.get(token):
            run.worker = worker

    def progress(self, token: str, fraction: float | None, message: str | None) -> None:
        if (run := self._in_hand.get(token)) and fraction is not None:
            run.execution.report_progress(Progress(fraction, message))

    def log(self, token: str, text: str) -> None:
        if (run := self._in_hand.get(token)) and run.execution.log_lines is not None:
            run.execution.log_lines.add(text)

    def ended(self, token: str, answer: str) -> None:
        if (run := self._in_hand.get(token)) is None:
            return
        try:
            said = json.loads(answer)
            why = said.get("refused") or said.get("failed")
            ending = None if why else ending_from_json(said["ending"])
        except Exception as error:
            self.lost(token, f"its answer cannot be read: {reason(error)}", may_have_begun=True)
            return
        if ending is not None:
            self._end(run, ending)
        elif run.is_void:
            self._end(run, JobCancelledError(STOPPED_LATE if "refused" in said else f"{NEVER_BEGUN}: {why}"))
        else:
            self.lost(token, str(why), may_have_begun="refused" in said)

    def lost(self, token: str, reason: str, *, may_have_begun: bool, exit_code: int | None = None) -> None:
        with self._lock:
            run = self._in_hand.get(token)
            if run is None or run in self._waiting:
                return
            # An engine may say it twice.
            run.tries += run.lost is None
            run.lost, run.exit_code = reason, exit_code
            fails = not run.takes_ticket and (may_have_begun or run.tries >= MAX_TRIES)
            if run.takes_ticket:
                # Another run of the same call may have the ticket, whatever the engine believes.
                self._doubts[run] = None
            elif not fails:
                self._wait(run)
        if fails:
            self._end(run, run.died())
        else:
            self.wakeup.set()
            if not may_have_begun:
                logger.warning(
                    "job %s: call %s was lost before it began: %s", run.execution.fired.job_key, token, reason
                )

    def killed(self, token: str) -> None:
        if run := self._in_hand.get(token):
            self._over(run, JobCancelledError(KILLED if run.worker is not None else UNSEEN))

    def changed(self) -> None:
        self._link.changed()
        self.wakeup.set()

    def unavailable(self, reason: str) -> None:
        self._link.lost(reason)
        self.wakeup.set()

    # --- the thread

    def run_once(self) -> float:
        now = self._clock.monotonic()
        if self._close_within is not None:
            self._close()
            return LONGEST_REST
        if self._link.keep(self, now):
            self._looks_at = now
            self._find_lost()
            with self._lock:
                # A request that was made while it was away has reached nobody.
                self._stops.extend(run for run in self._in_hand.values() if run.execution.cancelled.is_requested)
        self._pass_stops_on(now)
        self._submit(now)
        self._judge(now)
        self._settle()
        now = self._clock.monotonic()
        rest = EVERY if self._in_hand or self._doubts else LONGEST_REST
        if self._waiting and self._link.unreachable is None:
            rest = UNTRUSTED_REST
        return max(0.0, min([rest, self._link.asks_at - now, *(at - now for at, _ in self._late)]))

    def _find_lost(self) -> None:
        """Ask an engine that is back for the calls that have no row to tell of them."""
        with self._lock:
            tokens = [token for token, run in self._in_hand.items() if not run.takes_ticket]
        for token, state in self._link.states_of(tokens).items():
            # Of one that is done, the engine tells how it has ended.
            if state in (Found.GONE, Found.FAILED):
                self.lost(token, f"the engine of executor {self._executor} has lost it", may_have_begun=True)

    def _pass_stops_on(self, now: float) -> None:
        while self._stops:
            run = self._stops.popleft()
            if run.is_over:
                continue
            if self._end(run, asyncio.CancelledError(NOT_STARTED), only_unsent=True):
                continue
            if run in self._waiting or self._link.stop(run.token):
                stopped = JobCancelledError("this execution was stopped")
                self._over(run, asyncio.CancelledError(NOT_STARTED) if run.worker is None else stopped)
            else:
                self._late.append((now + KILL_AFTER, run))
        late = [run for at, run in self._late if at <= now]
        self._late = [(at, run) for at, run in self._late if at > now and not run.is_over]
        for run in late:
            if run.is_over:
                continue
            if self._abilities.can_kill and self._link.stop(run.token, kill=True):
                self._over(run, JobCancelledError(KILLED))
            elif run.takes_ticket and run.execution.timed_out and not run.is_void:
                # From the deadline on, what the job writes is refused, although nothing can end it.
                self._settling.setdefault(run)

    def _over(self, run: EngineRun, error: BaseException) -> None:
        """End a run that is certainly over. One with a ticket may have come to an end before, which counts."""
        if run.takes_ticket and not run.is_void:
            self._settling[run] = error
            self.wakeup.set()
        else:
            self._end(run, error)

    # --- submissions

    def _submit(self, now: float) -> None:
        with self._lock:
            due = [run for run in self._waiting if run.not_before <= now]
        with_tickets: defaultdict[Node, list[EngineRun]] = defaultdict(list)
        for run in due:
            if run.is_over or run in self._settling:
                self._waiting.pop(run, None)
            elif run.execution.is_over:
                self._end(run, LeaseLostError(NOT_BEGUN))
            elif run.execution.cancelled.is_requested:
                # The request has just come, or the engine has lost the call after it.
                self.ask_to_stop(run)
            elif not self._link.is_connected and self._link.unreachable is None:
                continue
            elif run.execution.epoch.trusted:
                if run.takes_ticket:
                    with_tickets[run.node].append(run)
                else:
                    self._waiting.pop(run, None)
                    self._pass_on(run, None)
        for node, runs in with_tickets.items():
            fires = {run.fire_id: run.outlives for run in runs}
            try:
                # A call without a name is the first one, or that of a refire.
                refires = [run.fire_id for run in runs if not run.token]
                numbers = self._store.submit(node, fires, refires=refires)
            except (LeaseLostError, InvalidValueError) as error:
                # The store in memory has no rows that workers could reach.
                for run in runs:
                    self._end(run, error)
                continue
            for run in runs:
                self._waiting.pop(run, None)
                if (number := numbers.get(run.fire_id)) is not None:
                    self._pass_on(run, number)
                elif run.token:
                    # Another run of the same call has taken the ticket: the engine was wrong.
                    with self._lock:
                        self._doubts[run] = None
                else:
                    self._end(run, LeaseLostError(NOT_BEGUN))

    def _pass_on(self, run: EngineRun, submission: int | None) -> None:
        if (why := self._link.unreachable) is not None:
            # Any node with such an executor may run it, perhaps this one later. The new number has made void what the
            # engine may have.
            self._end(run, JobSnoozedError(f"executor {self._executor}: {why}"))
            return
        with self._lock:
            if run.is_over:
                return
            self._in_hand.pop(run.token, None)
            self._doubts.pop(run, None)
            run.submission, run.lost, run.worker, run.seen_at = submission, None, None, self._clock.monotonic()
            # Other databases may have the same fire ids, and the same engine.
            run.token = token = self._token_of(run, submission or secrets.randbits(31))
            self._in_hand[token] = run
        try:
            self._engine.submit(self._call_of(run))
        except Exception as error:
            self.lost(token, reason(error), may_have_begun=False)

    def _token_of(self, run: EngineRun, number: int) -> str:
        return f"{run.fire_id}.{run.execution.fired.attempt}.{number}"

    def _call_of(self, run: EngineRun) -> Call:
        message = addressed(run.message, run.token, run.submission)
        return Call(run.token, message, str(run.execution.fired.job_key), run.may_start)

    # --- the rows

    def _judge(self, now: float) -> None:
        """Compare calls with their rows: all of them at intervals, and those in doubt in each pass."""
        while self._adopting and self._link.is_connected:
            run = self._adopting.popleft()
            if not (run.is_over or self._link.adopt(self._call_of(run))):
                self.lost(run.token, "its node has died, and the engine does not know it", may_have_begun=True)
        with self._lock:
            runs: Iterable[EngineRun] = list(self._doubts)
            if now >= self._looks_at:
                runs = [run for run in self._in_hand.values() if run.takes_ticket and run not in self._waiting]
                self._looks_at = now + self._check_every
        for node, group in _by_node(runs).items():
            rows = self._store.submitted(node, [run.fire_id for run in group])
            # Who touches its row needs no other witness.
            silent = {fire_id: row.silent_for for fire_id, row in rows.items()}
            unsure = [run for run in group if (said := silent.get(run.fire_id)) is None or said >= self._check_every]
            states = self._link.states_of([run.token for run in unsure])
            for run in group:
                self._follow(run, rows.get(run.fire_id), states.get(run.token, Found.UNKNOWN), now)

    def _follow(self, run: EngineRun, row: Submitted | None, state: Found, now: float) -> None:
        if row is not None:
            run.worker, run.seen_at = row.worker or run.worker, now
        verdict = self._judge_by(
            row,
            state,
            submission=run.submission,
            lost=run.lost is not None,
            is_void=run.is_void,
            unseen_for=now - run.seen_at,
        )
        match verdict:
            case CallVerdict.ENDED if row is not None and row.ending is not None:
                self._end(run, row.ending)
            case CallVerdict.GONE:
                self._end(run, LeaseLostError(NOT_OURS))
            case CallVerdict.OVER:
                has_begun = row is None or row.worker is not None
                self._end(run, JobCancelledError(STOPPED_LATE if has_begun else NEVER_BEGUN))
            case CallVerdict.SUBMIT:
                if run.lost is None:
                    run.lost, run.tries = f"the engine of executor {self._executor} has lost it", run.tries + 1
                if run.tries < MAX_TRIES:
                    with self._lock:
                        self._doubts.pop(run, None)
                        self._wait(run)
                else:
                    self._settling[run] = run.died()
            case CallVerdict.SETTLE if row is not None:
                said = f" ({run.lost})" if run.lost else ""
                text = f"the worker {row.worker}, not heard of for {row.silent_for or 0:.0f} s, was lost{said}"
                self._settling[run] = WorkerDiedError(text, exit_code=run.exit_code)

    def _settle(self) -> None:
        # Threads of the engine add to it.
        for node, runs in _by_node(list(self._settling)).items():
            try:
                endings = self._store.settle(
                    node, {run.fire_id: run.submission or 0 for run in runs if not run.is_over}
                )
            except LeaseLostError:
                endings = {}
            for run in runs:
                error = self._settling.pop(run)
                if (ending := endings.get(run.fire_id)) is not None:
                    self._end(run, ending)
                elif run.fire_id not in endings:
                    self._end(run, LeaseLostError(NOT_OURS))
                elif error is not None:
                    self._end(run, error)
                else:
                    run.is_void = True

    def _wait(self, run: EngineRun) -> None:
        """Submit a call again, later each time. The lock is held."""
        run.not_before = self._clock.monotonic() + EVERY * max(0, run.tries - 1)
        self._waiting[run] = None

    # --- ends

    def _end(self, run: EngineRun, end: Ending | str | BaseException, *, only_unsent: bool = False) -> bool:
        """Let an execution go on, unless it does so already, or was submitted and this is for others only."""
        with self._lock:
            if run.is_over or (only_unsent and run.token):
                return False
            self._forget(run)
        self._pool.resume(partial(run.conclude, end))
        return True

    def _forget(self, run: EngineRun) -> None:
        run.is_over = True
        self._in_hand.pop(run.token, None)
        self._doubts.pop(run, None)
        self._waiting.pop(run, None)

    def _close(self) -> None:
        with self._lock:
            runs = {*self._in_hand.values(), *self._waiting}
        for run in runs:
            run.execution.stop()
        self._pass_stops_on(self._clock.monotonic())
        try:
            self._engine.close(self._close_within or 0.0)
        finally:
            self.stop()
            self._closed.set()


def _by_node(runs: Iterable[EngineRun]) -> dict[Node, list[EngineRun]]:
    by_node: defaultdict[Node, list[EngineRun]] = defaultdict(list)
    for run in runs:
        by_node[run.node].append(run)
    return by_node
