"""The page while its database is away: it says so, keeps what it shows, and goes on by itself."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import Route, expect

from tests.dashboard.browser.conftest import Shop, Watched, address_of, process
from tests.dashboard.browser.test_pages import width_beyond_screen
from tests.proxy import Proxy

pytestmark = pytest.mark.timeout(900)
SOON = 40_000
RED = "rgb(179, 38, 30)"


def test_the_page_survives_an_outage_of_the_database(running_shop: Shop, open_browser: Callable[..., Watched]) -> None:
    with Proxy.to(running_shop.dsn) as link:
        served = ["dashboard", "--dsn", link.through(running_shop.dsn), "--name", "shop", "--port", "0"]
        with process(served) as dashboard:
            address = address_of(dashboard)
            watched, other = open_browser(), open_browser()
            watched.expected = other.expected = ("503",)
            page = watched.page
            page.goto(f"{address}/executions")
            expect(page.locator("#live")).to_have_attribute("data-state", "on")
            link.refuse()
            link.cut()
            expect(page.locator("#live")).to_have_attribute("data-state", "lost", timeout=SOON)
            expect(page.locator("tbody tr").first).to_be_visible()
            answer = other.page.goto(f"{address}/jobs")
            assert answer is not None
            assert answer.status == 503
            expect(other.page.get_by_role("heading", name="The database is unavailable")).to_be_visible()
            expect(other.page.locator("body")).not_to_contain_text("Traceback")
            link.admit()
            first = page.locator("tbody tr").first.get_attribute("id")
            expect(page.locator("#live")).to_have_attribute("data-state", "on", timeout=SOON)
            page.locator(".news:enabled").click(timeout=SOON)
            page.wait_for_function("old => document.querySelector('tbody tr').id !== old", arg=first, timeout=SOON)
            other.page.reload()
            expect(other.page.locator("h1")).to_have_text(re.compile("Jobs"))
            for one in (watched, other):
                one.page.goto("about:blank")


def test_the_overview_is_red_while_nothing_is_known(running_shop: Shop, open_browser: Callable[..., Watched]) -> None:
    with Proxy.to(running_shop.dsn) as link:
        served = ["dashboard", "--dsn", link.through(running_shop.dsn), "--name", "shop", "--port", "0"]
        with process([*served, "--allow-actions"]) as dashboard:
            address = address_of(dashboard)
            watched, other = open_browser(viewport={"width": 1440, "height": 800}), open_browser()
            watched.expected = other.expected = ("503",)
            page = watched.page
            page.goto(address)
            unknown = page.get_by_role("alert")
            expect(page.locator("#live")).to_have_attribute("data-state", "on")
            expect(unknown).to_be_hidden()
            link.refuse()
            link.cut()
            expect(unknown).to_be_visible(timeout=SOON)
            since = page.evaluate("document.getElementById('content').dataset.now")
            at = datetime.fromisoformat(since).astimezone(ZoneInfo("Europe/Berlin"))
            expect(unknown).to_contain_text(f"Not known since {at:%H:%M:%S}: the database cannot be reached.")
            assert unknown.evaluate("one => getComputedStyle(one).color") == RED
            assert page.locator("#content").evaluate("one => getComputedStyle(one).opacity") == "0.5"
            act = page.locator("#content [data-action]").first
            expect(act).to_have_attribute("aria-disabled", "true")
            act.dispatch_event("click")
            assert page.locator("dialog[open]").count() == 0
            assert page.url.rstrip("/") == address
            assert width_beyond_screen(page) <= 0
            page.set_viewport_size({"width": 390, "height": 800})
            expect(unknown).to_be_visible()
            assert width_beyond_screen(page) <= 0
            other.page.goto(f"{address}/jobs")
            expect(other.page.get_by_text("This page tries again by itself")).to_be_visible()
            link.admit()
            expect(unknown).to_be_hidden(timeout=SOON)
            expect(page.locator("#content [data-action]").first).not_to_have_attribute("aria-disabled", "true")
            expect(other.page.locator("h1")).to_have_text(re.compile("Jobs"), timeout=SOON)
            for one in (watched, other):
                one.page.goto("about:blank")


def test_a_dashboard_that_is_gone_is_not_known_either(running_shop: Shop, open_browser: Callable[..., Watched]) -> None:
    """Also where it answers once more after it has closed the stream, as a server does that ends."""
    answered: list[str] = []

    def answer_once_more(route: Route) -> None:
        if answered:
            route.abort("connectionrefused")
        else:
            answered.append(route.request.url)
            route.fulfill(body=last)

    with process(["dashboard", "--dsn", running_shop.dsn, "--name", "shop", "--port", "0"]) as dashboard:
        watched = open_browser()
        watched.expected = ("Failed to load resource", "ERR_", "Failed to fetch")
        address = address_of(dashboard)
        watched.page.goto(address)
        expect(watched.page.locator("#live")).to_have_attribute("data-state", "on")
        last = watched.page.context.request.get(address).text()
        watched.page.route(f"{address}/", answer_once_more)
        unknown = watched.page.get_by_role("alert")
        expect(unknown).to_be_hidden()
    expect(unknown).to_contain_text("the dashboard does not answer", timeout=SOON)
    assert answered
    watched.page.goto("about:blank")
    watched.page.unroute_all()
