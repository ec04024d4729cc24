"""Waking up other nodes: LISTEN and NOTIFY.

A commit that notifies takes a lock of the whole server, so a transaction notifies at most once, and only where
somebody can be asleep past the new instant: no trigger of the same job type that is due sooner wakes them anyway.
"""

from __future__ import annotations

import hashlib
import select
from typing import Any

import psycopg

from quartzpy.errors import StoreUnavailableError

ANNOUNCE = """
SELECT pg_notify(%(channel)s, %(at)s::timestamptz::text)
"""


def channel(scheduler: str) -> str:
    """The channel of a scheduler: names may be longer than an identifier of PostgreSQL."""
    return f"quartzpy_{hashlib.sha256(scheduler.encode()).hexdigest()[:40]}"


class Listener:
    """A connection that listens; see `Subscription`."""

    def __init__(self, connection: psycopg.Connection[Any], scheduler: str) -> None:
        self._connection = connection
        connection.execute(f'LISTEN "{channel(scheduler)}"'.encode())

    def wait(self, timeout: float) -> bool:
        """Whether there is news within `timeout` seconds."""
        try:
            pgconn = self._connection.pgconn
            if not select.select([pgconn.socket], [], [], timeout)[0]:
                return False
            pgconn.consume_input()
            heard = False
            while pgconn.notifies() is not None:
                heard = True
            if pgconn.status != psycopg.pq.ConnStatus.OK:
                raise StoreUnavailableError("the connection that listens was lost")
            return heard
        except (psycopg.Error, OSError, ValueError) as error:
            raise StoreUnavailableError(f"the connection that listens was lost: {error}") from error

    def close(self) -> None:
        self._connection.close()
