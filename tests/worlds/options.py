"""The world of a process of pytest: `--world NAME`, or the worker's of a spread."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from tests.worlds import current
from tests.worlds.exceptions import reason
from tests.worlds.installed import servers_of_normal_run
from tests.worlds.world import WORLDS, World, spread

_WORLD = pytest.StashKey[World]()


def add_world_option(parser: pytest.Parser) -> None:
    """`--world` is one world for all tests; by default each worker has another of the server's and connections."""
    parser.addoption(
        "--world",
        choices=[*WORLDS],
        metavar="NAME",
        help="run all tests in one world (python -m tests.worlds --list names them); by default the workers have the"
        " servers of the wheel and both kinds of connections",
    )


def is_chosen(config: pytest.Config) -> bool:
    return config.getoption("world") is not None


def world_of(config: pytest.Config) -> World:
    """The world of this process."""
    if _WORLD not in config.stash:
        name = config.getoption("world")
        config.stash[_WORLD] = WORLDS[name] if name is not None else _of_worker(config)
    return config.stash[_WORLD]


def enter(config: pytest.Config) -> None:
    """Tell modules that have no configuration of pytest at hand where this process lives."""
    current.world = world_of(config)


def _of_worker(config: pytest.Config) -> World:
    worker = getattr(config, "workerinput", {}).get("workerid", "gw0")
    worlds = spread(servers_of_normal_run())
    return worlds[int(re.sub(r"\D", "", worker)) % len(worlds)]


def header(config: pytest.Config) -> list[str]:
    """What the workers of this run live in."""
    if is_chosen(config) or not (workers := getattr(config.option, "numprocesses", None)):
        return []
    worlds: Sequence[World] = spread(servers_of_normal_run())
    return ["worlds: " + "; ".join(f"gw{n} {worlds[n % len(worlds)].title}" for n in range(workers))]


def leave_out(config: pytest.Config, items: Sequence[pytest.Item]) -> None:
    """Skip what this world cannot do, with the reason of the table."""
    world = world_of(config)
    for item in items:
        if (why := reason(world.name, item.nodeid)) is not None:
            item.add_marker(pytest.mark.skip(reason=f"world {world.name}: {why}"))
