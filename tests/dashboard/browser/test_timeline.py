"""The timeline in a real browser: a zoom by dragging, one stop for each lane, and tips beside the runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest
from playwright.sync_api import Page, expect

from tests.dashboard.browser.conftest import Shop, Watched


def span_of(page: Page) -> tuple[datetime, datetime]:
    lanes = page.locator(".lanes")
    start, end = lanes.get_attribute("data-start"), lanes.get_attribute("data-end")
    assert start
    assert end
    return datetime.fromisoformat(start), datetime.fromisoformat(end)


def test_a_span_is_chosen_by_dragging_over_it(running_shop: Shop, open_browser: Callable[..., Watched]) -> None:
    page = open_browser().page
    page.goto(f"{running_shop.url}/timeline?lanes=node")
    # The content may be exchanged while the mouse is down: what was chosen must not change with it.
    page.locator("#live").click()
    start, end = span_of(page)
    place = page.locator(".lane").first.bounding_box()
    assert place is not None
    y = place["y"] + place["height"] / 2
    page.mouse.move(place["x"] + place["width"] * 0.25, y)
    page.mouse.down()
    page.mouse.move(place["x"] + place["width"] * 0.5, y, steps=4)
    expect(page.locator(".band")).to_be_visible()
    page.mouse.up()
    page.wait_for_url("**/timeline?*start=*")
    query = parse_qs(urlsplit(page.url).query)
    assert query["lanes"] == ["node"]
    chosen, until = (datetime.fromisoformat(query[name][0]) for name in ("start", "end"))
    width = (end - start) / place["width"]
    assert abs(chosen - (start + (end - start) / 4)) < 3 * width
    assert abs(until - (start + (end - start) / 2)) < 3 * width
    page.get_by_role("link", name="Zoom out").click()
    page.wait_for_url(lambda url: url != page.url or "start" in url)
    page.get_by_role("link", name="Now").click()
    expect(page.get_by_role("link", name="Now")).to_have_count(0)


def test_a_lane_is_one_stop_and_its_runs_are_reached_by_arrow_keys(
    running_shop: Shop, open_browser: Callable[..., Watched]
) -> None:
    page = open_browser().page
    page.goto(f"{running_shop.url}/timeline?span=5m")
    page.locator("#live").click()
    stops = page.evaluate("document.querySelectorAll('.lane [tabindex=\"0\"], .lane a:not([tabindex])').length")
    assert stops == page.locator(".lane").count() > 1
    page.locator(".runs").first.focus()
    page.keyboard.press("ArrowRight")
    tip = page.locator("#tip")
    expect(tip).to_be_visible()
    first = tip.inner_text()
    assert first.split(": ")[1]
    page.keyboard.press("End")
    expect(page.locator(".runs .at")).to_have_count(1)
    page.keyboard.press("Escape")
    expect(tip).to_be_hidden()
    # A run leads to its execution.
    lane = page.locator(".lane:has(a)").first
    lane.locator(".runs").focus()
    for _ in range(lane.locator("rect").count()):
        page.keyboard.press("ArrowRight")
        if page.locator(".runs a > .at").count():
            break
    page.keyboard.press("Enter")
    page.wait_for_url("**/executions/*")


def test_a_tip_names_the_run_below_the_pointer(running_shop: Shop, open_browser: Callable[..., Watched]) -> None:
    page = open_browser().page
    page.goto(f"{running_shop.url}/timeline?span=5m")
    page.locator("#live").click()
    page.locator(".runs rect").first.hover()
    expect(page.locator("#tip")).to_contain_text(": ")
    # It is beside the pointer, and not beyond the edge of the window.
    place, width = page.locator("#tip").bounding_box(), page.evaluate("innerWidth")
    assert place is not None
    assert 0 <= place["x"] <= place["x"] + place["width"] <= width
    page.mouse.move(1, 1)
    expect(page.locator("#tip")).to_be_hidden()


def test_counted_cells_are_reached_like_runs(
    busy_history: datetime, running_shop: Shop, open_browser: Callable[..., Watched]
) -> None:
    page = open_browser(timezone_id="America/New_York").page
    start, end = (f"{at:%Y-%m-%dT%H:%M:%SZ}" for at in (busy_history, busy_history + timedelta(hours=2)))
    page.goto(f"{running_shop.url}/timeline?start={start}&end={end}&zone=Asia/Kolkata")
    runs = page.locator(".runs[data-cells]")
    expect(runs).to_have_count(1)
    runs.focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#tip")).to_have_text("17:30:00 to 17:31:00: 9 succeeded, 1 failed")
    page.keyboard.press("End")
    expect(page.locator("#tip")).to_have_text("18:29:00 to 18:30:00: 10 succeeded")
    place = runs.bounding_box()
    assert place is not None
    page.mouse.move(place["x"] + place["width"] * 0.25, place["y"] + place["height"] / 2)
    expect(page.locator("#tip")).to_contain_text("18:00:00 to 18:01:00: 10 succeeded")


@pytest.fixture
def busy_history(running_shop: Shop) -> Iterator[datetime]:
    """Ten executions a minute for an hour, of which the first failed: long ago, but no node purges them yet."""
    began = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0) - timedelta(days=3)
    with psycopg.connect(running_shop.dsn.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute(
            """
            INSERT INTO qrtz_executions (fire_id, sched_name, trigger_group, trigger_name, generation, job_group,
                job_name, job_type, instance_id, fired_time, scheduled_time, started_at, ended_at, outcome)
            SELECT nextval('qrtz_fire_ids'), %s, 'past', 'often', 1, 'past', 'often', 'x:J', 'gone', at, at, at, at,
                   CASE n WHEN 0 THEN 'FAILED' ELSE 'SUCCEEDED' END
              FROM (SELECT n, %s + n * interval '6 s' AS at
                      FROM generate_series(0, 599) AS n) AS s
            """,
            [running_shop.client.name, began],
        )
        try:
            yield began
        finally:
            connection.execute("DELETE FROM qrtz_executions WHERE trigger_group = 'past'")
