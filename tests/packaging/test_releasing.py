"""The page about releases, the workflow and the commands in both are right."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools import release
from tools.release import ROOT

PAGE = (ROOT / "docs" / "releasing.md").read_text()
WORKFLOW = ROOT / ".github" / "workflows" / "release.yml"
STABILITY = (ROOT / "docs" / "stability.md").read_text()


def commands(section: str = "") -> list[str]:
    part = PAGE.partition(f"## {section}\n")[2].partition("\n## ")[0] if section else PAGE
    blocks = re.findall(r"^```bash\n(.*?)^```", part, re.S | re.M)
    return [line for block in blocks for line in block.splitlines()]


def jobs() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(WORKFLOW.read_text())["jobs"]
    return found


def test_the_workflow_is_one() -> None:
    command = ["check_jsonschema", "--builtin-schema", "vendor.github-workflows", str(WORKFLOW)]
    done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_workflow_runs_the_commands_of_the_page() -> None:
    [step] = [step for step in jobs()["build"]["steps"] if step.get("name") == "Build and check"]
    here = [line for line in commands("Build and check") if not line.startswith(". ")]
    assert step["run"].splitlines() == here
    assert len(here) == 5


def test_only_the_step_that_publishes_speaks_for_the_project() -> None:
    assert yaml.safe_load(WORKFLOW.read_text())["permissions"] == {}
    granted = {name: job["permissions"] for name, job in jobs().items()}
    assert [name for name, rights in granted.items() if "id-token" in rights] == ["publish"]
    assert granted["publish"] == {"id-token": "write"}
    assert jobs()["publish"]["environment"] == "release"
    assert not [step for step in jobs()["publish"]["steps"] if "checkout" in step.get("uses", "")]
    for word in ("secrets.", "password"):
        assert word not in WORKFLOW.read_text()


def test_each_python_of_the_metadata_is_installed() -> None:
    [setup] = [step for step in jobs()["build"]["steps"] if "setup-python" in step.get("uses", "")]
    assert sorted(setup["with"]["python-version"].split()) == sorted(release.PYTHONS)


def modules() -> Iterator[tuple[str, list[str]]]:
    for line in commands():
        words = shlex.split(line, comments=True)
        if words[:1] and words[0].endswith("python") and words[1:2] == ["-m"]:
            yield words[2], words[3:]


def test_each_module_and_file_of_a_command_exists() -> None:
    named = dict(modules())
    assert {"build", "twine", "tools.release", "tests.docs.generate", "tests.worlds.first_use"} <= set(named)
    assert [module for module in named if find_spec(module) is None] == []
    for path in re.findall(r"(?:tests|tools|docs|quartzpy)/[\w/]+\.\w+", PAGE):
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize("arguments", [words for module, words in modules() if module == "tools.release"], ids=" ".join)
def test_each_step_of_our_own_is_one(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []
    monkeypatch.setattr(release, "check", lambda directory, *, for_index: called.append(f"check {for_index}") or 0)
    monkeypatch.setattr(release, "sbom", lambda directory: called.append("sbom"))
    monkeypatch.setattr(release, "pages", lambda: called.append("pages"))
    monkeypatch.setattr(sys, "argv", ["release", *arguments])
    assert release.main() == 0
    assert called == [{"check": "check True"}.get(arguments[0], arguments[0])]


def test_the_lines_that_edit_do_what_they_say(tmp_path: Path) -> None:
    for name in ("pyproject.toml", "CHANGELOG.md"):
        shutil.copy(ROOT / name, tmp_path)

    def edit(section: str) -> tuple[dict[str, Any], str]:
        for line in commands(section):
            if line.startswith("sed "):
                subprocess.run(["/bin/bash", "-ec", line], cwd=tmp_path, check=True)
        project = tomllib.loads((tmp_path / "pyproject.toml").read_text())
        return project, (tmp_path / "CHANGELOG.md").read_text()

    project, _ = edit("Before the first release")
    assert release.UNKNOWN_FORGE not in (tmp_path / "pyproject.toml").read_text()
    assert project["project"]["urls"]["Changelog"] == "https://FORGE/OWNER/quartzpy/blob/main/CHANGELOG.md"
    project, changes = edit("The version")
    assert project["project"]["version"] == "1.2.0"
    assert re.match(r"# Changelog\n\n## 1\.2\.0 \(\d{4}-\d\d-\d\d\)\n", changes)
    project, changes = edit("Afterwards")
    assert project["project"]["version"] == "1.3.0"
    assert re.match(r"# Changelog\n\n## 1\.3\.0 \(unreleased\)\n\n## 1\.2\.0 \(", changes)


# --- what a release may change


def test_each_surface_has_a_row_that_says_what_each_release_may_do() -> None:
    rows = [row.strip("| ").split(" | ") for row in STABILITY.splitlines() if row.startswith("| ")]
    table = {row[0]: row for row in rows[1:] if len(row) == 5}
    assert {"Python", "SQL", "HTTP", "`--json`", "metrics", "files"} <= set(table)
    assert [name for name, row in table.items() if not all(cell.strip() for cell in row)] == []


def test_the_page_says_which_pythons_were_tried() -> None:
    from tests.worlds.world import PYTHONS, UNTRIED_PYTHON

    assert f"{release.PYTHONS[0]} to {release.PYTHONS[-1]}; the tests run on {PYTHONS[0]} to {PYTHONS[-1]}" in STABILITY
    assert f"nobody has run them on {UNTRIED_PYTHON} yet" in STABILITY
