"""What is missing is said by name."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ha import options, parts
from tests.ha.parts import find_parts


@pytest.fixture
def bare_machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A machine with none of the parts; the directory is its PATH."""
    # Not pytest's own directory, which is closed to the user that servers run as.
    with tempfile.TemporaryDirectory() as name:
        path = Path(name)
        path.chmod(0o755)
        monkeypatch.setenv("PATH", name)
        monkeypatch.setenv(parts.ENVIRONMENT_VARIABLE, str(path / "none"))
        monkeypatch.delenv(parts.POSTGRES_VARIABLE, raising=False)
        monkeypatch.setattr(parts, "DEBIAN", path / "none")
        yield path


def test_a_machine_without_the_parts_names_them_all(bare_machine: Path) -> None:
    assert find_parts() == (None, ["etcd", "Patroni", "PostgreSQL's server programs"])


def test_a_part_that_does_not_run_is_missing(bare_machine: Path) -> None:
    program = bare_machine / "etcd"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    assert "etcd" in find_parts()[1]
    program.write_text("#!/bin/sh\necho etcd Version: 3.4\n")
    assert "etcd" not in find_parts()[1]


def test_the_command_and_the_tests_say_what_is_missing(
    pytestconfig: pytest.Config, bare_machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pytestconfig.option, "ha", True)
    monkeypatch.setattr(options, "parts_here", find_parts)
    reason = options.why_not(pytestconfig)
    assert reason is not None
    assert "etcd, Patroni, PostgreSQL's server programs missing" in reason
