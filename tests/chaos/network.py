"""The conductor's end of the proxy: starts it, and tells it what to do."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import make_url

ROOT = Path(__file__).resolve().parents[2]


class Network:
    """A proxy process between a server and its nodes."""

    def __init__(self, dsn: str, nodes: Sequence[str], log: Path, *, unix: bool = False) -> None:
        # A host of the query would lead past the proxy, to the server's own socket.
        self._url = make_url(dsn).difference_update_query(["host", "port"])
        # Not below the records: the path of a socket is short.
        self._sockets = Path(tempfile.mkdtemp(prefix="quartzpy-chaos-")) if unix else None
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "tests.chaos.proxy"),
                    *("--host", str(self._url.host), "--port", str(self._url.port or 5432)),
                    *("--nodes", ",".join(nodes)),
                    *(("--sockets", str(self._sockets)) if self._sockets else ()),
                ],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        assert self._process.stdout is not None
        told = json.loads(self._process.stdout.readline())
        self._ports: dict[str, int] = told["nodes"]
        self._socket = socket.create_connection(("127.0.0.1", told["control"]))
        self._answers = self._socket.makefile("r")
        self._lock = threading.Lock()

    def through(self, node: str) -> str:
        """The database's URL by way of this node's link."""
        port = self._ports[node]
        if self._sockets:
            url = self._url.set(host=None, port=None).update_query_dict({"host": str(self._sockets), "port": str(port)})
        else:
            url = self._url.set(host="127.0.0.1", port=port)
        return url.render_as_string(hide_password=False)

    def tell(self, do: str, node: str | None = None, **rest: Any) -> Any:
        """Give a command; what the proxy answers. Raises ValueError: it refused."""
        command = {"do": do, **({} if node is None else {"node": node}), **rest}
        with self._lock:
            self._socket.sendall(json.dumps(command).encode() + b"\n")
            answer = json.loads(self._answers.readline())
        if "error" in answer:
            raise ValueError(f"the proxy refused {command}: {answer['error']}")
        return answer["ok"]

    def heal_all(self) -> None:
        self.tell("disarm")
        for node in self._ports:
            self.tell("heal", node)

    def close(self) -> None:
        self._answers.close()
        self._socket.close()
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process.kill()
        self._process.wait()
        if self._sockets:
            shutil.rmtree(self._sockets, ignore_errors=True)
