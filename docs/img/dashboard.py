"""Takes the pictures of the dashboard from a running cluster.

`PYTHONPATH=. python docs/img/dashboard.py [DIRECTORY] [PAGE...]`

It starts PostgreSQL, three nodes of the shop of `examples/shop.py` and the dashboard, kills one node, and opens each
page in Chromium: wide and phone, light and dark. Without a directory it writes those that the documentation shows. The
history of the last hour is the history of the first minute, repeated with earlier times.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, ConsoleMessage, sync_playwright

from examples import shop
from quartzpy.demo.jobs import DSN_VARIABLE, INSTANCE_VARIABLE
from quartzpy.embedded import EmbeddedPostgres
from quartzpy.factory import Scheduler
from quartzpy.store.postgresql import migrations

PICTURES = Path(__file__).resolve().parent
WIDE, PHONE = {"width": 1240, "height": 800}, {"width": 390, "height": 844}
CHROMIUM = ("/usr/bin/chromium", "/usr/bin/chromium-headless-shell", "/usr/bin/google-chrome")
PAGES = {
    "overview": "/",
    "timeline": "/timeline?span=5m",
    "jobs": "/jobs",
    "job": "/job?group=billing&name=charge-cards",
    "triggers": "/triggers",
    "trigger": "/trigger?group=billing&name=new-york-2-30",
    "trigger-error": "/trigger?group=billing&name=monthly-close",
    "executions": "/executions",
    "execution": "",
    "misfires": "/misfires",
    "nodes": "/nodes",
    "calendars": "/calendars",
    "calendar": "/calendar?name=business-days",
    "groups": "/groups",
    "audit": "/audit",
    "system": "/system",
    "search": "/search?q=bill",
}
_REST = threading.Event()
"""Never set: waiting for it is a pause."""
DOCUMENTED = {
    ("overview", "wide", "light"),
    ("overview", "phone", "dark"),
    ("timeline", "wide", "dark"),
    ("trigger", "wide", "light"),
    ("execution", "wide", "dark"),
}


def wait(reached: Callable[[], Any], seconds: float, what: str) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := reached()):
        if time.monotonic() > deadline:
            raise SystemExit(f"waited {seconds:g} s for {what}")
        _REST.wait(0.2)
    return found


@contextmanager
def process(command: list[str], **environment: str) -> Iterator[subprocess.Popen[str]]:
    """Run a program of ours, and end it at the end."""
    running = subprocess.Popen(
        [sys.executable, "-m", "quartzpy", *command],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    try:
        yield running
    finally:
        if running.poll() is None:
            running.terminate()
            try:
                running.wait(10)
            except subprocess.TimeoutExpired:
                running.kill()
                running.wait()


@contextmanager
def running_shop(seconds: float) -> Iterator[str]:
    """Yield the URL of the dashboard of a cluster that has run for some seconds and has lost a node."""
    with ExitStack() as stack:
        server = stack.enter_context(EmbeddedPostgres.temporary())
        dsn = server.create_database("shop")
        migrations.upgrade(dsn)
        client = Scheduler(dsn, **shop.SETTINGS)
        stack.callback(client.shutdown)
        nodes = {}
        for name in ("node-a", "node-b", "node-c"):
            given = {DSN_VARIABLE: dsn, INSTANCE_VARIABLE: name}
            nodes[name] = stack.enter_context(process(["node", "--app", f"{shop.__name__}:make_scheduler"], **given))
        wait(lambda: len(client.nodes().nodes) == 3, 30, "the nodes to join")
        shop.open_shop(client, client.nodes().now)
        _REST.wait(seconds)
        repeat_history(server, dsn, seconds)
        nodes["node-c"].send_signal(signal.SIGKILL)
        _REST.wait(5)
        served = stack.enter_context(
            process(["dashboard", "--dsn", dsn, "--name", "shop", "--port", "0", "--allow-actions"], LOGNAME="ann")
        )
        assert served.stdout is not None
        found = re.search(r"http://\S+", served.stdout.readline())
        assert found is not None
        yield found[0].rstrip("/")


def repeat_history(server: EmbeddedPostgres, dsn: str, seconds: float) -> None:
    """Repeat the executions of the last `seconds` over the hour before them."""
    import psycopg

    plain = dsn.replace("postgresql+psycopg://", "postgresql://")
    with psycopg.connect(plain, autocommit=True) as connection:
        columns = [
            row[0]
            for row in connection.execute(
                "SELECT column_name FROM information_schema.columns WHERE table_name = 'qrtz_executions'"
                " AND is_generated = 'NEVER' ORDER BY ordinal_position"
            ).fetchall()
        ]
        times = {"scheduled_fire_time", "fire_time", "started_at", "ended_at", "retry_at"}
        instants = {
            row[0]
            for row in connection.execute(
                "SELECT column_name FROM information_schema.columns WHERE table_name = 'qrtz_executions'"
                " AND data_type LIKE 'timestamp%'"
            ).fetchall()
        }
        values = ", ".join(
            f"{name} - make_interval(secs => n * {seconds + 0.137})"
            if name in times | instants
            else (f"{name} + n::bigint * 1000000000" if name == "fire_id" else name)
            for name in columns
        )
        repeats = int(3_600 / seconds)
        connection.execute(
            f"INSERT INTO qrtz_executions ({', '.join(columns)}) SELECT {values}"
            f" FROM qrtz_executions, generate_series(1, {repeats}) AS n WHERE random() < 0.85"
        )


def note_console(problems: list[str], message: ConsoleMessage) -> None:
    if message.type == "error":
        problems.append(message.text)


def note_error(problems: list[str], error: Exception) -> None:
    problems.append(str(error))


Picture = tuple[str, str, str]
"""A page, a device and a theme."""


def take(browser: Browser, url: str, directory: Path, wanted: set[Picture], *, whole: bool) -> None:
    """Take pictures: of the whole page, or of the part that a screen shows."""
    for device, theme in sorted({(device, theme) for _, device, theme in wanted}):
        context = browser.new_context(
            viewport=WIDE if device == "wide" else PHONE, color_scheme=theme, timezone_id="Europe/Berlin"
        )
        page = context.new_page()
        problems: list[str] = []
        page.on("console", partial(note_console, problems))
        page.on("pageerror", partial(note_error, problems))
        for name, path in PAGES.items():
            if (name, device, theme) not in wanted:
                continue
            if name == "execution":
                page.goto(f"{url}/executions?state=FAILED&group=billing")
                path = page.locator("tbody a[href*='/executions/']").first.get_attribute("href") or "/"
            page.goto(f"{url}{path}")
            page.wait_for_timeout(500)
            page.screenshot(path=directory / f"{name}-{device}-{theme}.png", full_page=whole)
            wider = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            if wider > 0:
                problems.append(f"{name} {device}: {wider} px wider than the screen")
        for problem in problems:
            print("problem:", problem, file=sys.stderr)
        context.close()


def main() -> None:
    documented = len(sys.argv) < 2
    directory = PICTURES if documented else Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    names = set(sys.argv[2:]) or set(PAGES)
    every = {(name, device, theme) for name in names for device in ("wide", "phone") for theme in ("light", "dark")}
    chromium = next((path for path in CHROMIUM if Path(path).exists()), None)
    with running_shop(60) as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        take(browser, url, directory, DOCUMENTED if documented else every, whole=not documented)
        browser.close()


if __name__ == "__main__":
    main()
