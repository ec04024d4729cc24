"""Sessions that have ended: their cookies, which anybody may have copied, admit nobody any more.

A session is a signed cookie, so that every process with the same tokens knows it. Its end is kept in this process, and
in the audit log, where the other processes of the same scheduler find it. So it needs no table of its own.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from starlette.requests import Request

from quartzpy.errors import QuartzpyError
from quartzpy.operations import Actor
from quartzpy.scheduler.scheduler import BaseScheduler
from quartzpy.states import ActionState
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.postgresql.admin.records import ActionEntry
from quartzpy.store.queries import ActionQuery
from quartzpy.texts import reason

logger = logging.getLogger(__name__)

LOG_OUT = "log_out"
"""The action of the entry in the audit log."""
LOOK_EVERY = 5.0
"""The time, in seconds, after which the audit log is asked again whether a session has ended elsewhere."""
_MOST = 10_000


class EndedSessions:
    """Knows which sessions of one scheduler have ended."""

    def __init__(self, scheduler: BaseScheduler, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._scheduler = scheduler
        self._monotonic = monotonic
        self._ended: OrderedDict[str, None] = OrderedDict()
        self._looked: OrderedDict[str, float] = OrderedDict()
        self._guard = threading.Lock()

    def end(self, session: str, actor: Actor) -> None:
        """End a session here at once, and elsewhere by an entry of the audit log."""
        self._note(session)
        try:
            self.record_end(session, actor)
        except QuartzpyError as error:
            text = "dashboard: a session that ended goes on in other processes, because it cannot be recorded: %s"
            logger.warning(text, reason(error))

    def record_end(self, session: str, actor: Actor) -> None:
        """End a session elsewhere.

        Raises:
            QuartzpyError: it cannot be recorded, so the session goes on.
        """
        subject, role = _subject(session), str(actor.role)
        entry = ActionEntry(actor.name, role, action=LOG_OUT, subject=subject, state=ActionState.SUCCEEDED)
        admin(self._scheduler._usable_store()).record_action(entry)

    def has_ended(self, session: str) -> bool:
        """Return whether a session has ended, in this process or, some seconds ago, in another one."""
        now = self._monotonic()
        with self._guard:
            if session in self._ended:
                return True
            looked = self._looked.get(session)
            if looked is not None and now - looked < LOOK_EVERY:
                return False
            self._looked[session] = now
            self._looked.move_to_end(session)
            while len(self._looked) > _MOST:
                self._looked.popitem(last=False)
        try:
            entries = admin(self._scheduler._usable_store()).find(
                ActionQuery(action=LOG_OUT, subject=_subject(session)), 1, None
            )
        except QuartzpyError:
            # During an outage the pages say so themselves; nobody is logged out by it.
            return False
        if entries:
            self._note(session)
        return bool(entries)

    def _note(self, session: str) -> None:
        with self._guard:
            self._ended[session] = None
            while len(self._ended) > _MOST:
                self._ended.popitem(last=False)


def ended_sessions(request: Request) -> EndedSessions:
    """Return what the application of a request knows of ended sessions."""
    sessions: EndedSessions = request.app.state.ended_sessions
    return sessions


def end_session(request: Request) -> str | None:
    """End the session of this request, for everybody who has its cookie; return it, or None if there is none."""
    number: str | None = getattr(request.state, "session", None)
    actor: Actor | None = getattr(request.state, "actor", None)
    if number is None or actor is None:
        return None
    ended_sessions(request).end(number, actor)
    return number


def _subject(session: str) -> str:
    """The session in the audit log, of no use to its readers."""
    return f"session {hashlib.sha256(session.encode()).hexdigest()[:16]}"
