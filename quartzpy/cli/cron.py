"""`quartzpy cron`: what an expression means, and when it fires next."""

from __future__ import annotations

import sys
from datetime import datetime
from typing import TYPE_CHECKING

import click

from quartzpy.cli.exits import USAGE
from quartzpy.errors import InvalidCronError, InvalidValueError
from quartzpy.instants import as_instant

if TYPE_CHECKING:
    from quartzpy.cron_expressions.crontab import CrontabExpression
    from quartzpy.cron_expressions.expression import CronExpression


@click.command()
@click.argument("expression")
@click.option("--zone", default="UTC", show_default=True, help="The IANA time zone: Europe/Berlin.")
@click.option("-n", "count", default=5, show_default=True, type=click.IntRange(0, 10_000), help="How many times.")
@click.option("--after", help="The times after this instant (ISO 8601); default: now.")
@click.option("--before", help="The times before this instant (ISO 8601), the latest first.")
@click.option("--crontab", is_flag=True, help="Read it as a crontab line: five fields, six with seconds, or @daily.")
@click.option(
    "--dst",
    default="once",
    show_default=True,
    type=click.Choice(["once", "quartz"]),
    help="What becomes of times that the change of the clock leaps over or repeats.",
)
@click.option("--json", "json_output", is_flag=True, help="Print JSON.")
def cron(
    expression: str,
    zone: str,
    count: int,
    after: str | None,
    before: str | None,
    crontab: bool,
    dst: str,
    json_output: bool,
) -> None:
    """Print the next times of a cron EXPRESSION, and what it means in words.

    `quartzpy cron "0 0/15 9-17 ? * MON-FRI" --zone Europe/Berlin -n 10`
    """
    from quartzpy.operations.render import json_line

    if after and before:
        raise click.UsageError("--after and --before exclude each other")
    try:
        found = _expression(expression, zone, dst, crontab=crontab)
    except InvalidCronError as error:
        click.echo(f"{error.pointed_out()}", err=True)
        if not crontab and len(expression.split()) == 5:
            click.echo("a line of five fields is read with --crontab", err=True)
        sys.exit(USAGE)
    words = found.describe() if hasattr(found, "describe") else f"crontab {found.text} ({zone})"
    times = _earlier(found, _instant(before, zone), count) if before else _later(found, _instant(after, zone), count)
    if json_output:
        click.echo(json_line({"expression": found.text, "zone": zone, "description": words, "times": times}))
        return
    click.echo(words)
    from zoneinfo import ZoneInfo

    for at in times:
        local = at.astimezone(ZoneInfo(zone))
        click.echo(f"{local:%a %Y-%m-%d %H:%M:%S %Z}" + ("" if zone == "UTC" else f"   {at:%Y-%m-%dT%H:%M:%SZ}"))
    if len(times) < count:
        click.echo("no times before that" if before else "no further times")


def _expression(text: str, zone: str, dst: str, *, crontab: bool) -> CronExpression | CrontabExpression:
    from quartzpy.cron_expressions.crontab import CrontabExpression
    from quartzpy.cron_expressions.expression import CronExpression
    from quartzpy.cron_expressions.schedule import DaylightSaving

    return CrontabExpression(text, zone) if crontab else CronExpression(text, zone, DaylightSaving(dst))


def _instant(text: str | None, zone: str) -> datetime:
    """The instant that was given; a time without an offset is in the expression's zone."""
    from zoneinfo import ZoneInfo

    from quartzpy.clock import SystemClock

    if text is None:
        return SystemClock().now()
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f"{text!r}: an instant such as 2026-03-29T01:00 or 2026-03-29T01:00Z") from None
    return found if found.tzinfo else found.replace(tzinfo=ZoneInfo(zone))


def _later(expression: CronExpression | CrontabExpression, start: datetime, count: int) -> list[datetime]:
    return expression.upcoming(start, count)


def _earlier(expression: CronExpression | CrontabExpression, start: datetime, count: int) -> list[datetime]:
    times: list[datetime] = []
    at: datetime | None = as_instant(start, "--before", InvalidValueError)
    while len(times) < count and at is not None:
        at = expression.previous_before(at)
        if at is not None:
            times.append(at)
    return times
