"""`quartzpy health`: a check of the cluster or of nodes, for probes and scripts."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from quartzpy.cli.completion import NODES
from quartzpy.cli.exits import NOT_OK
from quartzpy.cli.listing import print_json
from quartzpy.cli.target import Target, scheduler_options
from quartzpy.texts import number_of, numbered

if TYPE_CHECKING:
    from quartzpy.operations.cluster import NodeView
    from quartzpy.operations.operations import Operations


@click.command()
@scheduler_options
@click.option("--node", help="Check this node.", shell_complete=NODES)
@click.option("--host", help="Check the nodes on this host.")
@click.option("--ready", is_flag=True, help="Check more than life: see above.")
@click.option("--json", "json_output", is_flag=True, help="Print JSON.")
def health(target: Target, node: str | None, host: str | None, ready: bool, json_output: bool) -> None:
    """Check the cluster, or the nodes of --node or --host.

    The cluster is alive if at least one node is, and ready if no node is dead, at least one claims triggers, and no
    trigger is overdue. A node is alive if its last check-in is no older than its failure window, and ready if it claims
    triggers, that is, is neither draining nor in standby. Exit status: 0 if so, 1 if not, 3 if the database cannot be
    reached, 4 if its tables do not match this release.
    """
    with target.operations() as operations:
        nodes = [one for one in operations.cluster().nodes if node in (None, one.node) and host in (None, one.host)]
        of_cluster = node is None and host is None
        problems = list(_of_cluster(operations, nodes, ready) if of_cluster else _of_nodes(nodes, node, host, ready))
    alive = sum(one.state != "dead" for one in nodes)
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
    dead = [one.node for one in nodes if one.state == "dead"]
    problems = []
    if len(dead) == len(nodes):
        problems.append(f"all nodes are dead: {', '.join(dead)}")
    elif ready and dead:
        problems.append(f"dead nodes: {', '.join(dead)}")
    if ready:
        if not any(one.state != "dead" and one.mode.lower() == "running" for one in nodes):
            problems.append("no node claims triggers: all are draining, in standby or dead")
        late = operations.overview().late
        if late:
            number = numbered(len(late), "trigger is", "triggers are")
            problems.append(f"{number} overdue, {late[0].trigger} since {late[0].due_at.isoformat()}")
    return problems


def _of_nodes(nodes: list[NodeView], node: str | None, host: str | None, ready: bool) -> list[str]:
    if not nodes:
        where = " ".join([*([f"called {node}"] if node else []), *([f"on host {host}"] if host else [])])
        return [f"there is no node {where}"]
    dead = [f"node {one.node} is dead" for one in nodes if one.state == "dead"]
    idle = [
        f"node {one.node} is {one.mode}"
        for one in nodes
        if ready and one.state != "dead" and one.mode.lower() != "running"
    ]
    return dead + idle
