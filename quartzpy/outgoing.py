"""Calls to programs outside of the cluster: to webhooks, and to monitors that wait to hear from us.

By the standard library, so that they need no extra. The URLs are settings of the program, and no data of a job.
"""

from __future__ import annotations

import base64
import hmac
import logging
import os
import socket
import threading
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import NamedTuple
from urllib.parse import quote, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from quartzpy.errors import QuartzpyError
from quartzpy.texts import reason, storable_text, visible

TIMEOUT = 10.0
"""The longest time, in seconds, of each step of a call."""
LONGEST = 20.0
"""The longest time of a whole call, after which its connection is closed."""
MAX_SECRET = 16_384
MAX_READ = 300
"""The bytes of an answer that are read: the beginning of it is part of the error."""
MAX_QUEUED = 1_000
_IN_URL = "/?#[]@!$&'()*+,;=:%-._~"


class OutgoingError(QuartzpyError):
    """A call had no success. The message is one line, and has no secret: neither the URL nor a header."""


def read_place(place: str) -> str:
    """Return the URL or the secret at a place: `env:NAME`, `file:/path`, or a URL itself.

    Raises:
        OutgoingError: there is none.
    """
    kind, _, rest = place.partition(":")
    if kind == "env":
        value = os.environ.get(rest, "")
    elif kind == "file":
        try:
            with open(rest, encoding="utf-8-sig") as file:
                value = file.read(MAX_SECRET)
        except (OSError, UnicodeDecodeError) as error:
            raise OutgoingError(f"{place} cannot be read: {type(error).__name__}") from None
    else:
        value = place
    value = value.strip()
    if not value or not value.isprintable():
        raise OutgoingError(f"{'the value' if value == place else place} is empty, or not one line")
    return value


class HttpAnswer(NamedTuple):
    """The status of an answer, and the beginning of its body on one line."""

    status: int
    text: str


def call(method: str, url: str, body: bytes | None = None, headers: Mapping[str, str] | None = None) -> HttpAnswer:
    """Make one call. Redirects are not followed. Proxies are those of the environment.

    Raises:
        OutgoingError: there is no answer in time.
    """
    try:
        # http.client refuses control characters in the path and in the values of headers.
        return _call(method, url, body, {"user-agent": "quartzpy", **(headers or {})})
    except (OSError, HTTPException, ValueError) as error:
        # The messages of some errors have the URL in them, which may be a secret.
        text = error.strerror if isinstance(error, OSError) and error.strerror else ""
        raise OutgoingError(f"no answer: {type(error).__name__}{f': {visible(text)[:200]}' if text else ''}") from None


def _call(method: str, url: str, body: bytes | None, headers: dict[str, str]) -> HttpAnswer:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise OutgoingError("the URL is not one with http:// or https:// and a host")
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
        headers["authorization"] = f"Basic {base64.b64encode(pair).decode()}"
    port = parts.port or (443 if parts.scheme == "https" else 80)
    path = quote((parts.path or "/") + (f"?{parts.query}" if parts.query else ""), safe=_IN_URL)
    connection = _connection(parts.scheme, parts.hostname, port)
    if isinstance(connection, _ByProxy):
        connection, path = connection.connection, f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{path}"
    try:
        connection.connect()
        # The time limit of the socket is one for each of its waits, of which a slow server may cause many.
        end = threading.Timer(LONGEST, _cut, (connection.sock,))
        end.daemon = True
        end.start()
        try:
            connection.request(method, path, body, {"connection": "close", **headers})
            response = connection.getresponse()
            head = response.read(MAX_READ)
        finally:
            end.cancel()
        return HttpAnswer(response.status, visible(storable_text(head.decode(errors="replace")).strip())[:MAX_READ])
    finally:
        connection.close()


@dataclass
class _ByProxy:
    """A connection to a proxy that takes whole URLs."""

    connection: HTTPConnection


def _connection(scheme: str, host: str, port: int) -> HTTPConnection | _ByProxy:
    proxy = getproxies().get(scheme)
    if proxy and not proxy_bypass(host):
        place = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
        through: HTTPConnection = HTTPConnection(place.hostname or "", place.port or 80, timeout=TIMEOUT)
        if scheme == "http":
            return _ByProxy(through)
        through = HTTPSConnection(place.hostname or "", place.port or 80, timeout=TIMEOUT)
        through.set_tunnel(host, port)
        return through
    return (HTTPSConnection if scheme == "https" else HTTPConnection)(host, port, timeout=TIMEOUT)


def _cut(connected: socket.socket) -> None:
    with suppress(OSError):
        connected.shutdown(socket.SHUT_RDWR)


def webhook_headers(secret: str | None, content: bytes, identity: str, now: int) -> dict[str, str]:
    """Return the headers of Standard Webhooks (https://www.standardwebhooks.com) for a body, signed by the secret.

    Raises:
        OutgoingError: the secret begins with whsec_, and is not base64 after it.
    """
    headers = {"webhook-id": identity, "webhook-timestamp": str(now)}
    if secret is None:
        return headers
    key = secret.encode()
    if secret.startswith("whsec_"):
        try:
            key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
        except ValueError:
            raise OutgoingError("a secret that begins with whsec_ must be base64 after it") from None
    digest = hmac.digest(key, f"{identity}.{now}.".encode() + content, "sha256")
    return {**headers, "webhook-signature": f"v1,{base64.b64encode(digest).decode()}"}


@dataclass(frozen=True)
class Ping:
    """A call to an outside monitor."""

    url: str = field(repr=False)
    method: str = "GET"
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    what: str = "the heartbeat"
    """What it is about, for the log."""


class Pinger:
    """Makes calls one after the other on a thread of its own, which the first of them starts.

    Whoever asks for a call does not wait, and learns of no failure: failures are logged, the first of a row as a
    warning. A monitor that hears nothing says so itself. If the calls take longer than they come, the oldest are
    dropped.
    """

    def __init__(self, name: str, logger: logging.Logger) -> None:
        self._name = name
        self._logger = logger
        self._changed = threading.Condition()
        self._queue: deque[Ping] = deque(maxlen=MAX_QUEUED)
        self._thread: threading.Thread | None = None
        self._is_closed = False
        self._fails = False
        self.dropped = 0
        """The number of calls that were dropped."""

    def put(self, ping: Ping) -> None:
        """Make a call soon, if this object is not closed."""
        with self._changed:
            if self._is_closed:
                return
            self.dropped += len(self._queue) == MAX_QUEUED
            self._queue.append(ping)
            if self._thread is None:
                thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                # The system may refuse another thread. The next call tries it again.
                with suppress(RuntimeError):
                    thread.start()
                    self._thread = thread
            self._changed.notify()

    def close(self, timeout: float) -> None:
        """Make the calls that wait, for at most so many seconds, and no others."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
            thread = self._thread
        if thread is not None and thread.is_alive() and thread is not threading.current_thread():
            thread.join(timeout)

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._queue:
                    if self._is_closed:
                        return
                    self._changed.wait()
                ping = self._queue.popleft()
            self._make(ping)

    def _make(self, ping: Ping) -> None:
        try:
            answer = call(ping.method, ping.url, ping.body, ping.headers)
            if not 200 <= answer.status < 300:
                raise OutgoingError(f"status {answer.status}")
        except Exception as error:
            log, self._fails = (self._logger.debug if self._fails else self._logger.warning), True
            log("the monitor was not reached with %s: %s", ping.what, reason(error))
        else:
            self._fails = False
