"""The options of the commands that log: from which level on, and in which form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from quartzpy.logs.default_handler import FORMATS, LEVELS


def log_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command `--log-level` and `--log-format`."""
    of_level = click.option(
        "--log-level",
        default="INFO",
        show_default=True,
        type=click.Choice(LEVELS, case_sensitive=False),
        help="The lowest level of messages to log.",
    )
    of_format = click.option(
        "--log-format",
        default=FORMATS[0],
        show_default=True,
        type=click.Choice(FORMATS),
        help="Lines for people, or a JSON object for each message.",
    )
    return of_level(of_format(command))
