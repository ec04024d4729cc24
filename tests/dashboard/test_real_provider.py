"""The sign-in at a real provider, npm's oidc-provider.

`QUARTZPY_TEST_OIDC=no` leaves it out; so does a machine without Node.js.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx2 as httpx
import pytest
from starlette.testclient import TestClient

from quartzpy import Scheduler
from quartzpy.dashboard import create_app
from quartzpy.dashboard.oidc import OidcAuth
from tests.dashboard.provider import CLIENT, SECRET, path_of
from tests.ports import free_port

PACKAGE = "oidc-provider@9"
PAGE = "http://127.0.0.1"
HTML = {"accept": "text/html"}


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a provider that runs in Node.js."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None or os.environ.get("QUARTZPY_TEST_OIDC") == "no":
        pytest.skip("Node.js is not installed, or QUARTZPY_TEST_OIDC is no")
    place = tmp_path_factory.mktemp("oidc")
    command = [npm, "install", "--no-audit", "--no-fund", "--silent", "--cache", str(place / "cache"), PACKAGE]
    installed = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False, timeout=240)
    if installed.returncode:
        pytest.skip(f"npm cannot install {PACKAGE}: {installed.stderr.strip()[-300:]}")
    shutil.copy(Path(__file__).with_name("oidc_provider.mjs"), place)
    port = free_port()
    arguments = [node, "oidc_provider.mjs", str(port), f"{PAGE}/login/callback"]
    with subprocess.Popen(
        arguments, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as provider:
        assert provider.stdout is not None
        assert provider.stdout.readline() == "ready\n"
        yield f"http://127.0.0.1:{port}"
        provider.kill()


def test_a_person_signs_in_at_a_real_provider(issuer: str, postgres_dsn: str) -> None:
    scheduler = Scheduler(postgres_dsn, name="sign-in")
    app = create_app(scheduler, auth=OidcAuth(issuer, CLIENT, SECRET, {"ops": "operator"}), read_only=False)
    client = TestClient(app, base_url=PAGE, follow_redirects=False)
    asked = client.get(client.get("/jobs", headers=HTML).headers["location"])
    with httpx.Client(follow_redirects=False, timeout=30) as person:
        answer = person.get(asked.headers["location"])
        for fields in ({"prompt": "login", "login": "ada", "password": "x"}, {"prompt": "consent"}):
            form = _followed(person, answer, issuer)
            action = re.search(r'action="([^"]+)"', form.text)
            assert action is not None, form.text
            answer = person.post(action[1], data=fields)
        back = _followed(person, answer, issuer)
    assert back.headers["location"].startswith(f"{PAGE}/login/callback?code=")
    done = client.get(path_of(back.headers["location"]))
    assert (done.status_code, done.headers["location"]) == (303, "/jobs"), done.text
    assert "You are ada, with the role operator" in client.get("/jobs", headers=HTML).text
    scheduler.shutdown()


def _followed(person: httpx.Client, answer: httpx.Response, issuer: str) -> httpx.Response:
    """The answer that leads no further within the provider."""
    while "location" in answer.headers and not answer.headers["location"].startswith(f"{PAGE}/"):
        location = answer.headers["location"]
        answer = person.get(location if location.startswith("http") else issuer + location)
    return answer
