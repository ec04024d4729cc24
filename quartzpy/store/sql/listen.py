"""Waking up other nodes: LISTEN and NOTIFY.

A commit that notifies takes a lock of the whole server, so a transaction notifies at most once, and only where
somebody can be asleep past the new instant: where no trigger of the same job type and placement is due sooner, which
wakes whoever could take the new one. That is decided under TRIGGER_ACCESS: what `acquire` looks at afterwards has the
new trigger.
"""

from __future__ import annotations

import select
from collections.abc import Callable, Collection, Iterable
from datetime import datetime
from typing import Any

import psycopg

from quartzpy.errors import StoreUnavailableError
from quartzpy.keys import JobKey
from quartzpy.store.protocol import Notification
from quartzpy.store.sql.database import translate
from quartzpy.store.sql.flight import Send
from quartzpy.store.sql.session import SqlSession

# The rows that this transaction wrote itself are told by their xmin.
ANNOUNCE = """
SELECT pg_notify(%(channel)s, 'scheduled')
  FROM unnest(%(groups)s::text[], %(names)s::text[], %(at)s::timestamptz[]) AS w(job_group, job_name, at)
  JOIN $job_details j ON j.sched_name = %(sched)s AND j.job_group = w.job_group AND j.job_name = w.job_name
 WHERE w.at <= $now
    OR NOT EXISTS (SELECT FROM $triggers t
                    WHERE t.sched_name = %(sched)s AND t.job_type = j.job_type AND t.placement = j.placement
                      AND t.misfire_rule IN ('SCHEDULER', 'OWN', 'IGNORE') AND t.trigger_state = 'WAITING'
                      AND t.next_fire_time > $now AND t.next_fire_time <= w.at
                      AND t.xmin <> pg_current_xact_id()::xid)
HAVING count(*) > 0
"""


_KNOWN = frozenset(Notification)
TELL = "SELECT pg_notify(%(channel)s, %(news)s)"


def announcement(session: SqlSession, due: Iterable[tuple[JobKey, datetime]]) -> list[Send]:
    """What tells sleeping nodes of triggers that now wait; to be sent under TRIGGER_ACCESS."""
    soonest: dict[JobKey, datetime] = {}
    for key, at in due:
        soonest[key] = min(at, soonest.get(key, at))
    if not soonest:
        return []
    if not session.decides_at_once:
        # Whoever is asleep may have woken, and gone to sleep again, when this is committed.
        return [news(session)]
    return [
        session.send(
            ANNOUNCE,
            channel=session.channel,
            groups=[key.group for key in soonest],
            names=[key.name for key in soonest],
            at=list(soonest.values()),
        )
    ]


def news(session: SqlSession, what: Notification = Notification.SCHEDULED) -> Send:
    """What tells all nodes; of what was given back too: they may be asleep past it."""
    return session.send(TELL, channel=session.channel, news=what)


class Listener:
    """A connection that listens; see `Subscription`."""

    def __init__(
        self, connection: psycopg.Connection[Any], channel: str, *, is_current: Callable[[object], bool]
    ) -> None:
        self._connection = connection
        self._is_current = is_current
        try:
            connection.execute(f'LISTEN "{channel}"'.encode())
        except psycopg.Error as error:
            connection.close()
            raise translate(error) from error

    def wait(self, timeout: float) -> Collection[Notification]:
        """What was heard within `timeout` seconds."""
        if not self._is_current(self._connection):
            raise StoreUnavailableError("the server that was listened to is no longer the one that holds the data")
        try:
            pgconn = self._connection.pgconn
            # Not `select`, which takes no descriptor above 1,023.
            poller = select.poll()
            poller.register(pgconn.socket, select.POLLIN)
            if not poller.poll(timeout * 1000):
                return ()
            pgconn.consume_input()
            heard: set[Notification] = set()
            while (told := pgconn.notifies()) is not None:
                # A node of a later release may tell more than this one knows.
                if (word := told.extra.decode(errors="replace")) in _KNOWN:
                    heard.add(Notification(word))
            if pgconn.status != psycopg.pq.ConnStatus.OK:
                raise StoreUnavailableError("the connection that listens was lost")
            return heard
        except (psycopg.Error, OSError, ValueError) as error:
            raise StoreUnavailableError(f"the connection that listens was lost: {error}") from error

    def close(self) -> None:
        self._connection.close()
