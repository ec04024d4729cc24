"""The documentation says what is, and its examples run."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

import quartzpy
from quartzpy.cli.main import cli
from tests.docs.settings_page import page

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md")])
README = (ROOT / "README.md").read_text()


def test_the_page_of_settings_is_that_of_the_code() -> None:
    assert (ROOT / "docs" / "settings.md").read_text() == page(), (
        "python -m tests.docs.settings_page > docs/settings.md"
    )


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text()):
        if "://" not in target:
            assert (path.parent / target).exists(), target


def python_blocks() -> list[Any]:
    return [
        pytest.param(block, id=f"{path.relative_to(ROOT)}-{number}")
        for path in PAGES
        for number, block in enumerate(re.findall(r"^```python\n(.*?)^```", path.read_text(), re.S | re.M))
    ]


@pytest.mark.parametrize("block", python_blocks())
def test_examples_run(block: str, monkeypatch: pytest.MonkeyPatch) -> None:
    block = re.sub(r'"postgresql[^"]*"', '"memory://"', block)
    module = type(quartzpy)("documented_example")
    monkeypatch.setitem(__import__("sys").modules, module.__name__, module)
    exec(compile(block, "example", "exec"), module.__dict__)
    scheduler = module.__dict__.get("scheduler")
    if isinstance(scheduler, quartzpy.Scheduler):
        scheduler.shutdown()


def test_the_readme_has_two_commands_and_ci_runs_the_second() -> None:
    commands = re.findall(r"\*\*.*?\n\n    (.+)\n", README)
    assert len(commands) == 2
    assert "quartzpy demo" in commands[0]
    assert commands[1] == "python3 tests/run.py"
    ci = (ROOT / ".ci" / "run").read_text()
    assert commands[1] in ci
    words = [line for line in ci.splitlines() if line and not line.startswith("#")]
    assert len([line for line in words if not line.startswith(("set ", "cd "))]) == 1, "nothing less, nothing else"


def test_the_version_of_the_package_has_an_entry_in_the_changelog() -> None:
    version = re.search(r'^version = "([^"]+)"', (ROOT / "pyproject.toml").read_text(), re.M)
    assert version
    assert f"## {version[1]}" in (ROOT / "CHANGELOG.md").read_text()


def test_public_names_are_sorted_exist_and_say_what_they_are() -> None:
    assert quartzpy.__all__ == sorted(quartzpy.__all__)
    for name in quartzpy.__all__:
        found = getattr(quartzpy, name)
        if inspect.isclass(found) or inspect.isfunction(found):
            assert found.__doc__, name
            assert not found.__doc__.startswith(f"{name}("), f"{name} has only the docstring that dataclass gives"


def test_every_module_and_every_public_class_says_what_it_is_for() -> None:
    for found in pkgutil.walk_packages(quartzpy.__path__, "quartzpy."):
        if found.name == "quartzpy.__main__" or found.ispkg:
            continue
        module = importlib.import_module(found.name)
        assert module.__doc__, found.name
        for name, cls in inspect.getmembers(module, inspect.isclass):
            if cls.__module__ == module.__name__ and not name.startswith("_") and name != "main":
                assert cls.__doc__, f"{module.__name__}.{name}"


def test_every_command_of_the_readme_exists() -> None:
    for line in re.findall(r"^    (?:\S*/)?(quartzpy .+)$", README, re.M):
        words = shlex.split(line, comments=True)[1:]
        command = cli.commands[words[0]]
        assert command.help, words


def test_every_command_and_option_has_help() -> None:
    for name, command in cli.commands.items():
        assert command.help, name
        for each in getattr(command, "commands", {"": command}).values():
            assert each.help, f"{name} {each.name}"
            for parameter in each.params:
                if parameter.param_type_name == "option":
                    assert getattr(parameter, "help", None), f"{name} {each.name} {parameter.name}"
