"""Five troubles of a real cluster: the overview names each with its reason at first sight, and mends it."""

from __future__ import annotations

import html
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect
from starlette.testclient import TestClient

from quartzpy import Scheduler
from quartzpy.dashboard import create_app
from quartzpy.keys import JobKey, TriggerKey
from tests.dashboard import troubles
from tests.dashboard.browser.conftest import Shop, Watched, address_of, process
from tests.dashboard.browser.test_pages import violations, width_beyond_screen
from tests.dashboard.conftest import LOCAL, THIS_USER
from tests.database import Server, connect_to
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(900)
SOON = 60_000
FIRST_SIGHT = {
    "dead-node": (r"Node node-b is (late|dead): it last checked in", r"process \d+, with 1 execution\."),
    "full-pool": (
        r"The only worker of executor 'node-a' is busy, and 1 trigger is due",
        r"Execution \d+ of job DEFAULT.hog on node node-a: running for",
    ),
    "blocked-job": (
        r"Job DEFAULT.serial is at its concurrency limit",
        r"Execution \d+ of job DEFAULT.serial on node node-a: running for",
    ),
    "trigger-error": (r"Trigger DEFAULT.poisoned is in ERROR", r"'interval_us' is missing in its schedule"),
    "clock-change": (r"The clocks of Test/Summer move forward by 1h", r"Within an hour of it fire: DEFAULT.nightly"),
}
"""What is wrong and the reason, as the overview says them."""


@dataclass
class Troubled(Shop):
    """A cluster in trouble."""

    environment: dict[str, str] | None = None

    def node(self, name: str) -> Any:
        given = {**(self.environment or {}), troubles.DSN_VARIABLE: self.dsn, troubles.INSTANCE_VARIABLE: name}
        return process(["node", "--app", f"{troubles.__name__}:make_scheduler"], **given)

    def write(self, statement: str) -> None:
        """Write to the tables by hand."""
        with connect_to(self.dsn) as connection:
            assert connection.execute(statement).rowcount == 1

    def state(self, trigger: str) -> str | None:
        record = self.client.trigger_record(TriggerKey(trigger))
        return None if record is None else record.state

    def runs(self, job: str) -> bool:
        return any(row.job_key == JobKey(job) and row.state == "EXECUTING" for row in self.client.running())


def not_said(scheduler: Scheduler) -> list[str]:
    """Return what the page does not say yet."""
    answer = TestClient(create_app(scheduler, auth=THIS_USER, read_only=False), **LOCAL).get("/")
    assert answer.status_code == 200
    text = html.unescape(re.sub(r"<[^>]*>", "", answer.text))
    return [words for both in FIRST_SIGHT.values() for words in both if not re.search(words, text)]


@pytest.fixture(scope="module")
def troubled(postgres_server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Troubled]:
    with ExitStack() as stack:
        name = f"quartzpy_troubles_{os.getpid()}"
        dsn = postgres_server.create(name, postgres_server.tables)
        stack.callback(postgres_server.drop, name)
        client = Scheduler(dsn, **troubles.SETTINGS)
        stack.callback(client.shutdown)
        now = client.nodes().now
        zones: Path = tmp_path_factory.mktemp("zones")
        made = Troubled(dsn, client, environment=stack.enter_context(troubles.changing_zone(zones, now)))
        stack.enter_context(made.node("node-a"))
        doomed = stack.enter_context(made.node("node-b"))
        made.wait(lambda: len(client.nodes().nodes) == 2, "the nodes to join")
        client.schedule_jobs([troubles.of_node_b(now)])
        made.wait(lambda: made.runs("lost"), "the execution on node-b")
        doomed.kill()
        doomed.wait()
        client.schedule_jobs(troubles.holding(now))
        made.wait(lambda: made.runs("hog") and made.runs("serial"), "the executions on node-a")
        client.schedule_jobs(troubles.in_trouble(now), replace=True)
        made.write(
            'UPDATE qrtz_triggers SET schedule = \'{"interval": "rubbish"}\','
            " next_fire_time = now(), upcoming = '{}',"
            " upcoming_is_complete = false"
            " WHERE trigger_name = 'poisoned'"
        )
        # A node has to be silent for a while, and a pool to be full.
        wait_until(lambda: not not_said(client), "each trouble to be seen", seen=lambda: not_said(client))
        served = ["dashboard", "--dsn", dsn, "--name", "troubles", "--port", "0", "--allow-actions"]
        made.url = address_of(stack.enter_context(process(served, **(made.environment or {}))))
        yield made


def incident(page: Page, kind: str) -> Locator:
    return page.locator(".incident").filter(has_text=re.compile(FIRST_SIGHT[kind][0]))


def test_each_is_on_the_page_with_its_reason(troubled: Troubled) -> None:
    assert not_said(troubled.client) == []


@pytest.mark.parametrize("size", [(1280, 800), (390, 844)], ids=["wide", "phone"])
def test_each_is_seen_with_its_reason_at_first_sight(
    troubled: Troubled, open_browser: Callable[..., Watched], size: tuple[int, int]
) -> None:
    width, height = size
    page = open_browser(viewport={"width": width, "height": height}).page
    page.goto(troubled.url)
    for kind, (what, why) in FIRST_SIGHT.items():
        one = incident(page, kind)
        for text in (what, why):
            box = one.get_by_text(re.compile(text)).first.bounding_box()
            assert box is not None, (kind, text)
            # A fraction of a pixel is nothing that anybody sees.
            assert box["y"] + box["height"] < height + 1, (kind, text, box)
            assert 0 <= box["x"] <= box["x"] + box["width"] <= width, (kind, text, box)
    assert width_beyond_screen(page) <= 0


def test_on_a_phone_the_other_reasons_are_one_touch_away(
    troubled: Troubled, open_browser: Callable[..., Watched]
) -> None:
    page = open_browser(viewport={"width": 390, "height": 844}).page
    page.goto(troubled.url)
    one = incident(page, "clock-change")
    other = one.get_by_text("Each trigger's rule for daylight saving")
    expect(other).to_be_hidden()
    one.get_by_label("1 more").check()
    expect(other).to_be_visible()


@pytest.mark.parametrize("width", [390, 600, 1024, 1440])
def test_the_numbers_and_the_nodes_are_whole_at_every_width(
    troubled: Troubled, open_browser: Callable[..., Watched], width: int
) -> None:
    page = open_browser(viewport={"width": width, "height": 844}).page
    page.goto(troubled.url)
    tiles = [tile.bounding_box() for tile in page.locator(".tile").all()]
    of_rows = Counter(tile["y"] for tile in tiles if tile is not None)
    assert len(tiles) == 8
    assert len(set(of_rows.values())) == 1, "every row of tiles is full"
    panel = page.locator("section:has(> header > h2:text-is('Nodes'))")
    edge = panel.bounding_box()
    assert edge is not None
    for cell in panel.locator("td:visible").all():
        box = cell.bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= edge["x"] + edge["width"] + 1, cell.inner_text()


OVERLAPS = """() => [...document.querySelectorAll(".incident")].flatMap((incident) => {
    const texts = [...incident.querySelectorAll("h3, li")].flatMap((text) => {
        const range = document.createRange();
        range.selectNodeContents(text);
        return [...range.getClientRects()];
    });
    const edge = incident.getBoundingClientRect();
    return [...incident.querySelectorAll(".button")].filter((button) => {
        const box = button.getBoundingClientRect();
        if (box.width === 0) return false;  // It comes with the other reasons.
        const covers = texts.some((text) => box.left < text.right - 1 && text.left < box.right - 1
            && box.top < text.bottom - 1 && text.top < box.bottom - 1);
        return covers || box.right > edge.right || box.left < edge.left;
    }).map((button) => button.textContent);
})"""


@pytest.mark.parametrize("width", [390, 1024, 1280, 1440])
def test_no_button_covers_the_text_of_an_incident(
    troubled: Troubled, open_browser: Callable[..., Watched], width: int
) -> None:
    page = open_browser(viewport={"width": width, "height": 844}).page
    page.goto(troubled.url)
    assert page.evaluate(OVERLAPS) == []
    # A long reason, and a long name on the button.
    page.evaluate(
        """() => { for (const part of document.querySelectorAll(".incident li, .incident .button"))
            part.append(" of etl.export-archive-of-all-tenants-and-regions on node with-a-long-name".repeat(2)); }"""
    )
    assert page.evaluate(OVERLAPS) == []
    assert width_beyond_screen(page) <= 0


def test_an_incident_is_acknowledged_in_the_dialog_and_leaves_the_panel(
    troubled: Troubled, open_browser: Callable[..., Watched]
) -> None:
    page = open_browser(viewport={"width": 1280, "height": 800}).page
    page.goto(troubled.url)
    poisoned = incident(page, "trigger-error")
    # A node has to judge first; the page learns of it by itself.
    acknowledge = poisoned.get_by_role("link", name="Acknowledge")
    expect(acknowledge).to_be_visible(timeout=SOON)
    # By the keyboard alone: the dialog opens, asks for the reason, is left and opened again, and is sent.
    acknowledge.focus()
    page.keyboard.press("Enter")
    dialog = page.locator("#action")
    expect(dialog).to_contain_text("Trigger DEFAULT.poisoned is in ERROR")
    expect(dialog.get_by_label("Reason")).to_be_focused()
    assert violations(page) == []
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(acknowledge).to_be_focused()
    page.keyboard.press("Enter")
    expect(dialog.get_by_label("Reason")).to_be_focused()
    page.keyboard.press("Tab")
    expect(dialog.get_by_role("button", name="Acknowledge", exact=True)).to_be_focused()
    page.keyboard.press("Enter")
    expect(dialog.get_by_label("Reason")).to_be_focused()
    page.keyboard.type("the supplier is told")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    noted = page.locator(".noted")
    expect(noted).to_contain_text("1 acknowledged incident", timeout=SOON)
    expect(noted).to_contain_text("the supplier is told")
    expect(poisoned).to_have_count(0)
    for width in (390, 1024, 1440):
        page.set_viewport_size({"width": width, "height": 844})
        assert width_beyond_screen(page) <= 0
    page.goto(f"{troubled.url}/incidents")
    expect(page.locator(".noted")).to_contain_text("the supplier is told")
    assert violations(page) == []
    page.goto(troubled.url)
    page.locator(".noted").get_by_role("link", name="Show again").click()
    dialog.get_by_role("button", name="Show again").click()
    expect(poisoned).to_have_count(1, timeout=SOON)


def mend(page: Page, kind: str, remedy: str, button: str) -> None:
    """Follow a remedy of an incident to its end, and wait until the page no longer shows the incident."""
    incident(page, kind).get_by_role("link", name=re.compile(remedy)).click()
    dialog = page.locator("#action")
    dialog.get_by_label("Reason").fill("the ten-second test")
    dialog.get_by_role("button", name=button, exact=True).click()
    expect(page.get_by_role("status")).to_be_visible()
    expect(incident(page, kind)).to_have_count(0, timeout=SOON)


def test_each_is_mended_from_the_overview(troubled: Troubled, open_browser: Callable[..., Watched]) -> None:
    page = open_browser(viewport={"width": 1280, "height": 800}).page
    page.goto(troubled.url)
    # A node has to judge first: what is mended before that is never listed as over.
    expect(incident(page, "trigger-error").get_by_role("link", name="Acknowledge")).to_be_visible(timeout=SOON)
    mend(page, "full-pool", r"Cancel execution \d+ of DEFAULT.hog", "Cancel")
    troubled.wait(lambda: troubled.client.executions(job="thumbnails", state="SUCCEEDED").first(), "the next in turn")
    mend(page, "blocked-job", r"Cancel execution \d+ of DEFAULT.serial", "Cancel")
    second = TriggerKey("serial-2")
    troubled.wait(
        lambda: any(row.trigger_key == second for row in troubled.client.running()), "the blocked trigger to fire"
    )
    schedule = """'{"interval_us": 3600000000, "repeat_count": null}'"""
    troubled.write(f"UPDATE qrtz_triggers SET schedule = {schedule} WHERE trigger_name = 'poisoned'")
    mend(page, "trigger-error", "Reset trigger", "Reset")
    # It is claimed at once if it is due.
    troubled.wait(lambda: troubled.state("poisoned") == "WAITING", "the trigger to wait for its next fire time")
    mend(page, "clock-change", "Skip the next fire of DEFAULT.nightly", "Skip")
    nightly = troubled.client.trigger_record(troubles.NIGHTLY)
    assert nightly is not None
    assert nightly.next_fire_time is not None
    assert nightly.next_fire_time > troubled.client.nodes().now + timedelta(hours=24)
    # Nobody has to do anything about a dead node on the page: another one recovers its work, or it is started again.
    with troubled.node("node-b"):
        expect(incident(page, "dead-node")).to_have_count(0, timeout=SOON)
        lost = page.get_by_role("row").filter(has=page.get_by_role("link", name="lost"))
        expect(lost).to_contain_text("its node stopped")
        lost.get_by_role("link", name="Run again").click()
        page.locator("#action").get_by_role("button", name="Run again").click()
        troubled.wait(lambda: troubled.runs("lost"), "the lost execution to run again")
        expect(page.get_by_role("status")).to_contain_text("It runs.", timeout=SOON)
        expect(page.locator("#incidents")).to_have_text("No incidents", timeout=SOON)
    # Those that are over are listed with their times.
    page.goto(f"{troubled.url}/incidents")
    # The browser's search for texts calls the method `contains` of forms, and that of this page has such a field.
    expect(page.locator("#content")).to_contain_text("Trigger DEFAULT.poisoned is in ERROR")
    for width in (390, 1440):
        page.set_viewport_size({"width": width, "height": 844})
        assert violations(page) == []
        assert width_beyond_screen(page) <= 0
