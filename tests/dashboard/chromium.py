"""The browser of the tests: QUARTZPY_CHROMIUM, or Chromium or Chrome in its usual places, or the one of Playwright."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "QUARTZPY_CHROMIUM"
USUAL = ("/usr/bin/chromium-headless-shell", "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome")


def find_chromium() -> str | None:
    """Return the path of a browser; None if this machine has none."""
    given = os.environ.get(VARIABLE)
    if given:
        return given
    return next((path for path in USUAL if Path(path).exists()), None) or _of_playwright()


def _of_playwright() -> str | None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if Path(path).exists() else None
