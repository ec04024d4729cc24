"""Each page on a live cluster in a real browser: no error, no violation of accessibility, no wider than the screen."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from examples import shop
from quartzpy import JobDetail, JobKey, SimpleTrigger
from tests.dashboard.browser.conftest import Shop, Watched

PAGES = (
    "/",
    "/timeline",
    "/timeline?lanes=node&span=5m",
    "/timeline?lanes=group&start=6h&end=1h",
    "/jobs",
    "/jobs?sort=-failed",
    "/job?group=billing&name=charge-cards",
    "/triggers",
    "/triggers?all=yes&sort=next",
    "/triggers?state=ERROR",
    "/trigger?group=billing&name=monthly-close",
    "/trigger?group=billing&name=new-york-2-30",
    "/calendars",
    "/calendar?name=business-days",
    "/groups",
    "/windows",
    "/limits",
    "/running",
    "/upcoming?until=1d",
    "/executions",
    "/executions?state=FAILED",
    "/executions?sort=-ran&job=billing.chrge-cards",
    "/misfires",
    "/incidents",
    "/audit",
    "/nodes",
    "/nodes?node=node-a",
    "/system",
    "/system?examine=yes",
    "/search?q=bill",
    "/nowhere",
)
WIDE, PHONE = {"width": 1360, "height": 900}, {"width": 390, "height": 844}
AXE = Axe().axe_script
SERIOUS = ("serious", "critical")


# A row like one before it, but for its texts, has the same violations.
LEAVE_OUT_REPEATED_ROWS = """() => {
    const seen = new Set();
    for (const row of document.querySelectorAll("tbody tr")) {
        row.removeAttribute("data-repeated");
        const parts = [row, ...row.querySelectorAll("*")].map((part) =>
            [part.tagName, part.className, part.textContent.trim() === "", ...part.getAttributeNames()]);
        const kind = JSON.stringify([row.closest("table").className, parts]);
        row.toggleAttribute("data-repeated", seen.has(kind));
        seen.add(kind);
    }
}"""

# All violations of a rule have its impact: axe need not look for those that are not reported here.
WITHOUT_SLIGHT_RULES = """serious => Object.fromEntries(
    axe._audit.rules
        .filter((rule) => rule.enabled && rule.impact && !serious.includes(rule.impact))
        .map((rule) => [rule.id, { enabled: false }]))"""


def violations(page: Page, rules: list[str] | None = None) -> list[str]:
    """Return the violations that hinder people seriously: each with the first element that it concerns."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE)
    page.evaluate(LEAVE_OUT_REPEATED_ROWS)
    only = {"rules": page.evaluate(WITHOUT_SLIGHT_RULES, SERIOUS)} if rules is None else {"runOnly": rules}
    run = "options => axe.run({ exclude: ['[data-repeated]'] }, options)"
    found = page.evaluate(run, {"resultTypes": ["violations"], **only})["violations"]
    return [f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in found if one["impact"] in SERIOUS]


def width_beyond_screen(page: Page) -> int:
    root = "document.documentElement"
    return int(page.evaluate(f"{root}.scrollWidth - {root}.clientWidth"))


BEYOND = """() => {
    const found = [];
    for (const panel of document.querySelectorAll(".panel")) {
        const edge = panel.getBoundingClientRect();
        for (const part of panel.querySelectorAll("*")) {
            const holder = part.closest(".scroll, pre");
            if (part.closest("svg, .unseen") || (holder && holder !== part)) continue;
            if (part.getBoundingClientRect().right > edge.right + 1) found.push(part.textContent.trim().slice(0, 60));
        }
    }
    return found;
}"""
"""The texts that end beyond the edge of their panel, which cuts them. A wide table may scroll within its panel."""
SCROLLS = """() => [...document.querySelectorAll(".panel .scroll:not(:has(svg.year))")]
    .filter((box) => box.scrollWidth > box.clientWidth + 1)
    .map((box) => box.textContent.trim().replace(/\\s+/g, " ").slice(0, 60))"""
"""The tables that scroll sideways within their panel: on a phone, none does. The year of a calendar may."""


def test_the_examination_finds_a_violation(running_shop: Shop, open_browser: Callable[..., Watched]) -> None:
    page = open_browser().page
    page.goto(f"{running_shop.url}/jobs")
    page.evaluate("document.getElementById('live').style.color = '#ddd'")
    page.evaluate("document.querySelector('.brand img').removeAttribute('alt')")
    found = violations(page)
    assert [one.partition(":")[0] for one in found] == ["color-contrast", "image-alt"]


def test_on_a_phone_a_failed_execution_shows_its_error(
    running_shop: Shop, open_browser: Callable[..., Watched]
) -> None:
    page = open_browser(viewport=PHONE).page
    page.goto(f"{running_shop.url}/executions?state=FAILED")
    error = page.locator("tbody tr").first.locator("td.fill")
    expect(error).to_be_visible()
    box = error.bounding_box()
    assert box is not None
    assert box["width"] > 250
    assert width_beyond_screen(page) <= 0


def test_tables_break_no_type_and_cut_no_column(running_shop: Shop, open_browser: Callable[..., Watched]) -> None:
    page = open_browser().page
    for address in ("/jobs", "/executions?state=FAILED", "/executions", "/triggers", "/triggers?all=yes"):
        page.goto(f"{running_shop.url}{address}")
        for width in (1024, 1280, 1440):
            page.set_viewport_size({"width": width, "height": 900})
            if address == "/jobs":
                tall = page.locator("td .mono:visible").evaluate_all(
                    "parts => parts.filter(part => part.getBoundingClientRect().height >= 30)"
                    ".map(part => part.textContent)"
                )
                assert tall == [], (address, width)
            beyond = page.evaluate(
                "(() => { const s = document.querySelector('.scroll'); return s.scrollWidth - s.clientWidth })()"
            )
            assert beyond <= 0, (address, width)


@pytest.mark.timeout(900)
def test_every_page_is_accessible_fits_the_screen_and_reports_no_error(
    running_shop: Shop, open_browser: Callable[..., Watched]
) -> None:
    watched = open_browser()
    # One of the pages does not exist.
    watched.expected = ("404",)
    page = watched.page
    failed = running_shop.client.executions(state="FAILED").first()
    assert failed is not None
    # Its job shows a table of what runs, with its progress.
    running_shop.wait(lambda: [one for one in running_shop.client.running() if one.progress_message], "a long run")
    wrong: dict[str, Any] = {}
    for given in ("/job?group=search&name=rebuild-index", *PAGES, f"/executions/{failed.fire_id}"):
        page.emulate_media(color_scheme="light")
        page.set_viewport_size(WIDE)
        answer = page.goto(f"{running_shop.url}{given}")
        assert answer is not None
        assert answer.status == (404 if given == "/nowhere" else 200)
        # Live updates would change the page while it is examined.
        page.keyboard.press("p")
        found = violations(page)
        found += [f"beyond its panel: {text}" for text in page.evaluate(BEYOND)]
        page.emulate_media(color_scheme="dark")
        found += violations(page, ["color-contrast"])
        page.set_viewport_size(PHONE)
        if (beyond := width_beyond_screen(page)) > 0:
            found.append(f"{beyond} px wider than a phone")
        found += [f"beyond its panel on a phone: {text}" for text in page.evaluate(BEYOND)]
        found += [f"scrolls sideways on a phone: {text}" for text in page.evaluate(SCROLLS)]
        found += [f"on a phone: {text}" for text in violations(page, ["scrollable-region-focusable"])]
        if found:
            wrong[given] = found
    assert wrong == {}


def test_a_job_that_runs_several_times_at_once_fits_a_phone(
    running_shop: Shop, open_browser: Callable[..., Watched]
) -> None:
    client, key = running_shop.client, JobKey("rebuild-the-indexes", "search")
    detail = JobDetail(shop.RebuildIndex, key.name, key.group, max_concurrent=2)
    starts = [client.nodes().now + timedelta(seconds=2 * number) for number in range(2)]
    client.schedule_job(detail, [SimpleTrigger(f"at-{at:%S}", key.group, start_time=at) for at in starts])
    # What is claimed ahead of its fire time runs for no time yet.
    running_shop.wait(
        lambda: [one.job_key for one in client.running() if one.progress_message].count(key) == 2, "two runs at once"
    )
    page = open_browser().page
    page.goto(f"{running_shop.url}/")
    page.keyboard.press("p")
    row = page.get_by_role("row").filter(has_text="2 at once").filter(has_text=key.name)
    expect(row.get_by_role("link", name=re.compile(" to "))).to_be_visible()
    assert violations(page) == []
    page.set_viewport_size(PHONE)
    assert page.evaluate(SCROLLS) == []
    row.get_by_role("link", name=re.compile(" to ")).click()
    expect(page.get_by_role("row").filter(has_text=key.name)).to_have_count(2)
    client.delete_job(key)
    client.cancel_job(key)


@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
def test_columns_and_the_order_are_chosen_without_a_script(
    running_shop: Shop, open_browser: Callable[..., Watched], viewport: dict[str, int]
) -> None:
    page = open_browser(viewport=viewport, java_script_enabled=False).page
    page.goto(f"{running_shop.url}/jobs?group=billing")
    page.locator(".view summary").click()
    form = page.locator(".view form")
    box = form.bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= viewport["width"]
    form.get_by_role("checkbox", name="Last result").uncheck()
    form.get_by_label("Sort by").select_option(label="Job, descending")
    form.get_by_role("button", name="Show").click()
    page.wait_for_url("**/jobs?group=billing&sort=-job")
    expect(page.locator("thead")).not_to_contain_text("Last result")
    names = page.locator("tbody td.named > a bdi:first-child").all_inner_texts()
    assert names == sorted(names, reverse=True) != []


def test_a_head_sorts_a_list_and_says_so(running_shop: Shop, open_browser: Callable[..., Watched]) -> None:
    page = open_browser().page
    page.goto(f"{running_shop.url}/jobs")
    page.get_by_role("link", name="Failed, 24 h").click()
    expect(page.locator("th[aria-sort=descending]")).to_have_text("Failed, 24 h")
    page.get_by_role("link", name="Failed, 24 h").click()
    expect(page.locator("th[aria-sort=ascending]")).to_have_text("Failed, 24 h")


def test_a_plot_is_one_stop_and_its_values_are_reached_by_keys_and_by_touch(
    running_shop: Shop, open_browser: Callable[..., Watched]
) -> None:
    page = open_browser(has_touch=True).page
    page.goto(f"{running_shop.url}/job?group=billing&name=charge-cards")
    page.locator("#live").click()
    plot, tip = page.locator("svg.plot"), page.locator("#tip")
    assert page.locator("svg.plot [tabindex='0'], svg.plot a:not([tabindex])").count() == 0
    plot.focus()
    page.keyboard.press("End")
    expect(tip).to_have_text(re.compile(r"^Execution \d+ \w+ after "))
    latest = tip.inner_text().split()[1]
    page.keyboard.press("Escape")
    expect(tip).to_be_hidden()
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/executions/{latest}")
    page.goto(running_shop.url)
    page.locator("#live").click()
    minutes = page.locator("svg.plot").first
    minutes.scroll_into_view_if_needed()
    minutes.locator(".hit").last.tap()
    expect(tip).to_have_text(re.compile(r"^\d\d:\d\d: "))
    page.locator("h1").tap()
    expect(tip).to_be_hidden()
