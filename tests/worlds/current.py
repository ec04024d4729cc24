"""The world that this process lives in: the chaos suite has a server of its own, in the same world."""

from __future__ import annotations

from tests.worlds.world import NEWEST, World

world: World | None = None
"""None in a process that is not one of pytest: then the server is the one that is found first."""


def or_newest() -> World:
    return world or World(f"pg{NEWEST}")
