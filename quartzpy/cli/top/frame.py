"""Draws the screen of `quartzpy top`: a snapshot and a view as one text of rich for each line."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from datetime import timedelta

import click
from rich.console import Group
from rich.text import Text

from quartzpy.cli.cells import Cells, cut, padded, short_span, styled, width_of
from quartzpy.cli.layout import draw
from quartzpy.cli.top.view import HELP, TABS, Snapshot, View
from quartzpy.operations.cluster import NodeView
from quartzpy.operations.overview import Overview
from quartzpy.texts import numbered, visible

LEAST_WIDTH, LEAST_HEIGHT = 40, 10
_SPARKS = "▁▂▃▄▅▆▇█"
_MOST_NODES, _MOST_INCIDENTS = 8, 3
_KEYS = "q quit  ? help  / filter  s sort  Enter why  c cancel  m mend  p pause"


def draw_frame(snapshot: Snapshot, view: View, cells: Cells, name: str, width: int, height: int) -> Group:
    """Return the screen: exactly `height` lines, none wider than `width`."""
    if width < LEAST_WIDTH or height < LEAST_HEIGHT:
        lines = [_line(f"too small: {width}x{height}, {LEAST_WIDTH}x{LEAST_HEIGHT} is needed")]
        return Group(*lines, *[_line("")] * (height - 1))
    lines = [_title(snapshot, view, cells, name, width)]
    if snapshot.overview is None:
        waiting = f"the database cannot be read: {snapshot.error}" if snapshot.error else "reading the database ..."
        lines += [_line(""), *map(_line, textwrap.wrap(visible(waiting), width - 2))]
    elif view.help:
        lines += [_line(""), *(_line(f"  {keys.ljust(32)}  {meaning}") for keys, meaning in HELP)]
    elif view.text:
        lines += [_line(""), *(_coloured(line) for line in view.text[view.scrolled :])]
    else:
        # The table needs its heading and three rows; what is above it takes what is left.
        lines += _above(snapshot.overview, cells, width, height - 8)
        lines.append(_tabs(snapshot, view, width))
        lines += _table(snapshot, view, cells, width, height - len(lines) - 1)
    lines = lines[: height - 1]
    return Group(*lines, *[_line("")] * (height - 1 - len(lines)), _footer(view))


def _line(text: str, style: str = "") -> Text:
    return Text(text, style, no_wrap=True, overflow="ellipsis")


def _coloured(text: str) -> Text:
    """Return a line that has escape sequences for colours."""
    line = Text.from_ansi(text)
    line.no_wrap, line.overflow = True, "ellipsis"
    return line


def _title(snapshot: Snapshot, view: View, cells: Cells, name: str, width: int) -> Text:
    parts = ["FROZEN"] * view.frozen + ["DATABASE UNAVAILABLE"] * (snapshot.error is not None)
    parts.append(f"quartzpy top: {visible(name)}")
    if (overview := snapshot.overview) is not None:
        dead = sum(str(node.state) == "dead" for node in overview.nodes)
        nodes = numbered(len(overview.nodes), "node", "nodes")
        parts += [f"{len(overview.nodes) - dead} of {nodes}", f"{len(snapshot.running)} running"]
        parts += [f"{len(overview.late)} late", *[f"{dead} dead"] * (dead > 0)]
        parts.append(f"{cells.local(overview.now):%H:%M:%S} {cells.zone_name}")
    title = _line("   ".join(parts), "reverse red" if snapshot.error else "reverse")
    title.truncate(width, overflow="ellipsis", pad=True)
    return title


def _above(overview: Overview, cells: Cells, width: int, room: int) -> list[Text]:
    """Return the lines between the title and the table, at most `room`: incidents, nodes, and the last hour."""
    shown = overview.incidents[: max(1, min(_MOST_INCIDENTS, room // 3))]
    lines = []
    for incident in shown:
        between = " " if incident.what.endswith(".") else ": "
        text = cells.sentence(f"! {between.join([incident.what, *incident.why[:1]])}")
        lines.append(_coloured(styled(str(incident.severity), text)))
    if more := len(overview.incidents) - len(shown):
        lines.append(_line(f"  and {numbered(more, 'other incident', 'other incidents')}"))
    series = _series(overview, width)
    nodes = overview.nodes[: max(1, min(_MOST_NODES, room - len(lines) - len(series)))]
    longest = min(max([width_of(visible(one.node)) for one in overview.nodes], default=0), max(12, width // 3))
    lines += [_node(one, longest, width) for one in nodes]
    if more := len(overview.nodes) - len(nodes):
        busy, workers = (sum(getattr(one, name) for one in overview.nodes) for name in ("executing", "workers"))
        lines.append(_line(f"  and {numbered(more, 'other node', 'other nodes')}; {busy}/{workers} busy in all"))
    if not overview.nodes:
        lines.append(_line("no node is running: start one with `quartzpy node --app MODULE:SCHEDULER`"))
    return [*lines, *series][: max(0, room)]


def _node(node: NodeView, longest: int, width: int) -> Text:
    mode = node.mode.lower().replace("running", "")
    size = max(6, min(40, width - longest - 32))
    filled = round((node.load or 0) * size)
    line = _line(f"{padded(cut(visible(node.node), longest, middle=True), longest)} ")
    line.append("█" * filled, "red" if filled == size else "green").append("░" * (size - filled), "dim")
    line.append(f" {node.executing}/{node.workers}".rjust(10))
    line.append_text(Text.from_ansi(styled(mode or str(node.state), cut(f" {node.state} {mode}", 15).ljust(15))))
    return line.append(short_span(max(timedelta(), node.checkin_age)).rjust(6))


def _series(overview: Overview, width: int) -> list[Text]:
    """Return the last hour as sparklines: executions a minute, failures a minute, and the lateness of starts."""
    if not overview.throughput:
        return []
    totals = [one.total for one in overview.throughput]
    failed = [sum(one.outcomes.get(word, 0) for word in ("FAILED", "TERMINATED")) for one in overview.throughput]
    late = [one.p99.total_seconds() if one.p99 is not None else 0.0 for one in overview.lateness]
    medians = [one.p50 for one in overview.lateness if one.p50 is not None]
    tails = [one.p99 for one in overview.lateness if one.p99 is not None]
    p50, p99 = (short_span(spans[-1]) if spans else "-" for spans in (medians, tails))
    # The current minute is not over, so the one before it is what a reader compares.
    last = totals[-2] if len(totals) > 1 else totals[-1]
    each = (width - 4) // 3
    texts = [
        _spark("ended ", totals, f"{last:,}/min", "cyan", each if each >= 26 else width),
        _spark("failed", failed, f"{sum(failed):,}/h", "red" if any(failed) else "cyan", each if each >= 26 else width),
        _spark("late  ", late, f"p50 {p50} p99 {p99}", "cyan", each if each >= 26 else width),
    ]
    return texts if each < 26 else [Text("  ", no_wrap=True).join(texts)]


def _spark(name: str, values: Sequence[float], result: str, colour: str, width: int) -> Text:
    size = max(4, min(60, width - len(name) - len(result) - 2))
    line = _line(f"{name} ").append(sparkline(values[-size:]), colour).append(f" {result}")
    line.truncate(width, pad=True)
    return line


def sparkline(values: Sequence[float]) -> str:
    """Return numbers as bars from zero to the largest of them; a number above zero is never the lowest bar."""
    most, steps = max(values, default=0), len(_SPARKS) - 1
    return "".join(_SPARKS[0 if value <= 0 else max(1, round(value / most * steps))] for value in values)


def _tabs(snapshot: Snapshot, view: View, width: int) -> Text:
    line = _line("")
    for number, tab in enumerate(TABS):
        text = f" {number + 1} {tab.title} {len(tab.records(snapshot))} "
        line.append(text, "bold underline" if number == view.tab else "")
    order = f"by {view.order}{' reversed' if view.is_reversed else ''}"
    contains = f'  with "{view.sought}"' if view.sought else ""
    return line.append(f"  {order}{contains}", "dim")


def _table(snapshot: Snapshot, view: View, cells: Cells, width: int, room: int) -> list[Text]:
    tab, rows = view.current, view.rows(snapshot)
    if not rows:
        sought = view.sought if tab.records(snapshot) else ""
        return [_line(""), _line(f'  {tab.empty} with "{sought}"' if sought else f"  {tab.empty}")]
    at, size = view.position(rows), max(1, room - 1)
    first = max(0, min(at - size // 2, len(rows) - size))
    text = draw(tab.columns, rows[first : first + size], cells, width=width, zoned=tab.instants, note=False)
    lines = [_coloured(line) for line in text.split("\n")]
    selected = _line(click.unstyle(lines[at - first + 1].plain), "reverse")
    selected.truncate(width, pad=True)
    lines[at - first + 1] = selected
    return lines


def _footer(view: View) -> Text:
    if view.proposal is not None:
        return _line(f"{visible(view.proposal.question)} [y/N]", "bold yellow")
    if view.typed is not None:
        return _line(f"/{visible(view.typed)}_")
    if view.message:
        return _line(visible(view.message), "bold")
    return _line("up, down scroll  any other key goes back" if view.text else _KEYS, "dim")
