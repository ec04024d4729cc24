"""The engine "celery": a `CeleryTask` ends as the task that it sends, and other jobs run on the workers of the app.

The name of a task is the token of its call, so that any node can watch it. One thread reads the states of all tasks
that the node watches from the app's result backend. They do not tell whether a task still waits or runs, because Celery
writes none when it loses a message or a worker: for tasks that take long, the workers are asked.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from celery import Celery, states
from celery.backends.base import DisabledBackend, KeyValueStoreBackend
from celery.backends.rpc import RPCBackend
from celery.exceptions import OperationalError, TaskRevokedError

from quartzpy.errors import SettingsError
from quartzpy.ext.celery.task_job import send
from quartzpy.job_data import decode
from quartzpy.jobs.internal_entries import nominal_fire
from quartzpy.jobs.job import CELERY_TASK
from quartzpy.node.engines.process_messages import Ending, bounded, error_to_json, fired_from_json
from quartzpy.node.engines.protocol import Abilities, Call, Engine, EngineEvents, EngineSettings, Found
from quartzpy.node.engines.remote_job import keep_result
from quartzpy.object_references import object_at
from quartzpy.texts import quoted, reason

RUNNER = "quartzpy.run"
_POLL_EVERY = 0.25
_POLL_SHARE = 0.1
"""The largest part of its time for which the thread reads states."""
_ASK_EVERY = 5.0
_ANSWER_WITHIN = 1.0
# Nobody here waits for the result by the means of Celery, which would subscribe to that of each task and never
# unsubscribe. The header is what the worker reads.
_SILENTLY: Mapping[str, Any] = {"ignore_result": True, "retry": False}
_KEEP_RESULT = {"ignore_result": False}


def add_runner(app: Celery, **options: Any) -> Celery:
    """Let the workers of a Celery app run the jobs of executors with this app; return the app.

    It stands in the module of the app, which the workers and the nodes import. `options` are those of a Celery task,
    such as `queue="quartzpy"`.
    """
    # Acknowledged late, because what a worker has not begun is then run by another; what Celery repeats gets no ticket.
    app.task(**{**options, "name": RUNNER, "acks_late": True, "track_started": True, "shared": False})(_run)
    return app


def _run(message: str) -> str:
    # Imported here, because a node needs it not.
    from quartzpy.node.engines.worker import run

    return run(message)


def engine(settings: EngineSettings) -> Engine:
    """Return the engine for an executor whose address names a Celery app.

    Raises:
        SettingsError: the address names none.
    """
    subject = f"executors: {settings.executor}"
    app = object_at(settings.address, subject, "celery:myapp.celery:app")
    if not isinstance(app, Celery):
        raise SettingsError(f"{subject}: {settings.address} must be a Celery app (got {quoted(type(app).__name__)})")
    return CeleryTasks(app, settings)


@dataclass(slots=True)
class _WatchedCall:
    is_runner: bool
    since: float
    said: Found = Found.UNKNOWN
    has_begun: bool = False
    is_stopped: bool = False
    is_killed: bool = False


class CeleryTasks:
    """Sends tasks with a Celery app, and watches them."""

    abilities = Abilities(repeats=True, can_kill=True, can_find=True, can_adopt=True)

    def __init__(self, app: Celery, settings: EngineSettings) -> None:
        self._app = app
        self._subject = f"celery: {settings.address}"
        self._monotonic = settings.monotonic
        self._watched: dict[str, _WatchedCall] = {}
        self._gone: set[str] = set()
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread = threading.Thread(
            target=self._watch, name=f"{settings.name}-{settings.executor}-results", daemon=True
        )
        self._asked_at = settings.monotonic()
        self._events: EngineEvents

    def start(self, events: EngineEvents) -> None:
        """Check that the broker and the result backend can be reached, and that the latter keeps results."""
        self._events = events
        backend = self._app.backend
        if isinstance(backend, DisabledBackend | RPCBackend):
            raise SettingsError(
                f"{self._subject}: result_backend must be one that keeps results, such as Redis or a database (got"
                f" {quoted(backend.as_uri())}); without it, nobody learns how a task ends"
            )
        with self._app.connection_for_write() as connection:
            connection.connect()
        self._states(["quartzpy"])
        if self._thread.ident is None:
            self._thread.start()

    def capacity(self) -> int | None:
        """Return None: what exceeds the workers waits at the broker, as other tasks do."""
        return None

    def submit(self, call: Call) -> None:
        """Send the job's own task, or the one that runs the job."""
        message = json.loads(call.message)
        # Watched before it is sent, because it may end at once.
        watched = self._add(call.token, message)
        try:
            if watched.is_runner:
                self._runner.apply_async((call.message,), task_id=call.token, headers=_KEEP_RESULT, **_SILENTLY)
            else:
                fired = fired_from_json(message["fired"])
                data = {**decode(fired.job_data), **decode(fired.trigger_data)}
                nominal = nominal_fire(fired.trigger_key, fired.scheduled_fire_time, data)
                send(self._app, data, nominal.execution_key, nominal.instant, call.token, _KEEP_RESULT, **_SILENTLY)
        except Exception as error:
            self._forget(call.token)
            if isinstance(error, OperationalError):
                self._events.unavailable(self._away(error))
            raise

    @property
    def _runner(self) -> Any:
        if RUNNER not in self._app.tasks:
            raise SettingsError(
                f"{self._subject}: the app runs no jobs; call quartzpy.ext.celery.add_runner(app) in its module"
            )
        return self._app.tasks[RUNNER]

    def _away(self, error: Exception) -> str:
        return f"{self._subject}: the broker cannot be reached: {reason(error)}"

    def _add(self, token: str, message: Mapping[str, Any]) -> _WatchedCall:
        watched = _WatchedCall(message["fired"]["type_name"] != CELERY_TASK, self._monotonic())
        with self._lock:
            self._watched[token] = watched
        return watched

    def _forget(self, token: str) -> bool:
        """Watch a task no more; return whether it was watched until now."""
        with self._lock:
            return self._watched.pop(token, None) is not None

    def stop(self, token: str, *, kill: bool = False) -> bool:
        """Revoke a task. With `kill`, its process ends too, if the app's workers have processes."""
        with self._lock:
            watched = self._watched.get(token)
        if watched is not None:
            watched.is_stopped = True
            watched.is_killed = watched.is_killed or kill
            try:
                self._app.control.revoke(token, terminate=kill, signal="KILL")
            except OperationalError as error:
                self._events.unavailable(self._away(error))
        # Its state tells later that it is over.
        return False

    def find(self, tokens: Collection[str]) -> Mapping[str, Found]:
        """Return what the workers have said."""
        with self._lock:
            said = {token: self._watched[token].said for token in tokens if token in self._watched}
        return {**said, **dict.fromkeys(self._gone.intersection(tokens), Found.GONE)}

    def adopt(self, call: Call) -> bool:
        """Watch a task. Whether it was sent, Celery does not tell as long as it has not begun."""
        self._add(call.token, json.loads(call.message))
        return True

    def close(self, timeout: float) -> None:
        """Watch no more. The tasks go on."""
        self._closing.set()
        if self._thread.ident is not None:
            self._thread.join(timeout)
        # The thread may wait for an answer still.
        with self._lock:
            self._watched.clear()

    # --- the thread

    def _watch(self) -> None:
        pause = _POLL_EVERY
        while not self._closing.wait(pause):
            began = self._monotonic()
            try:
                with self._lock:
                    watched = dict(self._watched)
                self._read(watched)
                pause = max(_POLL_EVERY, (self._monotonic() - began) / _POLL_SHARE)
                if began - self._asked_at > _ASK_EVERY:
                    self._ask({token: call for token, call in watched.items() if began - call.since > _ASK_EVERY})
                    self._asked_at = self._monotonic()
            except Exception as error:
                # Each backend has errors of its own.
                self._events.unavailable(f"{self._subject}: the tasks cannot be watched: {reason(error)}")

    def _read(self, watched: Mapping[str, _WatchedCall]) -> None:
        for token, state in self._states(list(watched)):
            self._tell(token, watched[token], state)

    def _states(self, tokens: list[str]) -> list[tuple[str, Mapping[str, Any]]]:
        backend = self._app.backend
        if not isinstance(backend, KeyValueStoreBackend):
            return [(token, backend.get_task_meta(token, cache=False)) for token in tokens]
        keys = [backend.get_key_for_task(token) for token in tokens]
        values = backend.mget(keys) if keys else []
        # Most backends return a list in the order of the keys.
        in_order = [values.get(key) for key in keys] if isinstance(values, Mapping) else values
        return [(token, self._decoded(value)) for token, value in zip(tokens, in_order, strict=True) if value]

    def _decoded(self, value: Any) -> Mapping[str, Any]:
        try:
            return dict(self._app.backend.decode_result(value))
        except Exception as error:
            # What is wrong with one result must not hide all others.
            return {"status": states.FAILURE, "result": error, "traceback": None}

    def _tell(self, token: str, watched: _WatchedCall, state: Mapping[str, Any]) -> None:
        status, result = state["status"], state["result"]
        if status == states.STARTED and not watched.has_begun:
            watched.has_begun = True
            self._events.began(token, str(result.get("hostname")) if isinstance(result, Mapping) else "")
        if status not in states.READY_STATES or not self._forget(token):
            return
        if status == states.REVOKED and watched.is_stopped:
            self._events.killed(token)
        elif status == states.SUCCESS:
            self._events.ended(token, result if watched.is_runner else _answer(result))
        elif watched.is_runner:
            self._events.lost(token, reason(result), may_have_begun=True)
        else:
            error = TaskRevokedError("the task was revoked") if status == states.REVOKED else result
            self._events.ended(token, _answer(error, state["traceback"]))

    def _ask(self, old: Mapping[str, _WatchedCall]) -> None:
        """Ask the workers which tasks they have. In this order, so that a message on its way is seen at least once."""
        if not old:
            return
        nothing_waits = self._nothing_waits()
        answers = self._app.control.inspect(timeout=_ANSWER_WITHIN).query_task(*old) or {}
        held = {token for tasks in answers.values() for token in tasks}
        self._read(old)
        for token, watched in old.items():
            if token in held:
                watched.said = Found.RUNNING
            elif answers and watched.is_killed:
                # Every worker knows that it is revoked, and refuses it if the broker still has it.
                if self._forget(token):
                    self._events.killed(token)
            elif answers and nothing_waits and watched.is_runner and not watched.has_begun:
                # Submitted again under another name. Should the message turn up after all, it gets no ticket.
                if self._forget(token):
                    self._gone.add(token)
            else:
                watched.said = Found.UNKNOWN

    def _nothing_waits(self) -> bool:
        if RUNNER not in self._app.tasks:
            return False
        queue = self._app.amqp.router.route(self._runner._get_exec_options(), RUNNER)["queue"]
        with self._app.connection_for_read() as connection:
            try:
                return bool(connection.default_channel.queue_declare(queue.name, passive=True).message_count == 0)
            except connection.channel_errors:
                # The broker has forgotten the queue.
                return True


def _answer(result: Any, traceback: str | None = None) -> str:
    ending = Ending(noticed_stop=False)
    if isinstance(result, BaseException):
        ending.error = error_to_json(result)
        ending.error["traceback"] = traceback and bounded(traceback)
    else:
        keep_result(ending, result)
    return json.dumps({"ending": vars(ending)})
