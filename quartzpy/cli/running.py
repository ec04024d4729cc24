"""`quartzpy trigger`, `cancel`, `run-again` and `backfill`: executions that an operator starts or stops."""

from __future__ import annotations

import sys
import threading
from datetime import datetime
from typing import TYPE_CHECKING

import click

from quartzpy.cli import completion
from quartzpy.cli.action import Request, act_on, action_options, parsed_data, perform
from quartzpy.cli.cells import LOCAL, Cells
from quartzpy.cli.exits import NOT_OK, NOTHING_MATCHED
from quartzpy.cli.filters import EXECUTION_FILTERS
from quartzpy.cli.instants import instant
from quartzpy.cli.keys import job_key, trigger_key
from quartzpy.cli.show import GROUP_HELP
from quartzpy.cli.subjects import SHOWN, Chosen, Subjects, one, subject_options
from quartzpy.cli.target import Target
from quartzpy.errors import SettingsError
from quartzpy.instants import as_span
from quartzpy.states import ENDED, ExecutionState
from quartzpy.texts import numbered

if TYPE_CHECKING:
    from quartzpy.keys import TriggerKey
    from quartzpy.operations.operations import Operations
    from quartzpy.operations.results import ActionResult

_POLL_SECONDS = 0.25
_RUNNING = frozenset({ExecutionState.ENQUEUED, ExecutionState.PROCESSING})

_even_if_paused = click.option(
    "--even-if-paused", is_flag=True, help="Store the run also where a pause delays it until it is resumed."
)


@click.command()
@action_options
@click.argument("job", shell_complete=completion.JOBS)
@click.option("--group", help=GROUP_HELP)
@click.option("--data", help="Job data for this run: a JSON object, or @FILE.")
@click.option("--wait", "timeout", help="Wait up to this time for the run to end; its failure is exit status 1.")
@_even_if_paused
def trigger(
    target: Target,
    request: Request,
    job: str,
    group: str | None,
    data: str | None,
    timeout: str | None,
    even_if_paused: bool,
) -> None:
    """Run JOB now, outside its schedule.

    JOB is GROUP.NAME, or NAME for the group DEFAULT.
    """
    given = parsed_data(data)
    seconds = None if timeout is None else as_span(timeout, "--wait", SettingsError).total_seconds()
    with target.operations() as operations:
        key = job_key(operations.scheduler, job, group)
        done: list[ActionResult] = []

        def act() -> ActionResult:
            done.append(operations.actions.trigger(key, given, even_if_paused=even_if_paused, reason=request.reason))
            return done[0]

        perform(request, "Run", one("job", key), act, action="trigger")
        if done and seconds is not None:
            _wait(operations, done[0].keys[0], seconds)


def _wait(operations: Operations, key: TriggerKey, seconds: float) -> None:
    """Wait until the run has ended, and print its outcome. Exit with an error unless it succeeded."""
    pause = threading.Event()
    for _ in range(max(1, round(seconds / _POLL_SECONDS))):
        found = operations.executions(trigger=key, limit=1)
        if found:
            ended = found[0]
            error = f": {ended.error}" if ended.error else ""
            click.echo(f"execution {ended.fire_id} {ended.state}{error}", err=True)
            if ended.state is not ExecutionState.SUCCEEDED:
                sys.exit(NOT_OK)
            return
        pause.wait(_POLL_SECONDS)
    click.echo(f"trigger {key} has not ended within {seconds:g}s", err=True)
    sys.exit(NOT_OK)


@click.command()
@action_options
@subject_options(EXECUTION_FILTERS, "FIRE_ID")
def cancel(target: Target, request: Request, chosen: Chosen) -> None:
    """Ask running executions to stop.

    They may run on any node. Filters select only those that are running.
    """
    if chosen.is_by_filters:
        states = chosen.given["state"]
        if ENDED & set(states):
            raise click.UsageError("--state: only executions that are ENQUEUED or PROCESSING can be cancelled")
        chosen.given["state"] = states or tuple(sorted(_RUNNING))
    act_on(target, request, chosen.find, "Cancel", "cancel")


@click.command("run-again")
@action_options
@_even_if_paused
@subject_options(EXECUTION_FILTERS, "FIRE_ID")
def run_again(target: Target, request: Request, chosen: Chosen, even_if_paused: bool) -> None:
    """Run executions that have ended once more.

    Each runs with the data of the first run.
    """
    act_on(target, request, chosen.find, "Run again", "run_again", even_if_paused=even_if_paused)


@click.command()
@action_options
@click.argument("trigger", shell_complete=completion.TRIGGERS)
@click.option("--group", help=GROUP_HELP)
@click.option("--from", "start", required=True, help="The earliest fire time: an instant, or a length of time ago.")
@click.option("--until", "end", default="now", show_default=True, help="The fire times are before this instant.")
@click.option("--max-runs", type=click.IntRange(1), default=1000, show_default=True, help="Refuse more runs than this.")
@click.option("--zone", default=LOCAL, help="The time zone of the instants. [default: that of this machine]")
@_even_if_paused
def backfill(
    target: Target,
    request: Request,
    trigger: str,
    group: str | None,
    start: str,
    end: str,
    max_runs: int,
    zone: str,
    even_if_paused: bool,
) -> None:
    """Run past fire times of TRIGGER.

    Its job runs once for each instant of the schedule in a range. TRIGGER is GROUP.NAME, or NAME for the group DEFAULT.
    """
    cells = Cells(zone)
    with target.operations() as operations:
        key = trigger_key(operations.scheduler, trigger, group)
        now = operations.now()
        first, last = instant(start, "--from", cells, now), instant(end, "--until", cells, now)
        assert first is not None
        assert last is not None
        times: list[datetime] = operations.actions.backfill_times(key, first, last, max_runs=max_runs)
        if not times:
            click.echo(f"trigger {key} has no fire time in this range", err=True)
            sys.exit(NOTHING_MATCHED)
        shown = ", ".join(cells.text(at) for at in times[:SHOWN])
        more = f" and {numbered(len(times) - SHOWN, 'other', 'others')}" if len(times) > SHOWN else ""
        fires = numbered(len(times), "fire time", "fire times")
        words = f"{fires} of trigger {key}: {shown}{more}"
        found = Subjects(key, "trigger", len(times), shown.split(", "), named=len(times) == 1, words=words)

        def act() -> ActionResult:
            return operations.actions.backfill(
                key, first, last, max_runs=max_runs, even_if_paused=even_if_paused, reason=request.reason
            )

        perform(request, "Run the job for", found, act, action="backfill")
