"""The example service passes its own tests, as its README runs them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

from tests.docs.code_blocks import ROOT


def test_the_service_passes_its_tests(fresh_database: Callable[[], str]) -> None:
    tested = subprocess.run(
        [sys.executable, "-W", "error", "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=ROOT / "examples" / "service",
        env={**os.environ, "SHOP_TEST_URL": fresh_database()},
        capture_output=True,
        text=True,
        check=False,
    )
    assert tested.returncode == 0, tested.stdout[-5000:] + tested.stderr[-1000:]
    assert "5 passed" in tested.stdout
