"""`quartzpy plan`, `apply` and `export`: files that declare jobs, triggers, calendars and maintenance windows."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial, wraps
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from quartzpy.cli.action import confirm_or_exit
from quartzpy.cli.commands import NOT_OK, REFUSED
from quartzpy.cli.filters import choice
from quartzpy.cli.formatter import Formatter, styled
from quartzpy.cli.keys import group_matcher
from quartzpy.cli.listing import print_json
from quartzpy.cli.target import Target, scheduler_options
from quartzpy.errors import InvalidValueError, UnsupportedKindError
from quartzpy.keys import UNSCHEDULED_GROUPS, JobKey
from quartzpy.object_references import find_programs_here, imported_module
from quartzpy.scheduler.sync import Existing
from quartzpy.states import TriggerState
from quartzpy.store.protocol import JobStore
from quartzpy.store.queries import TriggerQuery
from quartzpy.texts import quoted, reason, visible

if TYPE_CHECKING:
    from quartzpy.calendars.calendar import BaseCalendar
    from quartzpy.calendars.maintenance_window import MaintenanceWindow
    from quartzpy.jobs.job import JobDetail
    from quartzpy.operations.actions.values import ChangedValue
    from quartzpy.scheduler.scheduler import BaseScheduler
    from quartzpy.scheduler.sync import Change, Declarations, SyncPlan
    from quartzpy.store.records import JobRecord, TriggerRecord
    from quartzpy.triggers.trigger import Trigger

OWNER = "declared-jobs"
"""The default owner, which is that of the plugin `DeclaredJobs` as well."""
_JOBS_TOGETHER = 500
_FEW_TRIGGERS = 100
"""The number of triggers of a job up to which an export reads them together with those of other jobs."""
_COLOURS = {"+": "alive", "~": "late", "-": "dead"}
_Command = Callable[..., Any]
_import_option = click.option(
    "--import",
    "modules",
    multiple=True,
    metavar="MODULE",
    help="Import a module first, for job types with a type_name and calendars of your own.",
)


def _sync_options(command: Callable[..., None]) -> _Command:
    """Add what `plan` and `apply` share; the command receives the file, and as `options` those of `Scheduler.sync`."""

    @wraps(command)
    def collected(
        target: Target, *, owner: str, prune: bool, existing: str, program_version: str | None, **rest: Any
    ) -> None:
        options = {"owner": owner, "prune": prune, "existing": existing, "version": program_version}
        command(target, options=options, **rest)

    decorated: Any = collected
    for option in (
        _import_option,
        click.option("--json", "json_output", is_flag=True, help="Print JSON."),
        click.option("--program-version", help="Change nothing if a newer version of the owner's program has."),
        click.option(
            "--existing",
            type=choice(Existing),
            default="update",
            show_default=True,
            help="keep: what is stored already does not change.",
        ),
        click.option("--prune", is_flag=True, help="Remove what the owner declared before and no longer declares."),
        click.option("--owner", default=OWNER, show_default=True, help="The owner of what is declared."),
    ):
        decorated = option(decorated)
    return cast("_Command", click.argument("file", type=click.Path(path_type=Path))(decorated))


@click.command()
@scheduler_options
@_sync_options
@click.option("--exit-code", is_flag=True, help="Exit with status 1 if there are changes.")
def plan(
    target: Target, file: Path, options: dict[str, Any], json_output: bool, modules: Sequence[str], exit_code: bool
) -> None:
    """Show what `apply` would change.

    FILE is TOML, or YAML with the extra yaml. The modules of its job types are imported.
    """
    with target.client(may_be_new=True) as scheduler:
        plan = _plan(scheduler, _declared(file, modules), options)
        _print_plan(plan, json_output=json_output)
    if plan and exit_code:
        sys.exit(NOT_OK)


@click.command()
@scheduler_options
@_sync_options
@click.option("--reason", default="", help="The reason, for the audit log.")
@click.option("--yes", "confirmed", is_flag=True, help="Do not ask for confirmation.")
def apply(
    target: Target,
    file: Path,
    options: dict[str, Any],
    json_output: bool,
    modules: Sequence[str],
    reason: str,
    confirmed: bool,
) -> None:
    """Store the jobs, triggers, calendars and maintenance windows that FILE declares.

    All are stored or none, and those that differ are updated. A trigger whose schedule does not change keeps its
    fire times and its pause, unless its calendar does. What other owners declared, and what was stored by programs, is
    never removed. Each change is recorded in the audit log. A --name that the database does not have yet is that of a
    new scheduler.
    """
    with target.operations(may_be_new=True) as operations:
        declared = _declared(file, modules)
        plan = _plan(operations.scheduler, declared, options)
        if not json_output:
            _print_plan(plan, json_output=False)
        if plan and not confirmed:
            confirm_or_exit(f"Apply {_counts(plan)}?")
        # Another program may have changed something since the plan was made.
        done = operations.actions.apply(declared, **options, reason=reason)
        if json_output:
            _print_plan(done, json_output=True)
        elif done:
            click.echo(f"applied: {_counts(done)}")
    if done.outdated_by is not None:
        sys.exit(REFUSED)


def _plan(scheduler: BaseScheduler, declared: Declarations, options: dict[str, Any]) -> SyncPlan:
    return scheduler.sync(declared.jobs, calendars=declared.calendars, windows=declared.windows, **options, apply=False)


def _declared(file: Path, modules: Sequence[str]) -> Declarations:
    from quartzpy.definitions.files import load_definitions

    _import_modules(modules)
    return load_definitions(file)


def _print_plan(plan: SyncPlan, *, json_output: bool) -> None:
    from quartzpy.operations.actions.values import changed_values
    from quartzpy.secret_texts import Redaction

    redaction = Redaction()
    changes = [(change, _texts(change, changed_values(change, redaction))) for change in plan.changes]
    if json_output:
        items = [
            {
                "sign": change.sign,
                "kind": change.kind,
                "key": change.key,
                "differences": [{"name": name, "stored": old, "declared": new} for name, old, new in values],
            }
            for change, values in changes
        ]
        print_json({"changes": items, "unchanged": plan.unchanged, "outdated_by": plan.outdated_by})
        return
    if plan.outdated_by is not None:
        click.echo(f"nothing to change: version {visible(plan.outdated_by)} of the program is newer")
        return
    for change, values in changes:
        click.echo(styled(_COLOURS[change.sign], f"{change.sign} {change.kind} {visible(str(change.key))}"))
        for name, old, new in values:
            click.echo(f"    {name}: {new}" if old is None else f"    {name}: {old} -> {new}")
    click.echo(_counts(plan) if plan else f"nothing to change: {plan.unchanged:,} unchanged")


def _counts(plan: SyncPlan) -> str:
    signs = [change.sign for change in plan.changes]
    parts = [f"{signs.count(sign):,} to {word}" for sign, word in (("+", "add"), ("~", "change"), ("-", "remove"))]
    return f"{', '.join(parts)}; {plan.unchanged:,} unchanged"


def _texts(change: Change, values: Sequence[ChangedValue]) -> list[tuple[str, str | None, str]]:
    """Return the name, the stored and the declared text of each value that a change concerns."""
    if change.sign == "+":
        return [(record.name, None, visible(str(record.declared))) for record in values]
    if change.sign == "~" and not values:
        return [("owner", None, "becomes the owner")]
    return [(record.name, _shown(record.stored), _shown(record.declared)) for record in values]


def _shown(value: Any) -> str:
    return quoted(value) if isinstance(value, str | list | dict) else Formatter().text(value)


@click.command()
@scheduler_options
@click.option("--group", help="Only jobs of this group; * may stand in front and at the end.")
@click.option("--contains", help="Only jobs with this part in their names.")
@click.option("--output", "-o", type=click.Path(path_type=Path), help="The file. [default: standard output]")
@_import_option
def export(
    target: Target, group: str | None, contains: str | None, output: Path | None, modules: Sequence[str]
) -> None:
    """Write the stored jobs, triggers, calendars and maintenance windows as a file.

    `apply` takes it back unchanged. Runs by hand, retries and triggers that have ended are not part of it. With a
    filter, only the calendars that the exported triggers use are, and the windows of their groups. Job data is written
    in full, with its secrets.
    """
    from quartzpy.definitions.writer import written

    _import_modules(modules)
    skipped: list[str] = []
    with target.client() as scheduler:
        used = None if group is None and contains is None else _Used()
        parts = written(
            _stored(scheduler, group, contains, skipped, used),
            _stored_calendars(scheduler, used, skipped),
            _stored_windows(scheduler, used),
            heading=f"Jobs, triggers, calendars and windows of the scheduler {visible(scheduler.name)}.",
        )
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


def _import_modules(names: Sequence[str]) -> None:
    """Import modules. From now on, programs in the current directory can be imported, as with `python -m`."""
    find_programs_here()
    for name in names:
        imported_module(name, "--import")


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


@dataclass(frozen=True)
class _Used:
    """What the exported jobs and triggers name, which is complete when these have been written."""

    calendars: set[str | None] = field(default_factory=set)
    trigger_groups: set[str] = field(default_factory=set)
    job_groups: set[str] = field(default_factory=set)


def _stored_windows(scheduler: BaseScheduler, used: _Used | None) -> Iterator[MaintenanceWindow]:
    """Yield the maintenance windows of the groups that are used; None stands for all."""
    for record in scheduler.maintenance_windows():
        window = record.window
        if used is None or window.trigger_group in used.trigger_groups or window.job_group in used.job_groups:
            yield window


def _stored_calendars(
    scheduler: BaseScheduler, used: _Used | None, skipped: list[str]
) -> Iterator[tuple[str, BaseCalendar]]:
    """Yield the calendars that are used; None stands for all."""
    for name in scheduler.calendar_names():
        if used is not None and name not in used.calendars:
            continue
        try:
            calendar = scheduler.get_calendar(name)
        except UnsupportedKindError as error:
            skipped.append(f"calendar {name} cannot be read: {visible(str(error))}; give its module by --import")
        except InvalidValueError as error:
            skipped.append(f"calendar {name} cannot be read: {visible(str(error))}")
        else:
            # Another program may have removed it meanwhile.
            if calendar is not None:
                yield name, cast("BaseCalendar", calendar)


def _stored(
    scheduler: BaseScheduler, group: str | None, contains: str | None, skipped: list[str], used: _Used | None
) -> Iterator[tuple[JobDetail, Iterable[Trigger]]]:
    """Yield the jobs that are exported with their triggers, which are read as they are iterated.

    What these name is added to `used`, and the reasons why others are not exported to `skipped`.
    """
    for record, stored in _with_triggers(scheduler, scheduler.jobs(group=group_matcher(group), contains=contains)):
        try:
            job = record.job
        except Exception as error:
            skipped.append(f"job {record.key} cannot be read: {reason(error)}")
            continue
        if used is not None:
            used.job_groups.add(record.key.group)
        triggers = _readable(stored, skipped, used)
        first = next(triggers, None)
        if first is not None:
            yield job, chain([first], triggers)
        elif job.durable:
            yield job, ()
        else:
            skipped.append(f"job {record.key} has no trigger that is still to fire, and is not durable")


def _with_triggers(
    scheduler: BaseScheduler, jobs: Iterable[JobRecord]
) -> Iterator[tuple[JobRecord, Iterable[TriggerRecord]]]:
    """Yield each job with its triggers. Those of jobs that have few are read for many jobs together."""
    every = iter(jobs)
    while some := list(islice(every, _JOBS_TOGETHER)):
        few = [record.key for record in some if record.trigger_count <= _FEW_TRIGGERS]
        answers = scheduler._usable_store().ask([partial(_triggers_of_job, key) for key in few])
        of_few = {key: answer() for key, answer in zip(few, answers, strict=True)}
        for record in some:
            many = record.trigger_count > _FEW_TRIGGERS
            yield record, scheduler.triggers(job=record.key) if many else of_few.get(record.key, ())


def _triggers_of_job(key: JobKey, store: JobStore) -> list[TriggerRecord]:
    return store.find(TriggerQuery(job_key=key), None)


def _readable(triggers: Iterable[TriggerRecord], skipped: list[str], used: _Used | None) -> Iterator[Trigger]:
    for record in triggers:
        if record.key.group in UNSCHEDULED_GROUPS or record.state is TriggerState.COMPLETE:
            continue
        try:
            trigger = record.trigger
        except Exception as error:
            skipped.append(f"trigger {record.key} cannot be read: {reason(error)}")
            continue
        if used is not None:
            used.calendars.add(trigger.calendar)
            used.trigger_groups.add(record.key.group)
        yield trigger
