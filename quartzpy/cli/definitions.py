"""`quartzpy plan`, `apply` and `export`: files that declare jobs and triggers."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from quartzpy.cli.action import confirm_or_exit
from quartzpy.cli.cells import Cells, styled
from quartzpy.cli.exits import NOT_OK, REFUSED
from quartzpy.cli.filters import choice
from quartzpy.cli.keys import group_matcher
from quartzpy.cli.listing import print_json
from quartzpy.cli.target import Target, scheduler_options
from quartzpy.keys import UNSCHEDULED_GROUPS, JobKey, TriggerKey
from quartzpy.scheduling.sync import Existing
from quartzpy.states import TriggerState
from quartzpy.texts import quoted, reason, visible

if TYPE_CHECKING:
    from quartzpy.jobs.job import JobDetail
    from quartzpy.operations.redaction import Redaction
    from quartzpy.scheduling.scheduler import BaseScheduler
    from quartzpy.scheduling.sync import Change, Definitions, SyncPlan
    from quartzpy.triggers.trigger import Trigger

OWNER = "declared-jobs"
"""The default owner, which is that of the plugin `DeclaredJobs` as well."""
_COLOURS = {"+": "alive", "~": "late", "-": "dead"}
_Command = Callable[..., Any]


def _sync_options(command: _Command) -> _Command:
    for option in (
        click.option("--json", "json_output", is_flag=True, help="Print JSON."),
        click.option("--program-version", help="Change nothing if a newer version of the owner's program has."),
        click.option(
            "--existing",
            type=choice(Existing),
            default="update",
            show_default=True,
            help="keep: jobs and triggers that are stored already do not change.",
        ),
        click.option("--prune", is_flag=True, help="Remove what the owner declared before and no longer declares."),
        click.option("--owner", default=OWNER, show_default=True, help="The owner of the declared jobs and triggers."),
    ):
        command = option(command)
    return click.argument("file", type=click.Path(path_type=Path))(command)


@click.command()
@scheduler_options
@_sync_options
@click.option("--exit-code", is_flag=True, help="Exit with status 1 if there are changes.")
def plan(
    target: Target,
    file: Path,
    owner: str,
    prune: bool,
    existing: str,
    program_version: str | None,
    json_output: bool,
    exit_code: bool,
) -> None:
    """Show what `apply` would change.

    FILE is TOML, or YAML with the extra yaml. The modules of its job types are imported.
    """
    with target.client() as scheduler:
        declared = _declared(file)
        found = scheduler.sync(
            declared, owner=owner, prune=prune, existing=existing, version=program_version, apply=False
        )
        _print_plan(scheduler, declared, found, json_output=json_output)
    if found and exit_code:
        sys.exit(NOT_OK)


@click.command()
@scheduler_options
@_sync_options
@click.option("--yes", "confirmed", is_flag=True, help="Do not ask for confirmation.")
def apply(
    target: Target,
    file: Path,
    owner: str,
    prune: bool,
    existing: str,
    program_version: str | None,
    json_output: bool,
    confirmed: bool,
) -> None:
    """Store the jobs and triggers that FILE declares.

    All are stored or none, and those that differ are updated. A trigger whose schedule does not change keeps its
    fire times and its pause. What other owners declared, and what was scheduled by programs, is never removed.
    """
    with target.client() as scheduler:
        declared = _declared(file)

        def sync(*, apply: bool) -> SyncPlan:
            return scheduler.sync(
                declared,
                owner=owner,
                prune=prune,
                existing=existing,
                version=program_version,
                apply=apply,
                announce=lambda _: None,
            )

        found = sync(apply=False)
        if not json_output:
            _print_plan(scheduler, declared, found, json_output=False)
        if found and not confirmed:
            confirm_or_exit(f"Apply {_counts(found)}?")
        # Another program may have changed something since the plan was made.
        done = sync(apply=True)
        if json_output:
            _print_plan(scheduler, declared, done, json_output=True)
        elif done:
            click.echo(f"applied: {_counts(done)}")
    if done.outdated_by is not None:
        sys.exit(REFUSED)


def _declared(file: Path) -> Definitions:
    from quartzpy.scheduling.declarations import load_definitions

    # Programs in the current directory can be imported, as with `python -m`.
    sys.path.insert(0, os.getcwd())
    return load_definitions(file)


def _print_plan(scheduler: BaseScheduler, declared: Definitions, found: SyncPlan, *, json_output: bool) -> None:
    from quartzpy.operations.redaction import SECRETS, Redaction

    redaction = Redaction(SECRETS)
    jobs = {job.key: job for job, _ in declared}
    triggers = {trigger.key: trigger for _, of_job in declared for trigger in of_job}
    changes = [(change, list(_differences(scheduler, jobs, triggers, change, redaction))) for change in found.changes]
    if json_output:
        items = [
            {
                "sign": change.sign,
                "kind": change.kind,
                "key": change.key,
                "differences": [{"name": name, "stored": old, "declared": new} for name, old, new in differences],
            }
            for change, differences in changes
        ]
        print_json({"changes": items, "unchanged": found.unchanged, "outdated_by": found.outdated_by})
        return
    if found.outdated_by is not None:
        click.echo(f"nothing to change: version {visible(found.outdated_by)} of the program is newer")
        return
    for change, differences in changes:
        click.echo(styled(_COLOURS[change.sign], f"{change.sign} {change.kind} {visible(str(change.key))}"))
        for name, old, new in differences:
            click.echo(f"    {name}: {old} -> {new}" if old is not None else f"    {name}: {new}")
    click.echo(_counts(found) if found else f"nothing to change: {found.unchanged:,} unchanged")


def _counts(found: SyncPlan) -> str:
    signs = [change.sign for change in found.changes]
    parts = [f"{signs.count(sign):,} to {word}" for sign, word in (("+", "add"), ("~", "change"), ("-", "remove"))]
    return f"{', '.join(parts)}; {found.unchanged:,} unchanged"


def _differences(
    scheduler: BaseScheduler,
    jobs: Mapping[JobKey, JobDetail],
    triggers: Mapping[TriggerKey, Trigger],
    change: Change,
    redaction: Redaction,
) -> Iterator[tuple[str, str | None, str]]:
    """Yield the name, the stored and the declared text of each value that a change concerns."""
    from quartzpy.operations.schedules import schedule_text
    from quartzpy.store.differences import job_differences, trigger_differences
    from quartzpy.triggers.schedule_hash import schedule_hash

    if change.sign == "+":
        if isinstance(change.key, TriggerKey):
            yield "schedule", None, visible(schedule_text(triggers[change.key]))
        else:
            yield "type", None, visible(jobs[change.key].job_type)
    elif change.sign == "~":
        if isinstance(change.key, JobKey):
            stored_job = scheduler.get_job_detail(change.key)
            found = [] if stored_job is None else job_differences(jobs[change.key], stored_job)
        else:
            record = scheduler.trigger_record(change.key)
            trigger = triggers[change.key]
            hashes = schedule_hash(trigger), None if record is None else record.schedule_hash
            found = [] if record is None else trigger_differences(trigger, record.trigger, *hashes)
        for one in found:
            yield one.name, _shown(one.name, one.stored, redaction), _shown(one.name, one.declared, redaction)
        if not found:
            yield "owner", None, "becomes the owner"


def _shown(name: str, value: Any, redaction: Redaction) -> str:
    if name == "data":
        return quoted(redaction.of(dict(value or {})))
    return Cells().text(value) if not isinstance(value, str) else quoted(value)


@click.command()
@scheduler_options
@click.option("--group", help="Only jobs of this group; * may stand in front and at the end.")
@click.option("--contains", help="Only jobs with this part in their names.")
@click.option("--output", "-o", type=click.Path(path_type=Path), help="The file. [default: standard output]")
def export(target: Target, group: str | None, contains: str | None, output: Path | None) -> None:
    """Write the stored jobs and triggers as a file.

    `apply` takes it back unchanged. Runs by hand, retries and triggers that have ended are not part of it, nor are
    calendars. Job data is written in full, with its secrets.
    """
    from quartzpy.scheduling.exporting import written

    skipped: list[str] = []
    with target.client() as scheduler:
        pairs = _stored(scheduler, group, contains, skipped)
        parts = written(pairs, heading=f"Jobs and triggers of the scheduler {visible(scheduler.name)}.")
        if output is None:
            sys.stdout.writelines(parts)
        else:
            try:
                _write(output, parts)
            except OSError as error:
                raise click.FileError(str(output), str(error)) from error
    for line in skipped:
        click.echo(f"not exported: {line}", err=True)
    if any("cannot be read" in line for line in skipped):
        sys.exit(NOT_OK)


def _write(output: Path, parts: Iterable[str]) -> None:
    """Write a file as a whole or not at all: with a part of an export, `apply --prune` would delete jobs."""
    if output.exists() and not output.is_file():
        # A pipe or a device cannot be replaced.
        with output.open("w", encoding="utf-8") as stream:
            stream.writelines(parts)
        return
    whole = output.resolve()
    part = whole.with_name(f"{whole.name}.{os.getpid()}.part")
    try:
        with part.open("x", encoding="utf-8") as stream:
            stream.writelines(parts)
        if whole.exists():
            part.chmod(whole.stat().st_mode)
        part.replace(whole)
    finally:
        part.unlink(missing_ok=True)


def _stored(
    scheduler: BaseScheduler, group: str | None, contains: str | None, skipped: list[str]
) -> Iterator[tuple[JobDetail, Iterable[Trigger]]]:
    """Yield the jobs that are exported with their triggers, which are read as they are iterated."""
    for record in scheduler.jobs(group=group_matcher(group), contains=contains):
        try:
            job = record.job
        except Exception as error:
            skipped.append(f"job {record.key} cannot be read: {reason(error)}")
            continue
        triggers = _triggers_of(scheduler, record.key, skipped)
        first = next(triggers, None)
        if first is not None:
            yield job, chain([first], triggers)
        elif job.durable:
            yield job, ()
        else:
            skipped.append(f"job {record.key} has no trigger that is still to fire, and is not durable")


def _triggers_of(scheduler: BaseScheduler, job: JobKey, skipped: list[str]) -> Iterator[Trigger]:
    for one in scheduler.triggers(job=job):
        if one.key.group in UNSCHEDULED_GROUPS or one.state is TriggerState.COMPLETE:
            continue
        try:
            yield one.trigger
        except Exception as error:
            skipped.append(f"trigger {one.key} cannot be read: {reason(error)}")
