"""A TCP proxy that stands for a network: it delays, counts round trips, cuts, swallows, and loses answers.

Threads, not an event loop: an event loop's timers are no finer than a millisecond, which is the delay itself.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from sqlalchemy import URL, make_url

_CHUNK = 65_536
_RESET = struct.pack("ii", 1, 0)
READY_FOR_QUERY = b"Z\x00\x00\x00\x05"
"""How this message begins; the sixth and last byte is the state of the transaction."""


class _Link:
    """One connection through the proxy: a reader and a writer for each direction."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self.proxy = proxy
        self.sockets = (client, server)
        self.pipelines = 0
        self._to_server = False
        self._is_logged_in = False
        self._end_of_answers = b""
        self._mute = False
        self.swallowed = False
        self._lock = threading.Lock()
        # Before anything can pass: what is asked of all links then concerns this one too.
        proxy.links.append(self)
        for source, target, upstream in ((client, server, True), (server, client, False)):
            if source.family != socket.AF_UNIX:
                source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            waiting: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()
            threading.Thread(target=self._read, args=(source, waiting, upstream), daemon=True).start()
            threading.Thread(target=self._write, args=(target, waiting), daemon=True).start()

    def _ends_answers(self, data: bytes) -> bool:
        """Return whether the client may speak next: after a login, only when the server is ready for a query.

        The server sends an error at once, perhaps before it has received the rest of the pipeline.
        """
        self._end_of_answers = (self._end_of_answers + data)[-6:]
        is_ready = self._end_of_answers.startswith(READY_FOR_QUERY)
        self._is_logged_in |= is_ready
        return is_ready or not self._is_logged_in

    def _read(self, source: socket.socket, waiting: queue.SimpleQueue[tuple[float, bytes]], upstream: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(_CHUNK):
                self.proxy.passable.wait()
                if self.swallowed:
                    continue
                arrived = time.perf_counter()
                with self._lock:
                    if not upstream:
                        self._to_server &= not self._ends_answers(data)
                    elif not self._to_server:
                        self.pipelines += 1
                        self._to_server = True
                if not upstream and self._mute:
                    continue
                if upstream and self.proxy.cut_after is not None and self.proxy.cut_after in data:
                    self.proxy.cut_after = None
                    self._mute = True
                    # It reaches the server; its answer reaches nobody.
                    self.sockets[1].sendall(data)
                    time.sleep(0.2)
                    self.cut()
                    return
                if upstream and self.proxy.split_at is not None and self.proxy.split_at in data:
                    marker, self.proxy.split_at = self.proxy.split_at, None
                    place = data.index(marker)
                    waiting.put((arrived, data[:place]))
                    self.proxy.held_back.set()
                    self.proxy.let_go.wait()
                    data = data[place:]
                if upstream and self.proxy.hold_back is not None and self.proxy.hold_back in data:
                    self.proxy.hold_back = None
                    self.proxy.held_back.set()
                    self.proxy.let_go.wait()
                waiting.put((arrived + self.proxy.delay / 2, data))
        waiting.put((0.0, b""))

    @staticmethod
    def _write(target: socket.socket, waiting: queue.SimpleQueue[tuple[float, bytes]]) -> None:
        with contextlib.suppress(OSError):
            while True:
                due, data = waiting.get()
                if not data:
                    target.shutdown(socket.SHUT_WR)
                    return
                if (rest := due - time.perf_counter()) > 0:
                    time.sleep(rest)
                target.sendall(data)

    def cut(self) -> None:
        """Reset both sides, as a network that breaks."""
        for end in self.sockets:
            with contextlib.suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                end.shutdown(socket.SHUT_RDWR)
            end.close()


class Proxy:
    """Listens on a free port of loopback, or on a Unix socket, and passes everything on to a server."""

    def __init__(self, host: str, port: int, *, delay: float = 0.0, at: Path | None = None) -> None:
        self._upstream = (host, port)
        self.delay = delay
        """Seconds added to a round trip."""
        self.cut_after: bytes | None = None
        """Cut the next connection that sends these bytes, once the server has them."""
        self.hold_back: bytes | None = None
        """Hold the next bytes that have these in them, on their connection only, until `let_go` is set."""
        self.split_at: bytes | None = None
        """Pass on the next bytes that have these in them only up to these, until `let_go` is set."""
        self.held_back = threading.Event()
        self.let_go = threading.Event()
        self.passable = threading.Event()
        self.passable.set()
        self.accepted = 0
        """How often somebody connected."""
        self.refusing = False
        self._closed = False
        self.links: list[_Link] = []
        self.port = port
        self.directory = at
        """The directory of the Unix socket; None for TCP."""
        if at is None:
            self._listener = socket.create_server(("127.0.0.1", 0))
            self.port = self._listener.getsockname()[1]
        else:
            self._listener = socket.create_server(str(at / f".s.PGSQL.{port}"), family=socket.AF_UNIX)

    @classmethod
    def to(cls, dsn: str) -> Self:
        """A proxy to the server of a database."""
        return cls(*place_of(make_url(dsn)))

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed = True
        with contextlib.suppress(OSError):
            # Else the thread that accepts would accept once more.
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.passable.set()
        self.let_go.set()
        self.cut()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self.accepted += 1
                if self.refusing:
                    client.close()
                    continue
                try:
                    server = socket.create_connection(self._upstream, timeout=5)
                except OSError:
                    client.close()
                    continue
                server.settimeout(None)
                # `cut` on another thread may already have closed the sockets of a link that is being made.
                with contextlib.suppress(OSError):
                    link = _Link(self, client, server)
                    if self._closed or self.refusing:
                        link.cut()

    def through(self, dsn: str) -> str:
        """The same database, reached through here."""
        if self.directory is not None:
            url: URL = make_url(dsn)
            socket_url = url.set(host="", port=None).update_query_dict(
                {"host": str(self.directory), "port": str(self.port)}
            )
            return socket_url.render_as_string(hide_password=False)
        return moved(dsn, self.port)

    @property
    def pipelines(self) -> int:
        """Network round trips so far: how often a client spoke after the server had."""
        return sum(link.pipelines for link in self.links)

    def cut(self) -> None:
        """Reset all connections."""
        for link in self.links:
            link.cut()

    def black_hole(self) -> None:
        """From now on swallow everything, and keep the connections open."""
        self.passable.clear()

    def swallow(self) -> None:
        """From now on swallow what the present connections carry; new ones work."""
        for link in self.links:
            link.swallowed = True

    def refuse(self) -> None:
        """Cut all connections, and hang up on each new one."""
        self.refusing = True
        self.cut()

    def admit(self) -> None:
        self.refusing = False

    def heal(self) -> None:
        self.passable.set()


def place_of(url: URL) -> tuple[str, int]:
    """The host and the port of a server. One that clients reach by a Unix socket also listens on loopback."""
    if url.host is None:
        return "127.0.0.1", int(str(url.query["port"]))
    return url.host, url.port or 5432


def over_tcp(dsn: str) -> str:
    """The same database by TCP, for what knows no other way or has to say a host."""
    return moved(dsn, place_of(make_url(dsn))[1])


def moved(dsn: str, port: int) -> str:
    url: URL = make_url(dsn).difference_update_query(["host", "port"])
    return url.set(host="127.0.0.1", port=port).render_as_string(hide_password=False)


@contextlib.contextmanager
def in_a_process(dsn: str, delay: float) -> Iterator[str]:
    """A delaying proxy in a process of its own, so that it does not compete with the measured one for Python's lock."""
    host, port = place_of(make_url(dsn))
    script = [sys.executable, str(Path(__file__)), host, str(port), str(delay)]
    with subprocess.Popen(script, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield moved(dsn, int(process.stdout.readline()))
        finally:
            process.kill()


if __name__ == "__main__":
    with Proxy(sys.argv[1], int(sys.argv[2]), delay=float(sys.argv[3])) as running:
        print(running.port, flush=True)
        sys.stdin.read()
