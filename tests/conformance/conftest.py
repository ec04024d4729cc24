from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def conformance_dir(pytestconfig: pytest.Config) -> Path:
    """Where the cases are: the copied ones, or those of `--conformance-dir`."""
    directory = pytestconfig.getoption("--conformance-dir")
    assert isinstance(directory, Path)
    if not directory.is_dir():
        pytest.fail(f"--conformance-dir: {directory} is not a directory", pytrace=False)
    return directory
