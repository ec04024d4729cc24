"""`quartzpy pause`, `resume`, `skip-next`, `enable`, `disable`, and the modes of nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from quartzpy.cli import completion
from quartzpy.cli.action import Request, act_on, action_options
from quartzpy.cli.filters import JOB_FILTERS, TRIGGER_FILTERS, choice
from quartzpy.cli.keys import group_matcher
from quartzpy.cli.kinds import KindGroup
from quartzpy.cli.subjects import Chosen, Subjects, one, subject_options
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


@pause.command("trigger")
@action_options
@subject_options(TRIGGER_FILTERS, "TRIGGER")
def pause_trigger(target: Target, request: Request, chosen: Chosen) -> None:
    """Pause triggers, by their keys or by filters."""
    act_on(target, request, chosen.find, "Pause", "pause")


@pause.command("job")
@action_options
@subject_options(JOB_FILTERS, "JOB")
def pause_job(target: Target, request: Request, chosen: Chosen) -> None:
    """Pause the present triggers of jobs, by their keys or by filters."""
    act_on(target, request, chosen.find, "Pause", "pause")


@resume.command("trigger")
@action_options
@_missed
@subject_options(TRIGGER_FILTERS, "TRIGGER")
def resume_trigger(target: Target, request: Request, chosen: Chosen, missed: str) -> None:
    """Resume triggers, by their keys or by filters."""
    act_on(target, request, chosen.find, "Resume", "resume", missed)


@resume.command("job")
@action_options
@_missed
@subject_options(JOB_FILTERS, "JOB")
def resume_job(target: Target, request: Request, chosen: Chosen, missed: str) -> None:
    """Resume the triggers of jobs, by their keys or by filters."""
    act_on(target, request, chosen.find, "Resume", "resume", missed)


def _lasting(kind: str, group: str | None) -> Callable[[Operations], Subjects]:
    """Return the finder of a group of triggers, of the triggers of a group of jobs, or of everything.

    There may be none of them as yet.
    """

    def find(operations: Operations) -> Subjects:
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
        some = "triggers" if group is None else f"{kind}s"
        words = f"{selection} (now {count:,} {some}, and those that are stored later)"
        return Subjects(selection, kind, count, (), named=False, words=words)

    return find


@pause.command("trigger-group")
@action_options
@click.argument("group")
def pause_trigger_group(target: Target, request: Request, group: str) -> None:
    """Pause the trigger group GROUP, also for triggers that are stored later; * may stand in front and at the end."""
    act_on(target, request, _lasting("trigger", group), "Pause", "pause", always_asks=True)


@pause.command("job-group")
@action_options
@click.argument("group")
def pause_job_group(target: Target, request: Request, group: str) -> None:
    """Pause the triggers of the job group GROUP, also those that are stored later."""
    act_on(target, request, _lasting("job", group), "Pause", "pause", always_asks=True)


@pause.command("everything")
@action_options
def pause_everything(target: Target, request: Request) -> None:
    """Pause all triggers, also those that are stored later."""
    act_on(target, request, _lasting("trigger", None), "Pause", "pause", always_asks=True)


@resume.command("trigger-group")
@action_options
@_missed
@click.argument("group")
def resume_trigger_group(target: Target, request: Request, group: str, missed: str) -> None:
    """Resume the trigger group GROUP; * may stand in front and at the end."""
    act_on(target, request, _lasting("trigger", group), "Resume", "resume", missed, always_asks=True)


@resume.command("job-group")
@action_options
@_missed
@click.argument("group")
def resume_job_group(target: Target, request: Request, group: str, missed: str) -> None:
    """Resume the triggers of the job group GROUP."""
    act_on(target, request, _lasting("job", group), "Resume", "resume", missed, always_asks=True)


@resume.command("everything")
@action_options
@_missed
def resume_everything(target: Target, request: Request, missed: str) -> None:
    """Resume all triggers, groups included."""
    act_on(target, request, _lasting("trigger", None), "Resume", "resume", missed, always_asks=True)


@click.command("skip-next")
@action_options
@click.option("--count", type=click.IntRange(1), default=1, show_default=True, help="The number of fires to skip.")
@subject_options(TRIGGER_FILTERS, "TRIGGER")
def skip_next(target: Target, request: Request, chosen: Chosen, count: int) -> None:
    """Skip the next fires of triggers."""
    fires = "the next fire" if count == 1 else f"the next {count} fires"
    act_on(target, request, chosen.find, f"Skip {fires} of", "skip_next", count)


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
def enable(target: Target, request: Request, chosen: Chosen, missed: str) -> None:
    """Enable jobs that are disabled or run only by hand."""
    act_on(target, request, chosen.find, "Enable", "enable", missed=missed)


@click.command()
@action_options
@subject_options(JOB_FILTERS, "JOB")
def disable(target: Target, request: Request, chosen: Chosen) -> None:
    """Disable jobs.

    None of their triggers fires, and they cannot be run by hand.
    """
    act_on(target, request, chosen.find, "Disable", "disable")


@click.command()
@action_options
@click.argument("node", shell_complete=completion.NODES)
def drain(target: Target, request: Request, node: str) -> None:
    """Let NODE finish what it runs.

    It claims nothing more and gives back what waits for a worker, until `resume-node` or its restart.
    """
    act_on(target, request, lambda _: one("node", node), "Drain", "drain")


@click.command()
@action_options
@click.argument("node", shell_complete=completion.NODES)
def standby(target: Target, request: Request, node: str) -> None:
    """Let NODE claim nothing more.

    This lasts until `resume-node` or its restart.
    """
    act_on(target, request, lambda _: one("node", node), "Put into standby", "standby")


@click.command("resume-node")
@action_options
@click.argument("node", shell_complete=completion.NODES)
def resume_node(target: Target, request: Request, node: str) -> None:
    """End `drain` or `standby` of NODE."""
    act_on(target, request, lambda _: one("node", node), "Resume", "resume_node")
