"""`quartzpy node`: a node as a process, for systemd or a container."""

from __future__ import annotations

import importlib
import inspect
import logging
import os
import signal
import sys
from collections.abc import Callable
from datetime import timedelta
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from quartzpy.cli.exits import ABANDONED, UNHEALTHY
from quartzpy.config import as_duration
from quartzpy.runtime.health import HealthState
from quartzpy.texts import visible

if TYPE_CHECKING:
    from quartzpy.scheduler import BaseScheduler


def load_app(path: str) -> BaseScheduler:
    """The scheduler that `module:name` is, or returns when called.

    Raises:
        click.BadParameter: there is none.
    """
    from quartzpy.async_scheduler import AsyncScheduler
    from quartzpy.scheduler import BaseScheduler

    module_name, colon, attribute = path.partition(":")
    if not colon or not module_name or not attribute:
        raise click.BadParameter(f"{path!r}: module:scheduler is needed, as in billing.jobs:scheduler")
    # As with `python -m`, the program in the current directory is found.
    sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise click.BadParameter(f"{path!r}: {error}") from error
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if callable(found) and not isinstance(found, BaseScheduler | AsyncScheduler) and _takes_nothing(found):
        found = found()
    if isinstance(found, AsyncScheduler):
        found.store_decorated()
        found = found.blocking
    if not isinstance(found, BaseScheduler):
        raise click.BadParameter(f"{path!r}: a Scheduler, or a function that returns one, is needed (got {found!r})")
    return found


class VisibleFormatter(logging.Formatter):
    """A record is a line, and what moves a terminal's cursor an escape: rows and errors bring texts of others."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is logging's
        record.message = visible(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:  # noqa: N802 - the name is logging's
        return "\n".join(visible(line) for line in super().formatException(ei).split("\n"))


def _takes_nothing(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind()
    except (TypeError, ValueError):
        return False
    return True


@click.command()
@click.option("--app", required=True, help="The scheduler, or a function that makes it: module:name.")
@click.option("--drain-timeout", default="30s", show_default=True, help="How long running jobs may take after SIGTERM.")
@click.option(
    "--log-level",
    default="INFO",
    show_default=True,
    type=click.Choice(["DEBUG", "INFO", "WARNING", "ERROR"], case_sensitive=False),
    help="What is logged, and all that weighs more.",
)
def node(app: str, drain_timeout: str, log_level: str) -> None:
    """Run a node until SIGTERM or SIGINT; then let its jobs end.

    A second signal ends it at once, and what ran is recovered by other nodes. Exit status 6 says that executions
    were abandoned, 70 that a thread of the node could not be kept alive.
    """
    if not logging.getLogger().handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(VisibleFormatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s"))
        logging.basicConfig(level=log_level.upper(), handlers=[handler])
    timeout = as_duration(drain_timeout, "--drain-timeout")
    scheduler = load_app(app)
    status = run_until_signal(scheduler, timeout)
    if status == UNHEALTHY:
        # Threads that cannot be kept alive may not end either, and whoever restarts us waits for our end.
        logging.shutdown()
        os._exit(status)
    if status:
        sys.exit(status)


def run_until_signal(scheduler: BaseScheduler, drain_timeout: timedelta) -> int:
    """Start, wait for SIGTERM, SIGINT or a node that cannot go on, drain; the exit status."""
    signals = [signal.SIGTERM, signal.SIGINT]
    received: list[int] = []

    def asked_to_stop(number: int, frame: FrameType | None) -> None:
        received.append(number)
        if len(received) > 1:
            os._exit(128 + number)

    before = {number: signal.signal(number, asked_to_stop) for number in signals}
    try:
        scheduler.start()
        failed = False
        while not (received or failed or scheduler.wait_until_shut_down(timedelta(seconds=0.2))):
            failed = scheduler.health().state is HealthState.FAILED
        drained = scheduler.shutdown(wait=True, timeout=drain_timeout)
        if failed:
            return UNHEALTHY
        return 0 if drained else ABANDONED
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
