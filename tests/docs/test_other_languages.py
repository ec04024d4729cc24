"""The page about other languages: its requests, sent by curl and by JavaScript to a server, do what the page says."""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from quartzpy import Scheduler
from quartzpy.dashboard.server import DashboardServer, listen
from quartzpy.keys import JobKey, TriggerKey
from tests.dashboard.chromium import find_chromium
from tests.docs.code_blocks import ROOT, write_files
from tests.waiting import wait_until

PAGE = "how-to/other-languages.md"
TOKEN = "the token of the shop"
_FENCED = re.compile(r"^```(?P<language>bash|javascript)[^\n]*\n(?P<code>.*?)^```", re.S | re.M)


def commands(language: str) -> list[str]:
    text = (ROOT / "docs" / PAGE).read_text()
    return [block["code"] for block in _FENCED.finditer(text) if block["language"] == language]


@pytest.fixture
def shop(tmp_path: Path, postgres_dsn: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Scheduler, str]]:
    """A node and the API of the page, on a port of this machine; return the scheduler and the address."""
    for name, value in {"QUARTZPY_URL": postgres_dsn, "SHOP_TOKEN": TOKEN, "ADMIN_TOKEN": "another token"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert write_files(PAGE, tmp_path)
    importlib.invalidate_caches()
    api: Any = importlib.import_module("shop_api")
    scheduler: Scheduler = api.scheduler
    scheduler.start(standby=True)
    wait_until(
        lambda: "shop.invoice" in str(scheduler._usable_store().list_nodes().nodes), "the node publishes its types"
    )
    with listen("127.0.0.1", 0) as listening:
        server = DashboardServer(api.app)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        yield scheduler, f"http://127.0.0.1:{listening.getsockname()[1]}/api/v1"
        server.handle_exit(15, None)
        thread.join()
    scheduler.shutdown()
    for name in ("shop_api", "shop_jobs"):
        del sys.modules[name]


def curl(command: str, address: str) -> dict[str, Any]:
    done = subprocess.run(
        ["bash", "-c", command],
        env={**os.environ, "API": address, "TOKEN": TOKEN},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    answer: dict[str, Any] = json.loads(done.stdout or "{}")
    return answer


def test_the_requests_of_curl(shop: tuple[Scheduler, str]) -> None:
    scheduler, address = shop
    put_job, put_trigger, dry_run, get, delete, apply = commands("bash")
    key = TriggerKey("invoice-4711", "shop")
    assert curl(put_job, address)["outcome"] == "created"
    assert curl(put_trigger, address)["outcome"] == "created"
    assert curl(put_trigger, address)["outcome"] == "unchanged"
    planned = curl(dry_run, address)
    assert (planned["outcome"], planned["differences"][0]["name"]) == ("changed", "expression")
    [stored] = scheduler.triggers(job=JobKey(key.name, key.group))
    assert (stored.key, stored.trigger) == (key, stored.trigger)
    assert curl(get, address)["expression"] == "0 2 1 * *"
    assert curl(delete, address) == {}
    assert not list(scheduler.jobs())
    assert [change["kind"] for change in curl(apply, address)["changes"]] == ["job", "trigger"]
    assert curl(apply, address)["unchanged"] == 2


def test_the_program_in_javascript(shop: tuple[Scheduler, str], tmp_path: Path) -> None:
    scheduler, address = shop
    [program] = commands("javascript")
    lines = run_javascript(program, address, tmp_path)
    assert lines[0] == "200 Trigger shop.invoice of 4711/2026 was changed: priority."
    assert lines[1] == "412 8"
    assert sorted(line.split(" ")[1] for line in lines[2:]) == ["/colour", "/priority"]
    [stored] = scheduler.triggers()
    assert (stored.key, stored.priority) == (TriggerKey("invoice of 4711/2026", "shop"), 8)


def run_javascript(program: str, address: str, directory: Path) -> list[str]:
    """Return the lines that a program prints, run by Node.js or else by the browser of the tests."""
    node = shutil.which("node")
    if node is not None:
        path = directory / "schedule.mjs"
        path.write_text(program)
        done = subprocess.run(
            [node, str(path)],
            env={**os.environ, "API": address, "TOKEN": TOKEN},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()
    return _in_browser(program, address)


def _in_browser(program: str, address: str) -> list[str]:
    from playwright.sync_api import sync_playwright

    environment = json.dumps({"env": {"API": address, "TOKEN": TOKEN}})
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox"])
        page = browser.new_page()
        lines: list[str] = []
        page.on("console", lambda message: lines.append(message.text))
        # A page of the server's own site, because another site may not read its answers.
        page.goto(f"{address.removesuffix('/api/v1')}/login")
        lines.clear()
        page.evaluate(f"async () => {{ const process = {environment};\n{program} }}")
        browser.close()
    return [line for line in lines if not line.startswith("Failed to load resource")]
