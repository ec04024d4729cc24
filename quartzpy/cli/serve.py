"""`quartzpy serve`: a crontab in one command."""

from __future__ import annotations

import signal
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from quartzpy.cli.dashboard import PORT
from quartzpy.cli.log_options import log_options
from quartzpy.cli.node import EXIT_STATUS
from quartzpy.errors import SettingsError
from quartzpy.installing import install_line
from quartzpy.logs.default_handler import ensure_logging

if TYPE_CHECKING:
    from quartzpy.embedded import ScheduleServer


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
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

    It starts its own PostgreSQL, which keeps its data in --data, and serves the web page on this machine. The file is
    read again when it changes; a wrong one changes nothing. It needs the extras `embedded` and `yaml`, `dashboard` for
    the page and `http` for URLs.
    """
    try:
        from quartzpy.embedded.schedule_server import ScheduleServer
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("quartzpy"):
            raise
        raise SettingsError(f"{error.name} is not installed; run {install_line('embedded', 'yaml')}") from error
    ensure_logging(log_level, log_format)

    def report(text: str) -> None:
        click.echo(f"{file}: {text}")
        sys.stdout.flush()

    server = ScheduleServer(file, data, run_as=run_as, report=report, workers=workers)
    with ExitStack() as stack:
        server.open()
        stack.callback(server.stop)
        assert server.schedule is not None
        jobs = len(server.schedule.declarations.jobs)
        report(f"{jobs} job{'' if jobs == 1 else 's'}, time zone {server.schedule.time_zone}, data in {data}")
        click.echo(f"other commands reach it by --url embedded:{data}")
        if not no_page:
            _serve_page(server, port, read_only, stack)
        status = EXIT_STATUS[server.run(drain_timeout=drain_timeout)]
    if status:
        sys.exit(status)


def _serve_page(server: ScheduleServer, port: int, read_only: bool, stack: ExitStack) -> None:
    """Serve the web page on loopback, in a thread, until the stack is closed."""
    try:
        from quartzpy.dashboard import create_app
        from quartzpy.dashboard.server import DashboardServer, listen
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("quartzpy"):
            raise
        raise SettingsError(
            f"{error.name} is not installed; run {install_line('dashboard')}, or give --no-page"
        ) from error
    listening = stack.enter_context(listen("127.0.0.1", port))
    page = DashboardServer(create_app(server.scheduler, read_only=read_only, title="quartzpy serve"))
    thread = threading.Thread(target=page.run, kwargs={"sockets": [listening]}, name="quartzpy-page", daemon=True)
    thread.start()
    stack.callback(thread.join, 10)
    stack.callback(page.handle_exit, signal.SIGTERM, None)
    changes = "read-only" if read_only else "actions allowed"
    click.echo(f"the page is http://127.0.0.1:{listening.getsockname()[1]}/ ({changes})")
