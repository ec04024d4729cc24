"""Probes of idle connections: whether the server still answers on them.

A network can forget a connection without telling either end, as a load balancer does after a failover. Keepalives are
then answered by nobody, or by the wrong machine, so that only an answer of the server proves anything.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg.pq.abc import PGresult

SECONDS = 2.0
"""The time, in seconds, within which a server answers a probe, which waits for no lock and reads no row."""


def answers(
    connection: psycopg.Connection[Any],
    seconds: float = SECONDS,
    *,
    interrupted: Callable[[], int] | None = None,
    received: Callable[[], None] = lambda: None,
    query: bytes = b"",
    answered: Callable[[PGresult], object] = lambda result: None,
) -> bool:
    """Return whether the server answers a query in time.

    Args:
        connection: it is idle, and the caller's alone.
        seconds: the limit.
        interrupted: returns a descriptor that ends the wait when it can be read; the answer is then True.
        received: called whenever something has arrived, with the answer or before it.
        query: by default, an empty one.
        answered: called with each result.
    """
    pgconn = connection.pgconn
    until = time.monotonic() + seconds
    try:
        pgconn.send_query(query)
        poller = select.poll()
        poller.register(pgconn.socket, select.POLLIN)
        if interrupted is not None:
            poller.register(interrupted(), select.POLLIN)
        while (remaining := until - time.monotonic()) > 0:
            ready = [descriptor for descriptor, _ in poller.poll(remaining * 1000)]
            if ready and pgconn.socket not in ready:
                return True
            if not ready:
                continue
            pgconn.consume_input()
            received()
            while not pgconn.is_busy():
                result = pgconn.get_result()
                if result is None:
                    return True
                answered(result)
    except (psycopg.Error, OSError, ValueError):
        return False
    return False
