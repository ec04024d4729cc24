"""Imports from the table of APScheduler 3's `SQLAlchemyJobStore`.

The rows are pickles. They are read without being unpickled, so that no code of theirs runs; see `pickles`.

APScheduler combines all fields of a cron trigger by AND, counts the days of the week from Monday (0), and has fields
for the year and for the week of the year.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Any

from quartzpy import job_data
from quartzpy.errors import QuartzpyError, SettingsError
from quartzpy.instants import zone_name
from quartzpy.jobs.function_arguments import ARGS, KWARGS
from quartzpy.jobs.job import JobDetail
from quartzpy.keys import MAIN, JobKey
from quartzpy.migrate.class_map import ClassMap, LeftOut, Undecided
from quartzpy.migrate.databases import MALFORMED, Row, checked_prefix, reading, unreadable
from quartzpy.migrate.pickles import Made, UnreadablePickleError, as_python, read_pickle
from quartzpy.migrate.plan import ImportedJob, ImportedTrigger, ImportPlan, Note, NoteSeverity
from quartzpy.states import Missed
from quartzpy.texts import quoted, reason
from quartzpy.triggers.calendar_interval import CalendarIntervalTrigger
from quartzpy.triggers.combined import AllOf, AnyOf, Jitter
from quartzpy.triggers.cron import CronTrigger
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.trigger import Trigger, TriggerProgress

_WEEKDAYS = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
_LARGEST = {"second": 59, "minute": 59, "hour": 23, "day": 31, "month": 12, "day_of_week": 6, "year": 2099}
_POSITION = "WeekdayPositionExpression"
_LAST_POSITION = 5
# The number of a day of the week before L, by APScheduler's number: in crontab Sunday is 0, in Quartz it is 1.
_CRONTAB, _QUARTZ = (1, 2, 3, 4, 5, 6, 0), (2, 3, 4, 5, 6, 7, 1)


def cron_trigger(fields: Sequence[Made], **values: Any) -> CronTrigger:
    """Return the trigger for the pickled fields of an APScheduler `CronTrigger`; `values` are those of `CronTrigger`.

    Raises:
        LeftOut: the fields cannot be written as a cron expression.
    """
    expressions = {str(_attributes(field)["name"]): _attributes(field)["expressions"] for field in fields}
    if _text("week", expressions["week"]) != "*":
        raise LeftOut("it restricts the week of the year, which no cron expression can do")
    year = _text("year", expressions["year"])
    days = expressions["day"]
    positions = [day for day in days if _kind(day) == _POSITION]
    weekday = _text("day_of_week", expressions["day_of_week"])
    if positions and (len(positions) < len(days) or weekday != "*"):
        raise LeftOut('it mixes days such as "2nd fri" with others, which no cron expression can do')
    has_year = year != "*"
    if positions:
        numbers = _QUARTZ if has_year else _CRONTAB
        day, weekday = "*", ",".join(_position(_attributes(position), numbers) for position in positions)
    else:
        day = _text("day", days)
    rest = [_text(name, expressions[name]) for name in ("second", "minute", "hour")]
    month = _text("month", expressions["month"])
    if not has_year:
        return CronTrigger(
            " ".join([*rest, day, month, weekday]), dialect="crontab", day_or=None if positions else False, **values
        )
    if day != "*" and weekday != "*":
        raise LeftOut("it restricts the year and both day fields, which no cron expression can do")
    day, weekday = ("?", weekday) if weekday != "*" else (day, "?")
    return CronTrigger(" ".join([*rest, day, month, weekday, year]), dialect="quartz", **values)


def _attributes(made: Made) -> Mapping[str, Any]:
    # A class with slots has its state as a pair.
    state = made.state
    attributes: Mapping[str, Any] = state[1] if isinstance(state, tuple) else state
    return attributes


def _kind(made: Made) -> str:
    name = made.args[0].name if made.callee == "copyreg._reconstructor" else made.callee
    return str(name).rpartition(".")[2]


def _text(field: str, expressions: Sequence[Made]) -> str:
    parts = [_part(field, _kind(made), {} if made.state is None else _attributes(made)) for made in expressions]
    return "*" if "*" in parts else ",".join(parts)


def _part(field: str, kind: str, values: Mapping[str, Any]) -> str:
    step = values.get("step")
    if kind == "LastDayOfMonthExpression":
        return "L"
    if kind == "AllExpression":
        if not step or field == "day_of_week":
            return _weekdays(0, None, step) if step else "*"
        return f"*/{step}"
    if kind not in ("RangeExpression", "MonthRangeExpression", "WeekdayRangeExpression"):
        raise LeftOut(f"its field {field} has an expression of the class {kind}")
    first, last = values["first"], values["last"]
    if field == "day_of_week":
        return _weekdays(first, last, step)
    if last is None and step:
        last = _LARGEST[field]
    text = str(first) if last in (None, first) else f"{first}-{last}"
    return f"{text}/{step}" if step and last != first else text


def _weekdays(first: int, last: int | None, step: int | None) -> str:
    if last is None:
        last = _LARGEST["day_of_week"] if step else first
    return ",".join(_WEEKDAYS[day] for day in range(first, last + 1, step or 1))


def _position(values: Mapping[str, Any], numbers: Sequence[int]) -> str:
    number, weekday = values["option_num"], values["weekday"]
    return f"{numbers[weekday]}L" if number == _LAST_POSITION else f"{_WEEKDAYS[weekday]}#{number + 1}"


GROUP = "apscheduler"
_MODULE = "apscheduler.triggers."
_MICROSECOND = timedelta(microseconds=1)
# APScheduler computes with floating-point numbers.
_SLACK = timedelta(milliseconds=1)


def read_apscheduler(
    url: str,
    *,
    table: str = "apscheduler_jobs",
    group: str = GROUP,
    decisions: ClassMap | None = None,
    main: str | None = None,
) -> ImportPlan:
    """Return the plan of an import from the job store of APScheduler 3.

    Each job gets a name of its id in `group`. The job type is the function's reference ("module:name"), which is the
    type of a function with `@job`, unless `decisions` map it to another. `main` is the name of the module that was
    started as a script, whose functions APScheduler has stored as `__main__:name`.

    Raises:
        SettingsError: the URL, the table or `main` is wrong.
        StoreUnavailableError: the database does not answer.
    """
    table = checked_prefix(table)
    if main is not None and not all(part.isidentifier() for part in main.split(".")):
        script = main.removesuffix(".py").rpartition("/")[2]
        hint = f"; did you mean {script}?" if script.isidentifier() else ""
        raise SettingsError(f"main: the name of a module, as old_program for old_program.py (got {quoted(main)}){hint}")
    with reading(url) as rows:
        stored = rows(f"SELECT id, next_run_time, job_state FROM {table} ORDER BY id")  # noqa: S608
        reader = _ApschedulerReader(group, decisions or ClassMap(), main)
        jobs = [job for row in stored if (job := reader.job(row)) is not None]
    return ImportPlan(
        source=f"APScheduler table {table}", owner=f"import:apscheduler:{table}"[:200], jobs=jobs, notes=reader.notes
    )


class _ApschedulerReader:
    def __init__(self, group: str, decisions: ClassMap, main: str | None) -> None:
        self._group = group
        self._decisions = decisions
        self._main = main
        self.notes: list[Note] = []

    def job(self, row: Row) -> ImportedJob | None:
        """Return the job of a row, or note why it does not come over."""
        subject = f"job {self._group}.{row['id']}"
        try:
            state = read_pickle(bytes(row["job_state"]))
            return self._job(state, subject)
        except SettingsError:
            raise
        except LeftOut as error:
            self.notes.append(Note(NoteSeverity.LEFT_OUT, subject, str(error)))
        except (Undecided, UnreadablePickleError, QuartzpyError) as error:
            self.notes.append(Note(NoteSeverity.UNDECIDED, subject, str(error)))
        except MALFORMED as error:
            text = f"its row is not of APScheduler 3: {type(error).__name__}: {reason(error)}"
            self.notes.append(Note(NoteSeverity.UNDECIDED, subject, text))
        return None

    def _job(self, state: Mapping[str, Any], subject: str) -> ImportedJob:
        reference, limit = str(state["func"]), int(state["max_instances"])
        if state["id"] is None:
            raise ValueError("its id is None")
        key = JobKey(str(state["id"]), self._group)
        job = JobDetail(
            self._job_type(reference),
            key.name,
            key.group,
            display_name=str(state["name"]) if state["name"] not in (None, key.name) else None,
            data=self._data(key, state),
            max_concurrent=limit,
            overlap_policy="skip",
        )
        following = None if state["next_run_time"] is None else as_python(state["next_run_time"])
        trigger = read_trigger(state["trigger"], key, following, lambda text: self._differs(subject, text))
        trigger = _with_grace(trigger, state["misfire_grace_time"], coalesce=bool(state["coalesce"]))
        if state["executor"] != "default":
            self._differs(subject, f"it runs in the node's default pool, not in the executor {state['executor']!r}")
        paused = None
        if following is None:
            paused = "paused in APScheduler"
            following = next(iter(trigger.upcoming(1)), None)
        if following is None:
            raise LeftOut("its schedule has ended")
        progress = TriggerProgress(following.astimezone(UTC))
        return ImportedJob(job, [ImportedTrigger(trigger, progress, paused)])

    def _differs(self, subject: str, text: str) -> None:
        self.notes.append(Note(NoteSeverity.DIFFERS, subject, text))

    def _job_type(self, reference: str) -> str:
        if reference in self._decisions.classes:
            return self._decisions.job_type(reference)
        module, _, function = reference.partition(":")
        if module != MAIN:
            return reference
        if self._main is None:
            raise Undecided(
                f"its function {reference} is that of a script, which no node knows by this name: give the name of the"
                " script's module by --main (old_program for old_program.py), or map it in [classes] of --map:"
                f' "{reference}" = "old_program:{function}"'
            )
        return f"{self._main}:{function}"

    def _data(self, key: JobKey, state: Mapping[str, Any]) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for entry, value in ((ARGS, state["args"]), (KWARGS, state["kwargs"])):
            try:
                readable = {entry: as_python(value)}
                job_data.encode(readable)
                data.update(readable)
            except (UnreadablePickleError, QuartzpyError, RecursionError) as error:
                decision = self._decisions.decision("job", key, entry)
                if decision is None:
                    raise Undecided(
                        f"its {entry} cannot be read ({unreadable(error)}), for nothing is unpickled here; give others"
                        f" by [[data]] in --map, with entry = {quoted(entry)}"
                    ) from None
                if "value" in decision:
                    data[entry] = decision["value"]
        return data


def _with_grace(trigger: Trigger, grace: Any, *, coalesce: bool) -> Trigger:
    if grace is None:
        return trigger.treating(Missed.ONCE) if coalesce else replace(trigger, misfire="ignore")
    return replace(trigger.treating(Missed.SKIP), misfire_threshold=timedelta(seconds=grace))


def read_trigger(made: Made, key: JobKey, following: datetime | None, differs: Any) -> Trigger:
    """Return the trigger for a pickled one. `differs` is called with a text about everything that changes.

    Raises:
        LeftOut: quartzpy has no such trigger.
        Undecided: the trigger is of a class of the user's.
        UnreadablePickleError: its zone or another value is of a class that is not known.
    """
    return _trigger(
        made.callee, made, made.state, following, differs, {"name": key.name, "group": key.group, "job_key": key}
    )


def _trigger(
    name: str, made: Made | None, state: Mapping[str, Any], following: datetime | None, differs: Any, common: Any
) -> Trigger:
    # A class is a constructor of protocol 2 and later; before, copyreg rebuilds it.
    if made is not None and name == "copyreg._reconstructor":
        name = made.args[0].name
    kind = name.removeprefix(_MODULE).replace(":", ".").rpartition(".")[2]
    if not name.startswith(_MODULE) or kind not in _KINDS:
        raise Undecided(f"its trigger is of the class {name}; define a trigger for it by hand, and leave the job out")
    trigger: Trigger = _KINDS[kind](state, following, differs, common)
    jitter = state.get("jitter")
    if not jitter:
        return trigger
    differs(f"each fire is delayed by up to {jitter} s by its instant; APScheduler draws lots")
    plain = replace(trigger, name=None, group="DEFAULT", job_key=None, start_time=None, end_time=None)
    return Jitter(
        trigger=plain,
        up_to=timedelta(seconds=jitter),
        start_time=trigger.start_time,
        end_time=trigger.end_time,
        **common,
    )


def _date(state: Mapping[str, Any], following: datetime | None, differs: Any, common: Any) -> Trigger:
    return SimpleTrigger(start_time=as_python(state["run_date"]), **common)


def _interval(state: Mapping[str, Any], following: datetime | None, differs: Any, common: Any) -> Trigger:
    start, end, interval = (as_python(state[name]) for name in ("start_date", "end_date", "interval"))
    if following is not None and following > start:
        # A run that APScheduler delayed by jitter moves all later ones.
        phase = (following - start) % interval
        if _SLACK < phase < interval - _SLACK:
            start += phase
    # APScheduler's end is inclusive.
    return SimpleTrigger(
        interval=interval, start_time=start, end_time=None if end is None else end + _MICROSECOND, **common
    )


def _cron(state: Mapping[str, Any], following: datetime | None, differs: Any, common: Any) -> Trigger:
    return cron_trigger(
        state["fields"],
        time_zone=zone_name(as_python(state["timezone"])),
        start_time=as_python(state["start_date"]),
        end_time=as_python(state["end_date"]),
        **common,
    )


def _calendar_interval(state: Mapping[str, Any], following: datetime | None, differs: Any, common: Any) -> Trigger:
    units = zip(("year", "month", "week", "day"), state["interval"], strict=True)
    lengths = [(unit, count) for unit, count in units if count]
    if len(lengths) != 1:
        raise LeftOut("its interval has several units; quartzpy's have one")
    zone: tzinfo = as_python(state["timezone"])
    at = time(*state["time"])
    start: date = as_python(state["start_date"])
    end: date | None = as_python(state["end_date"])
    return CalendarIntervalTrigger(
        interval=lengths[0][1],
        unit=lengths[0][0],
        time_zone=zone_name(zone),
        start_time=datetime.combine(start, at, zone),
        end_time=None if end is None else datetime.combine(end + timedelta(days=1), time(), zone),
        **common,
    )


def _combined(kind: type[AnyOf] | type[AllOf]) -> Any:
    def read(state: Mapping[str, Any], following: datetime | None, differs: Any, common: Any) -> Trigger:
        parts = [_trigger(name, None, own, None, differs, {}) for name, own in state["triggers"]]
        starts = [part.start_time for part in parts if part.start_time is not None]
        ends = {part.end_time for part in parts}
        if len(ends) > 1:
            raise LeftOut("its parts end at different times; a combined trigger here has one end")
        if any(isinstance(part, SimpleTrigger) and part.repeat_count == 0 for part in parts):
            raise LeftOut("a part of it is a single date, which cannot be combined here")
        plain = [replace(part, end_time=None) for part in parts]
        return kind(triggers=plain, start_time=min(starts, default=None), end_time=ends.pop(), **common)

    return read


_KINDS = {
    "DateTrigger": _date,
    "IntervalTrigger": _interval,
    "CronTrigger": _cron,
    "CalendarIntervalTrigger": _calendar_interval,
    "AndTrigger": _combined(AllOf),
    "OrTrigger": _combined(AnyOf),
}
