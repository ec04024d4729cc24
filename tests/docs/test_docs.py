"""The documentation says what is, and its examples run."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

import quartzpy
from quartzpy.cli.main import cli
from quartzpy.scheduler.scheduler import BaseScheduler
from tests import django_project
from tests.docs.code_blocks import PAGES, ROOT, Block, blocks
from tests.docs.generate import DOCS, reference

README = (ROOT / "README.md").read_text()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_have_targets(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text()):
        if "://" not in target:
            file = (path.parent / target).resolve()
            # The reference is built, and not kept.
            built = file.is_relative_to(DOCS) and str(file.relative_to(DOCS)) in reference()
            assert built or file.exists(), target


@pytest.mark.parametrize("block", [block for block in blocks() if block.title is None], ids=lambda block: block.id)
def test_examples_run(block: Block, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    def start_and_stop(scheduler: BaseScheduler, *args: Any, **kwargs: Any) -> None:
        scheduler.start()
        scheduler.shutdown()

    # A node would run until Ctrl-C; the tutorial's test runs the real one.
    monkeypatch.setattr(BaseScheduler, "run", start_and_stop, raising=False)
    # Operators need a database.
    is_of_operators = re.search(r"quartzpy\.(dashboard|operations)", block.code)
    url = request.getfixturevalue("postgres_dsn") if is_of_operators else "memory://"
    code = re.sub(r'"postgresql[^"]*"', f'"{url}"', block.code)
    module = type(quartzpy)(block.module_name)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(code, block.id, "exec"), module.__dict__)
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
    assert quartzpy.__all__ == sorted(quartzpy.__all__, key=lambda name: (not name.isupper(), name))
    for name in quartzpy.__all__:
        found = getattr(quartzpy, name)
        if inspect.isclass(found) or inspect.isfunction(found):
            assert found.__doc__, name
            assert not found.__doc__.startswith(f"{name}("), f"{name} has only the docstring that dataclass gives"


def test_every_module_and_every_public_class_says_what_it_is_for() -> None:
    # The models of Django's app can be imported in a project alone.
    django_project.configure()
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


def test_options_in_the_contributing_page_exist(pytestconfig: pytest.Config) -> None:
    named = re.findall(r"`(--[a-z-]+)[ `]", (ROOT / "CONTRIBUTING.md").read_text())
    assert named
    for name in named:
        assert pytestconfig.getoption(name.removeprefix("--").replace("-", "_"), default=pytest) is not pytest, name
