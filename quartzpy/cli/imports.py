"""`quartzpy import quartz | apscheduler | celery-beat | crontab`: bring over the schedules of other programs."""

from __future__ import annotations

import gc
import getpass
import json
import shutil
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from quartzpy.cli.target import DEFAULT_NAME, Target, scheduler_options
from quartzpy.errors import SchemaError, SettingsError
from quartzpy.operations.render import as_json, json_text, local_zone, plain, table
from quartzpy.private_files import write_private
from quartzpy.texts import check_description, number_of

if TYPE_CHECKING:
    from quartzpy.migrate import ClassMap, ImportOutcome, ImportPlan
    from quartzpy.migrate.plan import Note
    from quartzpy.store.postgresql.store import SqlJobStore
    from quartzpy.store.protocol import JobStore

_Command = Callable[..., None]
_COLUMNS = ("trigger", "job", "job type", "schedule", "zone", "next", "paused")
_ORDER = ("differs", "left out", "undecided")
_REDRAWN, _REPEATED = 0.2, 10.0
"""The seconds between two lines of progress, on a terminal and elsewhere."""
_DROPPABLE = ("job", "zone", "job type")


@click.group(name="import")
@click.pass_context
def import_(context: click.Context) -> None:
    """Import the schedules of other programs.

    Each command reads the source and prints a plan: what comes over, what changes, and what needs a decision. Nothing
    is stored without --apply. It stores a large plan in slices, and one that was interrupted is continued by the same
    command. An import may be repeated: a trigger that is stored already keeps its fire times and its pause, unless the
    source has fired it since.
    """
    # A plan may be millions of objects without cycles. A collection would examine all of them, and hold up a
    # transaction for longer than the database waits.
    if gc.isenabled():
        gc.disable()
        context.call_on_close(gc.enable)


def _apply_options(command: _Command) -> _Command:
    """Add the options that all imports have."""
    for option in (
        click.option("--json", "json_output", is_flag=True, help="Print JSON."),
        click.option(
            "--limit",
            type=click.IntRange(min=0),
            default=500,
            show_default=True,
            help="The maximum number of triggers, and of notes, to print.",
        ),
        click.option("--reason", default="", help="The reason, for the audit log."),
        click.option("--while-running", is_flag=True, help="Import although the source still runs: both fire then."),
        click.option("--skip-undecided", is_flag=True, help="Leave out what needs a decision."),
        click.option(
            "--paused",
            "held",
            is_flag=True,
            help="Store all triggers as paused. A later import without this option resumes them.",
        ),
        click.option("--apply", "apply_it", is_flag=True, help="Store the plan. Without it nothing is changed."),
    ):
        command = option(command)
    return scheduler_options(command)


_map_option = click.option(
    "--map",
    "class_map",
    multiple=True,
    metavar="NAME=TYPE|FILE",
    help="The job type for a class, function or task: shop.tasks.report=shop.jobs:report; false leaves its jobs out."
    " Or a TOML file with such pairs, and with decisions about data. May be given several times.",
)


@import_.command()
@_apply_options
@click.option("--from", "source", required=True, metavar="URL", help="Quartz's database: a JDBC or SQLAlchemy URL.")
@click.option("--prefix", default="QRTZ_", show_default=True, help='The prefix of its tables: "QRTZ_", "other.QRTZ_".')
@click.option("--sched-name", help="Quartz's instance name. Optional if the tables have only one.")
@_map_option
@click.option("--java-time-zone", help="The default time zone of the Java programs, for triggers stored without one.")
def quartz(
    target: Target,
    source: str,
    prefix: str,
    sched_name: str | None,
    class_map: tuple[str, ...],
    java_time_zone: str | None,
    **applying: Any,
) -> None:
    """Import from the tables of Quartz 2.x.

    Fire times, pauses, misfire instructions, calendars and data come over. Job classes are mapped by --map. Data and
    calendars in Java serialization need the extra "import".
    """
    from quartzpy.migrate import read_quartz

    plan = read_quartz(
        source,
        prefix=prefix,
        scheduler=sched_name,
        decisions=_decisions(class_map),
        java_zone=java_time_zone,
    )
    _run(plan, target, **applying)


@import_.command()
@_apply_options
@click.option("--from", "source", required=True, metavar="URL", help="The database of the job store: SQLAlchemy's URL.")
@click.option("--table", "table_name", default="apscheduler_jobs", show_default=True, help="The table of the store.")
@click.option("--group", default="apscheduler", show_default=True, help="The group of the jobs.")
@click.option("--main", metavar="MODULE", help="The module that ran as a script: old_program, for old_program.py.")
@_map_option
def apscheduler(
    target: Target,
    source: str,
    table_name: str,
    group: str,
    main: str | None,
    class_map: tuple[str, ...],
    **applying: Any,
) -> None:
    """Import from the SQLAlchemy job store of APScheduler 3.

    Each job runs the function that it names ("module:name"), which has to be a @job of the nodes, unless --map names
    another type. --main names the module of functions that a script has stored. The rows are pickles; they are read
    without being unpickled, so that no code of theirs runs.
    """
    from quartzpy.migrate import read_apscheduler

    plan = read_apscheduler(source, table=table_name, group=group, decisions=_decisions(class_map), main=main)
    _run(plan, target, **applying)


@import_.command(name="celery-beat")
@_apply_options
@click.option("--from", "source", required=True, metavar="URL", help="The database of django-celery-beat.")
@click.option("--prefix", default="django_celery_beat_", show_default=True, help="The prefix of its tables.")
@click.option("--group", default="celery-beat", show_default=True, help="The group of the jobs.")
@_map_option
def celery_beat(
    target: Target, source: str, prefix: str, group: str, class_map: tuple[str, ...], **applying: Any
) -> None:
    """Import from the tables of django-celery-beat.

    Each periodic task becomes a job that sends the task (see quartzpy.ext.celery), unless --map names the job type that
    runs in its place: the function with @job gets the arguments of the task.
    """
    from quartzpy.migrate import read_celery_beat

    plan = read_celery_beat(source, prefix=prefix, group=group, decisions=_decisions(class_map))
    _run(plan, target, **applying)


@import_.command()
@_apply_options
@click.argument("file", type=click.File("rb"))
@click.option("--time-zone", help="The time zone of the crontab: Europe/Berlin. Default: that of this machine.")
@click.option("--job-type", help="A job type of yours that runs commands; its data has the entry command.")
@click.option("--system", is_flag=True, help="Lines have a field for the user, as in /etc/crontab.")
@click.option("--user", help="With --system: the user whose lines are read. Default: you; with --job-type, all users.")
@click.option("--group", default="crontab", show_default=True, help="The group of the jobs, with --job-type.")
@click.option(
    "--write",
    "written",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write to this file. With --job-type: a file of declared jobs (TOML).",
)
def crontab(
    target: Target,
    file: Any,
    time_zone: str | None,
    job_type: str | None,
    system: bool,
    user: str | None,
    group: str,
    written: Path | None,
    **applying: Any,
) -> None:
    """Write a crontab FILE ("-" for standard input) as a schedule that quartzpy serve runs.

    `crontab -l | quartzpy import crontab - > schedule.yaml`

    Each line becomes a job with its command, its schedule, the variables above it, and the comment directly above it.
    What does not come over is said on standard error, with the number of its line.

    With --job-type, the lines become jobs of that type in a cluster: a plan is printed, which --apply stores. The data
    of a job are the entries command, stdin (what is after a "%"), user and environment.
    """
    from quartzpy.embedded.machine_zone import zone_of_machine
    from quartzpy.migrate import read_crontab
    from quartzpy.text_files import decoded

    if user is not None and not system:
        raise click.UsageError("--user needs --system: other crontabs do not name users")
    if job_type is None and user is None and system:
        try:
            user = getpass.getuser()
        except (OSError, KeyError):
            raise click.UsageError("this user id has no name; say whose lines are meant, as in --user root") from None
    machine = None
    zone = time_zone
    if not zone:
        machine = zone_of_machine()
        zone = machine.name
    plan = read_crontab(
        decoded(file.read(), str(file.name)),
        time_zone=zone,
        job_type=job_type or "crontab.Line",
        system=system,
        user=user,
        group=group,
        name=str(file.name),
    )
    if job_type is not None and written is None:
        _run(plan, target, **applying)
        return
    if applying["apply_it"] or applying["json_output"]:
        option = "--apply" if applying["apply_it"] else "--json"
        raise click.UsageError(f"{option} needs --job-type, and no --write: otherwise a file is written")
    for note in plan.notes:
        click.echo(plain(str(note)), err=True)
    if job_type is not None:
        from quartzpy.migrate.plan import definitions_text

        text = definitions_text(plan)
    else:
        from quartzpy.migrate.apply import refuse_undecided
        from quartzpy.migrate.schedule_text import schedule_text

        refuse_undecided(plan, skip_undecided=applying["skip_undecided"])
        text = schedule_text(plan, time_zone=zone, home=_home)
    if written is not None:
        # The variables of a crontab are often passwords, and cron shows them to nobody.
        write_private(written, text)
    else:
        click.echo(text, nl=False)
    jobs = f"{written or 'schedule.yaml'}: {number_of(len(plan.jobs), 'job')}"
    following = "" if job_type else f"; quartzpy serve {written or 'schedule.yaml'} --data data runs them"
    taken = "" if machine is None else f"; time zone {machine.name}, from {machine.source}"
    click.echo(f"{jobs}{following}{taken}", err=written is None)


def _home(user: str | None) -> str:
    """Return the home directory of a user of this machine, of the one that runs this command by default."""
    try:
        return str(Path(f"~{user or ''}").expanduser())
    except RuntimeError:  # The crontab is that of another machine.
        return "/"


def _decisions(values: Sequence[str]) -> ClassMap:
    """Return the decisions of `--map`: pairs, and files of them; a later one counts.

    Raises:
        SettingsError: a value is neither, or a file is wrong.
    """
    from quartzpy.migrate import ClassMap, load_class_map
    from quartzpy.migrate.class_map import mapped

    decisions = ClassMap()
    for value in values:
        more = load_class_map(value) if Path(value).is_file() else mapped(value)
        decisions = ClassMap({**decisions.classes, **more.classes}, {**decisions.data, **more.data})
    return decisions


def _run(
    plan: ImportPlan,
    target: Target,
    *,
    apply_it: bool,
    held: bool,
    skip_undecided: bool,
    while_running: bool,
    limit: int,
    reason: str,
    json_output: bool,
) -> None:
    from quartzpy.migrate import apply

    check_description(reason, SettingsError, "--reason")
    store = _store(target) if apply_it else _store_of_dry_run(target)
    progress = _Progress()
    try:
        outcome = apply(
            plan,
            store,
            held=held,
            skip_undecided=skip_undecided,
            while_running=while_running,
            dry_run=not apply_it,
            reason=reason,
            progress=progress.show,
        )
    finally:
        progress.end()
        store.close()
    click.echo(_as_json(plan, outcome, apply_it) if json_output else _as_text(plan, outcome, apply_it, limit))


class _Progress:
    """Says on standard error how much is stored, if that takes long."""

    def __init__(self) -> None:
        self._done = self._total = 0
        self._began = self._said = time.monotonic()
        self._first = 0
        self._is_open = False
        self._is_terminal = sys.stderr.isatty()

    def show(self, done: int, total: int) -> None:
        now = time.monotonic()
        if not self._done:
            # The rate does not include what comes before the first slice.
            self._began, self._first = now, done
        self._done, self._total = done, total
        if now - self._said < (_REDRAWN if self._is_terminal else _REPEATED):
            return
        self._said = now
        rate = (done - self._first) / max(now - self._began, 0.001)
        text = f"stored {done:,} of {total:,} jobs and triggers, {rate:,.0f} a second"
        # Spaces cover the rest of a longer line.
        click.echo(f"\r{text:<60}" if self._is_terminal else text, err=True, nl=not self._is_terminal)
        self._is_open = self._is_terminal

    def end(self) -> None:
        if self._is_open:
            click.echo(err=True)
        if 0 < self._done < self._total:
            stored = f"{self._done:,} of {self._total:,} jobs and triggers are stored"
            click.echo(f"the import is not complete: {stored}; the same command continues it", err=True)


def _store_of_dry_run(target: Target) -> JobStore:
    """Return the store that a plan is compared with: an empty one where there is no database, or no table in it yet."""
    from quartzpy.clock import SystemClock
    from quartzpy.store.memory.store import RamJobStore

    what = "no database is selected (--url)"
    if target.has_database:
        try:
            with closing(_store(target)) as tried:
                tried.check_tables()
            return _store(target)
        except SchemaError as error:
            what = str(error)
    click.echo(f"compared with an empty scheduler, because {what}", err=True)
    return RamJobStore(SystemClock())


def _store(target: Target) -> SqlJobStore:
    from quartzpy.config.config import SchedulerConfig
    from quartzpy.store.postgresql.store import SqlJobStore

    # An import may be the first that a new scheduler stores, so its name need not be known.
    name = target.name if target.name is not None else target.chosen_name()
    return SqlJobStore(target.database, SchedulerConfig.of(target.settings(name or DEFAULT_NAME)))


def _rows(plan: ImportPlan) -> Iterator[list[Any]]:
    """Yield the triggers, and the jobs without any."""
    from quartzpy.operations.views.schedules import zone_text

    for job in plan.jobs:
        for item in job.triggers:
            yield [
                str(item.trigger.key),
                str(job.job.key),
                job.job.job_type,
                item.trigger.text,
                zone_text(item.trigger),
                item.progress.next_fire_time,
                item.paused,
            ]
        if not job.triggers:
            yield [None, str(job.job.key), job.job.job_type, *[None] * 4]


def _as_text(plan: ImportPlan, outcome: ImportOutcome, applied: bool, limit: int) -> str:
    count = sum(len(job.triggers) or 1 for job in plan.jobs)
    rows = list(islice(_rows(plan), limit))
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    heads = [f"next ({local_zone()})" if name == "next" else name for name in _COLUMNS]
    lines = [plain(plan.source), table(heads, rows, width=width, droppable=_DROPPABLE)]
    if count > limit:
        lines.append(f"({count - limit:,} more; --limit shows more, --json all)")
    if plan.calendars:
        lines.append(f"calendars: {_listed(plan.calendars, limit)}")
    if plan.paused_groups:
        lines.append(f"paused groups: {_listed(plan.paused_groups, limit)}")
    lines += _notes(plan.notes, limit)
    if plan.running is not None:
        lines.append(f"{plain(plan.source)} still runs: {plain(plan.running)}")
    lines.append(_summary(outcome))
    lines.append("Stored." if applied else "Nothing was changed; --apply stores this plan.")
    return "\n".join(lines)


def _listed(names: Collection[str], limit: int) -> str:
    more = f" and {len(names) - limit:,} more" if len(names) > limit else ""
    return ", ".join(plain(name) for name in sorted(names)[:limit]) + more


def _notes(notes: Sequence[Note], limit: int) -> Iterator[str]:
    """Yield the notes of each severity, at most `limit` of them."""
    for severity in _ORDER:
        some = [note for note in notes if note.severity == severity]
        yield from (plain(str(note)) for note in some[:limit])
        if len(some) > limit:
            yield f"({len(some) - limit:,} more {severity}; --limit shows more, --json all)"


def _summary(outcome: ImportOutcome) -> str:
    counts = [f"{count:,} {name}" for name, count in outcome.counts().items() if count]
    return ", ".join(counts) or "nothing to import"


def _as_json(plan: ImportPlan, outcome: ImportOutcome, applied: bool) -> str:
    return json_text(
        {
            "source": plan.source,
            "applied": applied,
            "running": plan.running,
            "triggers": json.loads(
                as_json(
                    [name.replace(" ", "_") for name in _COLUMNS], [row for row in _rows(plan) if row[0] is not None]
                )
            ),
            "jobs_without_triggers": [str(job.job.key) for job in plan.jobs if not job.triggers],
            "calendars": sorted(plan.calendars),
            "paused_groups": sorted(plan.paused_groups),
            "notes": [{"severity": note.severity, "subject": note.subject, "text": note.text} for note in plan.notes],
            "outcome": {name.replace(" ", "_"): count for name, count in outcome.counts().items()},
        }
    )
