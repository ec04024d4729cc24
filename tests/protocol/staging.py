"""One operation is held at the end of one of its round trips, with all its locks, while another begins: without
sleeping.

The held round trip waits for an advisory lock of the test behind its last statement. Whether the other operation came
to its end, or waits for somebody, is read from the server.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import psycopg

from quartzpy.store.postgresql.connection import connections
from quartzpy.store.postgresql.connection.pipeline import BoundStatement, Result
from quartzpy.store.postgresql.schema.statement import prepare
from tests.protocol.driver import Stage
from tests.waiting import LIMIT, wait_until

HELD_AT = 4712
HOLD = BoundStatement(prepare("protocol_hold", f"SELECT pg_advisory_xact_lock({HELD_AT})"), {})


class Actor:
    """An operation on a thread of its own."""

    def __init__(self, act: Callable[[], Any], name: str) -> None:
        self._act = act
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    def _run(self) -> None:
        try:
            self._act()
        except BaseException as error:  # told to the test, on its own thread
            self.error = error

    @property
    def is_done(self) -> bool:
        return self.thread.ident is not None and not self.thread.is_alive()

    def join(self) -> None:
        self.thread.join(LIMIT)
        assert not self.thread.is_alive(), f"{self.thread.name} does not end"
        if self.error is not None:
            raise self.error


class Staging:
    """Holds one round trip, and knows who waits for whom."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._execute = connections.execute_pipelined
        self._lock = threading.Lock()
        self._holder = stage.connect()
        self._thread: threading.Thread | None = None
        self._at = 0
        self.pipelines = 0
        """How many the operation that is to be held has sent."""
        self.pid: int | None = None
        """The backend of the held round trip."""
        self.deadlocks: list[str] = []

    def close(self) -> None:
        self.let_go()
        self._holder.close()

    def execute(self, connection: psycopg.Connection[Any], sends: Sequence[BoundStatement], **how: Any) -> list[Result]:
        """Stands for `connections.execute_pipelined`."""
        holds = False
        if threading.current_thread() is self._thread:
            self.pipelines += 1
            holds = self.pipelines == self._at
        try:
            if not holds:
                return self._execute(connection, sends, **how)
            self.pid = connection.info.backend_pid
            return self._execute(connection, [*sends, HOLD], **how)[:-1]
        except psycopg.errors.DeadlockDetected as error:
            with self._lock:
                self.deadlocks.append(f"{threading.current_thread().name}: {error}")
            raise

    def start_held(self, actor: Actor, at: int) -> bool:
        """Start an operation, and hold it at the end of its round trip of this number; whether it has one."""
        self._thread, self._at, self.pipelines, self.pid = actor.thread, at, 0, None
        self._holder.execute("SELECT pg_advisory_lock(%s)", [HELD_AT])
        actor.thread.start()
        what = "the first operation to be held, or to end"
        wait_until(lambda: actor.is_done or self._is_held(), what, every=0.002)
        return not actor.is_done

    def _is_held(self) -> bool:
        return self.pid is not None and bool(
            self._stage.rows("SELECT 1 FROM pg_stat_activity WHERE pid = %s AND wait_event = 'advisory'", self.pid)
        )

    def let_go(self) -> None:
        self._holder.execute("SELECT pg_advisory_unlock_all()")

    def start(self, actor: Actor, beside: int) -> bool:
        """Start an operation; whether it came to wait for what the backend `beside` holds."""
        actor.thread.start()
        what = f"{actor.thread.name} to wait, or to end"
        wait_until(lambda: actor.is_done or self.waits_for(beside), what, every=0.002)
        return not actor.is_done

    def waits_for(self, pid: int) -> bool:
        """Whether somebody waits for this backend, or for somebody who does."""
        return bool(self._stage.rows("SELECT 1 FROM pg_stat_activity WHERE %s = ANY(pg_blocking_pids(pid))", pid))

    def is_locked(self) -> bool:
        """Whether somebody holds TRIGGER_ACCESS."""
        return not self._stage.rows(
            "SELECT 1 FROM qrtz_locks WHERE lock_name = 'TRIGGER_ACCESS' FOR UPDATE SKIP LOCKED"
        )
