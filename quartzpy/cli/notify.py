"""`quartzpy notify`: whether notifications arrive."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from quartzpy.cli.target import EMBEDDED, Target, scheduler_options
from quartzpy.config.setting_names import URL

if TYPE_CHECKING:
    from quartzpy.config.notifying import Channel
from quartzpy.config.sources import CONFIG_VARIABLE
from quartzpy.texts import numbered


@click.group()
def notify() -> None:
    """Try the channels that are told of incidents."""


@notify.command()
@scheduler_options
@click.argument("channel", required=False)
def test(target: Target, channel: str | None) -> None:
    """Send a test message to CHANNEL, or to all channels, and say what happened.

    This process sends it, by the settings that it finds (notify_channels). Nodes tell of incidents by their own: if a
    database is selected, the line names the live nodes that have the channel. Exit status: 0 if all were delivered, 1
    if one was not, or if no live node has it.
    """
    from quartzpy.clock import SystemClock
    from quartzpy.config.config import SchedulerConfig
    from quartzpy.config.sources import CONFIG_FILE
    from quartzpy.errors import SettingsError
    from quartzpy.keys import unique_name
    from quartzpy.operations.telling.delivery import send
    from quartzpy.outgoing import OutgoingError
    from quartzpy.texts import did_you_mean

    config = SchedulerConfig.of(target.settings(target.name or SchedulerConfig.name))
    channels = config.channels or _of_schedule_file(target)
    nodes = _nodes_by_channel(target) if target.has_database else None
    if not channels:
        theirs = "".join(
            f"; {', '.join(names)} has the channel {name}" for name, names in sorted((nodes or {}).items())
        )
        raise SettingsError(
            f"notify_channels is not set: write it into {CONFIG_FILE}, or set QUARTZPY_NOTIFY_CHANNELS=ops=env:OPS_URL"
            f"{theirs}"
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
            failed |= nodes is not None and not nodes.get(name)
            click.echo(f"{name}: delivered ({answer}){_told_by(name, nodes)}")
    sys.exit(1 if failed else 0)


def _of_schedule_file(target: Target) -> Mapping[str, Channel]:
    """Return the channels of the file that `quartzpy serve` runs in the selected directory, if there is one."""
    from quartzpy.config.config import SchedulerConfig
    from quartzpy.embedded.schedule_server import accepted_schedule

    url = str(target.values.get(URL) or "")
    schedule = accepted_schedule(Path(url.removeprefix(EMBEDDED))) if url.startswith(EMBEDDED) else None
    channels = {} if schedule is None else schedule.at_start.get("notify_channels", {})
    return SchedulerConfig(notify_channels=channels).channels


def _nodes_by_channel(target: Target) -> dict[str, list[str]]:
    """Return the live nodes that have each channel, as their rows say it."""
    from quartzpy.config.notifying import CHANNEL_LABEL

    nodes: dict[str, list[str]] = {}
    with target.client() as scheduler:
        for node in scheduler._usable_store().list_nodes().alive():
            for label in node.capabilities.labels:
                if label.startswith(CHANNEL_LABEL):
                    nodes.setdefault(label.removeprefix(CHANNEL_LABEL), []).append(node.instance_id)
    return nodes


def _told_by(channel: str, nodes: dict[str, list[str]] | None) -> str:
    if nodes is None:
        return " by this process. Whether nodes have this channel, --url says"
    if names := nodes.get(channel):
        return f"; {numbered(len(names), 'live node has', 'live nodes have')} this channel: {', '.join(sorted(names))}"
    return (
        " by this process, but NO LIVE NODE HAS THIS CHANNEL, so nobody is told of an incident there. Start the nodes"
        f" with the same settings: `quartzpy node --config FILE`, or {CONFIG_VARIABLE}=FILE for a program that makes"
        " its scheduler by Scheduler.from_config()"
    )


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
