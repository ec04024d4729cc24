"""The awaitable twins are what the classes behind them say."""

from __future__ import annotations

import ast
import inspect

import pytest

from quartzpy.aio.methods import AsyncSchedulerMethods
from quartzpy.scheduler.awaitable.derived import BY_HAND, IMMEDIATE
from quartzpy.scheduler.awaitable.methods import AsyncSchedulingMethods
from quartzpy.scheduler.methods.scheduling import SchedulingMethods
from quartzpy.scheduler.scheduler import BaseScheduler
from tools import async_facade
from tools.async_facade import MODULES


def comparable(text: str) -> tuple[list[str], set[str]]:
    """The classes of a module, and what it imports, apart from how it is formatted."""
    tree = ast.parse(text)
    imports = {
        f"{node.module}.{alias.name}" for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    return [ast.dump(node) for node in tree.body if isinstance(node, ast.ClassDef)], imports


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
def test_the_twins_are_up_to_date(module: async_facade.Module) -> None:
    wanted, imported = comparable(async_facade.Writer(module).text())
    found, there = comparable(module.path.read_text())
    assert found == wanted, "a method was changed: python -m tools.async_facade"
    # The formatter leaves out what nothing uses, and takes names from where they belong now.
    assert {name.rpartition(".")[2] for name in there} <= {name.rpartition(".")[2] for name in imported}


@pytest.mark.parametrize(
    ("blocking", "twin"), [(SchedulingMethods, AsyncSchedulingMethods), (BaseScheduler, AsyncSchedulerMethods)]
)
def test_each_public_method_has_a_twin_with_the_same_parameters(blocking: type, twin: type) -> None:
    for name, member in inspect.getmembers(blocking):
        if name.startswith("_") or name in BY_HAND or not (inspect.isfunction(member) or isinstance(member, property)):
            continue
        found = inspect.getattr_static(twin, name)
        if inspect.isfunction(member) and inspect.isfunction(found):
            assert inspect.signature(found).parameters.keys() == inspect.signature(member).parameters.keys(), name
            assert found.__doc__ == member.__doc__, name
            is_lazy = str(inspect.signature(found).return_annotation).startswith("AsyncQuery")
            assert (name in IMMEDIATE or is_lazy) != inspect.iscoroutinefunction(found), name
