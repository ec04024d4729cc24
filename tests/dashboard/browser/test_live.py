"""What a reader sees without reloading, and does without a mouse or without a script."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, expect

from examples import shop
from quartzpy.jobs.job import JobDetail
from quartzpy.keys import TriggerKey
from quartzpy.triggers.simple import SimpleTrigger
from tests.dashboard.browser.conftest import Shop, Watched, address_of, process

pytestmark = pytest.mark.timeout(900)
SOON = 60_000
"""The longest time, in milliseconds, until a page shows a change."""


def test_a_page_shows_new_executions_without_a_reload_and_keeps_what_was_typed(
    running_shop: Shop, open_browser: Callable[..., Watched]
) -> None:
    page = open_browser().page
    page.goto(f"{running_shop.url}/executions")
    expect(page.locator("#live")).to_have_attribute("data-state", "on")
    page.evaluate("window.isSamePage = true")
    page.locator("input[name=node]").fill("node-")
    first = page.locator("tbody tr").first.get_attribute("id")
    page.locator(".news:enabled").click(timeout=SOON)
    page.wait_for_function("old => document.querySelector('tbody tr').id !== old", arg=first, timeout=SOON)
    expect(page.locator("input[name=node]")).to_have_value("node-")
    assert page.evaluate("window.isSamePage") is True


def test_a_paused_page_stays_as_it_is_until_it_is_continued(
    running_shop: Shop, open_browser: Callable[..., Watched]
) -> None:
    page = open_browser().page
    page.goto(f"{running_shop.url}/trigger?group=mail&name=tuesday-thursday")
    page.keyboard.press("p")
    expect(page.locator("#live")).to_have_attribute("data-state", "off")
    running_shop.client.resume_trigger(TriggerKey("tuesday-thursday", "mail"))
    # Longer than the interval of the changes that no event announces.
    page.wait_for_timeout(6_500)
    expect(page.locator("h1 .badge")).to_have_text("paused")
    page.keyboard.press("p")
    expect(page.locator("h1 .badge")).to_have_text("waiting", timeout=SOON)
    running_shop.client.pause_trigger(TriggerKey("tuesday-thursday", "mail"))
    expect(page.locator("h1 .badge")).to_have_text("paused", timeout=SOON)


def test_a_hidden_page_asks_for_nothing_and_catches_up_when_it_is_seen(
    running_shop: Shop, open_browser: Callable[..., Watched]
) -> None:
    page = open_browser().page
    page.goto(f"{running_shop.url}/executions")
    expect(page.locator("#live")).to_have_attribute("data-state", "on")
    page.evaluate(
        "Object.defineProperty(document, 'hidden', { get: () => window.isHidden });"
        "window.hide = (is) => { window.isHidden = is; document.dispatchEvent(new Event('visibilitychange')); };"
        "window.hide(true);"
    )
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    # Executions end several times a second.
    page.wait_for_timeout(3_000)
    assert asked == []
    with page.expect_request(f"{running_shop.url}/live", timeout=SOON):
        page.evaluate("window.hide(false)")
    first = page.locator("tbody tr").first.get_attribute("id")
    page.locator(".news:enabled").click(timeout=SOON)
    page.wait_for_function("old => document.querySelector('tbody tr').id !== old", arg=first, timeout=SOON)


def test_an_outage_is_said_and_the_page_keeps_its_content_until_it_is_over(
    running_shop: Shop, open_browser: Callable[..., Watched]
) -> None:
    watched = open_browser()
    watched.expected = ("503",)
    page = watched.page
    page.goto(f"{running_shop.url}/executions")
    expect(page.locator("#live")).to_have_attribute("data-state", "on")
    page.route("**/executions", lambda route: route.fulfill(status=503, body="down"))
    expect(page.locator("#live")).to_have_attribute("data-state", "lost", timeout=SOON)
    expect(page.locator("tbody tr").first).to_be_visible()
    page.unroute("**/executions")
    first = page.locator("tbody tr").first.get_attribute("id")
    expect(page.locator("#live")).to_have_attribute("data-state", "on", timeout=SOON)
    page.locator(".news:enabled").click(timeout=SOON)
    page.wait_for_function("old => document.querySelector('tbody tr').id !== old", arg=first, timeout=SOON)


def test_the_keyboard_reaches_every_page(running_shop: Shop, open_browser: Callable[..., Watched]) -> None:
    page = open_browser().page
    page.goto(running_shop.url)
    for key, heading in (("j", "Jobs"), ("t", "Triggers"), ("e", "Executions"), ("l", "Timeline"), ("o", "Overview")):
        # The script has run: keys that are pressed before are those of the browser.
        expect(page.locator("#help")).to_be_visible()
        page.keyboard.press("g")
        page.keyboard.press(key)
        expect(page.locator("h1")).to_contain_text(heading)
    expect(page.locator("#help")).to_be_visible()
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#keys")).to_be_hidden()
    page.keyboard.press("/")
    page.keyboard.type("charge")
    page.keyboard.press("Enter")
    expect(page.locator("#content").get_by_role("link", name="charge-cards")).to_be_visible()


def test_times_are_in_the_readers_zone(running_shop: Shop, open_browser: Callable[..., Watched]) -> None:
    page = open_browser(timezone_id="America/New_York").page
    page.goto(f"{running_shop.url}/trigger?group=billing&name=berlin-6")
    expect(page.locator(".top summary")).to_have_text("America/New_York")
    expect(page.locator("#content")).to_contain_text(re.compile("E[SD]T"))
    page.goto(f"{running_shop.url}/trigger?group=billing&name=new-york-2-30&zone=UTC")
    expect(page.locator("#content")).to_contain_text("UTC")
    page.goto(f"{running_shop.url}/nodes")
    expect(page.locator(".top summary")).to_have_text("UTC")


def test_the_pages_work_without_javascript(running_shop: Shop, open_browser: Callable[..., Watched]) -> None:
    page = open_browser(java_script_enabled=False).page
    page.goto(f"{running_shop.url}/jobs")
    page.locator("input[name=contains]").fill("charge")
    page.get_by_role("button", name="Filter").click()
    assert "contains=charge" in page.url
    page.get_by_role("link", name="charge-cards").click()
    expect(page.locator("h1")).to_contain_text("charge-cards")
    expect(page.locator(".top summary")).to_contain_text("(server)")
    page.locator("#theme").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.get_by_role("link", name="Triggers", exact=True).click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


def test_incidents_have_their_reasons_and_are_mended_from_the_overview(
    running_shop: Shop, open_browser: Callable[..., Watched]
) -> None:
    client = running_shop.client
    client.schedule_job(JobDetail(shop.CloseBooks, "poisoned", "incidents"), SimpleTrigger("poisoned", "incidents"))
    long = JobDetail(shop.RebuildIndex, "blocked", "incidents")
    client.schedule_job(long, [SimpleTrigger(name, "incidents") for name in ("first", "second")])
    page = open_browser().page
    page.goto(running_shop.url)

    def mend(incident: Locator) -> None:
        incident.locator(".doing a").first.click()
        page.locator("#action").get_by_label("Reason").fill("The auditor has left.")
        page.locator("#action form .doing button").first.click()
        expect(incident).to_have_count(0, timeout=3 * SOON)

    unknown = page.locator(".incident", has_text="No running node knows the job type")
    expect(unknown).to_contain_text("shop.legacy.Cleanup", timeout=3 * SOON)
    poisoned = page.locator(".incident", has_text="incidents.poisoned is in ERROR")
    expect(poisoned).to_contain_text("the ledger of October is locked by an auditor", timeout=3 * SOON)
    mend(poisoned)
    blocked = page.locator(".incident", has_text="incidents.blocked is at its concurrency limit")
    expect(blocked).to_contain_text("Waiting: incidents.", timeout=3 * SOON)
    mend(blocked)


def test_a_node_that_dies_is_an_incident_on_the_open_overview(
    running_shop: Shop, open_browser: Callable[..., Watched]
) -> None:
    given = {"QUARTZPY_DEMO_DSN": running_shop.dsn, "QUARTZPY_DEMO_INSTANCE": "node-c"}
    with process(["node", "--app", "examples.shop:make_scheduler"], **given) as node:
        running_shop.wait(
            lambda: "node-c" in {one.instance_id for one in running_shop.client.nodes().nodes}, "node-c to join"
        )
        page = open_browser().page
        page.goto(running_shop.url)
        # Rows of running executions name the node as well.
        row = page.get_by_role("row", name=re.compile("^node-c "))
        expect(row).to_contain_text("alive", timeout=SOON)
        node.send_signal(signal.SIGKILL)
        # It lasts until the other nodes have recovered its work, for some seconds. A busy browser may come after that.
        lasting = page.locator(".incident", has_text="node-c")
        over = page.get_by_role("row", name=re.compile("Node node-c is late"))
        expect(lasting.or_(over).first).to_be_visible(timeout=SOON)


def test_an_open_page_that_nobody_uses_asks_less_often_and_catches_up_when_it_is_used(
    running_shop: Shop, open_browser: Callable[..., Watched]
) -> None:
    page = open_browser().page
    page.goto(f"{running_shop.url}/executions")
    expect(page.locator("#live")).to_have_attribute("data-state", "on")
    # As if it had fetched a lot already.
    page.evaluate("document.body.dataset.burst = -100_000")
    asked: list[float] = []
    page.on("request", lambda request: asked.append(time.monotonic()) if "executions" in request.url else None)
    with page.expect_response(lambda answer: "executions" in answer.url, timeout=SOON) as one:
        pass
    answered = time.monotonic()
    assert one.value.headers["content-encoding"] == "gzip"
    asked.clear()
    page.wait_for_timeout(4_000)
    assert not asked, "the next one is ten seconds later, although executions end each second"
    page.evaluate("document.body.dataset.burst = 400_000")
    with page.expect_request(lambda request: "executions" in request.url, timeout=SOON):
        page.mouse.wheel(0, 10)
    assert asked[0] - answered < 9


def test_the_server_ends_at_once_although_a_page_is_open(
    running_shop: Shop, open_browser: Callable[..., Watched]
) -> None:
    watched = open_browser()
    watched.expected = ("Failed to load resource", "ERR_", "Failed to fetch")
    command = ["dashboard", "--dsn", running_shop.dsn, "--name", "shop", "--port", "0"]
    with process(command, stderr=subprocess.PIPE) as served:
        watched.page.goto(address_of(served))
        expect(watched.page.locator("#live")).to_have_attribute("data-state", "on")
        served.terminate()
        _, said = served.communicate(timeout=60)
        assert served.returncode == 0
        # Without the end of the streams, the server waits for them until it gives up, and says so.
        assert said == ""
    watched.page.goto("about:blank")


def test_a_list_does_not_move_under_its_reader_and_counts_what_is_new(
    running_shop: Shop, open_browser: Callable[..., Watched]
) -> None:
    page = open_browser().page
    page.goto(f"{running_shop.url}/executions")
    rows = "[...document.querySelectorAll('tbody tr')].map((row) => row.id)"
    before = page.evaluate(rows)
    news = page.locator(".news")
    expect(news).to_have_text(re.compile(r"^\d+( or more)? new, show$"), timeout=SOON)
    assert page.evaluate(rows) == before
    expect(page.locator("#live")).to_have_attribute("data-state", "on")
    page.locator("tbody input[name=selected]").first.check()
    news.click()
    page.wait_for_function("old => document.querySelector('tbody tr').id !== old", arg=before[0], timeout=SOON)
    expect(page.locator("tbody input[name=selected]:checked")).to_have_count(1)
