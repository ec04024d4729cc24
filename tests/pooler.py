"""A pooler as PgBouncer is one with `pool_mode=transaction`: a client has a server connection for one transaction.

It hands the connections out in turns, so that what somebody left in a session is another one's the next time, and
refuses the startup parameter `options`, as PgBouncer does unless it is told to ignore it.
"""

from __future__ import annotations

import contextlib
import queue
import select
import socket
import struct
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Self

import psycopg

from tests.database import libpq_url
from tests.proxy import moved

_WITHOUT_TLS = b"N"
_NEGOTIATIONS = (80877103, 80877104)
_CANCEL = 80877102
_ASKS = frozenset(b"QS")
"""Query and Sync: each is answered by a ReadyForQuery."""
_READY, _TERMINATE = ord("Z"), ord("X")
_CHUNK = 65_536
# Not the zone that is asked for: a session is nobody's.
_GREETING = {
    "server_version": "15.0",
    "server_encoding": "UTF8",
    "client_encoding": "UTF8",
    "standard_conforming_strings": "on",
    "integer_datetimes": "on",
    "TimeZone": "Asia/Tokyo",
}


def _message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


class _Messages:
    """Cuts a stream into messages."""

    def __init__(self) -> None:
        self._left = b""

    def of(self, data: bytes) -> Iterator[bytes]:
        self._left += data
        while len(self._left) >= 5:
            end = 1 + int(struct.unpack("!i", self._left[1:5])[0])
            if len(self._left) < end:
                return
            message, self._left = self._left[:end], self._left[end:]
            yield message


class _Server:
    """A connection that logged in, of which only the socket is used."""

    def __init__(self, dsn: str) -> None:
        self._connection = psycopg.connect(dsn, autocommit=True, sslmode="disable")
        self.socket = socket.socket(fileno=socket.dup(self._connection.pgconn.socket))
        self.socket.setblocking(True)
        self.messages = _Messages()

    def close(self) -> None:
        self.socket.close()
        self._connection.close()


class Pooler:
    """Listens on a port of its own until it is left."""

    def __init__(self, dsn: str, size: int = 3, *, ignores_options: bool = False) -> None:
        self._dsn = libpq_url(dsn)
        self._ignores_options = ignores_options
        self._idle: queue.SimpleQueue[_Server] = queue.SimpleQueue()
        for _ in range(size):
            self._idle.put(_Server(self._dsn))
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._clients: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()
        self._size = size

    def through(self, dsn: str) -> str:
        """The URL that leads through here."""
        port = self._listening.getsockname()[1]
        return moved(dsn, port)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for client in self._clients:
            with contextlib.suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)
        for _ in range(self._size):
            self._idle.get(timeout=10).close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._clients.append(client)
                self._threads.append(threading.Thread(target=self._serve, args=(client,), daemon=True))
                self._threads[-1].start()

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError, struct.error):
            if self._greeted(client):
                _Client(client, self._idle, self._dsn).run()

    def _greeted(self, client: socket.socket) -> bool:
        while True:
            length, code = struct.unpack("!ii", client.recv(8, socket.MSG_WAITALL))
            rest = client.recv(length - 8, socket.MSG_WAITALL) if length > 8 else b""
            if code == _CANCEL:
                return False
            if code not in _NEGOTIATIONS:
                break
            client.sendall(_WITHOUT_TLS)
        if not self._ignores_options and b"options" in rest.split(b"\0")[::2]:
            text = b"SFATAL\0C08P01\0Munsupported startup parameter: options\0\0"
            client.sendall(_message(b"E", text))
            return False
        told = b"".join(_message(b"S", f"{name}\0{value}\0".encode()) for name, value in _GREETING.items())
        client.sendall(_message(b"R", struct.pack("!i", 0)) + told + _message(b"K", bytes(8)) + _message(b"Z", b"I"))
        return True


class _Client:
    """One client, with a server connection while a transaction of it is under way."""

    def __init__(self, client: socket.socket, idle: queue.SimpleQueue[_Server], dsn: str) -> None:
        self._client = client
        self._idle = idle
        self._dsn = dsn
        self._server: _Server | None = None
        self._unanswered = 0
        self._messages = _Messages()

    def run(self) -> None:
        try:
            while self._pass_on():
                pass
        finally:
            if self._server is not None:
                # Somebody left in the middle of a transaction.
                self._server.close()
                self._idle.put(_Server(self._dsn))

    def _pass_on(self) -> bool:
        sockets = [self._client] if self._server is None else [self._client, self._server.socket]
        readable = select.select(sockets, [], [])[0]
        if self._server is not None and self._server.socket in readable:
            self._to_client(self._server)
        return self._client not in readable or self._to_server()

    def _to_server(self) -> bool:
        data = self._client.recv(_CHUNK)
        for message in self._messages.of(data):
            if message[0] == _TERMINATE:
                return False
            if self._server is None:
                self._server = self._idle.get()
            self._unanswered += message[0] in _ASKS
            self._server.socket.sendall(message)
        return bool(data)

    def _to_client(self, server: _Server) -> None:
        data = server.socket.recv(_CHUNK)
        if not data:
            raise ConnectionResetError("the server has ended this connection")
        for message in server.messages.of(data):
            if message[0] == _READY:
                self._unanswered -= 1
                if self._unanswered == 0 and message[5:] == b"I":
                    # Before the answer: whoever has it may ask again at once.
                    self._server = None
                    self._idle.put(server)
            self._client.sendall(message)
