"""`quartzpy node` runs a node in a separate process, for systemd or a container."""

from __future__ import annotations

import inspect
import logging
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from quartzpy.cli.commands import ABANDONED, UNHEALTHY
from quartzpy.cli.log_options import log_options
from quartzpy.cli.target import Target, TargetOptions, optional_scheduler_options
from quartzpy.config.sources import CONFIG_FILE, CONFIG_VARIABLE, find_config_file, settings_from_toml
from quartzpy.errors import SettingsError
from quartzpy.instants import as_span
from quartzpy.logs.default_handler import ensure_logging
from quartzpy.node.run import RunEnd, run_until_stopped
from quartzpy.object_references import find_programs_here, object_at
from quartzpy.texts import quoted

if TYPE_CHECKING:
    from quartzpy.scheduler.scheduler import BaseScheduler

logger = logging.getLogger(__name__)

EXIT_STATUS = {RunEnd.DRAINED: 0, RunEnd.ABANDONED: ABANDONED, RunEnd.FAILED: UNHEALTHY}


def load_app(path: str) -> BaseScheduler:
    """Return the scheduler at `module:name`, which is a scheduler or a function that returns one.

    Raises:
        SettingsError: the module is not found, or there is no scheduler at that name.
    """
    from quartzpy.aio.async_scheduler import AsyncScheduler
    from quartzpy.scheduler.scheduler import BaseScheduler

    # Programs in the current directory can be imported, as with `python -m`.
    find_programs_here()
    try:
        value = object_at(path, "--app", "billing.jobs:scheduler")
    except SettingsError as error:
        if error.__cause__ is None or isinstance(error.__cause__, ModuleNotFoundError):
            raise
        # The traceback says where the program is wrong.
        raise error.__cause__ from None
    if callable(value) and not isinstance(value, BaseScheduler | AsyncScheduler) and _takes_no_arguments(value):
        value = value()
    if isinstance(value, AsyncScheduler):
        value.store_decorated()
        value = value.blocking
    if not isinstance(value, BaseScheduler):
        raise SettingsError(
            f"--app: {quoted(path)}: must be a Scheduler or a function that returns one (got {quoted(value)})"
        )
    return value


def _app_with_settings(app: str, config: str | None) -> BaseScheduler:
    """Return the scheduler of a program, made with the settings of this file, and log which file it has read.

    Raises:
        click.UsageError: the program makes its scheduler without the file that was given.
        SettingsError: the file cannot be read.
    """
    is_given = config is not None and config != os.environ.get(CONFIG_VARIABLE)
    if config is not None:
        settings_from_toml(config)
        os.environ[CONFIG_VARIABLE] = config
    scheduler = load_app(app)
    read = scheduler._settings_file
    if is_given and (read is None or Path(read).resolve() != Path(str(config)).resolve()):
        has = "no file" if read is None else str(read)
        raise click.UsageError(
            f"--config {config}: the scheduler {app} has read {has}; a program reads the file if it makes its scheduler"
            " by Scheduler.from_config()"
        )
    beside = config or find_config_file(Path.cwd())
    if read is not None:
        logger.info("settings: those of %s and of the environment", read)
    elif beside is not None:
        logger.warning(
            "settings: those of the program; %s is NOT read: give --config, with a scheduler that is made by"
            " Scheduler.from_config()",
            beside,
        )
    return scheduler


def _takes_no_arguments(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind()
    except (TypeError, ValueError):
        return False
    return True


def _measure(scheduler: BaseScheduler, port: int, host: str) -> None:
    """Serve metrics and probes from now on, so that they also answer while the node starts."""
    from quartzpy.metrics.plugin import Metrics

    own = scheduler.config.metrics_port
    if own is not None:
        raise click.UsageError(f"--metrics-port: the scheduler has the setting metrics_port={own} already; use one")
    metrics = Metrics(port=port, host=host)
    metrics.initialize(scheduler)
    metrics.start()


def scheduler_of_files(files: Sequence[str], target: Target) -> BaseScheduler:
    """Return a scheduler with the jobs that files declare, on the database that is selected.

    Raises:
        click.UsageError: there is no file, and no setting names the modules of jobs.
        SettingsError: a file or a setting is wrong, or no database is selected.
    """
    from quartzpy.plugins import DeclaredJobs

    if not files and not target.values.get("job_modules"):
        raise click.UsageError(
            "this node would know no jobs: give --app billing.jobs:scheduler, a file of declared jobs (jobs.yaml), or"
            " the modules of the jobs (job_modules in quartzpy.toml, or QUARTZPY_JOB_MODULES=billing.jobs)"
        )
    # Modules in the current directory can be imported, as with `python -m`.
    find_programs_here()
    # Nobody else would say what runs.
    level = target.values.get("log_executions", "INFO")
    plugins = [DeclaredJobs(*files)] if files else []
    return target.scheduler(target.name or target.chosen_name(), plugins=plugins, log_executions=level)


@click.command()
@optional_scheduler_options(
    f"The TOML file with the settings; that of --app is read by its Scheduler.from_config(). [default: the nearest"
    f" {CONFIG_FILE}; with --app none]"
)
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False))
@click.option("--app", help="The scheduler, or a function that returns it: module:name.")
@click.option(
    "--drain-timeout", default="30s", show_default=True, help="How long to wait for running jobs after SIGTERM."
)
@click.option("--interrupt", is_flag=True, help="Ask running jobs to stop immediately on SIGTERM.")
@log_options
@click.option("--metrics-port", type=click.IntRange(0, 65_535), help="Answer /metrics, /healthz and /readyz here.")
@click.option(
    "--metrics-host",
    default="127.0.0.1",
    show_default=True,
    help="The address for --metrics-port; 0.0.0.0 is reachable from everywhere.",
)
def node(
    selection: TargetOptions,
    files: Sequence[str],
    app: str | None,
    drain_timeout: str,
    interrupt: bool,
    log_level: str,
    log_format: str,
    metrics_port: int | None,
    metrics_host: str,
) -> None:
    """Run a node until SIGTERM or SIGINT, then wait for its running jobs.

    The node is that of the scheduler --app, or one on --url with the jobs that FILES declare (TOML or YAML), each with
    a line in the log for each execution. It stores the jobs at its start, and again when a file changes.

    A second signal ends the process immediately; other nodes then recover its jobs. Exit status 6 means that executions
    were abandoned, 75 that a thread of the node could not be kept alive.
    """
    ensure_logging(log_level, log_format)
    timeout = as_span(drain_timeout, "--drain-timeout", SettingsError).total_seconds()
    if app is None:
        scheduler = scheduler_of_files(files, selection.target())
    elif files or selection.flags:
        extra = ", ".join([*selection.flags, *files])
        raise click.UsageError(f"{extra}: the scheduler of --app has these already; give one of both")
    else:
        scheduler = _app_with_settings(app, selection.config)
    if metrics_port is not None:
        _measure(scheduler, metrics_port, metrics_host)
    status = EXIT_STATUS[run_until_stopped(scheduler, timeout, interrupt=interrupt)]
    if status == UNHEALTHY:
        # A thread that hangs would delay the exit, and the process supervisor waits for it before a restart.
        logging.shutdown()
        os._exit(status)
    if status:
        sys.exit(status)
