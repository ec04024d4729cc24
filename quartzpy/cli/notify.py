"""`quartzpy notify`: whether notifications arrive."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Any

import click

from quartzpy.cli.target import Target, scheduler_options


@click.group()
def notify() -> None:
    """Try the channels that are told of incidents."""


@notify.command()
@scheduler_options
@click.argument("channel", required=False)
def test(target: Target, channel: str | None) -> None:
    """Send a test message to CHANNEL, or to all channels, and say what happened.

    This process sends it, by the settings that it finds (notify_channels), and needs no database. Exit status: 0 if
    all were delivered, 1 if one was not.
    """
    from quartzpy.clock import SystemClock
    from quartzpy.config.config import SchedulerConfig
    from quartzpy.config.sources import CONFIG_FILE
    from quartzpy.errors import SettingsError
    from quartzpy.keys import unique_name
    from quartzpy.operations.delivery import send
    from quartzpy.outgoing import OutgoingError
    from quartzpy.texts import did_you_mean

    config = SchedulerConfig.of(target.settings(target.name or SchedulerConfig.name))
    channels = config.channels
    if not channels:
        raise SettingsError(
            f"notify_channels is not set: write it into {CONFIG_FILE}, or set QUARTZPY_NOTIFY_CHANNELS=ops=env:OPS_URL"
        )
    if channel is not None and channel not in channels:
        raise SettingsError(f"there is no channel {channel!r}; {did_you_mean(channel, channels, 'channels')}")
    failed = False
    for name in channels if channel is None else [channel]:
        try:
            number = unique_name()
            answer = send(channels[name], _message(config.name, number, SystemClock().now()), number)
        except OutgoingError as error:
            failed = True
            click.echo(f"{name}: not delivered: {error}")
        else:
            click.echo(f"{name}: delivered ({answer})")
    sys.exit(1 if failed else 0)


def _message(scheduler: str, notification_id: str, now: datetime) -> dict[str, Any]:
    return {
        "type": "test",
        "id": notification_id,
        "timestamp": now.astimezone(UTC).isoformat(),
        "scheduler": scheduler,
        "severity": "info",
        "kind": "test",
        "title": f"[{scheduler}] A test of quartzpy's notifications",
        "text": "Nothing is wrong: somebody wants to know if notifications arrive here.",
        "number": 0,
        "incidents": [],
        "more": 0,
    }
