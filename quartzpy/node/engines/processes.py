"""The engine `processes`: child processes, which use other cores and can be killed.

They start on demand, and the most recently used one is reused first. One thread waits for all of them.
"""

from __future__ import annotations

import atexit
import errno
import json
import logging
import multiprocessing
import os
import selectors
import signal
import socket
import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from itertools import count
from multiprocessing import resource_tracker
from multiprocessing.reduction import ForkingPickler
from typing import Any

from quartzpy.errors import InvalidValueError
from quartzpy.node.engines.child_process import SIGNALS_OF_THE_NODE, serve
from quartzpy.node.engines.process_messages import BEGUN, DONE, LOG, PROGRESS, READY, STOP, pack, run_message, unpack
from quartzpy.node.engines.protocol import Abilities, Call, Engine, EngineEvents, EngineSettings, Found
from quartzpy.node.engines.worker_process import LOOK_AFTER, WorkerProcess, described_end
from quartzpy.node.workers.execution import CUT_OFF_AFTER
from quartzpy.node.workers.job_calls import NOT_BEGUN, TRUST_REST
from quartzpy.store.process_identity import PROCESS_WORKER
from quartzpy.texts import quoted

START_AGAIN_AFTER = 0.5
"""The delay, in seconds, before another attempt to start a process if the system refuses one."""
JOIN_SECONDS = 1.0
"""The time, in seconds, that a process may take to end after its pipe was closed."""

# Temporary errors: too many processes, too many open files, too little memory.
_PASSES = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE})

logger = logging.getLogger(__name__)

# A forked child would inherit locks that other threads of the node hold, and never release them.
_SPAWN = multiprocessing.get_context("spawn")


def engine(settings: EngineSettings) -> Engine:
    """Return the child processes of an executor.

    `job_factory` creates the job instances in the child. If it raises, or if the child cannot import the job's module,
    the execution fails like one whose job raises: the triggers do not go to ERROR.

    Raises:
        InvalidValueError: `job_factory` cannot be pickled.
    """
    try:
        ForkingPickler.dumps(settings.job_factory)
    except Exception as error:
        raise InvalidValueError(
            "job_factory: with process workers it must be picklable: a function at the top level of a module, or an"
            f" instance with picklable attributes (got {quoted(settings.job_factory)}: {error})"
        ) from None
    return ProcessEngine(settings)


class ProcessEngine:
    """At most `settings.workers` child processes, each of which runs one call at a time."""

    abilities = Abilities(repeats=False, can_stop=True, can_kill=True, can_find=True)

    def __init__(self, settings: EngineSettings) -> None:
        self._settings = settings
        self._events: EngineEvents
        self._changed = threading.Condition(threading.RLock())
        self._waiting: deque[Call] = deque()
        self._children: list[WorkerProcess] = []
        self._idle: list[WorkerProcess] = []
        self._unsent: list[WorkerProcess] = []
        """The children that have a call and have not got it yet: they are starting, or the lease has expired."""
        self._numbers = count(1)
        self._refused = False
        self._is_closing = self._is_closed = self._program_ends = False
        self._pid = os.getpid()
        self._thread: threading.Thread | None = None

    # --- what the node asks

    def start(self, events: EngineEvents) -> None:
        self._events = events
        if self._thread is None:
            self._selector = selectors.DefaultSelector()
            self._bell, self._rung = socket.socketpair()
            self._selector.register(self._rung, selectors.EVENT_READ, self._answer_bell)
            self._thread = threading.Thread(target=self._serve, name=f"{self._settings.name}-pipes", daemon=True)
            self._thread.start()
            atexit.register(self._kill_all)

    def capacity(self) -> int | None:
        return None

    def submit(self, call: Call) -> None:
        with self._changed:
            self._waiting.append(call)
        self._ring()

    def stop(self, token: str, *, kill: bool = False) -> bool:
        with self._changed:
            if waiting := [call for call in self._waiting if call.token == token]:
                self._waiting.remove(waiting[0])
                return True
            child = next((child for child in self._children if child.call and child.call.token == token), None)
            if child is None or child.call is None:
                return False  # The end of the call is on its way to the node.
            is_sent = child not in self._unsent
            if kill or (not is_sent and not child.is_ready):
                # A child that never becomes ready would keep the next call waiting, too.
                child.is_killed = True
                child.kill()
            elif is_sent:
                fire_id, lease_lost = int(token.partition(".")[0]), child.call.may_start() is not True
                with suppress(OSError):
                    child.send(pack(STOP, fire_id=fire_id, cut_off_after=CUT_OFF_AFTER, lease_lost=lease_lost))
            if not is_sent:
                child.call = None
                self._unsent.remove(child)
                if not child.is_killed:
                    self._idle.append(child)
            return not is_sent

    def find(self, tokens: Collection[str]) -> Mapping[str, Found]:
        with self._changed:
            in_hand = {call.token for call in (*self._waiting, *(child.call for child in self._children)) if call}
        return {token: Found.RUNNING if token in in_hand else Found.GONE for token in tokens}

    def adopt(self, call: Call) -> bool:
        return False

    def close(self, timeout: float) -> None:
        if self._thread is None:
            return
        with self._changed:
            self._is_closing = True
            for child in self._idle:
                child.send_end()
            self._changed.wait_for(lambda: not self._children, timeout)
            for child in self._children:
                child.is_killed = True
                child.kill()
            self._changed.wait_for(lambda: not self._children, JOIN_SECONDS)
            self._is_closed = True
        self._ring()
        self._thread.join(JOIN_SECONDS)
        atexit.unregister(self._kill_all)

    # --- the thread

    def _serve(self) -> None:
        while not self._is_closed:
            try:
                for key, _ in self._selector.select(self._rest()):
                    key.data()
                for child in [child for child in self._children if child.ends is None]:
                    self._hear(child)
                with self._changed:
                    self._place()
            except BaseException:
                # An error must not cost other executions their ends.
                logger.exception("the thread of the process workers met an error")
                threading.Event().wait(START_AGAIN_AFTER)
        for thing in (self._selector, self._bell, self._rung):
            thing.close()

    def _rest(self) -> float | None:
        if any(child.is_ready for child in self._unsent):
            return TRUST_REST
        if self._waiting and self._refused:
            return START_AGAIN_AFTER
        return None if all(child.ends is not None for child in self._children) else LOOK_AFTER

    def _ring(self) -> None:
        with suppress(OSError):  # Closed, or it has been rung very often.
            self._bell.send(b"!", socket.MSG_DONTWAIT)

    def _answer_bell(self) -> None:
        self._rung.recv(4096)

    def _hear(self, child: WorkerProcess) -> None:
        """Take what a child has sent, or its end."""
        with self._changed:
            if child not in self._children:
                return
            try:
                if child.has_sent:
                    tell = self._take(child, *unpack(child.receive()))
                elif child.has_ended:
                    raise EOFError
                else:
                    return
            except (EOFError, OSError, ValueError):
                tell = self._bury(child)
        if self._program_ends:
            # A killed child must not be recorded as a failure of its job: other nodes recover the execution.
            threading.Event().wait()
        tell()

    def _take(self, child: WorkerProcess, kind: str, values: dict[str, Any]) -> Callable[[], object]:
        if kind == READY:
            child.is_ready = True
        call = child.call
        if call is None:
            return _nothing
        match kind:
            case _ if kind == BEGUN:
                child.has_begun = True
                return partial(self._events.began, call.token, f"process {child.pid}")
            case _ if kind == PROGRESS:
                return partial(self._events.progress, call.token, **values)
            case _ if kind == LOG:
                return partial(self._events.log, call.token, **values)
            case _ if kind == DONE:
                child.call, child.has_begun, child.has_worked = None, False, True
                if child.is_killed or values["is_spent"]:
                    child.kill()
                    self._bury(child)
                else:
                    self._idle.append(child)
                    if self._is_closing:
                        child.send_end()
                return partial(self._events.ended, call.token, json.dumps({"ending": values}))
        return _nothing

    def _bury(self, child: WorkerProcess) -> Callable[[], object]:
        """Forget a child that has ended, and return what tells the node of it."""
        for watched in child.watched():
            self._selector.unregister(watched)
        code = child.reap(JOIN_SECONDS, on_request=child.is_asked_to_end)
        for children in (self._children, self._idle, self._unsent):
            if child in children:
                children.remove(child)
        self._changed.notify_all()
        call = child.call
        if call is None:
            return _nothing
        if child.is_killed:
            return partial(self._events.killed, call.token)
        limit = self._settings.memory_limit
        reason = described_end(code, child.is_ready) + (f"; its memory_limit was {limit // 2**20} MB" if limit else "")
        # One that was ready and died before it began has certainly not run the job.
        may_have_begun = child.has_begun or not child.has_worked
        return partial(self._events.lost, call.token, reason, may_have_begun=may_have_begun, exit_code=code)

    # --- calls and children

    def _place(self) -> None:
        """Give the waiting calls to children, and start those that are missing."""
        while self._waiting and (child := self._free_child()) is not None:
            child.call = self._waiting.popleft()
            self._unsent.append(child)
        for child in [child for child in self._unsent if child.is_ready]:
            self._hand_over(child)

    def _hand_over(self, child: WorkerProcess) -> None:
        call = child.call
        assert call is not None
        # The lease may have expired while the call waited for the child.
        may_start = call.may_start()
        if may_start is None:
            return
        self._unsent.remove(child)
        if may_start:
            with suppress(OSError):  # It has just died: its end follows.
                child.send(run_message(call.message))
        else:
            child.call = None
            self._idle.append(child)
            self._events.lost(call.token, NOT_BEGUN, may_have_begun=False)

    def _free_child(self) -> WorkerProcess | None:
        while self._idle:
            latest = self._idle.pop()
            if not latest.has_ended:
                return latest
            self._bury(latest)
        if self._is_closing or len(self._children) >= (self._settings.workers or 1):
            return None
        try:
            child = self._start_child()
        except Exception as error:
            if getattr(error, "errno", None) not in _PASSES:
                reason = f"a worker process cannot be started: {error}"
                self._events.lost(self._waiting.popleft().token, reason, may_have_begun=False)
            elif not self._refused:
                self._refused = True
                logger.error("a worker process cannot be started (%s); executions wait for it", error)
            return None
        if self._refused:
            self._refused = False
            logger.warning("worker processes can be started again")
        self._children.append(child)
        for watched in child.watched():
            self._selector.register(watched, selectors.EVENT_READ, partial(self._hear, child))
        return child

    def _start_child(self) -> WorkerProcess:
        settings = self._settings
        ours, theirs = _SPAWN.Pipe()
        with theirs:
            process = _SPAWN.Process(
                target=serve,
                args=(
                    theirs,
                    settings.job_factory,
                    settings.max_job_data_bytes,
                    settings.memory_limit,
                    None if settings.tracing is None else settings.tracing.within,
                ),
                name=f"{PROCESS_WORKER}-{settings.name}-{next(self._numbers)}",
                daemon=True,
            )
            # Starting it also unblocks signals, so it must not start together with the first child below.
            resource_tracker.ensure_running()
            before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS_OF_THE_NODE)
            try:
                process.start()
            except BaseException:
                ours.close()
                raise
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return WorkerProcess(process, ours)

    def _kill_all(self) -> None:
        """Kill all children when the program exits without `close`.

        multiprocessing would only send SIGTERM, which the children ignore, and wait for ever.
        """
        if os.getpid() != self._pid:
            # A fork of the program does not own the children.
            return
        self._program_ends = True
        for child in list(self._children):
            child.kill()


def _nothing() -> None: ...
