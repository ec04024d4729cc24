"""Each page on a live cluster in a real browser: no error, no violation of accessibility, no wider than the screen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from tests.dashboard.browser.conftest import Shop, Watched

PAGES = (
    "/",
    "/timeline",
    "/timeline?lanes=node&span=5m",
    "/jobs",
    "/job?group=billing&name=charge-cards",
    "/triggers",
    "/triggers?state=ERROR",
    "/trigger?group=billing&name=monthly-close",
    "/trigger?group=billing&name=new-york-2-30",
    "/calendars",
    "/calendar?name=business-days",
    "/groups",
    "/executions",
    "/executions?state=FAILED",
    "an execution",
    "/misfires",
    "/audit",
    "/nodes",
    "/system",
    "/system?examine=yes",
    "/search?q=bill",
    "/nowhere",
)
SERIOUS = ("serious", "critical")


def violations(page: Page) -> list[str]:
    """Return the violations that hinder people seriously: each with the first element that it concerns."""
    found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    return [f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in found if one["impact"] in SERIOUS]


def width_beyond_screen(page: Page) -> int:
    root = "document.documentElement"
    return int(page.evaluate(f"{root}.scrollWidth - {root}.clientWidth"))


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.timeout(300)
def test_every_page_is_accessible_fits_the_screen_and_reports_no_error(
    running_shop: Shop, open_browser: Callable[..., Watched], theme: str
) -> None:
    wide = open_browser(color_scheme=theme, viewport={"width": 1360, "height": 900})
    phone = open_browser(color_scheme=theme, viewport={"width": 390, "height": 844})
    failed = running_shop.client.executions(state="FAILED").first()
    assert failed is not None
    wrong: dict[str, Any] = {}
    for path in PAGES:
        address = (
            f"{running_shop.url}{path}" if path.startswith("/") else f"{running_shop.url}/executions/{failed.fire_id}"
        )
        for name, one in (("wide", wide), ("phone", phone)):
            answer = one.page.goto(address)
            assert answer is not None
            assert answer.status == (404 if path == "/nowhere" else 200)
            if found := violations(one.page) if name == "wide" else []:
                wrong[f"{path} {name}"] = found
            if (beyond := width_beyond_screen(one.page)) > 0:
                wrong[f"{path} {name} width"] = beyond
    assert wrong == {}
    # The browser reports the one answer that is an error.
    for one in (wide, phone):
        one.problems[:] = [problem for problem in one.problems if "404" not in problem]
