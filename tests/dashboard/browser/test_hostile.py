"""Hostile names, data, errors and logs on every page in a real browser: nothing runs, and pages keep their shape."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Dialog, Page
from starlette.testclient import TestClient

from quartzpy import Scheduler
from quartzpy.calendars.days import HolidayCalendar
from quartzpy.dashboard import create_app
from quartzpy.dashboard.server import DashboardServer, listen
from quartzpy.errors import InvalidKeyError
from quartzpy.jobs.context import JobExecutionContext
from quartzpy.jobs.job import Job, JobDetail
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.triggers.simple import SimpleTrigger
from tests.dashboard.browser.conftest import Watched
from tests.dashboard.browser.test_pages import width_beyond_screen
from tests.dashboard.conftest import THIS_USER
from tests.dashboard.scene import HOSTILE
from tests.protocol.options import is_long
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(900)
PHONE = {"width": 390, "height": 844}
NAMES = (*HOSTILE, "%2F%00", "..%2f..", "'; DROP TABLE x; --", "مرحبا " * 30, "🚀" * 150)
ANSI = "\x1b[31mred\x1b[0m \x1b]8;;javascript:alert(1)\x07link\x1b]8;;\x07 \x1b[2J"
SCRIPT = "</pre></script><script>alert(document.domain)</script><img src=x onerror=alert(2)>"
HUGE = "W" * 20_000


class Hostile(Job):
    """Fails with a huge error, after lines that would control a terminal or a page."""

    def execute(self, context: JobExecutionContext) -> None:
        context.log.info(ANSI + SCRIPT)
        context.log.warning(HUGE[:3_000])
        context.progress(0.4, SCRIPT[:100])
        raise RuntimeError(f"{SCRIPT} {ANSI} {context.job_data['name']}\n{HUGE}")


class Endless(Job):
    """Runs until it is cancelled, and says hostile things meanwhile."""

    def execute(self, context: JobExecutionContext) -> None:
        context.progress(0.4, SCRIPT[:100])
        context.wait_cancelled(600)


@pytest.fixture
def hostile(postgres_dsn: str) -> Iterator[tuple[str, Scheduler]]:
    """A dashboard in this process, over a node that has run jobs of hostile names."""
    scheduler = Scheduler(postgres_dsn, name="hostile", instance_id="<b>node</b> " + "n" * 60, workers=4)
    scheduler.add_calendar(SCRIPT[:100], HolidayCalendar([datetime.now(UTC).date()]))
    now = datetime.now(UTC)
    data = {"huge": HUGE, SCRIPT: {"<i>": ["\u202e", "\x1b[31m", None]}}
    for name in NAMES:
        scheduler.schedule_job(
            JobDetail(Hostile, name, name, description=name, data={**data, "name": name}, capture_logs="INFO"),
            [
                SimpleTrigger(name, name, start_time=now),
                SimpleTrigger("later", name, start_time=now + timedelta(minutes=30), description=SCRIPT, data=data),
            ],
        )
        scheduler.pause_trigger(TriggerKey("later", name), reason=SCRIPT, by="<u>ann</u>")
    scheduler.schedule_job(JobDetail(Endless, SCRIPT[:150]), SimpleTrigger(SCRIPT[:150]))
    scheduler.start()
    server = DashboardServer(create_app(scheduler, auth=THIS_USER, read_only=False))
    address = listen("127.0.0.1", 0)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [address]}, daemon=True)
    thread.start()
    wait_until(lambda: server.started)
    wait_until(lambda: scheduler.executions(state="FAILED").count() >= len(NAMES), seconds=60, every=0.05)
    yield f"http://127.0.0.1:{address.getsockname()[1]}", scheduler
    server.handle_exit(15, None)
    thread.join(30)
    scheduler.shutdown(interrupt=True)


def pages(scheduler: Scheduler, *, everything: bool) -> Iterator[str]:
    yield from ("/", "/timeline", "/timeline?lanes=node", "/jobs", "/triggers", "/calendars", "/groups", "/executions")
    yield from ("/misfires", "/audit", "/windows", "/limits", "/running", "/upcoming", "/nodes", "/system?examine=yes")
    yield f"/calendar?{urlencode({'name': SCRIPT[:100]})}"
    yield f"/search?{urlencode({'q': SCRIPT})}"
    failed = {record.job_key.name: record.fire_id for record in scheduler.executions(state="FAILED")}
    for place, name in enumerate(NAMES):
        key = urlencode({"group": name, "name": name})
        of_name = (
            f"/job?{key}",
            f"/trigger?{urlencode({'group': name, 'name': 'later'})}",
            f"/actions/trigger?kind=job&{key}",
            f"/triggers?{urlencode({'contains': name})}",
            f"/executions/{failed[name]}",
        )
        # Two of the five pages for each name, each page for several names.
        yield from of_name if everything else (of_name[place % 5], of_name[(place + 2) % 5])


def test_nothing_runs_and_every_page_keeps_its_shape(
    hostile: tuple[str, Scheduler], open_browser: Callable[..., Watched], pytestconfig: pytest.Config
) -> None:
    url, scheduler = hostile
    watched = open_browser(viewport=PHONE)
    page: Page = watched.page
    dialogs: list[str] = []

    def note(dialog: Dialog) -> None:
        dialogs.append(dialog.message)
        dialog.dismiss()

    page.on("dialog", note)
    wrong: dict[str, str] = {}
    for path in pages(scheduler, everything=is_long(pytestconfig)):
        answer = page.goto(url + path)
        assert answer is not None
        if answer.status != 200:
            wrong[path] = f"status {answer.status}"
        elif (beyond := width_beyond_screen(page)) > 0:
            wrong[path] = f"{beyond} px wider than a phone"
        elif "\x1b" in page.content():
            wrong[path] = "a control character of a terminal"
    assert dialogs == []
    assert wrong == {}


@pytest.mark.parametrize("name", ["a\0b", "a\nb", "\u202egnp.exe"], ids=["NUL", "newline", "override"])
def test_names_that_no_list_can_show_on_a_line_are_refused(client: TestClient, name: str) -> None:
    with pytest.raises(InvalidKeyError):
        JobKey(name)
    answer = client.get("/job", params={"name": name})
    assert answer.status_code == 400
