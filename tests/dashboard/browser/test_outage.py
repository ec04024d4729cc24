"""The page while its database is away: it says so, keeps what it shows, and goes on by itself."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.dashboard.browser.conftest import Shop, Watched, address_of, process
from tests.proxy import Proxy

pytestmark = pytest.mark.timeout(240)
SOON = 40_000


def test_the_page_survives_an_outage_of_the_database(running_shop: Shop, open_browser: Callable[..., Watched]) -> None:
    with Proxy.to(running_shop.dsn) as link:
        served = ["dashboard", "--dsn", link.through(running_shop.dsn), "--name", "shop", "--port", "0"]
        with process(served) as dashboard:
            address = address_of(dashboard)
            watched, other = open_browser(), open_browser()
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
            page.wait_for_function("old => document.querySelector('tbody tr').id !== old", arg=first, timeout=SOON)
            other.page.reload()
            expect(other.page.locator("h1")).to_have_text(re.compile("Jobs"))
            for one in (watched, other):
                one.page.goto("about:blank")
                one.problems[:] = [problem for problem in one.problems if "503" not in problem]
