"""`quartzpy delete`, `reset` and `reschedule`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from quartzpy.cli import completion
from quartzpy.cli.action import Request, act_on, action_options, perform
from quartzpy.cli.cells import Cells
from quartzpy.cli.exits import USAGE
from quartzpy.cli.filters import JOB_FILTERS, TRIGGER_FILTERS
from quartzpy.cli.keys import trigger_key
from quartzpy.cli.kinds import KindGroup
from quartzpy.cli.listing import print_json, terminal_width
from quartzpy.cli.sheet import Sheet
from quartzpy.cli.show import GROUP_HELP, draw_times
from quartzpy.cli.subjects import Chosen, one, subject_options
from quartzpy.cli.target import Target
from quartzpy.texts import visible

if TYPE_CHECKING:
    from quartzpy.operations.schedule_texts import SchedulePreview


@click.group(cls=KindGroup)
def delete() -> None:
    """Delete jobs with all their triggers, or triggers."""


@delete.command("job")
@action_options
@subject_options(JOB_FILTERS, "JOB")
def delete_job(target: Target, request: Request, chosen: Chosen) -> None:
    """Delete jobs with all their triggers. Executions that are running continue."""
    act_on(target, request, chosen.find, "Delete", "delete", always_asks=True)


@delete.command("trigger")
@action_options
@subject_options(TRIGGER_FILTERS, "TRIGGER")
def delete_trigger(target: Target, request: Request, chosen: Chosen) -> None:
    """Delete triggers, and jobs that are not durable with their last trigger."""
    act_on(target, request, chosen.find, "Delete", "delete", always_asks=True)


@click.command()
@action_options
@subject_options(TRIGGER_FILTERS, "TRIGGER")
def reset(target: Target, request: Request, chosen: Chosen) -> None:
    """Return triggers in ERROR to their schedules.

    Filters select only those in ERROR.
    """
    if chosen.is_by_filters and not chosen.given["state"]:
        chosen.given["state"] = ("ERROR",)
    act_on(target, request, chosen.find, "Reset", "reset")


@click.command()
@action_options
@click.argument("trigger", shell_complete=completion.TRIGGERS)
@click.argument("words", nargs=-1, required=True, metavar="SCHEDULE")
@click.option("--group", help=GROUP_HELP)
@click.option("--zone", help="The time zone of the schedule. [default: that of the trigger]")
@click.pass_context
def reschedule(
    context: click.Context,
    target: Target,
    request: Request,
    trigger: str,
    words: tuple[str, ...],
    group: str | None,
    zone: str | None,
) -> None:
    """Give TRIGGER another SCHEDULE.

    Its data, priority, calendar, end time and pause stay. SCHEDULE is a cron expression ("0 2 * * MON-FRI" or Quartz's
    "0 0 2 ? * MON-FRI"), an interval ("every 15m"), or the instant of a single fire ("2026-12-24T18:00+01:00").
    --dry-run shows its next fire times.
    """
    if len(words) > 1:
        raise click.UsageError(f"Quote the schedule, which has blanks: {context.command_path} {trigger} '...'", context)
    schedule = words[0]
    with target.operations() as operations:
        key = trigger_key(operations.scheduler, trigger, group)
        preview = operations.actions.preview_schedule(schedule, zone, trigger=key)
        if preview.error is not None:
            click.echo(_pointed_at(preview), err=True)
            context.exit(USAGE)
        if request.dry_run and request.json_output:
            print_json(preview)
            return

        def show() -> None:
            sheet = Sheet(Cells(), terminal_width())
            sheet.values({"schedule": schedule, "in words": preview.words})
            draw_times(sheet, preview.next_times)
            click.echo(str(sheet))

        act = operations.actions.reschedule
        perform(
            request,
            "Reschedule",
            one("trigger", key),
            lambda: act(key, schedule, zone, reason=request.reason),
            action="reschedule",
            dry_run=show,
        )


def _pointed_at(preview: SchedulePreview) -> str:
    """Return the error of a schedule, with a mark below the place that is wrong."""
    lines = [f"quartzpy: {visible(str(preview.error))}"]
    if preview.position is not None and preview.text.isprintable():
        lines += [f"  {preview.text}", f"  {' ' * preview.position}^"]
    return "\n".join(lines)
