"""A network that delays: all of a run's connections to the server through one proxy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlalchemy import make_url

from benchmarks.server import Server
from tests.proxy import in_a_process, moved


@contextmanager
def delaying(server: Server, delay_ms: float) -> Iterator[Callable[[str], str]]:
    """Provide a function that returns the URL of a database through a proxy which adds to each round trip.

    Without a delay the URLs lead to the server directly.
    """
    if not delay_ms:
        yield lambda url: url
        return
    with in_a_process(server.url_of("postgres"), delay_ms / 1000) as through:
        port = make_url(through).port
        assert port is not None
        yield lambda url: moved(url, port)
