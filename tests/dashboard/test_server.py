"""The end of the server of `quartzpy dashboard`."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import socket
import threading
from types import SimpleNamespace

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from quartzpy.dashboard import server as module
from quartzpy.dashboard.server import DashboardServer, listen


@pytest.mark.filterwarnings("error::ResourceWarning")
def test_a_connection_whose_request_does_not_end_is_closed_with_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GRACE", 0.1)
    has_begun = threading.Event()

    async def hang(request: Request) -> Response:
        has_begun.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        await asyncio.sleep(60)
        return Response()

    app = Starlette(routes=[Route("/", hang)])
    app.state.hub = SimpleNamespace(close=lambda: None)
    server = DashboardServer(app)
    sock = listen("127.0.0.1", 0)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]})
    thread.start()
    with socket.create_connection(sock.getsockname()) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert has_begun.wait(60)
        server.handle_exit(signal.SIGTERM, None)
        thread.join(60)
        assert not thread.is_alive()
        client.settimeout(60)
        with contextlib.suppress(ConnectionResetError):
            assert client.recv(1) == b""
    sock.close()
    # What is left open is reported when it is collected.
    gc.collect()
