"""`quartzpy cron` explains a cron expression and lists its fire times."""

from __future__ import annotations

import sys
from datetime import datetime
from typing import TYPE_CHECKING

import click

from quartzpy.cli.commands import USAGE
from quartzpy.errors import InvalidCronError, InvalidValueError
from quartzpy.instants import as_instant
from quartzpy.instants import zone as time_zone

if TYPE_CHECKING:
    from quartzpy.cron_expressions.crontab import CrontabExpression
    from quartzpy.cron_expressions.expression import CronExpression


@click.command()
@click.argument("expression")
@click.option("--zone", default="UTC", show_default=True, help="The time zone: Europe/Berlin, +02:00.")
@click.option(
    "-n",
    "count",
    default=5,
    show_default=True,
    type=click.IntRange(0, 10_000),
    help="The number of fire times to print.",
)
@click.option("--after", help="Print the times after this instant (ISO 8601). Default: now.")
@click.option("--before", help="Print the times before this instant (ISO 8601), latest first.")
@click.option(
    "--crontab",
    is_flag=True,
    help="Read six fields as a crontab line that starts with seconds. Five fields and @daily are always crontab.",
)
@click.option(
    "--day-or/--day-and",
    default=None,
    help="If both day fields are restricted: either of them must match, or both.",
)
@click.option("--seed", help="The trigger key (GROUP.NAME) from which the values of H are computed.")
@click.option(
    "--dst",
    default="once",
    show_default=True,
    type=click.Choice(["once", "quartz"]),
    help="The rule for times that a daylight saving change skips or repeats.",
)
@click.option("--json", "json_output", is_flag=True, help="Print JSON.")
def cron(
    expression: str,
    zone: str,
    count: int,
    after: str | None,
    before: str | None,
    crontab: bool,
    day_or: bool | None,
    seed: str | None,
    dst: str,
    json_output: bool,
) -> None:
    """Explain a cron EXPRESSION in words, and print its next fire times.

    `quartzpy cron "0 0/15 9-17 ? * MON-FRI" --zone Europe/Berlin -n 10`

    For a crontab line, a note is printed if croniter, a library that many other schedulers use, gives other times.
    """
    from quartzpy.cron_expressions.croniter_reading import read_otherwise_by_croniter
    from quartzpy.cron_expressions.crontab import FIELDS, is_crontab
    from quartzpy.operations.render import json_line

    if after and before:
        raise click.UsageError("--after and --before cannot be used together")
    crontab = crontab or is_crontab(expression)
    try:
        reading = _expression(expression, zone, dst, day_or, seed, crontab=crontab)
    except InvalidCronError as error:
        click.echo(f"{error.pointed_out()}", err=True)
        if not crontab and len(expression.split()) == FIELDS + 1 and "?" not in expression:
            click.echo("use --crontab to read six fields as a crontab line that starts with seconds", err=True)
        sys.exit(USAGE)
    words = reading.describe()
    start = _instant(before or after, zone)
    times = _earlier(reading, start, count) if before else reading.upcoming(start, count)
    if json_output:
        click.echo(json_line({"expression": reading.text, "zone": zone, "description": words, "times": times}))
        return
    click.echo(words)
    for at in times:
        local = at.astimezone(time_zone(zone))
        click.echo(f"{local:%a %Y-%m-%d %H:%M:%S %Z}" + ("" if zone == "UTC" else f"   {at:%Y-%m-%dT%H:%M:%SZ}"))
    if len(times) < count:
        click.echo("no earlier times" if before else "no further times")
    if crontab and (difference := read_otherwise_by_croniter(expression, day_or=day_or is not False)):
        click.echo(f"note: {difference}", err=True)


def _expression(
    text: str, zone: str, dst: str, day_or: bool | None, seed: str | None, *, crontab: bool
) -> CronExpression | CrontabExpression:
    from quartzpy.cron_expressions.crontab import crontab_expression
    from quartzpy.cron_expressions.expression import cron_expression

    return (crontab_expression if crontab else cron_expression)(text, zone, dst, day_or, seed)


def _instant(text: str | None, zone: str) -> datetime:
    """Parse an instant; the default is now. A time without an offset is in the zone of the expression."""
    from quartzpy.clock import SystemClock

    if text is None:
        return SystemClock().now()
    try:
        reading = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(
            f"{text!r}: must be an instant such as 2026-03-29T01:00 or 2026-03-29T01:00Z"
        ) from None
    return reading if reading.tzinfo else reading.replace(tzinfo=time_zone(zone))


def _earlier(expression: CronExpression | CrontabExpression, start: datetime, count: int) -> list[datetime]:
    times: list[datetime] = []
    at: datetime | None = as_instant(start, "--before", InvalidValueError)
    while len(times) < count and at is not None:
        at = expression.previous_before(at)
        if at is not None:
            times.append(at)
    return times
