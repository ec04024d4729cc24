"""The jobs that one runs after, and those that run after it, as a small graph from the top to the bottom."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from quartzpy.dashboard.drawing.plots import TONES
from quartzpy.keys import DEFAULT_GROUP, JobKey
from quartzpy.operations.views.jobs import DownstreamJob, UpstreamJob

WIDTH = 340
"""The width of the drawing in its own units, which are pixels of a narrow screen."""
_BOX, _HEIGHT, _STEP = 290, 26, 34
_MAX_SHOWN = 12
_MAX_CHARACTERS = 26


@dataclass(frozen=True, slots=True)
class JoinNode:
    """A job. `state` says in words whether the edge to it or from it has been passed."""

    job: JobKey
    x: int
    y: int
    width: int
    label: str
    state: str = ""
    tone: str = ""
    edge: str = ""
    """The path of the edge; empty for the job of the page itself."""

    @property
    def has_come(self) -> bool:
        """True if the end that the edge stands for was recorded."""
        return bool(self.tone)


@dataclass(frozen=True, slots=True)
class Graph:
    """The drawing. `text` is the same in words."""

    height: int
    nodes: tuple[JoinNode, ...]
    lines: tuple[str, ...]
    """The paths of the lines that the edges before and after the job of the page share."""
    text: str
    beyond: int
    """The number of jobs for which there is no room."""

    @property
    def width(self) -> int:
        """The width in the units of the drawing."""
        return WIDTH


def draw_joins(key: JobKey, runs_after: Sequence[UpstreamJob], runs_before: Sequence[DownstreamJob]) -> Graph | None:
    """Return the graph of the joins of a job; None if it has none."""
    if not runs_after and not runs_before:
        return None
    before, after = runs_after[:_MAX_SHOWN], runs_before[:_MAX_SHOWN]
    own_y = len(before) * _STEP + (14 if before else 2)
    upstream = tuple(
        _node(each, 2, 2 + number * _STEP, f"M{_BOX} {_middle(2 + number * _STEP)}H{WIDTH - 22}")
        for number, each in enumerate(before)
    )
    own = JoinNode(key, 2, own_y, WIDTH - 4, _label(key, _MAX_CHARACTERS + 12))
    below = own_y + _HEIGHT
    downstream = tuple(
        _node(each, WIDTH - _BOX, y, f"M22 {_middle(y)}H{WIDTH - _BOX - 1}m-6 -4l6 4l-6 4")
        for number, each in enumerate(after)
        for y in [below + 10 + number * _STEP]
    )
    height = below + (10 + len(after) * _STEP if after else 4)
    place = WIDTH - 22
    lines = []
    if before:
        lines.append(f"M{place} {_middle(2)}V{own_y - 1}m-4 -7l4 7l4 -7")
    if after:
        lines.append(f"M22 {below}V{downstream[-1].y + _HEIGHT // 2}")
    beyond = len(runs_after) - len(before) + len(runs_before) - len(after)
    text = " ".join(_sentences(key, runs_after, runs_before))
    return Graph(height, (*upstream, own, *downstream), tuple(lines), text, beyond)


def _node(each: UpstreamJob | DownstreamJob, x: int, y: int, edge: str) -> JoinNode:
    tone = "" if each.outcome is None else TONES.get(each.outcome, "idle")
    state = "waited for" if each.outcome is None else each.outcome.lower()
    return JoinNode(each.job, x, y, _BOX - 2, _label(each.job, _MAX_CHARACTERS), state, tone, edge)


def _middle(y: int) -> int:
    return y + _HEIGHT // 2


def _label(key: JobKey, most: int) -> str:
    name = key.name if key.group == DEFAULT_GROUP else str(key)
    return name if len(name) <= most else f"{name[: most - 1]}…"


def _sentences(own: JobKey, before: Sequence[UpstreamJob], after: Sequence[DownstreamJob]) -> Iterator[str]:
    if before:
        ends = ", ".join(f"{each.job} ({_state(each.outcome)})" for each in before)
        yield f"Job {own} runs after {ends}."
    if after:
        ends = ", ".join(f"{each.job} ({_state(each.outcome)})" for each in after)
        yield f"After {own} and others run {ends}."


def _state(outcome: str | None) -> str:
    return "waited for" if outcome is None else f"has come, {outcome.lower()}"
