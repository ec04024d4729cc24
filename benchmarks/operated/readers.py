"""Many readers at once: each has a page open that is loaded again and again, from a dashboard that is a process."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import closing
from http.client import HTTPConnection

from benchmarks.nodes import NAME

READERS = 50
EVERY = 10.0
"""The seconds between two loads of an open page that nobody uses: those of the page once its first burst is spent."""
_HEADERS = {"Accept": "text/html", "Accept-Encoding": "gzip", "HX-Request": "true"}


def measure(url: str, pages: Sequence[str], seconds: float, every: float = EVERY) -> dict[str, list[float]]:
    """Return the milliseconds of the loads of each page while each reader loads its page every so many seconds.

    Readers have the pages in turn, and begin at different instants.

    Raises:
        RuntimeError: the dashboard does not start, or a page was not answered.
    """
    options = ["--dsn", url, "--name", NAME, "--port", "0", "--allow-actions"]
    command = [sys.executable, "-m", "quartzpy", "dashboard", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as dashboard:
        try:
            assert dashboard.stdout is not None
            found = re.search(r"http://([^:/\s]+):(\d+)", dashboard.stdout.readline())
            if found is None:
                raise RuntimeError("the dashboard does not start")
            return _Readers(found[1], int(found[2]), seconds, every).read(pages)
        finally:
            dashboard.terminate()


class _Readers:
    def __init__(self, host: str, port: int, seconds: float, every: float) -> None:
        self._host, self._port = host, port
        self._every = every
        self._begin = time.perf_counter() + 1.0
        self._end = self._begin + seconds
        self._found: defaultdict[str, list[float]] = defaultdict(list)
        self._problems: list[str] = []

    def read(self, pages: Sequence[str]) -> dict[str, list[float]]:
        readers = [
            threading.Thread(target=self._load, args=(pages[place % len(pages)], self._every * place / READERS))
            for place in range(READERS)
        ]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        if self._problems:
            raise RuntimeError("; ".join(self._problems[:3]))
        return dict(self._found)

    def _load(self, page: str, offset: float) -> None:
        at = self._begin + offset
        while at < self._end:
            time.sleep(max(0.0, at - time.perf_counter()))
            began = time.perf_counter()
            try:
                # The server has closed the connection of the load before.
                with closing(HTTPConnection(self._host, self._port, timeout=60)) as connection:
                    connection.request("GET", page, headers=_HEADERS)
                    response = connection.getresponse()
                    response.read()
            except OSError as error:
                self._problems.append(f"GET {page}: {error!r}")
                return
            if response.status != 200:
                self._problems.append(f"GET {page}: {response.status}")
                return
            self._found[page].append((time.perf_counter() - began) * 1000)
            at = max(at + self._every, time.perf_counter())
