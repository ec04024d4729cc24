"""Jobs on the workers of a Dask cluster: `executors={"big": "dask:tcp://scheduler:8786"}`.

A call is a task whose key is its token. Dask runs the tasks of a lost worker again, up to three times, and does not say
so: the ticket that a call takes in the database makes that harmless. All that this module asks of the scheduler are
messages that Dask's own client sends; no code of quartzpy runs on the scheduler, which needs no package beside Dask.

A job that runs cannot be stopped by Dask, and its process is never killed, because it has other people's tasks and
data. The job learns of a request to stop from its row.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Collection, Coroutine, Mapping
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import dask.config
from distributed import Client, Future, fire_and_forget
from distributed.comm import get_address_host_port

from quartzpy.errors import SettingsError
from quartzpy.node.engines.protocol import Abilities, Call, EngineEvents, EngineSettings, Found
from quartzpy.texts import quoted, reason

T = TypeVar("T")

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 5.0
"""The time, in seconds, after which a scheduler that does not answer is taken for unreachable."""
CHECK_SECONDS = 2.0
"""The time, in seconds, that workers which are new have to answer."""
LOOK_EVERY = 1.0
"""The pause, in seconds, between two looks at the workers, and at calls that another client has submitted."""
_RUN = "__import__('quartzpy.node.engines.worker', fromlist=['run']).run(message)"
"""What a worker evaluates. As text: if the function itself were sent, a worker that cannot import it would lose its
connection and everything it has, and the scheduler would have to import it too."""
_PROBE = (
    "(getattr(__import__('importlib.util').util.find_spec('quartzpy'), 'origin', None) is not None,"
    " 'QUARTZPY_WORKER_URL' in __import__('os').environ,"
    " next((found.version for found in"
    " __import__('importlib.metadata').metadata.distributions(name='quartzpy')), None))"
)
_FOUND = {"memory": Found.DONE, "erred": Found.FAILED, None: Found.GONE}
"""The states of a task that are not RUNNING."""
_WAITS = ("released", "waiting", "no-worker", "queued")
"""The states of a task that no worker has."""

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Task:
    """A call in hand. Without a future, nobody watches it: the connection was cut, or another node has submitted it."""

    future: Any = None
    is_adopted: bool = False
    """True if the task was known to the scheduler before `future` was made."""
    is_kept: bool = False
    """True once the scheduler keeps the task although its client goes."""


class DaskEngine:
    """An engine on a Dask cluster, with one connection and one thread."""

    abilities = Abilities(repeats=True, can_find=True, can_adopt=True)

    def __init__(self, settings: EngineSettings) -> None:
        self._settings = settings
        self._where = _where(settings)
        self._events: EngineEvents
        self._client: Any = None
        """Dask's client; its methods have no types."""
        self._tasks: dict[str, _Task] = {}
        self._threads: dict[str, int] = {}
        self._checked: set[str] = set()
        self._other_version: str | None = None
        """That of a worker, which was logged last."""
        self._looking: asyncio.Task[None] | None = None
        self._watching: set[asyncio.Task[None]] = set()
        """The loop keeps only weak references to its tasks."""
        self._loop: asyncio.AbstractEventLoop
        self._thread: threading.Thread | None = None

    # --- the protocol

    def start(self, events: EngineEvents) -> None:
        self._events = events
        if self._thread is None:
            self._loop = asyncio.new_event_loop()
            name = f"{self._settings.name}-dask"
            self._thread = threading.Thread(target=_run, args=(self._loop,), name=name, daemon=True)
            self._thread.start()
        self._wait(self._connect(), 2 * CONNECT_SECONDS + 3 * ANSWER_SECONDS)

    def capacity(self) -> int | None:
        # An adaptive cluster grows only if more is submitted than its workers can run: then the setting has the number.
        return None if self._settings.workers is not None else sum(self._threads.values())

    def submit(self, call: Call) -> None:
        try:
            client = self._connected()
        except ConnectionError as error:
            # Said at once: until the next look, calls would be submitted in vain, and so often that they fail.
            self._events.unavailable(reason(error))
            raise
        future = client.submit(eval, _RUN, {"message": call.message}, key=_key(call.token), pure=False, retries=0)
        task = self._tasks[call.token] = _Task(future)
        self._loop.call_soon_threadsafe(self._watch, call.token, task)

    def stop(self, token: str, *, kill: bool = False) -> bool:
        try:
            return self._wait(self._withdraw(token), ANSWER_SECONDS)
        except (OSError, TimeoutError):
            return False

    def find(self, tokens: Collection[str]) -> Mapping[str, Found]:
        try:
            states = self._wait(self._states(tokens), ANSWER_SECONDS)
        except (OSError, TimeoutError):
            return {}
        return {
            # Dask's client is told the end of what it has submitted, which the scheduler may not yet have read.
            token: Found.RUNNING if token in self._tasks and state is None else _FOUND.get(state, Found.RUNNING)
            for token, state in states.items()
        }

    def adopt(self, call: Call) -> bool:
        try:
            return self._wait(self._attach(call.token), ANSWER_SECONDS)
        except (OSError, TimeoutError):
            # The next look begins to watch it, or loses it.
            self._tasks.setdefault(call.token, _Task())
            return True

    def close(self, timeout: float) -> None:
        thread, self._thread = self._thread, None
        if thread is None:
            return
        with suppress(TimeoutError):
            self._wait(self._end(timeout), timeout + 2 * ANSWER_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        thread.join(ANSWER_SECONDS)

    # --- the connection

    def _wait(self, work: Coroutine[Any, Any, T], seconds: float) -> T:
        if self._loop.is_closed():
            work.close()
            raise ConnectionError(f"the connection with {self._at()} is closed")
        # The loop may end before it begins the work.
        limit = seconds + ANSWER_SECONDS
        return asyncio.run_coroutine_threadsafe(asyncio.wait_for(work, seconds), self._loop).result(limit)

    def _connected(self) -> Any:
        if self._client is None or self._client.status != "running":
            raise ConnectionError(f"the connection with {self._at()} is lost")
        return self._client

    async def _connect(self) -> None:
        await self._disconnect()
        try:
            async with asyncio.timeout(CONNECT_SECONDS + 1):
                self._client = Client(
                    **self._where,
                    asynchronous=True,
                    name=self._settings.name,
                    set_as_default=False,
                    timeout=CONNECT_SECONDS,
                )
                await self._client
            await self._look()
        except BaseException as error:
            await self._disconnect()
            if isinstance(error, OSError | TimeoutError):
                why = reason(error) if str(error) else "it does not answer"
                raise ConnectionError(f"cannot reach {self._at()}: {why}") from error
            raise
        self._looking = asyncio.create_task(self._keep_looking())

    def _at(self) -> str:
        return f"Dask's scheduler at {self._settings.address or 'the address of its configuration'}"

    async def _disconnect(self) -> None:
        if self._looking is not None and self._looking is not asyncio.current_task():
            self._looking.cancel()
        self._threads = {}
        self._checked.clear()
        client, self._client = self._client, None
        if client is not None:
            try:
                with suppress(Exception):
                    await client.close(timeout=ANSWER_SECONDS)
            finally:
                # One that has not ended in time would be closed again when it is collected, by then without a loop.
                client.status = "closed"

    async def _end(self, timeout: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while self._tasks:
                    await asyncio.sleep(0.05)
        await self._disconnect()

    # --- the looks

    async def _keep_looking(self) -> None:
        try:
            while True:
                await asyncio.sleep(LOOK_EVERY)
                await self._look()
        except Exception as error:
            await self._disconnect()
            is_silent = isinstance(error, TimeoutError)
            self._events.unavailable(f"{self._at()} does not answer" if is_silent else reason(error))

    async def _look(self) -> None:
        client = self._connected()
        async with asyncio.timeout(ANSWER_SECONDS):
            threads: dict[str, int] = await client.scheduler.ncores_running()
            unsure = {token: task for token, task in self._tasks.items() if not task.is_kept}
            for token, state in (await self._states(unsure)).items() if unsure else ():
                if self._tasks.get(token) is unsure[token]:
                    self._settle(client, token, unsure[token], state)
        if new := threads.keys() - self._checked:
            # A worker that is busy, or is dying, is asked again by the next look.
            with suppress(TimeoutError):
                async with asyncio.timeout(CHECK_SECONDS):
                    await self._check(client, new)
                    self._checked = set(threads)
        if threads != self._threads:
            self._threads = threads
            self._events.changed()

    async def _check(self, client: Any, workers: Collection[str]) -> None:
        """Ask workers that are new for what they need.

        Raises:
            SettingsError: a worker lacks it. It would fail each call at once, and so get most of them.
        """
        ours = version("quartzpy")
        answers = await client.run(eval, _PROBE, workers=list(workers), on_error="ignore")
        for worker, (has_quartzpy, has_url, theirs) in answers.items():
            if not has_quartzpy:
                raise SettingsError(f"the Dask worker {worker} has no quartzpy: install {ours} there")
            if not has_url:
                raise SettingsError(
                    f"the Dask worker {worker} has no QUARTZPY_WORKER_URL in its environment: start it with the URL of"
                    " the database, with a role that is a member of quartzpy_worker"
                )
            if theirs not in (None, ours, self._other_version):
                self._other_version = theirs
                logger.warning("the Dask worker %s has quartzpy %s, and this node %s", worker, theirs, ours)

    async def _states(self, tokens: Collection[str]) -> dict[str, str | None]:
        keys = {_key(token): token for token in tokens}
        states = await self._connected().scheduler.get_task_status(keys=list(keys))
        return {keys[key]: state for key, state in states.items()}

    async def _attach(self, token: str) -> bool:
        state = (await self._states([token]))[token]
        if state is not None and (task := self._tasks.setdefault(token, _Task())).future is None:
            self._settle(self._connected(), token, task, state)
        return state is not None

    def _settle(self, client: Any, token: str, task: _Task, state: str | None) -> None:
        if task.future is None and state is not None:
            task.future, task.is_adopted = Future(_key(token), client), True
            client._send_to_scheduler({"op": "client-desires-keys", "keys": [_key(token)]})
            self._watch(token, task)
        elif state is None and (task.future is None or task.is_adopted):
            self._lose(token, "Dask's scheduler does not know the call any more", may_have_begun=True)
        elif state is not None and not task.is_adopted:
            # Only a task that the scheduler has read can be kept.
            fire_and_forget(task.future)
            task.is_kept = True

    # --- the ends

    def _watch(self, token: str, task: _Task) -> None:
        watching = self._loop.create_task(self._follow(token, task, task.future))
        self._watching.add(watching)
        watching.add_done_callback(self._watching.discard)

    async def _follow(self, token: str, task: _Task, future: Any) -> None:
        try:
            answer = await future
        except Exception as error:
            if self._tasks.get(token) is not task:
                return
            if future.status == "error" and not isinstance(error, CancelledError):
                # The function raises nothing, so an import that fails is that of quartzpy.
                self._lose(token, reason(error), may_have_begun=not isinstance(error, ImportError))
            else:
                # The connection is lost, or somebody has cancelled the task: the next look decides.
                task.future, task.is_adopted, task.is_kept = None, False, False
        else:
            if self._tasks.pop(token, None) is not None:
                self._events.ended(token, answer)

    def _lose(self, token: str, why: str, *, may_have_begun: bool) -> None:
        if self._tasks.pop(token, None) is not None:
            self._events.lost(token, why, may_have_begun=may_have_begun)

    async def _withdraw(self, token: str) -> bool:
        """Cancel a call that no worker has, and return True if none has got it meanwhile."""
        client, task = self._connected(), self._tasks.get(token)
        if task is None or task.future is None or (await self._states([token]))[token] not in _WAITS:
            return False
        del self._tasks[token]
        is_over = False
        try:
            await client.cancel([task.future], force=True)
            while (await self._states([token]))[token] is not None:
                await asyncio.sleep(0.05)
            story = await client.scheduler.get_story(keys_or_stimuli=[_key(token)])
            is_over = not any("processing" in (start, finish) for _, start, finish, *_ in story)
        finally:
            if not is_over:
                # The next look loses it.
                self._tasks[token] = _Task()
        return is_over


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """Run a loop until it is stopped, and then end its tasks, Dask's among them, and the loop."""
    try:
        loop.run_forever()
        loop.run_until_complete(_end_others())
    finally:
        loop.close()


async def _end_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


def _key(token: str) -> str:
    # Dask's statistics are by the letters before the first digits, and stay for ever.
    return f"quartzpy-{token}"


def _where(settings: EngineSettings) -> dict[str, str]:
    if settings.address.endswith(".json"):
        if not Path(settings.address).is_file():
            # Dask would wait for it for ever.
            raise SettingsError(
                f"executor {settings.executor!r}: there is no scheduler file {quoted(settings.address)}"
            )
        return {"scheduler_file": settings.address}
    if settings.address:
        try:
            # Those of the same process and of UCX have no port.
            if not settings.address.startswith(("inproc://", "ucx://")):
                get_address_host_port(settings.address, strict=True)
        except ValueError as error:
            raise SettingsError(
                f"executor {settings.executor!r}: {quoted(settings.address)} must be the address of a scheduler, as in"
                f" dask:tcp://scheduler:8786: {reason(error)}"
            ) from error
        return {"address": settings.address}
    if not (dask.config.get("scheduler-address", None) or dask.config.get("scheduler-file", None)):
        # Dask would start a cluster of its own in the node.
        raise SettingsError(
            f"executor {settings.executor!r}: dask needs the address of a scheduler, as in"
            " dask:tcp://scheduler:8786, a scheduler file, as in dask:/shared/scheduler.json, or one in Dask's own"
            " configuration"
        )
    return {}


engine = DaskEngine
