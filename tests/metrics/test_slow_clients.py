"""A client that sends its request byte by byte does not keep one of the few places for requests."""

from __future__ import annotations

import socket
from contextlib import closing
from typing import Any

import pytest

from quartzpy.metrics import endpoints
from quartzpy.metrics.endpoints import MetricsServer


def test_a_request_has_a_deadline_and_not_each_of_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "REQUEST_TIMEOUT", 0.5)
    responder: Any = None
    serving = MetricsServer(responder, "127.0.0.1", 0)
    try:
        with closing(socket.create_connection(("127.0.0.1", serving.port), 60)) as connection:
            connection.settimeout(0.1)
            for _ in range(600):
                try:
                    connection.sendall(b"x")
                    if connection.recv(1) == b"":
                        return
                except TimeoutError:
                    continue
                except ConnectionError:
                    return
        raise AssertionError("the connection is still open after a minute")
    finally:
        serving.close()
