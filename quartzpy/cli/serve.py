"""`quartzpy serve`: a crontab in one command."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from quartzpy.cli.dashboard import PORT
from quartzpy.cli.log_options import log_options
from quartzpy.cli.node import EXIT_STATUS
from quartzpy.errors import SettingsError
from quartzpy.installing import install_line
from quartzpy.logs.default_handler import ensure_logging


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--data", required=True, type=click.Path(file_okay=False, path_type=Path), help="Keep everything here.")
@click.option("--run-as", metavar="USER", help="As whom root runs PostgreSQL, which refuses to run as root.")
@click.option("--port", default=PORT, show_default=True, type=click.IntRange(0, 65_535), help="0 is any free port.")
@click.option("--no-page", is_flag=True, help="Serve no web page.")
@click.option("--read-only/--allow-actions", default=True, show_default=True, help="Forbid or permit changes by it.")
@click.option("--workers", default=10, show_default=True, type=click.IntRange(1, 5_000), help="Jobs at the same time.")
@click.option("--drain-timeout", default="30s", show_default=True, help="How long to wait for running jobs at the end.")
@log_options
def serve(
    file: Path,
    data: Path,
    run_as: str | None,
    port: int,
    no_page: bool,
    read_only: bool,
    workers: int,
    drain_timeout: str,
    log_level: str,
    log_format: str,
) -> None:
    """Run the schedule of a file on this machine until SIGTERM or Ctrl-C: commands, URLs and functions.

    It starts its own PostgreSQL, which keeps its data in --data, and serves the web page on this machine. With
    --allow-actions, the page asks for a token before it changes anything; it is in the file page-token of --data. The
    file is read again when it changes; a wrong one changes nothing. It needs the extras `embedded` and `yaml`,
    `dashboard` for the page and `http` for URLs.
    """
    try:
        from quartzpy.embedded.schedule_server import ScheduleServer
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("quartzpy"):
            raise
        raise SettingsError(f"{error.name} is not installed; run {install_line('embedded', 'yaml')}") from error
    ensure_logging(log_level, log_format)

    server = ScheduleServer(
        file,
        data,
        run_as=run_as,
        port=None if no_page else port,
        allow_actions=not read_only,
        workers=workers,
    )
    status = EXIT_STATUS[server.run(drain_timeout=drain_timeout)]
    if status:
        sys.exit(status)
