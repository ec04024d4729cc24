"""A real cluster of the shop on PostgreSQL, its dashboard, and a browser; one of each for all tests."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Error, Page, expect, sync_playwright

from examples import shop
from quartzpy import Scheduler
from quartzpy.cli.dashboard import TOKEN_VARIABLE
from quartzpy.demo.jobs import DSN_VARIABLE, INSTANCE_VARIABLE
from tests.dashboard.chromium import VARIABLE, find_chromium
from tests.database import Server
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[3]
STARTED_WITHIN = 120
# A busy machine is no failure.
PATIENCE = 60_000
"""The longest time, in milliseconds, that a page gets to show what is expected of it."""
expect.set_options(timeout=PATIENCE)


@dataclass
class Shop:
    """A running cluster, and the processes that belong to it."""

    dsn: str
    client: Scheduler
    url: str = ""
    nodes: dict[str, subprocess.Popen[str]] = field(default_factory=dict)

    def wait(self, reached: Callable[[], Any], what: str) -> Any:
        return wait_until(reached, what, seconds=STARTED_WITHIN, every=0.1)


@contextmanager
def process(
    command: list[str], *, stderr: int = subprocess.DEVNULL, **environment: str
) -> Iterator[subprocess.Popen[str]]:
    running = subprocess.Popen(
        [sys.executable, "-m", "quartzpy", *command],
        env={**os.environ, "PYTHONPATH": str(ROOT), TOKEN_VARIABLE: TOKEN, **environment},
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
    )
    try:
        yield running
    finally:
        running.terminate()
        try:
            running.wait(10)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()
        for stream in (running.stdout, running.stderr):
            if stream is not None:
                stream.close()


def address_of(dashboard: subprocess.Popen[str]) -> str:
    """Return the URL that `quartzpy dashboard` prints when it listens."""
    assert dashboard.stdout is not None
    found = re.search(r"http://\S+", dashboard.stdout.readline())
    assert found is not None
    return found[0].rstrip("/")


@pytest.fixture(scope="package")
def running_shop(postgres_server: Server) -> Iterator[Shop]:
    with ExitStack() as stack:
        dsn = stack.enter_context(postgres_server.temporary("quartzpy_shop", postgres_server.tables))
        client = Scheduler(dsn, **shop.SETTINGS)
        stack.callback(client.shutdown)
        made = Shop(dsn, client)
        for node in ("node-a", "node-b"):
            given = {DSN_VARIABLE: dsn, INSTANCE_VARIABLE: node}
            made.nodes[node] = stack.enter_context(
                process(["node", "--interrupt", "--app", f"{shop.__name__}:make_scheduler"], **given)
            )
        made.wait(lambda: len(client.nodes().nodes) == 2, "the nodes to join")
        shop.open_shop(client, client.nodes().now)
        served = ["dashboard", "--dsn", dsn, "--name", "shop", "--port", "0", "--allow-actions"]
        made.url = address_of(stack.enter_context(process(served)))
        made.wait(lambda: client.executions(state="FAILED").first(), "a failure")
        made.wait(lambda: client.triggers(state="ERROR").first(), "a trigger in ERROR")
        yield made


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    path = find_chromium()
    if path is None:
        pytest.skip(f"there is no Chromium here; install it, or name it in {VARIABLE}")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield launched
        launched.close()


TOKEN = "the token of the browser"
"""Without a token, nobody changes anything by the command's page."""
OPTIONS: dict[str, Any] = {
    "extra_http_headers": {"Authorization": f"Bearer {TOKEN}"},
    "timezone_id": "Europe/Berlin",
    "viewport": {"width": 1280, "height": 720},
    "color_scheme": "light",
}


@pytest.fixture(scope="package")
def shared_page(browser: Browser) -> Page:
    """A page with the usual options. Each further one would start a process of the browser."""
    return _new_page(browser)


def _new_page(browser: Browser, **options: Any) -> Page:
    context = browser.new_context(**{**OPTIONS, **options})
    context.set_default_timeout(PATIENCE)
    return context.new_page()


def _leave(page: Page) -> None:
    """Make the shared page as a new one is, for the next test."""
    page.unroute_all()
    if page.url.startswith("http"):
        # A file of the application has its origin, but no script that could ask the server of this test for more.
        page.goto(page.locator("link[rel=stylesheet]").first.evaluate("link => link.href"))
        page.evaluate("localStorage.clear(); sessionStorage.clear();")
    page.context.clear_cookies()
    page.emulate_media(color_scheme=OPTIONS["color_scheme"])
    page.set_viewport_size(OPTIONS["viewport"])


class Watched:
    """A page of the browser, and the problems that it reported."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.problems: list[str] = []
        self.expected: tuple[str, ...] = ()
        """Parts of texts that are no problem. The browser reports an answer some time after it has arrived."""
        page.on("console", self._on_console)
        page.on("pageerror", self._on_error)

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not any(part in message.text for part in self.expected):
            self.problems.append(message.text)

    def _on_error(self, error: Error) -> None:
        self.problems.append(str(error))

    def end(self) -> None:
        self.page.remove_listener("console", self._on_console)
        self.page.remove_listener("pageerror", self._on_error)


@pytest.fixture
def open_browser(browser: Browser, shared_page: Page) -> Iterator[Callable[..., Watched]]:
    """Opens pages with options of a browser context. At the end, none of them may have reported a problem."""
    opened: list[Watched] = []

    def make(**options: Any) -> Watched:
        is_free = not options and all(one.page is not shared_page for one in opened)
        opened.append(Watched(shared_page if is_free else _new_page(browser, **options)))
        return opened[-1]

    yield make
    for one in opened:
        one.end()
        if one.page is shared_page:
            _leave(shared_page)
        else:
            one.page.context.close()
    assert [problem for one in opened for problem in one.problems] == []
