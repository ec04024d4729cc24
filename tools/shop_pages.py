"""Looks at the pages of the dashboard of a running cluster, in Chromium.

`python -m tools.shop_pages pictures [DIRECTORY] [PAGE...]` takes pictures of each page: at 1440 and 390 pixels, light
and dark. It also names what scrolls sideways, and texts that are cut. Without a directory it writes the pictures that
the documentation shows.

`python -m tools.shop_pages tab [MINUTES]` opens the overview and leaves it alone, as somebody does who watches it, and
says how many bytes and requests that costs in an hour.

It starts PostgreSQL, three nodes of the shop of `examples/shop.py` and the dashboard, lets operators do what they do,
and kills one node. The history of the last hour is the history of the first minute, repeated with earlier times.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

from examples import shop
from quartzpy import JobDetail, JobKey, SimpleTrigger
from quartzpy.demo.jobs import DSN_VARIABLE, INSTANCE_VARIABLE
from quartzpy.embedded import EmbeddedPostgres
from quartzpy.factory import Scheduler
from quartzpy.operations import Actor, Operations, Role, Selection
from quartzpy.store.postgresql import migrations
from tests.dashboard.chromium import find_chromium

PICTURES = Path(__file__).resolve().parents[1] / "docs" / "img"
DEVICES = {
    "wide": {"width": 1240, "height": 800},
    "desk": {"width": 1440, "height": 900},
    "phone": {"width": 390, "height": 844},
}
THEMES = ("light", "dark")
PAGES = {
    "overview": "/",
    "incidents": "/incidents",
    "timeline": "/timeline?span=5m",
    "timeline-hour-groups": "/timeline?lanes=group&start=1h&end=10m",
    "timeline-nodes": "/timeline?lanes=node&span=5m",
    "jobs": "/jobs",
    "jobs-by-failures": "/jobs?sort=-failed",
    "job": "/job?group=billing&name=charge-cards",
    "job-running": "/job?group=search&name=rebuild-index",
    "job-by-hand": "/job?group=mail&name=resend-receipts",
    "triggers": "/triggers",
    "triggers-all": "/triggers?all=yes&sort=next",
    "trigger": "/trigger?group=billing&name=new-york-2-30",
    "trigger-error": "/trigger?group=billing&name=monthly-close",
    "executions": "/executions",
    "executions-failed": "/executions?state=FAILED",
    "executions-longest": "/executions?sort=-ran",
    "executions-none": "/executions?job=billing.chrge-cards",
    "execution": "/executions?state=FAILED&group=billing",
    "execution-by-hand": "/executions?group=mail",
    "execution-running": "/executions?state=RUNNING&group=search",
    "misfires": "/misfires",
    "nodes": "/nodes",
    "node": "/nodes?node=node-a",
    "calendars": "/calendars",
    "calendar": "/calendar?name=business-days",
    "groups": "/groups",
    "windows": "/windows",
    "limits": "/limits",
    "running": "/running",
    "upcoming": "/upcoming?until=1d",
    "locks": "/locks",
    "audit": "/audit",
    "audit-entry": "/audit",
    "system": "/system",
    "system-examined": "/system?examine=yes",
    "search": "/search?q=bill",
    "not-found": "/nowhere",
    "gone": "/job?group=billing&name=charge-card",
    "form-trigger": "/actions/trigger?kind=job&group=billing&name=charge-cards",
    "form-reschedule": "/actions/reschedule?kind=trigger&group=billing&name=new-york-2-30",
    "form-backfill": "/actions/backfill?kind=trigger&group=ops&name=every-10s",
    "form-pause": "/actions/pause?kind=job&group=billing&name=charge-cards",
    "form-delete": "/actions/delete?kind=job&group=billing&name=charge-cards",
    "form-window": "/actions/set_window?window=sunday-night",
    "form-limit": "/actions/set_limit?limit=erp",
    "form-acknowledge": "/incidents",
    "dialog": "/job?group=billing&name=charge-cards",
    "dialog-acknowledge": "/",
    "login": "/login",
}
FIRST_LINKS = {
    "execution": "tbody a[href*='/executions/']",
    "execution-by-hand": "tbody a[href*='/executions/']",
    "execution-running": "tbody a[href*='/executions/']",
    "audit-entry": "tbody a[href*='/audit/']",
    "form-acknowledge": "a[data-action=acknowledge]",
}
"""Pages to which a link of the page above leads: the first of these."""
DIALOGS = {"dialog": "a[data-action=trigger]", "dialog-acknowledge": "a[data-action=acknowledge]"}
"""Dialogs over a page, and what opens them."""
CROWDED = """() => {
    const found = [];
    for (const box of document.querySelectorAll("main *")) {
        const style = getComputedStyle(box);
        const says = `${box.tagName.toLowerCase()}.${box.className} "${box.textContent.trim().slice(0, 40)}"`;
        if (box.scrollWidth <= box.clientWidth + 1 || !box.clientWidth || box.closest(".unseen, svg")) continue;
        const beyond = box.scrollWidth - box.clientWidth;
        if (style.overflowX === "auto" || style.overflowX === "scroll") found.push(`scrolls by ${beyond} px: ${says}`);
        else if (style.overflowX === "hidden" && !box.title && !box.closest("[title]")) found.push(`is cut: ${says}`);
    }
    for (const panel of document.querySelectorAll(".panel")) {
        const edge = panel.getBoundingClientRect();
        for (const box of panel.querySelectorAll("*")) {
            const holder = box.closest(".scroll, pre");
            if (box.closest("svg, .unseen") || (holder && holder !== box)) continue;
            const text = box.textContent.trim().slice(0, 40);
            if (box.getBoundingClientRect().right > edge.right + 1) found.push(`beyond its panel: "${text}"`);
        }
    }
    return [...new Set(found)].slice(0, 12);
}"""
"""What scrolls sideways, and what is cut without a title that has all of it."""
PATIENCE = 600_000
"""The longest time, in milliseconds, for anything: a busy machine is no problem."""
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
    while not (result := reached()):
        if time.monotonic() > deadline:
            raise SystemExit(f"waited {seconds:g} s for {what}")
        _REST.wait(0.2)
    return result


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
def running_shop(seconds: float, *, busy: int = 0) -> Iterator[tuple[str, str]]:
    """Yield the URL and the token of the dashboard of a cluster that has run for some seconds and has lost a node.

    `busy` is the number of further jobs that run once a second.
    """
    with ExitStack() as stack:
        server = stack.enter_context(EmbeddedPostgres.temporary())
        dsn = server.create_database("shop")
        migrations.upgrade(dsn)
        client = Scheduler(dsn, **shop.SETTINGS)
        stack.callback(client.shutdown)
        nodes = {}
        for name in ("node-a", "node-b", "node-c"):
            environment = {DSN_VARIABLE: dsn, INSTANCE_VARIABLE: name}
            nodes[name] = stack.enter_context(
                process(["node", "--app", f"{shop.__name__}:make_scheduler"], **environment)
            )
        wait(lambda: len(client.nodes().nodes) == 3, PATIENCE / 1_000, "the nodes to join")
        shop.open_shop(client, client.nodes().now)
        open_tenants(client, busy)
        operate(client)
        _REST.wait(seconds)
        repeat_history(server, dsn, seconds)
        nodes["node-c"].send_signal(signal.SIGKILL)
        _REST.wait(5)
        served = stack.enter_context(
            process(["dashboard", "--dsn", dsn, "--name", "shop", "--port", "0", "--allow-actions"], LOGNAME="ann")
        )
        assert served.stdout is not None
        # The first line is for readers; the link of the second one has the token.
        link = re.search(r"(http://\S+)/login\?token=(\S+)", served.stdout.readline() + served.stdout.readline())
        assert link is not None
        yield link[1], link[2]


def open_tenants(client: Scheduler, number: int) -> None:
    """Schedule jobs that run once a second."""
    start = client.nodes().now
    for tenant in range(number):
        trigger = SimpleTrigger("every-second", f"tenant-{tenant:02}", interval=timedelta(seconds=1), start_time=start)
        client.schedule_job(JobDetail(shop.Quick, "sync", f"tenant-{tenant:02}"), trigger, replace=True)


def operate(client: Scheduler) -> None:
    """Do what operators do: run by hand, pause and resume, take note of an incident."""
    operations = Operations(client)
    ann, bob = (operations.acting_as(Actor(name, Role.ADMIN)).actions for name in ("ann", "bob"))
    ann.trigger(JobKey("resend-receipts", "mail"), reason="a customer has called")
    bob.trigger(JobKey("charge-cards", "billing"))
    ann.pause(JobKey("charge-cards", "billing"), reason="the bank is down")
    ann.pause(Selection.job_group("ops"), reason="new servers")
    ann.set_limit("erp", "5, 10/minute", reason="its licence")
    ann.set_window(
        "sunday-night", "0 2 * * SUN", "4h", "Europe/Berlin", job_group="billing", reason="the bank rests then"
    )
    _REST.wait(10)
    bob.resume(JobKey("charge-cards", "billing"))
    ann.resume(Selection.job_group("ops"), missed="skip")
    wait(operations.open_incidents, PATIENCE / 1_000, "an incident")


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


def headers(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def take(browser: Browser, url: str, token: str, directory: Path, wanted: set[Picture], *, whole: bool) -> None:
    """Take pictures: of the whole page, or of the part that a screen shows."""
    context = browser.new_context(
        timezone_id="Europe/Berlin", reduced_motion="reduce", extra_http_headers=headers(token)
    )
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    problems: list[str] = []
    page.on("console", partial(note_console, problems))
    page.on("pageerror", partial(note_error, problems))
    for name, device in product(PAGES, DEVICES):
        themes = sorted(theme for of, on, theme in wanted if (of, on) == (name, device))
        if not themes:
            continue
        page.set_viewport_size(DEVICES[device])
        open_page(page, url, name)
        for theme in themes:
            page.emulate_media(color_scheme=theme)
            page.screenshot(path=directory / f"{name}-{device}-{theme}.png", full_page=whole and name not in DIALOGS)
        for problem in (*problems, *crowded(page)):
            print(f"{name} {device}: {problem}", file=sys.stderr, flush=True)
        problems.clear()
    context.close()


def open_page(page: Page, url: str, name: str) -> None:
    page.goto(f"{url}{PAGES[name]}")
    if name in FIRST_LINKS and (link := page.locator(FIRST_LINKS[name]).first).count():
        page.goto(f"{url}{link.get_attribute('href')}")
    # What is live would differ between the pictures.
    if page.locator("#live").count():
        page.locator("#live").evaluate("button => button.hidden || button.click()")
    if name in DIALOGS:
        page.locator(DIALOGS[name]).first.evaluate("link => link.click()")
        page.locator("dialog#action[open]").wait_for()
    page.wait_for_timeout(300)


def crowded(page: Page) -> Iterator[str]:
    """Yield what does not fit: a page that is wider than the screen, parts that scroll sideways, texts that are cut."""
    wider = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    if wider > 0:
        yield f"{wider} px wider than the screen"
    yield from page.evaluate(CROWDED)


def look(directory: Path | None, names: set[str]) -> None:
    documented = directory is None
    directory = PICTURES if directory is None else directory
    directory.mkdir(parents=True, exist_ok=True)
    every = {(name, device, theme) for name in names or PAGES for device in ("desk", "phone") for theme in THEMES}
    with running_shop(60, busy=0 if documented else 2) as (url, token), browser_of() as browser:
        take(browser, url, token, directory, DOCUMENTED if documented else every, whole=not documented)


def watch(minutes: float) -> None:
    with running_shop(30, busy=15) as (url, token), browser_of() as browser:
        measure(browser, url, token, minutes)


def measure(browser: Browser, url: str, token: str, minutes: float) -> None:
    """Say what an open tab of the overview receives."""
    page = browser.new_page(extra_http_headers=headers(token))
    session = page.context.new_cdp_session(page)
    session.send("Network.enable")
    kinds: dict[str, str] = {}
    requests: Counter[str] = Counter()
    received: Counter[str] = Counter()

    def on_request(event: dict[str, Any]) -> None:
        url_of = urlsplit(event["request"]["url"])
        kinds[event["requestId"]] = "files" if url_of.path.startswith("/static") else url_of.path
        requests[kinds[event["requestId"]]] += 1

    def on_head(event: dict[str, Any]) -> None:
        head = event.get("headersText") or "".join(f"{k}: {v}\r\n" for k, v in event["headers"].items())
        received[kinds.get(event["requestId"], "other")] += len(head)

    def on_data(event: dict[str, Any]) -> None:
        # The length on the wire is not known while a stream goes on.
        received[kinds.get(event["requestId"], "other")] += event["encodedDataLength"] or event["dataLength"]

    session.on("Network.requestWillBeSent", on_request)
    session.on("Network.responseReceivedExtraInfo", on_head)
    session.on("Network.dataReceived", on_data)
    page.goto(url)
    page.wait_for_timeout(5_000)
    at_first, first_requests = received.total(), requests.total()
    received.clear()
    requests.clear()
    page.wait_for_timeout(minutes * 60_000)
    hour = 60 / minutes
    print(f"opening: {at_first:,} bytes, {first_requests} requests")
    for kind in sorted(requests | received):
        print(f"{kind}: {received[kind]:,} bytes, {requests[kind]} requests in {minutes:g} minutes")
    total = at_first + received.total() * hour
    print(f"an hour: {total / 1e6:.2f} MB, {first_requests + requests.total() * hour:,.0f} requests")


@contextmanager
def browser_of() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox"])
        yield browser
        browser.close()


def main() -> None:
    match sys.argv[1:]:
        case ["pictures"]:
            look(None, set())
        case ["pictures", directory, *names]:
            look(Path(directory), set(names))
        case ["tab", *minutes]:
            watch(float(minutes[0]) if minutes else 3)
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
