"""Draws the house from its imports: `python -m tools.house` writes `docs/img/house.svg`.

The floors are the layers of the import contract in `pyproject.toml`. Each room is a package, or a module beside the
packages. A line leads from a room to one that it imports. A line that others imply is left out:
if `cli` imports `node` by way of `scheduler`, there is no line from `cli` to `node`.
"""

from __future__ import annotations

import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

import grimp

ROOT = Path(__file__).parents[1]
FILE = ROOT / "docs" / "img" / "house.svg"
CONTRACT = "Imports only go down the house"
WIDTH, FLOOR_HEIGHT, ROOM_HEIGHT, GAP, MARGIN = 1000, 62, 30, 14, 16
CHARACTER = 8.2
"""The width of a character, in pixels."""


class Room(NamedTuple):
    """A package, and its place in the drawing."""

    name: str
    x: float
    y: float
    width: float


def floors() -> list[list[str]]:
    """Return the layers of the import contract, from the top; the names are without `quartzpy.`"""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    [layers] = [contract["layers"] for contract in contracts if contract["name"] == CONTRACT]
    return [[name.strip().removeprefix("quartzpy.") for name in re.split(r"[|:]", layer)] for layer in layers]


def imports() -> dict[str, set[str]]:
    """Return the rooms that each room imports."""
    rooms = {name for floor in floors() for name in floor}
    graph = grimp.build_graph("quartzpy", cache_dir=None)
    imported: dict[str, set[str]] = defaultdict(set)
    for module in graph.modules:
        room = module.split(".")[1:2]
        for other in graph.find_modules_directly_imported_by(module):
            to = other.split(".")[1:2]
            if room and to and room != to and room[0] in rooms and to[0] in rooms:
                imported[room[0]].add(to[0])
    return imported


def drawn(imported: Mapping[str, set[str]]) -> list[tuple[str, str]]:
    """Return the pairs of rooms between which a line is drawn: those that no other line implies."""
    order = {name: number for number, floor in enumerate(floors()) for name in floor}

    def reached(room: str) -> set[str]:
        below = {name for name in imported.get(room, ()) if order[name] > order[room]}
        return below.union(*map(reached, below))

    return sorted(
        (room, to)
        for room, others in imported.items()
        for to in others
        if order[to] > order[room]
        and not any(to in reached(other) for other in others if order[room] < order[other] < order[to])
    )


def rooms() -> list[Room]:
    """Return the rooms at their places."""
    placed = []
    for number, floor in enumerate(floors()):
        sizes = [max(len(name), 9) * CHARACTER + 18 for name in floor]
        x = (WIDTH - sum(sizes) - GAP * (len(floor) - 1)) / 2
        for name, width in zip(floor, sizes, strict=True):
            placed.append(Room(name, x, MARGIN + number * FLOOR_HEIGHT, width))
            x += width + GAP
    return placed


def svg() -> str:
    """Return the drawing."""
    placed = {room.name: room for room in rooms()}
    height = 2 * MARGIN + len(floors()) * FLOOR_HEIGHT - (FLOOR_HEIGHT - ROOM_HEIGHT)
    return "\n".join([*_begin(height), *_paths(placed), *_boxes(list(placed.values())), "</svg>", ""])


def _begin(height: int) -> Iterator[str]:
    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">'
    yield "<title>The packages of quartzpy by floor, and which imports which</title>"
    yield "<style>"
    yield "rect { fill: #f6f8fa; stroke: #57606a } path { fill: none; stroke: #8c959f; stroke-opacity: .55 }"
    yield "text { font: 13px ui-monospace, monospace; text-anchor: middle; fill: #1f2328 }"
    yield "@media (prefers-color-scheme: dark) { rect { fill: #161b22; stroke: #8b949e } text { fill: #e6edf3 } }"
    yield "</style>"


def _paths(placed: Mapping[str, Room]) -> Iterator[str]:
    for name, to in drawn(imports()):
        start, end = placed[name], placed[to]
        x, y = start.x + start.width / 2, start.y + ROOM_HEIGHT
        to_x, to_y = end.x + end.width / 2, end.y
        middle = (y + to_y) / 2
        yield f'<path d="M{x:.0f} {y:.0f} C{x:.0f} {middle:.0f} {to_x:.0f} {middle:.0f} {to_x:.0f} {to_y:.0f}"/>'


def _boxes(placed: Sequence[Room]) -> Iterator[str]:
    for room in placed:
        x = room.x + room.width / 2
        yield (
            f'<rect x="{room.x:.0f}" y="{room.y:.0f}" width="{room.width:.0f}" height="{ROOM_HEIGHT}" rx="6"/>'
            f'<text x="{x:.0f}" y="{room.y + 20:.0f}">{escape(room.name)}</text>'
        )


if __name__ == "__main__":
    FILE.write_text(svg(), encoding="utf-8")
