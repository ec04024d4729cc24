"""`quartzpy mcp`: the operations as tools for an assistant."""

from __future__ import annotations

import click

from quartzpy.cli.dashboard import ROLES, installed_by
from quartzpy.cli.target import Target, scheduler_options
from quartzpy.installing import install_line


@click.command()
@scheduler_options
@click.option(
    "--role", default="viewer", show_default=True, type=click.Choice(ROLES), help="What the assistant may do."
)
def mcp(target: Target, role: str) -> None:
    """Serve the Model Context Protocol on standard input and output, for an assistant that starts this command.

    Its tools are the reads of the API, and the actions of the role; actions are recorded under your name. It needs the
    extra `mcp`.
    """
    with installed_by(install_line("mcp")):
        import anyio

        from quartzpy.dashboard.mcp_server import serve_standard_streams
    from quartzpy.operations import Actor, Operations, Role
    from quartzpy.operations.actions.action import local_user
    from quartzpy.scheduler.explain import API

    actor = Actor(f"{local_user().name} (assistant)", Role(role))
    with target.client() as scheduler:
        operations = Operations(scheduler, actor=actor, read_only=actor.role is Role.VIEWER, advice=API)
        anyio.run(serve_standard_streams, operations)
