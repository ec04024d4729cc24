"""Draws the screen of `quartzpy top`: a snapshot and a view as lines of a width and a height. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from quartzpy.cli.cells import Cells, cut, is_coloured, padded, short_span, styled, width_of
from quartzpy.cli.layout import draw
from quartzpy.cli.top.model import TABS, Snapshot
from quartzpy.cli.top.view import HELP, View
from quartzpy.texts import numbered, visible

if TYPE_CHECKING:
    from quartzpy.operations.cluster import NodeView
    from quartzpy.operations.overview import Overview

LEAST_WIDTH, LEAST_HEIGHT = 40, 10
_SPARKS = "▁▂▃▄▅▆▇█"
_BAR, _NO_BAR = "█", "░"
_MOST_NODES, _MOST_INCIDENTS = 8, 3
_KEYS = "q quit  ? help  / filter  s sort  Enter why  c cancel  m mend  p pause"


def draw_frame(snapshot: Snapshot, view: View, cells: Cells, name: str, width: int, height: int) -> list[str]:
    """Return the lines of the screen: exactly `height`, none wider than `width`."""
    if width < LEAST_WIDTH or height < LEAST_HEIGHT:
        small = f"too small: {width}x{height}, {LEAST_WIDTH}x{LEAST_HEIGHT} is needed"
        return _filled([cut(small, width)], width, height)
    footer = _footer(view, width)
    head = [_title(snapshot, view, cells, name, width)]
    if snapshot.overview is None:
        waiting = f"the database cannot be read: {snapshot.error}" if snapshot.error else "reading the database ..."
        return [*_filled([*head, "", *_wrapped(waiting, width)], width, height - 1), footer]
    if view.help:
        body = [f"  {keys.ljust(32)}  {meaning}" for keys, meaning in HELP]
        return [*_filled([*head, "", *body], width, height - 1), footer]
    if view.text:
        return [*_filled([*head, "", *view.text[view.scrolled :]], width, height - 1), footer]
    # The table needs its heading and three rows; what is above it takes what is left.
    room = height - len(head) - 1 - 6
    above = _above(snapshot.overview, cells, width, room)
    table = _table(snapshot, view, cells, width, height - len(head) - len(above) - 2)
    return [*_filled([*head, *above, _tabs(snapshot, view, width), *table], width, height - 1), footer]


def _painted(text: str, *, fg: str | None = None, **style: bool) -> str:
    """Return a text in a style; without its colour where colours are not wanted."""
    return click.style(text, fg=fg if is_coloured() else None, **style)


def page_of(height: int) -> int:
    """Return the number of rows by which the keys for pages move on a screen of this height."""
    return max(1, height // 2)


# --- parts


def _title(snapshot: Snapshot, view: View, cells: Cells, name: str, width: int) -> str:
    overview = snapshot.overview
    parts = [f"quartzpy top: {visible(name)}"]
    if overview is not None:
        states = [str(node.state) for node in overview.nodes]
        alive, dead = len(states) - states.count("dead"), states.count("dead")
        parts += [
            f"{alive} of {numbered(len(states), 'node', 'nodes')}",
            f"{len(snapshot.running)} running",
            f"{len(overview.late)} late",
        ]
        if dead:
            parts.append(f"{dead} dead")
        parts.append(f"{cells.local(overview.now):%H:%M:%S} {cells.zone_name}")
    flags = ["FROZEN"] * view.frozen + ["DATABASE UNAVAILABLE"] * (snapshot.error is not None)
    text = cut("   ".join([*flags, *parts]), width)
    return _painted(padded(text, width), reverse=True, fg="red" if snapshot.error else None)


def _above(overview: Overview, cells: Cells, width: int, room: int) -> list[str]:
    """Return the lines between the title and the table, at most `room`: incidents, nodes, and the last hour."""
    lines = [_incident(one, cells, width) for one in overview.incidents[: max(1, min(_MOST_INCIDENTS, room // 3))]]
    more = len(overview.incidents) - len(lines)
    if more > 0:
        lines.append(cut(f"  and {numbered(more, 'other incident', 'other incidents')}", width))
    series = _series(overview, width)
    nodes = overview.nodes[: max(1, min(_MOST_NODES, room - len(lines) - len(series)))]
    lines += [_node(one, overview.nodes, width) for one in nodes]
    if len(overview.nodes) > len(nodes):
        busy = sum(one.executing for one in overview.nodes)
        workers = sum(one.workers for one in overview.nodes)
        others = numbered(len(overview.nodes) - len(nodes), "other node", "other nodes")
        lines.append(cut(f"  and {others}; {busy}/{workers} busy in all", width))
    if not overview.nodes:
        lines.append(cut("no node is running: start one with `quartzpy node --app MODULE:SCHEDULER`", width))
    return [*lines, *series][: max(0, room)]


def _incident(incident: Any, cells: Cells, width: int) -> str:
    between = " " if incident.what.endswith(".") else ": "
    text = cells.sentence(f"! {between.join([incident.what, *incident.why[:1]])}")
    return styled(str(incident.severity), cut(text, width))


def _node(node: NodeView, nodes: Sequence[NodeView], width: int) -> str:
    longest = min(max(width_of(visible(one.node)) for one in nodes), max(12, width // 3))
    name = padded(cut(visible(node.node), longest, middle=True), longest)
    busy = f"{node.executing}/{node.workers}"
    mode = "" if node.mode.lower() == "running" else f" {node.mode.lower()}"
    state = f"{node.state}{mode}"
    size = max(6, min(40, width - longest - 32))
    filled = round((node.load or 0) * size)
    bar = _painted(_BAR * filled, fg="red" if filled == size else "green") + _painted(
        _NO_BAR * (size - filled), dim=True
    )
    word = str(node.state) if not mode else mode.strip()
    ago = short_span(max(timedelta(), node.checkin_age))
    return f"{name} {bar} {busy.rjust(8)} {styled(word, cut(state, 14).ljust(14))}{ago.rjust(6)}"


def _series(overview: Overview, width: int) -> list[str]:
    """Return the last hour as sparklines: executions a minute, failures a minute, and the lateness of starts."""
    if not overview.throughput:
        return []
    totals = [one.total for one in overview.throughput]
    failed = [sum(one.outcomes.get(word, 0) for word in ("FAILED", "TERMINATED")) for one in overview.throughput]
    late = [one.p99.total_seconds() if one.p99 is not None else 0.0 for one in overview.lateness]
    p50 = next((one.p50 for one in reversed(overview.lateness) if one.p50 is not None), None)
    p99 = next((one.p99 for one in reversed(overview.lateness) if one.p99 is not None), None)
    # The current minute is not over, so the one before it is what a reader compares.
    last = totals[-2] if len(totals) > 1 else totals[-1]
    texts: list[tuple[str, Sequence[float], str, str | None]] = [
        ("ended", totals, f"{last:,}/min", None),
        ("failed", failed, f"{sum(failed):,}/h", "red" if any(failed) else None),
        ("late", late, f"p50 {_brief(p50)} p99 {_brief(p99)}", None),
    ]
    each = (width - 2 * (len(texts) - 1)) // len(texts)
    if each < 26:
        return [_spark(name.ljust(6), values, told, colour, width) for name, values, told, colour in texts]
    return ["  ".join(_spark(*text, each) for text in texts)]


def _brief(span: timedelta | None) -> str:
    return "-" if span is None else short_span(span)


def _spark(name: str, values: Sequence[float], told: str, colour: str | None, width: int) -> str:
    size = max(4, min(60, width - width_of(name) - width_of(told) - 2))
    line = sparkline(values[-size:])
    return padded(f"{name} {line} {told}", width).replace(line, _painted(line, fg=colour or "cyan"), 1)


def sparkline(values: Sequence[float]) -> str:
    """Return numbers as bars from zero to the largest of them; a number above zero is never the lowest bar."""
    most = max(values, default=0)
    if most <= 0:
        return _SPARKS[0] * len(values)
    steps = len(_SPARKS) - 1
    return "".join(_SPARKS[0 if value <= 0 else max(1, round(value / most * steps))] for value in values)


def _tabs(snapshot: Snapshot, view: View, width: int) -> str:
    titles = [f" {n} {tab.title} {len(tab.records(snapshot))} " for n, tab in enumerate(TABS, 1)]
    contains = view.contains if view.typed is None else view.typed
    rest = f"by {view.order}{' reversed' if view.is_reversed else ''}" + (f'  with "{contains}"' if contains else "")
    room = width - sum(map(len, titles))
    line = "".join(
        _painted(title, bold=True, underline=True) if n == view.tab else title for n, title in enumerate(titles)
    )
    return line + _painted(cut(rest.rjust(min(room, width_of(rest) + 2)), max(0, room)), dim=True)


def _table(snapshot: Snapshot, view: View, cells: Cells, width: int, room: int) -> list[str]:
    tab = view.current
    rows = view.rows(snapshot)
    if not rows:
        contains = view.contains if view.typed is None else view.typed
        text = f'{tab.empty} with "{contains}"' if contains and tab.records(snapshot) else tab.empty
        return ["", cut(f"  {text}", width)]
    at = view.position(rows)
    size = max(1, room - 1)
    first = max(0, min(at - size // 2, len(rows) - size))
    shown = rows[first : first + size]
    drawn = draw(tab.columns, shown, cells, width=width, zoned=tab.instants, note=False).split("\n")
    selected = at - first + 1
    drawn[selected] = _painted(padded(click.unstyle(drawn[selected]), width), reverse=True)
    return drawn


def _footer(view: View, width: int) -> str:
    if view.proposal is not None:
        return _painted(cut(f"{visible(view.proposal.question)} [y/N]", width), fg="yellow", bold=True)
    if view.typed is not None:
        return cut(f"/{visible(view.typed)}_", width)
    if view.message:
        return _painted(cut(visible(view.message), width), bold=True)
    if view.text:
        return _painted(cut("up, down scroll  any other key goes back", width), dim=True)
    return _painted(cut(_KEYS, width), dim=True)


def _wrapped(text: str, width: int) -> list[str]:
    import textwrap

    return textwrap.wrap(visible(text), width - 2)


def _filled(lines: Sequence[str], width: int, height: int) -> list[str]:
    shown = [line if width_of(click.unstyle(line)) <= width else cut(click.unstyle(line), width) for line in lines]
    return [*shown[:height], *[""] * (height - len(shown))]
