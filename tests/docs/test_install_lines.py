"""Every line that installs quartzpy works today: from a checkout, until there is a release, with extras that exist."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from quartzpy import installing
from quartzpy.installing import install_line
from tools import release

ROOT = Path(__file__).resolve().parents[2]
PLACES = (
    "README.md",
    "SECURITY.md",
    "CONTRIBUTING.md",
    "docs",
    "examples",
    "quartzpy",
    "benchmarks",
    "tools",
    "schema",
)
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
INSTALLS = re.compile(
    r"\b(?:pip3?|pipx|uv|poetry|pdm|rye|conda|mamba|hatch)\b[^`\n]*?\b(?:install|add|run|wheel|tool)\b(?P<rest>[^`\n#]*)"
)
BARE = re.compile(r"(?<![\w./\\-])quartzpy(?:\[[^\]]*\])?(?=[\s'\"=<>~]|$)")
"""The name as an index knows it: not a path, a module or a wheel."""
WITH_EXTRAS = re.compile(r"(?:quartzpy|\.|whl\)?)\[(?P<extras>[a-z, ]+)\]")


def texts() -> Iterator[tuple[str, str]]:
    for place in PLACES:
        start = ROOT / place
        for path in [start] if start.is_file() else sorted(start.rglob("*")):
            generated = {"reference", "__pycache__", "node_modules"}.intersection(path.parts)
            if path.suffix in (".md", ".py", ".toml", ".yaml", ".yml", ".txt", ".sh", ".html") and not generated:
                yield str(path.relative_to(ROOT)), path.read_text()


def wrong_lines(text: str, *, is_released: bool | None = None) -> list[str]:
    wrong = []
    if is_released is None:
        is_released = installing.IS_RELEASED
    for line in text.splitlines():
        for match in INSTALLS.finditer(line):
            rest = match["rest"]
            names = [name.strip() for extras in WITH_EXTRAS.finditer(rest) for name in extras["extras"].split(",")]
            if (not is_released and BARE.search(rest)) or any(name not in EXTRAS for name in names):
                wrong.append(line.strip())
    return wrong


def test_each_line_that_installs_works_today() -> None:
    wrong = {place: lines for place, text in texts() if (lines := wrong_lines(text))}
    # The line of the messages, what writes the lines of the pages, and what a release tries at its end.
    writers = {"quartzpy/installing.py", "tools/release.py", "docs/releasing.md"}
    assert not {place: lines for place, lines in wrong.items() if place not in writers}
    requirements = [
        place for place, text in texts() if re.search(r"quartzpy\[[a-z,]+\]", text) and place not in writers
    ]
    assert installing.IS_RELEASED or not requirements


@pytest.mark.parametrize(
    "line",
    [
        "pip install quartzpy",
        "pip install 'quartzpy[yaml]'",
        'pip install -U "quartzpy"',
        "uv add quartzpy",
        "pipx run quartzpy demo",
        "uv tool install 'quartzpy[dashboard]'",
        "poetry add quartzpy",
        "python -m pip install fastapi quartzpy==0.1",
        "pip install '.[yml]'",
    ],
)
def test_a_line_that_does_not_work_is_found(line: str) -> None:
    assert wrong_lines(line, is_released=False)


@pytest.mark.parametrize(
    "line",
    ["pip install '.[yaml,http]'", "pip install .", "pip install fastapi uvicorn", "pip install -e '.[dev]'"],
)
def test_a_line_that_works_is_left_alone(line: str) -> None:
    assert not wrong_lines(line)


UNRELEASED = re.compile(
    r"not on PyPI|'[^'\s]*\.\[(?!dev)|`pip install[^`]*`\s+in\s+a\s+checkout|install it from a checkout"
)


def test_a_release_changes_one_variable_and_the_pages_follow() -> None:
    """`python -m tools.release pages` writes what this reads; once they are written, it changes nothing."""
    follow = {str(path.relative_to(ROOT)): path.read_text() for path in release.user_pages()}
    assert sum(release.released(text) != text for text in follow.values()) == 0 or not installing.IS_RELEASED
    for place, text in follow.items():
        after = release.released(text)
        assert release.released(after) == after, place
        assert wrong_lines(after, is_released=True) == [], place
        assert UNRELEASED.findall(after) == [], place


def test_the_rehearsal_finds_what_a_page_would_keep() -> None:
    for line in ("pip install '.[yaml]'", "quartzpy is not on PyPI", "`pip install x` in a checkout"):
        assert UNRELEASED.search(line)


def calls() -> Iterator[tuple[str, list[str]]]:
    for path in [*(ROOT / "quartzpy").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "install_line":
                written = [argument for argument in node.args if not isinstance(argument, ast.Name)]
                # A name stands for an extra of the table.
                yield (
                    str(path.relative_to(ROOT)),
                    [ast.literal_eval(it) for it in written] or [*installing.EXTRAS.values()],
                )


def test_each_message_names_extras_that_exist() -> None:
    named = list(calls())
    assert len(named) > 10
    assert [(place, extras) for place, extras in named if not extras or not set(extras) <= set(EXTRAS)] == []


def test_the_line_of_the_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installing, "IS_RELEASED", False)
    assert install_line("yaml", "http") == "pip install '.[yaml,http]' in a checkout of quartzpy"
    monkeypatch.setattr(installing, "IS_RELEASED", True)
    assert install_line("yaml") == "pip install 'quartzpy[yaml]'"


def test_all_installs_what_a_user_can_use() -> None:
    own = {name for requirement in EXTRAS["all"] for name in re.findall(r"[a-z]+", requirement.partition("[")[2])}
    assert own == set(EXTRAS) - {"all", "bench", "docs", "dev", "release"}
