"""`quartzpy tail`: the events of the whole cluster, as they happen."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from quartzpy.cli.filters import choice
from quartzpy.cli.formatter import LOCAL, Formatter, cut, faint, short_span, styled
from quartzpy.cli.keys import job_key
from quartzpy.cli.listing import print_json, suppressed_interrupt, terminal_width
from quartzpy.cli.target import Target, scheduler_options
from quartzpy.states import ENDED
from quartzpy.texts import error_summary, visible

if TYPE_CHECKING:
    from quartzpy.scheduler.cluster_events import ClusterEvent, ClusterEvents

_NOTICE_AFTER = 0.5
"""The time, in seconds, after which an outage of the database is noticed."""
_STARTED = "STARTED"
_WORDS = 10
"""The width of the longest word for an event: SUCCEEDED, TERMINATED."""


@click.command()
@scheduler_options
@click.option("--job", help="Only executions of this job: GROUP.NAME.")
@click.option("--node", help="Only events of this node.")
@click.option("--state", multiple=True, type=choice(sorted(ENDED)), help="Only ends with this outcome; repeatable.")
@click.option("--ends", is_flag=True, help="Only the ends of executions.")
@click.option("--count", type=click.IntRange(1), help="Stop after this number of events.")
@click.option("--zone", default=LOCAL, help="The time zone of the output. [default: that of this machine]")
@click.option("--json", "json_output", is_flag=True, help="Print one JSON object per line.")
def tail(
    target: Target,
    job: str | None,
    node: str | None,
    state: tuple[str, ...],
    ends: bool,
    count: int | None,
    zone: str,
    json_output: bool,
) -> None:
    """Print the events of the cluster as they happen.

    It ends at Ctrl-C. The events are starts and ends of executions, and nodes that join and leave.
    """
    from quartzpy.scheduler.cluster_events import ExecutionEnded, ExecutionStarted, NodeJoined, NodeLeft

    formatter = Formatter(zone)

    def is_wanted(event: ClusterEvent) -> bool:
        if isinstance(event, NodeJoined | NodeLeft):
            return not (ends or state or key is not None) and node in (None, event.node.instance_id)
        assert isinstance(event, ExecutionStarted | ExecutionEnded)
        record = event.execution
        if isinstance(event, ExecutionStarted) and (ends or state):
            return False
        return (
            key in (None, record.job_key)
            and node in (None, record.instance_id)
            and (not state or (isinstance(event, ExecutionEnded) and event.execution.state in state))
        )

    with target.client() as scheduler, suppressed_interrupt():
        key = None if job is None else job_key(scheduler, job)
        click.echo(faint(f"the events of the scheduler {scheduler.name!r}; times in {formatter.zone_name}"), err=True)
        printed = 0
        with scheduler.cluster_events() as events:
            for event in _with_outages(events):
                if not is_wanted(event):
                    continue
                if json_output:
                    print_json(as_object(event), indent=False)
                else:
                    click.echo(line(event, formatter))
                sys.stdout.flush()
                printed += 1
                if printed == count:
                    return


def _with_outages(events: ClusterEvents) -> Iterator[ClusterEvent]:
    """Yield the events, and say on standard error when the database goes away and when it is back."""
    is_away = False
    while True:
        event = events.next(_NOTICE_AFTER)
        if (events.outage is not None) != is_away:
            is_away = events.outage is not None
            said = (
                f"the database is unavailable: {visible(str(events.outage))}; waiting for it"
                if is_away
                else "it is back"
            )
            click.echo(faint(said), err=True)
        if event is not None:
            yield event


def as_object(event: ClusterEvent) -> dict[str, Any]:
    """Return an event as JSON shows it."""
    from quartzpy.operations.views.executions import summary
    from quartzpy.scheduler.cluster_events import ExecutionEnded, ExecutionStarted, NodeJoined

    if isinstance(event, ExecutionEnded):
        return {"event": "ended", "execution": summary(event.execution)}
    if isinstance(event, ExecutionStarted):
        record = event.execution
        return {
            "event": "started",
            "execution": {
                "fire_id": record.fire_id,
                "job": record.job_key,
                "trigger": record.trigger_key,
                "node": record.instance_id,
                "attempt": record.attempt,
                "scheduled_fire_time": record.scheduled_fire_time,
                "fire_time": record.fire_time,
            },
        }
    node = event.node  # type: ignore[attr-defined]
    word = "joined" if isinstance(event, NodeJoined) else "left"
    return {"event": word, "node": node.instance_id, "host": node.host, "pid": node.pid, "epoch": node.epoch}


def line(event: ClusterEvent, formatter: Formatter) -> str:
    """Return an event as a line that fits the terminal."""
    from quartzpy.clock import SystemClock
    from quartzpy.scheduler.cluster_events import ExecutionEnded, ExecutionStarted, NodeJoined

    now = SystemClock().now()
    if isinstance(event, ExecutionEnded):
        record = event.execution
        began = record.started_at or record.fire_time
        took = "" if began is None or record.ended_at is None else f" in {short_span(record.ended_at - began)}"
        again = "" if record.retry_at is None else f", again at {formatter.local(record.retry_at):%H:%M:%S}"
        error = "" if record.error is None else f": {visible(error_summary(record.error) or '')}"
        attempt = "" if record.attempt <= 1 else f", attempt {record.attempt}"
        at, word = record.ended_at or now, str(record.state)
        text = f"{visible(str(record.job_key))} on {visible(record.instance_id or '-')}{took}{attempt}{again}{error}"
        number = str(record.fire_id)
    elif isinstance(event, ExecutionStarted):
        started = event.execution
        attempt = "" if started.attempt <= 1 else f", attempt {started.attempt}"
        at, word, number = started.fire_time, _STARTED, str(started.fire_id)
        text = f"{visible(str(started.job_key))} on {visible(started.instance_id)}{attempt}"
    else:
        node = event.node  # type: ignore[attr-defined]
        at, word, number = now, "JOINED" if isinstance(event, NodeJoined) else "LEFT", ""
        text = f"node {visible(node.instance_id)} ({visible(node.host)}, pid {node.pid})"
    front = f"{formatter.local(at):%H:%M:%S}  {word.ljust(_WORDS)}  {number.rjust(6)}  "
    width = terminal_width()
    whole = text if width is None else cut(text, max(20, width - len(front)))
    return f"{formatter.local(at):%H:%M:%S}  {styled(word, word.ljust(_WORDS))}  {number.rjust(6)}  {whole}"
