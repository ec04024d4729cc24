"""Actions in a real browser: the dialogs of the script, and the pages without one."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from playwright.sync_api import Page, expect

from quartzpy import Scheduler
from quartzpy.dashboard import create_app
from quartzpy.dashboard.server import DashboardServer, listen
from quartzpy.job_data import TRIGGERED_BY
from quartzpy.keys import MANUAL_TRIGGERS, JobKey, TriggerKey
from quartzpy.operations import Operations
from tests.dashboard.browser.conftest import Shop, Watched
from tests.dashboard.browser.test_pages import violations, width_beyond_screen
from tests.dashboard.conftest import THIS_USER
from tests.dashboard.scene import HOSTILE, fill
from tests.waiting import wait_until

AT_TWO = TriggerKey("at-two", "billing")
TRIGGER = "/trigger?group=billing&name=at-two"
PHONE = {"width": 390, "height": 844}


@dataclass
class Served:
    """A dashboard in this process, over a node."""

    url: str
    scheduler: Scheduler

    def state(self, key: TriggerKey) -> str:
        record = self.scheduler.trigger_record(key)
        assert record is not None
        return record.state


@pytest.fixture
def served(postgres_dsn: str) -> Iterator[Served]:
    scheduler = Scheduler(postgres_dsn, name="scene")
    fill(scheduler)
    # It takes nothing, so that what an action stores stays there to be looked at.
    scheduler.start(standby=True)
    server = DashboardServer(create_app(scheduler, auth=THIS_USER, read_only=False))
    address = listen("127.0.0.1", 0)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [address]}, daemon=True)
    thread.start()
    wait_until(lambda: server.started)
    yield Served(f"http://127.0.0.1:{address.getsockname()[1]}", scheduler)
    server.handle_exit(15, None)
    thread.join(30)
    scheduler.shutdown()


@pytest.fixture
def page(served: Served, open_browser: Callable[..., Watched]) -> Page:
    return open_browser().page


def dialog_of(page: Page) -> Page:
    expect(page.locator("#action")).to_be_visible()
    return page.locator("#action")  # type: ignore[return-value]


def test_a_dialog_asks_for_the_reason_and_the_page_shows_the_result(served: Served, page: Page) -> None:
    """By the keyboard alone: what may stay empty is passed over."""
    page.goto(served.url + TRIGGER)
    page.get_by_role("link", name="Pause", exact=True).focus()
    page.keyboard.press("Enter")
    dialog = dialog_of(page)
    expect(dialog.get_by_role("heading", name="Pause trigger billing.at-two")).to_be_visible()
    expect(dialog.get_by_label("Reason")).to_be_focused()
    assert violations(page) == []
    page.keyboard.type("the warehouse moves")
    page.keyboard.press("Tab")
    expect(dialog.get_by_role("button", name="Pause")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_have_text("Paused trigger billing.at-two.")
    assert page.url == served.url + TRIGGER
    expect(page.get_by_role("link", name="Resume")).to_be_visible()
    assert served.state(AT_TWO) == "PAUSED"
    [entry] = Operations(served.scheduler).audit_log()
    assert entry.reason == "the warehouse moves"


def test_a_dialog_is_closed_by_escape_and_by_back(served: Served, page: Page) -> None:
    page.goto(served.url + TRIGGER)
    page.get_by_role("link", name="Delete").click()
    dialog_of(page)
    page.keyboard.press("Escape")
    expect(page.locator("#action")).to_be_hidden()
    page.get_by_role("link", name="Delete").click()
    dialog_of(page).get_by_role("link", name="Back").click()
    expect(page.locator("#action")).to_be_hidden()
    assert served.scheduler.get_trigger(AT_TWO) is not None


def test_an_error_is_shown_in_place_and_what_was_entered_stays(served: Served, page: Page) -> None:
    page.goto(f"{served.url}/job?group=billing&name=nightly")
    page.get_by_role("link", name="Trigger now").click()
    dialog = dialog_of(page)
    dialog.get_by_label("Data").fill('{"region": }')
    dialog.get_by_role("button", name="Trigger now").click()
    expect(dialog.get_by_role("alert")).to_contain_text("data: not JSON: Expecting value: line 1 column 12")
    expect(dialog.get_by_label("Data")).to_have_value('{"region": }')
    dialog.get_by_label("Data").fill('{"region": "us"}')
    dialog.get_by_role("button", name="Trigger now").click()
    expect(page.get_by_role("status")).to_contain_text("Job billing.nightly runs now")
    [made] = served.scheduler.triggers(group=MANUAL_TRIGGERS)
    assert {name: value for name, value in made.trigger.data.items() if name != TRIGGERED_BY} == {"region": "us"}


def test_the_preview_of_a_schedule_follows_the_input(served: Served, page: Page) -> None:
    page.goto(served.url + TRIGGER)
    page.get_by_role("link", name="Edit schedule").click()
    dialog = dialog_of(page)
    preview = dialog.locator("#preview")
    expect(preview).to_contain_text("02:00:00")
    expect(dialog.get_by_role("button", name="Preview")).to_be_hidden()
    dialog.get_by_label("Schedule").fill("0 30 25 * * ?")
    expect(preview.get_by_role("alert")).to_contain_text("hour")
    expect(preview.locator("pre")).to_have_text("0 30 25 * * ?\n     ^", use_inner_text=True)
    dialog.get_by_label("Schedule").fill("30 4 * * SUN")
    expect(preview).to_contain_text("04:30:00")
    dialog.get_by_label("Time zone").fill("Asia/Tokyo")
    expect(preview).to_contain_text("04:30:00 JST")
    assert violations(page) == []
    dialog.get_by_role("button", name="Save the schedule").click()
    expect(page.get_by_role("status")).to_contain_text("at 04:30")
    trigger = served.scheduler.get_trigger(AT_TWO)
    assert trigger is not None
    assert (trigger.expression, trigger.time_zone) == ("30 4 * * SUN", "Asia/Tokyo")  # type: ignore[attr-defined]


def test_a_backfill_shows_its_fires_and_makes_them(served: Served, page: Page) -> None:
    page.goto(served.url + TRIGGER)
    page.get_by_role("link", name="Backfill").click()
    dialog = dialog_of(page)
    dialog.get_by_label("From").fill("2026-11-01T00:00")
    dialog.get_by_label("Until before").fill("2026-11-15T00:00")
    expect(dialog.locator("#preview")).to_contain_text("10 fires will run")
    dialog.get_by_role("button", name="Backfill").click()
    expect(page.get_by_role("status")).to_contain_text("10 runs of trigger billing.at-two were stored")
    assert served.scheduler.triggers(group=MANUAL_TRIGGERS).count() == 10


def test_rows_are_selected_and_changed_together(served: Served, page: Page) -> None:
    count = len(HOSTILE) + 2
    changed = count - served.scheduler.triggers(state="PAUSED").count()
    page.goto(f"{served.url}/triggers?all=yes")
    page.get_by_role("checkbox", name="Select billing.at-two").check()
    everything = page.get_by_role("checkbox", name="Select all on this page")
    assert everything.evaluate("box => box.indeterminate")
    everything.check()
    page.get_by_role("button", name="Pause").click()
    dialog = dialog_of(page)
    expect(dialog.get_by_role("heading", name=f"Pause {count} triggers")).to_be_visible()
    dialog.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("status")).to_have_text(f"Paused {changed} triggers.")
    assert {record.state for record in served.scheduler.triggers()} == {"PAUSED"}
    page.goto(f"{served.url}/triggers?group=bill*")
    page.get_by_role("radio", name="All that match this filter").check()
    page.get_by_role("button", name="Resume").click()
    dialog = dialog_of(page)
    expect(dialog.get_by_role("heading", name="Resume 2 triggers")).to_be_visible()
    dialog.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("status")).to_have_text("Resumed 2 triggers.")
    assert served.state(AT_TWO) == "WAITING"


def test_rows_are_selected_on_a_phone(served: Served, page: Page) -> None:
    page.set_viewport_size(PHONE)
    page.goto(f"{served.url}/triggers?group=bill*")
    boxes = page.locator("td.check label")
    for n in range(2):
        assert (boxes.nth(n).bounding_box() or {"height": 0})["height"] >= 44, "a thumb finds it"
    boxes.first.click()
    everything = page.get_by_role("checkbox", name="Select all on this page")
    assert everything.evaluate("box => box.indeterminate")
    everything.check()
    page.get_by_role("button", name="Pause").click()
    expect(dialog_of(page).get_by_role("heading", name="Pause 2 triggers")).to_be_visible()
    assert violations(page) == []


def test_a_live_page_keeps_the_selection(served: Served, page: Page) -> None:
    page.goto(f"{served.url}/triggers")
    box = page.get_by_role("checkbox", name="Select billing.at-two")
    box.check()
    served.scheduler.pause_trigger(AT_TWO)
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="at-two"))
    page.evaluate("htmx.trigger(document.getElementById('content'), 'refresh')")
    expect(row.get_by_text("paused").first).to_be_visible()
    expect(box).to_be_checked()


def test_every_action_works_without_a_script(served: Served, open_browser: Callable[..., Watched]) -> None:
    page = open_browser(java_script_enabled=False).page
    page.goto(served.url + TRIGGER)
    page.get_by_role("link", name="Edit schedule").click()
    page.get_by_label("Schedule").fill("every 3h")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator("#preview")).to_contain_text("every 3h")
    page.get_by_label("Reason").fill("less often")
    page.get_by_role("button", name="Save the schedule").click()
    expect(page.get_by_role("status")).to_contain_text("fires every 3h")
    assert page.url == served.url + TRIGGER
    page.goto(f"{served.url}/jobs")
    page.get_by_role("checkbox", name="Select billing.nightly").check()
    page.get_by_role("button", name="Disable").click()
    page.get_by_role("button", name="Disable").click()
    expect(page.get_by_role("status")).to_have_text("Disabled job billing.nightly.")
    assert served.scheduler.job(JobKey("nightly", "billing")).mode == "DISABLED"


def test_nodes_and_groups_are_commanded(served: Served, page: Page) -> None:
    page.goto(f"{served.url}/nodes")
    page.get_by_role("link", name="Resume").click()
    dialog_of(page).get_by_role("button", name="Resume").click()
    expect(page.get_by_role("status")).to_contain_text("was told to be RUNNING")
    page.goto(f"{served.url}/groups")
    page.get_by_role("row").filter(has_text="billing").first.get_by_role("link", name="Pause").click()
    dialog_of(page).get_by_role("button", name="Pause").click()
    paused = re.compile(r"^Paused trigger group billing: billing\. \d+ triggers? (was|were) paused\.$")
    expect(page.get_by_role("status")).to_have_text(paused)
    page.get_by_role("link", name="Pause everything").click()
    dialog_of(page).get_by_role("button", name="Pause").click()
    expect(page.get_by_text(re.compile("All triggers are paused"))).to_be_visible()
    assert served.scheduler.pauses.everything


def test_the_forms_are_accessible_and_fit_a_phone(served: Served, open_browser: Callable[..., Watched]) -> None:
    page = open_browser(viewport=PHONE).page
    for action in ("trigger", "resume", "reschedule", "backfill", "delete"):
        subject = "job&group=billing&name=nightly" if action == "trigger" else "trigger&group=billing&name=at-two"
        page.emulate_media(color_scheme="light")
        page.goto(f"{served.url}/actions/{action}?kind={subject}")
        assert width_beyond_screen(page) <= 0, action
        assert violations(page) == [], action
        page.emulate_media(color_scheme="dark")
        assert violations(page, ["color-contrast"]) == [], action


def test_an_operator_mends_a_live_cluster(running_shop: Shop, open_browser: Callable[..., Watched]) -> None:
    page, client = open_browser().page, running_shop.client
    broken = TriggerKey("monthly-close", "billing")

    def confirm(button: str, reason: str) -> None:
        dialog = dialog_of(page)
        dialog.get_by_label("Reason").fill(reason)
        dialog.get_by_role("button", name=button).click()

    page.goto(running_shop.url)
    page.get_by_role("link", name="Reset trigger").first.click()
    confirm("Reset", "the ledger is free again")
    expect(page.get_by_role("status")).to_have_text("Reset trigger billing.monthly-close.")
    record = client.trigger_record(broken)
    assert record is not None
    assert record.state != "ERROR"

    running = running_shop.wait(
        lambda: [one for one in client.running() if one.job_key.group == "search"], "a long run"
    )
    page.goto(f"{running_shop.url}/executions/{running[0].fire_id}")
    page.get_by_role("link", name="Cancel").click()
    confirm("Cancel", "the wrong index")
    # The answer navigates, and would interrupt the next page.
    expect(page.get_by_role("status")).not_to_be_empty()

    def ended() -> str | None:
        found = client.execution(running[0].fire_id)
        return None if found is None else found.outcome

    assert running_shop.wait(ended, "the end of the cancelled execution") == "CANCELLED"
    page.goto(f"{running_shop.url}/executions/{running[0].fire_id}")
    page.get_by_role("link", name="Run again").click()
    confirm("Run again", "the right index now")
    expect(page.get_by_role("status")).to_contain_text("runs again")

    page.goto(f"{running_shop.url}/nodes")
    page.get_by_role("link", name="node-b", exact=True).click()
    page.get_by_role("link", name="Drain").click()
    confirm("Drain", "its host is replaced")
    expect(page.get_by_text("draining").first).to_be_visible()
    running_shop.wait(
        lambda: not [one for one in client.running() if one.instance_id == "node-b" and one.job_key.group != "search"],
        "the drained node to become idle",
    )
    page.get_by_role("link", name="Resume").click()
    confirm("Resume", "it was not needed")
    expect(page.get_by_text("draining")).to_have_count(0)
    actions = [entry.action for entry in Operations(client).audit_log()]
    assert actions == ["resume_node", "drain", "run_again", "cancel", "reset"]
