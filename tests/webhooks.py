"""A receiver of notifications and of check-ins, which can fail as often as a test says."""

from __future__ import annotations

import base64
import hmac
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

SECRET = "whsec_" + base64.b64encode(b"a secret of twenty-four b").decode()


class Request(NamedTuple):
    """A request that arrived, and the status with which it was answered."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    status: int
    at: float
    """When it arrived."""

    @property
    def document(self) -> Any:
        return json.loads(self.body)

    @property
    def is_signed(self) -> bool:
        """Whether the signature is right, and was not of long ago when it arrived."""
        at, key = self.headers["webhook-timestamp"], base64.b64decode(SECRET.removeprefix("whsec_"))
        content = f"{self.headers['webhook-id']}.{at}.".encode() + self.body
        expected = base64.b64encode(hmac.digest(key, content, "sha256")).decode()
        return self.headers["webhook-signature"] == f"v1,{expected}" and abs(self.at - int(at)) < 300


class Receiver(ThreadingHTTPServer):
    """Answers with the status that `decide` returns for the path and the headers of a request."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests: list[Request] = []
        self.decide: Callable[[str, Mapping[str, str]], int] = lambda path, headers: 200
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Senders are killed while they send."""

    def accepted(self) -> Counter[str]:
        """Return how often each notification was answered with success, by its idempotency key."""
        return Counter(row.headers["idempotency-key"] for row in list(self.requests) if row.status == 200)

    def documents(self) -> dict[str, Any]:
        """Return the notifications that were answered with success, by their idempotency keys."""
        return {row.headers["idempotency-key"]: row.document for row in list(self.requests) if row.status == 200}


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        status = self.server.decide(self.path, headers)
        self.server.requests.append(Request(self.command, self.path, headers, body, status, time.time()))
        self.send_response(status)
        text = b"" if status == 200 else b"not\r\nnow"
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = answer

    def log_message(self, *args: Any) -> None: ...


@contextmanager
def receiver() -> Iterator[Receiver]:
    """Serve until the end of the block."""
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
