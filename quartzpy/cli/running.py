"""`quartzpy trigger`, which can wait for the run, and `backfill`, which names the fire times before it asks."""

from __future__ import annotations

import sys
import threading
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from quartzpy.cli.action import Request, act_on
from quartzpy.cli.cells import LOCAL, Cells
from quartzpy.cli.exits import NOT_OK, NOTHING_MATCHED
from quartzpy.cli.instants import instant
from quartzpy.cli.subjects import SHOWN, Find, Subjects
from quartzpy.cli.target import Target
from quartzpy.errors import SettingsError
from quartzpy.instants import as_span
from quartzpy.states import ExecutionState
from quartzpy.texts import numbered

if TYPE_CHECKING:
    from quartzpy.keys import TriggerKey
    from quartzpy.operations.actions.action import Action
    from quartzpy.operations.operations import Operations

_POLL_SECONDS = 0.25


@click.option("--wait", "timeout", help="Wait up to this time for the run to end; its failure is exit status 1.")
def run_and_wait(
    action: Action, target: Target, request: Request, find: Find, *, timeout: str | None, **values: Any
) -> None:
    """Run a job, and wait for the end of the run if the options say so."""
    seconds = None if timeout is None else as_span(timeout, "--wait", SettingsError).total_seconds()
    with target.operations() as operations:
        result = act_on(operations, action, request, find(operations), values)
        if result is not None and seconds is not None:
            _wait(operations, result.keys[0], seconds)


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


@click.option("--from", "start", required=True, help="The earliest fire time: an instant, or a length of time ago.")
@click.option("--until", "end", default="now", show_default=True, help="The fire times are before this instant.")
@click.option("--zone", default=LOCAL, help="The time zone of the instants. [default: that of this machine]")
def backfill(
    action: Action,
    target: Target,
    request: Request,
    find: Find,
    *,
    start: str,
    end: str,
    zone: str,
    max_runs: int,
    even_if_paused: bool,
) -> None:
    """Run the job of a trigger for the fire times in a range, which the question and a dry run name."""
    cells = Cells(zone)
    with target.operations() as operations:
        key = find(operations).selected
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
        subjects = Subjects(key, "trigger", len(times), shown.split(", "), named=len(times) == 1, words=words)
        values = {"start": first, "end": last, "max_runs": max_runs, "even_if_paused": even_if_paused}
        act_on(operations, action, request, subjects, values)
