"""`quartzpy incidents` and `health`: how the cluster is."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from quartzpy.cli import completion
from quartzpy.cli.commands import NOT_OK
from quartzpy.cli.drawing import DetailView
from quartzpy.cli.filters import Filters, filter_options
from quartzpy.cli.formatter import faint, short_span, sparkline, styled
from quartzpy.cli.listing import (
    Answer,
    Options,
    listing_options,
    print_json,
    repeat,
    run_listing,
    terminal_width,
)
from quartzpy.cli.subjects import command_of
from quartzpy.cli.target import Target, scheduler_options
from quartzpy.operations.lists.history import PAST_INCIDENTS
from quartzpy.operations.lists.spec import Column, Look
from quartzpy.store.node_states import takes_work
from quartzpy.texts import instant_text, number_of, numbered

if TYPE_CHECKING:
    from quartzpy.operations.incidents.incident import Incident
    from quartzpy.operations.incidents.recorded import RecordedIncident
    from quartzpy.operations.operations import Operations
    from quartzpy.operations.overview import Overview
    from quartzpy.operations.views.cluster import NodeView


_INDENT = 2


INCIDENTS: Sequence[Column[Incident]] = (
    Column("severity", lambda row: str(row.severity), Look.STATE),
    Column("what", lambda row: row.what, Look.SENTENCE, readable=40),
    Column("since", lambda row: row.since, Look.INSTANT, drop=2),
    Column("remedy", lambda row: row.remedies[0].label if row.remedies else None, drop=3),
    Column("why", lambda row: " ".join(row.why), Look.SENTENCE, drop=1),
)


@click.command()
@listing_options
@click.option("--past", is_flag=True, help="List those that are over: of the last day, unless other options say so.")
@filter_options(PAST_INCIDENTS.filters)
def incidents(target: Target, options: Options, past: bool, **values: Any) -> None:
    """Say what is wrong now or soon will be, why, and which commands mend it; with --past what was and is over.

    Begin here when something is wrong: `nodes`, `why TRIGGER` and `doctor` say more of what it names. `quartzpy
    acknowledge` takes note of an incident by its number: it is then listed apart, in one line.

    Exit status: 0 if nothing is wrong that nobody has taken note of, 1 if something is.
    """
    if past or options.after or any(values.values()):
        if not (options.after or values["since"]):
            values["since"] = "1d"
        filters = Filters(PAST_INCIDENTS, values, options.formatter)

        def read(operations: Operations) -> Answer[RecordedIncident]:
            page = operations.past_incidents(limit=options.limit, after=options.after, **filters.values(operations))
            return Answer(page, "" if page else filters.nothing(operations))

        run_listing(target, options, PAST_INCIDENTS.columns, read)
        return
    problems: Sequence[Incident] = ()

    def output() -> None:
        nonlocal problems
        overview = operations.overview()
        problems = overview.incidents
        if options.json_output:
            print_json(problems, indent=options.watch is None)
        else:
            click.echo("\n\n".join(_drawn(incident, options) for incident in problems) or _in_order(overview))
            for incident in overview.acknowledged:
                click.echo(faint(options.formatter.sentence(_noted(incident))))
            for end in overview.lost_nodes:
                click.echo(faint(options.formatter.sentence(str(end))))

    with target.operations() as operations:
        repeat(options.watch, output)
    sys.exit(1 if problems else 0)


def _noted(incident: Incident) -> str:
    note = incident.acknowledgement
    assert note is not None, "it is acknowledged"
    until = f" until {instant_text(note.until)}" if note.until is not None else ""
    return f"Acknowledged{until} by {note.by}: {note.reason.rstrip('.')}. {incident.what}"


def _in_order(overview: Overview) -> str:
    return f"Nothing is wrong: {overview.calm}, {overview.number('running')} running."


def _drawn(incident: Incident, options: Options) -> str:
    details = DetailView(options.formatter, terminal_width())
    details.plain((f"{incident.severity.upper()}: {incident.what}",))
    details.plain(incident.why, indent=_INDENT)
    what, *why = str(details).split("\n")
    mend = [f"{' ' * _INDENT}{faint('mend:')} {command_of(remedy)}" for remedy in incident.remedies]
    if incident.incident_id is not None:
        mend.append(f"{' ' * _INDENT}{faint(f'quartzpy acknowledge {incident.incident_id} --reason=...')}")
    return "\n".join([styled(str(incident.severity), what), *why, *mend])


@click.command()
@scheduler_options
@click.option("--node", help="Check this node.", shell_complete=completion.NODES)
@click.option("--host", help="Check the nodes on this host.")
@click.option("--ready", is_flag=True, help="Check more than life: see above.")
@click.option("--json", "json_output", is_flag=True, help="Print JSON.")
def health(target: Target, node: str | None, host: str | None, ready: bool, json_output: bool) -> None:
    """Check the cluster, or the nodes of --node or --host: for probes of a supervisor.

    People begin with `quartzpy incidents`, which says why. The cluster is alive if at least one node is, and ready if
    no node is dead, at least one takes triggers, and no trigger is overdue. A node is alive if its last check-in is no
    older than its failure window, and ready if it takes triggers, that is, is neither draining nor in standby. Exit
    status: 0 if so, 1 if not, 3 if the database cannot be reached, 4 if its tables do not match this release.
    """
    with target.operations() as operations:
        nodes = [peer for peer in operations.cluster().nodes if node in (None, peer.node) and host in (None, peer.host)]
        of_cluster = node is None and host is None
        problems = list(_of_cluster(operations, nodes, ready) if of_cluster else _of_nodes(nodes, node, host, ready))
    alive = sum(peer.state.is_alive for peer in nodes)
    if json_output:
        print_json({"ok": not problems, "problems": problems, "nodes": len(nodes), "alive": alive})
    elif problems:
        click.echo("\n".join(problems))
    else:
        click.echo(f"ok: {alive} of {number_of(len(nodes), 'node')} {'is' if alive == 1 else 'are'} alive")
    if problems:
        sys.exit(NOT_OK)


def _of_cluster(operations: Operations, nodes: list[NodeView], ready: bool) -> list[str]:
    if not nodes:
        return ["no node is running"]
    dead = [peer.node for peer in nodes if not peer.state.is_alive]
    problems = []
    if len(dead) == len(nodes):
        problems.append(f"all nodes are dead: {', '.join(dead)}")
    elif ready and dead:
        problems.append(f"dead nodes: {', '.join(dead)}")
    if ready:
        takers = [peer for peer in nodes if peer.state.is_alive and takes_work(peer)]
        if not takers:
            problems.append("no node takes triggers: all are draining, in standby or dead")
        elif all(peer.problems for peer in takers):
            problems += _reported(takers)
        late = operations.late()
        if late:
            number = numbered(len(late), "trigger is", "triggers are")
            problems.append(f"{number} overdue, {late[0].trigger} since {late[0].due_at.isoformat()}")
    return problems


def _of_nodes(nodes: list[NodeView], node: str | None, host: str | None, ready: bool) -> list[str]:
    if not nodes:
        where = " ".join([*([f"called {node}"] if node else []), *([f"on host {host}"] if host else [])])
        return [f"there is no node {where}"]
    dead = [f"node {peer.node} is dead" for peer in nodes if not peer.state.is_alive]
    idle = [
        f"node {peer.node} is {peer.mode}" for peer in nodes if ready and peer.state.is_alive and not takes_work(peer)
    ]
    return dead + idle + (_reported([peer for peer in nodes if peer.state.is_alive]) if ready else [])


def _reported(nodes: list[NodeView]) -> list[str]:
    return [f"node {peer.node}: {problem.what}" for peer in nodes for problem in peer.problems]


def last_hour(overview: Overview, bars: int) -> list[str]:
    """Return executions a minute, failures a minute, and the lateness of starts, each as a sparkline."""
    ended = [minute.total for minute in overview.throughput]
    failed = [sum(minute.outcomes.get(word, 0) for word in ("FAILED", "TERMINATED")) for minute in overview.throughput]
    late = [(minute.p99 or timedelta()).total_seconds() for minute in overview.lateness]
    measured = [(minute.p50, minute.p99) for minute in overview.lateness if minute.p50 and minute.p99]
    lateness = "p50 {} p99 {}".format(*map(short_span, measured[-1])) if measured else "-"
    return [  # The current minute is not over, so the one before it is what a reader compares.
        f"ended  {sparkline(ended[-bars:])} {[0, *ended][-2]:,}/min",
        f"failed {sparkline(failed[-bars:])} {sum(failed):,}/h",
        f"late   {sparkline(late[-bars:])} {lateness}",
    ]
