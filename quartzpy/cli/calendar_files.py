"""`quartzpy refresh`: a calendar from a file or a library, whose difference is shown before it is taken."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from quartzpy.cli.commands import NOT_OK
from quartzpy.cli.listing import print_json
from quartzpy.cli.target import Target, scheduler_options
from quartzpy.errors import InvalidValueError
from quartzpy.texts import visible

if TYPE_CHECKING:
    from quartzpy.operations.actions.calendar_changes import CalendarDifference

_MAX_SHOWN = 50


def _years(_ctx: click.Context, _option: click.Parameter, value: str) -> str:
    from quartzpy.operations.actions.calendar_changes import CalendarSource

    try:
        CalendarSource(value, country="").range_of_years()
    except InvalidValueError as error:
        raise click.BadParameter(str(error)) from None
    return value


@click.command()
@scheduler_options
@click.argument("calendar_name", metavar="CALENDAR")
@click.option("--ics", type=click.Path(path_type=Path), help="A file of iCalendar events (RFC 5545).")
@click.option("--exchange", help="The code of an exchange, XNYS (extra exchanges).")
@click.option("--country", help="The code of a country, DE, or of a part of it, DE-BY (extra holidays).")
@click.option("--years", required=True, callback=_years, help="The years to replace: 2027 or 2027-2029.")
@click.option("--zone", help="The time zone of the calendar. [default: that of the stored one, or UTC]")
@click.option("--weekends", is_flag=True, help="Exclude Saturdays and Sundays as well, in a new calendar.")
@click.option("--apply", "applies", is_flag=True, help="Store the calendar; without it, the difference is only shown.")
@click.option("--update-triggers", is_flag=True, help="Also compute the next fire times of its triggers again.")
@click.option("--reason", default="", help="The reason, for the audit log.")
@click.option("--exit-code", is_flag=True, help="Exit with status 1 if there is a difference.")
@click.option("--json", "json_output", is_flag=True, help="Print JSON.")
def refresh(
    target: Target,
    calendar_name: str,
    ics: Path | None,
    exchange: str | None,
    country: str | None,
    years: str,
    zone: str | None,
    weekends: bool,
    applies: bool,
    update_triggers: bool,
    reason: str,
    exit_code: bool,
    json_output: bool,
) -> None:
    """Show how CALENDAR would change, and store it with --apply.

    The dates come from a file (--ics), an exchange or a country. They replace those of the given years; other years,
    and the calendars below it, stay. The change is recorded in the audit log.
    """
    if [ics, exchange, country].count(None) != 2:
        raise click.UsageError("give one of --ics, --exchange and --country")
    source = (years, exchange, country, None if ics is None else _text_of(ics), zone, weekends)
    with target.operations() as operations:
        difference = operations.actions.preview_calendar(calendar_name, *source)
        if json_output:
            print_json(_json(difference, applied=bool(difference) and applies))
        else:
            _print(difference)
        if difference and applies:
            operations.actions.refresh_calendar(calendar_name, *source, update_triggers=update_triggers, reason=reason)
            if not json_output:
                click.echo(f"stored: calendar {visible(calendar_name)}")
                click.echo(
                    "if a file declares this calendar, write the dates there too: the next apply stores its own",
                    err=True,
                )
    if difference and exit_code:
        sys.exit(NOT_OK)


def _text_of(ics: Path) -> bytes:
    from quartzpy.ics import MAX_CHARACTERS

    try:
        with ics.open("rb") as file:
            return file.read(MAX_CHARACTERS + 1)
    except OSError as error:
        raise click.FileError(str(ics), error.strerror or str(error)) from error


def _print(difference: CalendarDifference) -> None:
    name = visible(difference.name)
    if not difference:
        click.echo(f"nothing to change in calendar {name}")
        return
    click.echo(f"{'+' if difference.is_new else '~'} calendar {name}")
    lines = [
        *(f"+ {day.isoformat()} {day:%A}" for day in difference.days_added),
        *(f"- {day.isoformat()} {day:%A}" for day in difference.days_removed),
        *(f"+ {start.isoformat()} to {end.isoformat()}" for start, end in difference.spans_added),
        *(f"- {start.isoformat()} to {end.isoformat()}" for start, end in difference.spans_removed),
    ]
    for line in lines[:_MAX_SHOWN]:
        click.echo(f"    {line}")
    if len(lines) > _MAX_SHOWN:
        click.echo(f"    and {len(lines) - _MAX_SHOWN:,} more; --json has them all")
    if difference.changes_layers and not difference.is_new:
        click.echo("    ~ its time zone, description or base")
    for moved in difference.moved[:_MAX_SHOWN]:
        before, after = (at.isoformat() if at else "no fire" for at in (moved.before, moved.after))
        click.echo(f"  trigger {visible(str(moved.key))}: {before} -> {after}")
    if difference.moved:
        click.echo("  their next fire times move with --update-triggers, and otherwise after the next fire")
    click.echo(
        f"{difference.added:,} to add, {difference.removed:,} to remove; {len(difference.moved):,} triggers move"
    )


def _json(difference: CalendarDifference, *, applied: bool) -> dict[str, object]:
    return {
        "calendar": difference.name,
        "is_new": difference.is_new,
        "days_added": [day.isoformat() for day in difference.days_added],
        "days_removed": [day.isoformat() for day in difference.days_removed],
        "spans_added": [[each.isoformat() for each in span] for span in difference.spans_added],
        "spans_removed": [[each.isoformat() for each in span] for span in difference.spans_removed],
        "changes_layers": difference.changes_layers,
        "triggers": [
            {
                "key": str(moved.key),
                "before": None if moved.before is None else moved.before.isoformat(),
                "after": None if moved.after is None else moved.after.isoformat(),
            }
            for moved in difference.moved
        ],
        "has_more_triggers": difference.has_more_triggers,
        "applied": applied,
    }
