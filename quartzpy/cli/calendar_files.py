"""`quartzpy refresh`: a calendar from a file or a library, whose difference is shown before it is taken."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from quartzpy.cli.commands import NOT_OK
from quartzpy.cli.listing import print_json
from quartzpy.cli.target import Target, scheduler_options
from quartzpy.texts import visible

if TYPE_CHECKING:
    from quartzpy.calendars.calendar import Calendar
    from quartzpy.calendars.days import HolidayCalendar
    from quartzpy.operations.calendar_changes import CalendarDifference

_YEARS = re.compile(r"([0-9]{4})(?:-([0-9]{4}))?", re.ASCII)
_MOST_SHOWN = 50


def _years(_ctx: click.Context, _option: click.Parameter, value: str) -> range:
    match = _YEARS.fullmatch(value)
    if match is None or int(match[1]) > int(match[2] or match[1]):
        raise click.BadParameter(f"such as 2027 or 2027-2029 (got {value!r})")
    return range(int(match[1]), int(match[2] or match[1]) + 1)


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
    years: range,
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
    from quartzpy.operations import calendar_changes

    if [ics, exchange, country].count(None) != 2:
        raise click.UsageError("give one of --ics, --exchange and --country")
    with target.operations() as operations:
        stored = operations.scheduler.get_calendar(calendar_name)
        place = zone or str(getattr(stored, "time_zone", "UTC"))
        source = _source(ics, exchange, country, years, place)
        calendar = calendar_changes.refreshed(_with_weekends(stored, place, weekends), source, years)
        difference = calendar_changes.difference(operations.scheduler, calendar_name, calendar)
        if json_output:
            print_json(_json(difference, applied=bool(difference) and applies))
        else:
            _print(difference)
        if difference and applies:
            operations.actions.refresh_calendar(calendar_name, calendar, update_triggers=update_triggers, reason=reason)
            if not json_output:
                click.echo(f"stored: calendar {visible(calendar_name)}")
    if difference and exit_code:
        sys.exit(NOT_OK)


def _with_weekends(stored: Calendar | None, place: str, weekends: bool) -> Calendar | None:
    if stored is not None or not weekends:
        return stored
    from quartzpy.calendars.days import HolidayCalendar, WeeklyCalendar

    return HolidayCalendar(time_zone=place, base=WeeklyCalendar(time_zone=place))


def _source(ics: Path | None, exchange: str | None, country: str | None, years: range, place: str) -> HolidayCalendar:
    from quartzpy.calendars.days import HolidayCalendar

    if ics is not None:
        from quartzpy.ics import MAX_CHARACTERS, calendar_from_ics

        try:
            with ics.open("rb") as file:
                text = file.read(MAX_CHARACTERS + 1)
        except OSError as error:
            raise click.FileError(str(ics), error.strerror or str(error)) from error
        return calendar_from_ics(text, years=years, time_zone=place)
    if exchange is not None:
        return HolidayCalendar.exchange(exchange, years=years, time_zone=place)
    code, _, part = str(country).partition("-")
    return HolidayCalendar.country(code, subdiv=part or None, years=years, time_zone=place)


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
    for line in lines[:_MOST_SHOWN]:
        click.echo(f"    {line}")
    if len(lines) > _MOST_SHOWN:
        click.echo(f"    and {len(lines) - _MOST_SHOWN:,} more; --json has them all")
    if difference.changes_layers and not difference.is_new:
        click.echo("    ~ its time zone, description or base")
    for moved in difference.moved[:_MOST_SHOWN]:
        before, after = (at.isoformat() if at else "no fire" for at in (moved.before, moved.after))
        click.echo(f"  trigger {visible(str(moved.key))}: {before} -> {after}")
    if difference.moved:
        click.echo("  their next fire times move with --update-triggers, and otherwise after the next fire")
    added = len(difference.days_added) + len(difference.spans_added)
    removed = len(difference.days_removed) + len(difference.spans_removed)
    click.echo(f"{added:,} to add, {removed:,} to remove; {len(difference.moved):,} triggers move")


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
