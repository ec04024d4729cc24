"""`quartzpy cron` shows what an expression means and when it fires next."""

from __future__ import annotations

import sys
from datetime import datetime
from typing import TYPE_CHECKING

import click

from quartzpy.cli.exits import USAGE
from quartzpy.errors import InvalidCronError, InvalidValueError
from quartzpy.instants import as_instant
from quartzpy.instants import zone as time_zone

if TYPE_CHECKING:
    from quartzpy.cron_expressions.crontab import CrontabExpression
    from quartzpy.cron_expressions.expression import CronExpression

_CRONTAB_FIELDS = 5


@click.command()
@click.argument("expression")
@click.option("--zone", default="UTC", show_default=True, help="The time zone: Europe/Berlin, +02:00.")
@click.option("-n", "count", default=5, show_default=True, type=click.IntRange(0, 10_000), help="How many times.")
@click.option("--after", help="The times after this instant (ISO 8601); default: now.")
@click.option("--before", help="The times before this instant (ISO 8601), the latest first.")
@click.option(
    "--crontab",
    is_flag=True,
    help="Read six fields as a crontab line that begins with seconds. Five fields and @daily are crontab anyway.",
)
@click.option(
    "--day-or/--day-and",
    default=None,
    help="Where both day fields are given: either must match, or both.",
)
@click.option("--seed", help="What the values of H follow from: the trigger's key, as group.name.")
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
    day_or: bool | None,
    seed: str | None,
    dst: str,
    json_output: bool,
) -> None:
    """Print the next times of a cron EXPRESSION, and its meaning in words.

    `quartzpy cron "0 0/15 9-17 ? * MON-FRI" --zone Europe/Berlin -n 10`

    A note says so where croniter, the library that many other schedulers use, reads a crontab line differently.
    """
    from quartzpy.cron_expressions.croniter_reading import read_otherwise_by_croniter
    from quartzpy.operations.render import json_line

    if after and before:
        raise click.UsageError("--after and --before exclude each other")
    crontab = crontab or expression.lstrip().startswith("@") or len(expression.split()) == _CRONTAB_FIELDS
    try:
        found = _expression(expression, zone, dst, day_or, seed, crontab=crontab)
    except InvalidCronError as error:
        click.echo(f"{error.pointed_out()}", err=True)
        if not crontab and len(expression.split()) == _CRONTAB_FIELDS + 1 and "?" not in expression:
            click.echo("--crontab reads six fields as a crontab line that begins with seconds", err=True)
        sys.exit(USAGE)
    words = found.describe()
    start = _instant(before or after, zone)
    times = _earlier(found, start, count) if before else found.upcoming(start, count)
    if json_output:
        click.echo(json_line({"expression": found.text, "zone": zone, "description": words, "times": times}))
        return
    click.echo(words)
    for at in times:
        local = at.astimezone(time_zone(zone))
        click.echo(f"{local:%a %Y-%m-%d %H:%M:%S %Z}" + ("" if zone == "UTC" else f"   {at:%Y-%m-%dT%H:%M:%SZ}"))
    if len(times) < count:
        click.echo("no times before that" if before else "no further times")
    if crontab and (difference := read_otherwise_by_croniter(expression, day_or=day_or is not False)):
        click.echo(f"note: {difference}", err=True)


def _expression(
    text: str, zone: str, dst: str, day_or: bool | None, seed: str | None, *, crontab: bool
) -> CronExpression | CrontabExpression:
    from quartzpy.cron_expressions.crontab import crontab_expression
    from quartzpy.cron_expressions.expression import cron_expression

    return (crontab_expression if crontab else cron_expression)(text, zone, dst, day_or, seed)


def _instant(text: str | None, zone: str) -> datetime:
    """Return the instant that was given, or now; a time without an offset is in the expression's zone."""
    from quartzpy.clock import SystemClock

    if text is None:
        return SystemClock().now()
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f"{text!r}: an instant such as 2026-03-29T01:00 or 2026-03-29T01:00Z") from None
    return found if found.tzinfo else found.replace(tzinfo=time_zone(zone))


def _earlier(expression: CronExpression | CrontabExpression, start: datetime, count: int) -> list[datetime]:
    times: list[datetime] = []
    at: datetime | None = as_instant(start, "--before", InvalidValueError)
    while len(times) < count and at is not None:
        at = expression.previous_before(at)
        if at is not None:
            times.append(at)
    return times
