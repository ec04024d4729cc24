"""`quartzpy triggers` and `quartzpy jobs`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from quartzpy.cli.cells import short_span
from quartzpy.cli.filters import JOB_FILTERS, TRIGGER_FILTERS, Filters, choice
from quartzpy.cli.layout import Column
from quartzpy.cli.listing import Answer, Listing, Options, listing_options, run_listing
from quartzpy.cli.target import Target
from quartzpy.states import TriggerState
from quartzpy.store.queries import TriggerOrder
from quartzpy.texts import numbered

if TYPE_CHECKING:
    from quartzpy.operations.jobs import JobSummary
    from quartzpy.operations.operations import Operations
    from quartzpy.operations.triggers import TriggerSummary

START_A_NODE = "no node is running: start one with `quartzpy node --app MODULE:SCHEDULER`"

TRIGGERS: Listing[TriggerSummary] = Listing(
    (
        Column("trigger", lambda one: one.key, middle=True, readable=28),
        Column("state", lambda one: one.state, rigid=True, is_state=True),
        Column("next", lambda one: one.next_fire_time, rigid=True),
        Column("schedule", lambda one: one.schedule),
        Column("zone", lambda one: one.zone, drop=7),
        Column("job", lambda one: one.job, drop=8, middle=True),
        Column("calendar", lambda one: one.calendar, drop=6),
        Column("previous", lambda one: one.previous_fire_time, drop=5, rigid=True),
        Column("fired", lambda one: one.times_triggered, drop=4, rigid=True, right=True),
        Column("priority", lambda one: one.priority, drop=1, rigid=True, right=True),
        Column("kind", lambda one: one.kind, drop=2),
        Column("misfire", lambda one: one.misfire, drop=3),
        Column("words", lambda one: one.words, extra=True),
        Column("type", lambda one: one.job_type, extra=True, middle=True),
        Column("late", lambda one: one.late, extra=True, rigid=True, right=True),
        Column("paused at", lambda one: one.paused_at, extra=True, rigid=True),
        Column("paused by", lambda one: one.paused_by, extra=True),
        Column("pause reason", lambda one: one.pause_reason, extra=True),
        Column("description", lambda one: one.description, extra=True),
        Column("error", lambda one: one.error, drop=9),
    ),
    ("next", "previous", "paused at"),
)

JOBS: Listing[JobSummary] = Listing(
    (
        Column("job", lambda one: one.key, middle=True, readable=28),
        Column("mode", lambda one: one.mode, rigid=True, is_state=True),
        Column("triggers", lambda one: str(one.triggers), rigid=True, right=True),
        Column("next", lambda one: one.next_fire_time, drop=8, rigid=True),
        Column("previous", lambda one: one.previous_fire_time, drop=6, rigid=True),
        Column("type", lambda one: one.job_type, drop=7, middle=True),
        Column("display name", lambda one: one.display_name, drop=5),
        Column("limit", lambda one: one.max_concurrent, drop=4, rigid=True, right=True),
        Column("timeout", lambda one: one.timeout, drop=3, rigid=True, right=True),
        Column("recovers", lambda one: one.requests_recovery, drop=2, rigid=True),
        Column("durable", lambda one: one.durable, drop=2, rigid=True),
        Column("description", lambda one: one.description, drop=1),
    ),
    ("next", "previous"),
)


@click.command()
@listing_options
@TRIGGER_FILTERS.options
@click.option(
    "--order",
    type=choice(TriggerOrder),
    default=str(TriggerOrder.KEY),
    show_default=True,
    help="key reads only the triggers of the page, next_fire_time all that match.",
)
def triggers(target: Target, options: Options, order: str, **given: Any) -> None:
    """List triggers with their schedules, states and fire times."""
    filters = Filters(TRIGGER_FILTERS, given, options.cells)

    def read(operations: Operations) -> Answer[TriggerSummary]:
        page = operations.triggers(
            limit=options.limit, after=options.after, order_by=order, **filters.values(operations)
        )
        empty = "" if page else filters.nothing(operations)
        return Answer(page, empty, None if options.json_output else _warnings(operations, page))

    run_listing(target, options, TRIGGERS, read)


def _warnings(operations: Operations, page: Sequence[TriggerSummary]) -> str | None:
    """Return what is wrong with triggers of a page: those in ERROR, and those that are overdue."""
    sentences = []
    broken = [one.key for one in page if one.state is TriggerState.ERROR]
    if broken:
        count = numbered(len(broken), "trigger is", "triggers are")
        sentences.append(f"{count} in ERROR: `quartzpy why {broken[0]}` says why")
    late = sorted(((one.late, one.key) for one in page if one.late is not None), reverse=True)
    if late:
        span, key = late[0]
        count = numbered(len(late), "trigger is", "triggers are")
        overdue = f"{count} overdue, {key} for {short_span(span)}"
        is_running = bool(operations.scheduler.nodes().nodes)
        sentences.append(
            f"{overdue}: `quartzpy why {key}` says why" if is_running else f"{overdue}, and {START_A_NODE}"
        )
    return "\n".join(sentences) or None


@click.command()
@listing_options
@JOB_FILTERS.options
def jobs(target: Target, options: Options, **given: Any) -> None:
    """List jobs with their types and options."""
    filters = Filters(JOB_FILTERS, given, options.cells)

    def read(operations: Operations) -> Answer[JobSummary]:
        page = operations.jobs(limit=options.limit, after=options.after, **filters.values(operations))
        return Answer(page, "" if page else filters.nothing(operations))

    run_listing(target, options, JOBS, read)
