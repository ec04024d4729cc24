"""`quartzpy reschedule`, which shows what its schedule means before it is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from quartzpy.cli.action import Request, act_on
from quartzpy.cli.cells import Cells
from quartzpy.cli.exits import USAGE
from quartzpy.cli.listing import print_json, terminal_width
from quartzpy.cli.sheet import Sheet
from quartzpy.cli.show import draw_times
from quartzpy.cli.subjects import Find
from quartzpy.cli.target import Target
from quartzpy.texts import visible

if TYPE_CHECKING:
    from quartzpy.operations.actions.action import Action
    from quartzpy.operations.schedules import SchedulePreview


@click.argument("text", nargs=-1, required=True, metavar="SCHEDULE")
@click.option("--zone", help="The time zone of the schedule. [default: that of the trigger]")
def reschedule(
    action: Action, target: Target, request: Request, find: Find, *, text: tuple[str, ...], zone: str | None
) -> None:
    """Show the schedule or its error, and give it to the trigger."""
    context = click.get_current_context()
    if len(text) > 1:
        typed = context.params["trigger"]
        raise click.UsageError(f"Quote the schedule, which has blanks: {context.command_path} {typed} '...'", context)
    [schedule] = text
    with target.operations() as operations:
        trigger = find(operations)
        preview = operations.actions.preview_schedule(schedule, zone, trigger=trigger.selected)
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

        act_on(operations, action, request, trigger, {"text": schedule, "zone": zone}, dry_run=show)


def _pointed_at(preview: SchedulePreview) -> str:
    """Return the error of a schedule, with a mark below the place that is wrong."""
    lines = [f"quartzpy: {visible(str(preview.error))}"]
    if preview.position is not None and preview.text.isprintable():
        lines += [f"  {preview.text}", f"  {' ' * preview.position}^"]
    return "\n".join(lines)
