"""The static files: known to be what their projects released, kept by browsers, and never fetched from elsewhere."""

from __future__ import annotations

import hashlib
import re
import tomllib
from importlib.resources import files

from starlette.testclient import TestClient

STATIC = files("quartzpy.dashboard") / "static"


def test_the_files_of_other_projects_are_unchanged_and_have_their_licences() -> None:
    vendor = STATIC / "vendor"
    listed = tomllib.loads((vendor / "vendor.toml").read_text())
    shipped = {entry.name for entry in vendor.iterdir()} - {"vendor.toml"}
    assert shipped == set(listed)
    for name, about in listed.items():
        assert hashlib.sha256((vendor / name).read_bytes()).hexdigest() == about["sha256"], name
        assert about.get("licence_file", name) in shipped


def test_pages_load_only_files_of_their_own_which_browsers_keep(client: TestClient) -> None:
    page = client.get("/").text
    links = re.findall(r'(?:src|href)="(/static/[^"]+)"', page)
    assert len(links) >= 4
    for link in links:
        answer = client.get(link)
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
    assert not re.findall(r'(?:src|href|action)="(?:https?:)?//', page)
    outdated = re.sub(r"/static/\w+/", "/static/000000000000/", links[0])
    assert client.get(outdated).headers["cache-control"] == "no-cache"
    assert client.get("/static/x/../../auth.py").status_code == 404


def test_no_page_has_inline_scripts_or_styles(client: TestClient) -> None:
    for path in ("/", "/jobs", "/triggers", "/job?group=billing&name=nightly", "/nowhere"):
        page = client.get(path).text
        assert not re.search(r"<script(?![^>]*\bsrc=)", page)
        assert not re.search(r"<style|\sstyle=|\son\w+=\"", re.sub(r"&#\d+;|&\w+;", "", page)), path
