"""`quartzpy pause`, `resume`, `skip-next`, `enable`, `disable`, and the modes of nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from quartzpy.cli import completion
from quartzpy.cli.action import Request, Subjects, action_options, one, perform, subject_options, subjects
from quartzpy.cli.filters import JOB_FILTERS, TRIGGER_FILTERS, FilterSet, choice
from quartzpy.cli.keys import group_matcher
from quartzpy.cli.kinds import KindGroup
from quartzpy.cli.target import Target
from quartzpy.states import Missed

if TYPE_CHECKING:
    from quartzpy.operations.operations import Operations

_missed = click.option(
    "--missed",
    type=choice(Missed),
    default=str(Missed.MISFIRE),
    show_default=True,
    help="What becomes of the fires that were missed meanwhile: the misfire instruction, none, or one run now.",
)


@click.group(cls=KindGroup)
def pause() -> None:
    """Pause triggers, the triggers of jobs, groups, or everything."""


@click.group(cls=KindGroup)
def resume() -> None:
    """Resume what was paused."""


def _pause(target: Target, request: Request, filters: FilterSet, keys: Any, everything: bool, given: Any) -> None:
    with target.operations() as operations:
        found = subjects(operations, filters, keys, everything, given)
        act = operations.actions.pause
        perform(request, "Pause", found, lambda: act(found.selected, reason=request.reason), action="pause")


def _resume(
    target: Target, request: Request, filters: FilterSet, keys: Any, everything: bool, missed: str, given: Any
) -> None:
    with target.operations() as operations:
        found = subjects(operations, filters, keys, everything, given)
        act = operations.actions.resume
        perform(request, "Resume", found, lambda: act(found.selected, missed, reason=request.reason), action="resume")


@pause.command("trigger")
@action_options
@subject_options(TRIGGER_FILTERS, "TRIGGER")
def pause_trigger(target: Target, request: Request, keys: tuple[str, ...], everything: bool, **given: Any) -> None:
    """Pause triggers, by their keys or by filters."""
    _pause(target, request, TRIGGER_FILTERS, keys, everything, given)


@pause.command("job")
@action_options
@subject_options(JOB_FILTERS, "JOB")
def pause_job(target: Target, request: Request, keys: tuple[str, ...], everything: bool, **given: Any) -> None:
    """Pause the present triggers of jobs, by their keys or by filters."""
    _pause(target, request, JOB_FILTERS, keys, everything, given)


@resume.command("trigger")
@action_options
@_missed
@subject_options(TRIGGER_FILTERS, "TRIGGER")
def resume_trigger(
    target: Target, request: Request, keys: tuple[str, ...], everything: bool, missed: str, **given: Any
) -> None:
    """Resume triggers, by their keys or by filters."""
    _resume(target, request, TRIGGER_FILTERS, keys, everything, missed, given)


@resume.command("job")
@action_options
@_missed
@subject_options(JOB_FILTERS, "JOB")
def resume_job(
    target: Target, request: Request, keys: tuple[str, ...], everything: bool, missed: str, **given: Any
) -> None:
    """Resume the triggers of jobs, by their keys or by filters."""
    _resume(target, request, JOB_FILTERS, keys, everything, missed, given)


def _lasting(operations: Operations, kind: str, group: str | None) -> Subjects:
    """Return a group of triggers, the triggers of a group of jobs, or everything: they may be none as yet."""
    from quartzpy.operations.selection import Selection

    if group is None:
        selection, present = Selection.everything(), Selection.triggers()
    else:
        matcher = group_matcher(group)
        assert matcher is not None
        if kind == "job":
            selection, present = Selection.job_group(matcher), Selection.jobs(group=matcher)
        else:
            selection, present = Selection.trigger_group(matcher), Selection.triggers(group=matcher)
    count = operations.actions.count(present)
    words = (
        f"{selection} (now {count:,} {'triggers' if group is None else f'{kind}s'}, and those that are stored later)"
    )
    return Subjects(selection, kind, count, (), named=False, words=words)


def _pause_lasting(target: Target, request: Request, kind: str, group: str | None) -> None:
    with target.operations() as operations:
        found = _lasting(operations, kind, group)
        act = operations.actions.pause
        perform(
            request,
            "Pause",
            found,
            lambda: act(found.selected, reason=request.reason),
            action="pause",
            always_asks=True,
        )


def _resume_lasting(target: Target, request: Request, kind: str, group: str | None, missed: str) -> None:
    with target.operations() as operations:
        found = _lasting(operations, kind, group)
        act = operations.actions.resume
        perform(
            request,
            "Resume",
            found,
            lambda: act(found.selected, missed, reason=request.reason),
            action="resume",
            always_asks=True,
        )


@pause.command("trigger-group")
@action_options
@click.argument("group")
def pause_trigger_group(target: Target, request: Request, group: str) -> None:
    """Pause the trigger group GROUP, also for triggers that are stored later; * may stand in front and at the end."""
    _pause_lasting(target, request, "trigger", group)


@pause.command("job-group")
@action_options
@click.argument("group")
def pause_job_group(target: Target, request: Request, group: str) -> None:
    """Pause the triggers of the job group GROUP, also those that are stored later."""
    _pause_lasting(target, request, "job", group)


@pause.command("everything")
@action_options
def pause_everything(target: Target, request: Request) -> None:
    """Pause all triggers, also those that are stored later."""
    _pause_lasting(target, request, "trigger", None)


@resume.command("trigger-group")
@action_options
@_missed
@click.argument("group")
def resume_trigger_group(target: Target, request: Request, group: str, missed: str) -> None:
    """Resume the trigger group GROUP; * may stand in front and at the end."""
    _resume_lasting(target, request, "trigger", group, missed)


@resume.command("job-group")
@action_options
@_missed
@click.argument("group")
def resume_job_group(target: Target, request: Request, group: str, missed: str) -> None:
    """Resume the triggers of the job group GROUP."""
    _resume_lasting(target, request, "job", group, missed)


@resume.command("everything")
@action_options
@_missed
def resume_everything(target: Target, request: Request, missed: str) -> None:
    """Resume all triggers, groups included."""
    _resume_lasting(target, request, "trigger", None, missed)


@click.command("skip-next")
@action_options
@click.option("--count", type=click.IntRange(1), default=1, show_default=True, help="The number of fires to skip.")
@subject_options(TRIGGER_FILTERS, "TRIGGER")
def skip_next(
    target: Target, request: Request, keys: tuple[str, ...], everything: bool, count: int, **given: Any
) -> None:
    """Skip the next fires of triggers."""
    with target.operations() as operations:
        found = subjects(operations, TRIGGER_FILTERS, keys, everything, given)
        act = operations.actions.skip_next
        fires = "the next fire" if count == 1 else f"the next {count} fires"
        perform(
            request,
            f"Skip {fires} of",
            found,
            lambda: act(found.selected, count, reason=request.reason),
            action="skip_next",
        )


@click.command()
@action_options
@click.option(
    "--missed",
    type=choice(Missed),
    default=str(Missed.SKIP),
    show_default=True,
    help="What becomes of the fires that were missed meanwhile.",
)
@subject_options(JOB_FILTERS, "JOB")
def enable(
    target: Target, request: Request, keys: tuple[str, ...], everything: bool, missed: str, **given: Any
) -> None:
    """Enable jobs that are disabled or run only by hand."""
    with target.operations() as operations:
        found = subjects(operations, JOB_FILTERS, keys, everything, given)
        act = operations.actions.enable
        perform(
            request,
            "Enable",
            found,
            lambda: act(found.selected, missed=missed, reason=request.reason),
            action="enable",
        )


@click.command()
@action_options
@subject_options(JOB_FILTERS, "JOB")
def disable(target: Target, request: Request, keys: tuple[str, ...], everything: bool, **given: Any) -> None:
    """Disable jobs.

    None of their triggers fires, and they cannot be run by hand.
    """
    with target.operations() as operations:
        found = subjects(operations, JOB_FILTERS, keys, everything, given)
        act = operations.actions.disable
        perform(request, "Disable", found, lambda: act(found.selected, reason=request.reason), action="disable")


@click.command()
@action_options
@click.argument("node", shell_complete=completion.NODES)
def drain(target: Target, request: Request, node: str) -> None:
    """Let NODE finish what it runs.

    It claims nothing more and gives back what waits for a worker, until `resume-node` or its restart.
    """
    _command(target, request, "drain", "Drain", node)


@click.command()
@action_options
@click.argument("node", shell_complete=completion.NODES)
def standby(target: Target, request: Request, node: str) -> None:
    """Let NODE claim nothing more.

    This lasts until `resume-node` or its restart.
    """
    _command(target, request, "standby", "Put into standby", node)


@click.command("resume-node")
@action_options
@click.argument("node", shell_complete=completion.NODES)
def resume_node(target: Target, request: Request, node: str) -> None:
    """End `drain` or `standby` of NODE."""
    _command(target, request, "resume_node", "Resume", node)


def _command(target: Target, request: Request, action: str, what: str, node: str) -> None:
    with target.operations() as operations:
        act = getattr(operations.actions, action)
        perform(request, what, one("node", node), lambda: act(node, reason=request.reason), action=action)
