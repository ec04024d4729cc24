"""The parsers: how each is given an input, and what must hold of what it accepts."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

from quartzpy import job_data
from quartzpy.calendars.calendar import BaseCalendar
from quartzpy.calendars.registry import calendar_from_json, calendar_to_json
from quartzpy.config.setting_names import PREFIX
from quartzpy.config.sources import load_settings
from quartzpy.cron_expressions.crontab import CrontabExpression
from quartzpy.cron_expressions.expression import CronExpression
from quartzpy.cron_expressions.schedule import DaylightSaving
from quartzpy.dashboard.api.definitions import _parsed
from quartzpy.definitions.files import load_definitions
from quartzpy.errors import TriggerNeverFiresError
from quartzpy.ics import calendar_from_ics
from quartzpy.jobs.job import JobDetail
from quartzpy.jobs.retry import RetryPolicy
from quartzpy.jobs.stored_options import options_text
from quartzpy.store.postgresql.schema import rows
from quartzpy.triggers.business_days import Rolled
from quartzpy.triggers.combined import AllOf, AnyOf, Jitter
from quartzpy.triggers.cron import CronTrigger
from quartzpy.triggers.recurrence import RecurrenceTrigger
from quartzpy.triggers.recurrence_rule import recurrence_set
from quartzpy.triggers.trigger import Trigger
from quartzpy.triggers.upcoming import prepare
from tests.fuzz import corpus, hostile
from tests.fuzz.mutation import mutated
from tests.fuzz.runner import Target
from tests.fuzz.values import NOW, OneType, data

_TYPES = OneType()


def _text(seeds: Callable[[], list[str]], *more: str, longest: int = 40_000) -> Callable[[Random], str]:
    @lru_cache
    def pieces() -> list[str]:
        return corpus.words(seeds(), more)

    return lambda random: mutated(random, seeds(), pieces())[:longest]


def _cron(given: Any) -> None:
    expression, zone, dst, day_or = given
    found = CronExpression(expression, zone, dst, day_or, seed="a")
    found.describe()
    upcoming = found.next_after(NOW)
    assert upcoming is None or (upcoming > NOW and found.is_satisfied_by(upcoming))
    assert CronExpression(found.text, zone, dst, day_or, seed="a") == found


def _cron_input(random: Random) -> tuple[str, str, DaylightSaving, bool | None]:
    text = _CRON(random) if random.random() < 0.7 else _of_good_fields(random, corpus.cron(), 7)
    return text, *_options(random), random.choice((None, None, True, False))


def _crontab_input(random: Random) -> tuple[str, str, DaylightSaving, bool]:
    text = _CRONTAB(random) if random.random() < 0.5 else _of_good_fields(random, corpus.CRONTAB, 5)
    return text, *_options(random), random.random() < 0.7


def _options(random: Random) -> tuple[str, DaylightSaving]:
    known = [*corpus.zones(), "+02:00", "-11:30"]
    zone = mutated(random, known, ["/", "..", "Europe", "UTC", ":", "+"]) if random.random() < 0.02 else None
    return zone or random.choice(known), random.choice(list(DaylightSaving))


def _of_good_fields(random: Random, seeds: list[str], count: int) -> str:
    """Fields of different expressions: more of these are accepted, and reach the search for fire times."""
    fields = [random.choice(seeds).split() for _ in range(count)]
    return " ".join(one[place] for place, one in enumerate(fields) if len(one) > place)


_CRON = _text(corpus.cron, "L", "W", "LW", "#", "?", "*/", "MON", "FRI", "DEC", "L-3")
_CRONTAB = _text(lambda: corpus.CRONTAB, "@daily", "@reboot", "h", "r", "l", "#", "mon", "w", "R(0-5)", "H(1-4)", "H/7")


def _crontab(given: Any) -> None:
    line, zone, dst, day_or = given
    found = CrontabExpression(line, zone, dst, day_or, seed="a")
    found.describe()
    upcoming = found.next_after(NOW)
    assert upcoming is None or (upcoming > NOW and found.is_satisfied_by(upcoming))
    before = found.previous_before(NOW)
    assert before is None or (before < NOW and found.is_satisfied_by(before))
    assert CrontabExpression(found.text, zone, dst, day_or, seed="a") == found
    # A line that no day matches is refused.
    assert upcoming or before


def _recurrence(given: Any) -> None:
    found = recurrence_set(given)
    assert recurrence_set(found.text) == found
    RecurrenceTrigger("t", rule=given, start_time=NOW)


_DATA = _text(lambda: corpus.DATA, "$enum", "NaN", "1e999", '{"$tuple":', "[", "{")


def _decoded(given: Any) -> None:
    found = job_data.decode(given)
    assert job_data.decode(job_data.encode(found)) == found


def _round_trip(given: Any) -> None:
    text = job_data.encode(given)
    assert text is None or json.loads(text) is not None
    back = job_data.decode(text)
    # Not with ==: -0.0 equals 0.0, and 1 equals True.
    assert repr(_in_utc(back)) == repr(_in_utc(dict(given)))


def _in_utc(value: Any) -> Any:
    return json.loads(job_data.encode(value) or "{}")


@lru_cache
def _scratch() -> Path:
    directory = tempfile.mkdtemp(prefix="quartzpy-fuzz-")
    import atexit
    import shutil

    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return Path(directory)


def _config(given: Any) -> None:
    text, environ, name = given
    path = None
    if text is not None:
        path = _scratch() / name
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
    load_settings(path, environ)


def _config_input(random: Random) -> tuple[str | None, Mapping[str, str], str]:
    text = _CONFIG(random) if random.random() < 0.7 else None
    chosen = random.sample(sorted(corpus.ENVIRONMENT), random.randrange(0 if text else 1, 4))
    environ = {
        PREFIX + (name if random.random() < 0.97 else mutated(random, [name], ["_", "X"])): (
            corpus.ENVIRONMENT[name]
            if random.random() < 0.3
            else mutated(random, [corpus.ENVIRONMENT[name]], ["=", ",", ":", "none", "true", "s", "ms", "d"])
        )
        for name in chosen
    }
    return text, environ, random.choice(("quartzpy.toml", "pyproject.toml"))


_CONFIG = _text(
    lambda: [*corpus.CONFIG, *corpus.examples("toml")], "'''", '"""', "[[", "]]", "inf", "nan", "1979-05-27T07:32:00Z"
)


def _declared(suffix: str) -> Callable[[Any], None]:
    def run(given: Any) -> None:
        path = _scratch() / f"jobs.{suffix}"
        path.write_bytes(given.encode("utf-8", "surrogatepass"))
        load_definitions(path, types=_TYPES)

    return run


def _schedule(given: Any) -> None:
    kind, text = given
    row = ("t", "g", "g", "j", kind, text, None, NOW, None, 5, "smart", None, None, None)
    rows.TriggerColumns(*row).trigger().next_after(NOW)


def _schedule_input(random: Random) -> tuple[str, str]:
    text = _SCHEDULE(random)
    try:
        kind, schedule = json.loads(text)
        return kind, json.dumps(schedule)
    except (ValueError, TypeError, RecursionError):
        kind, _ = json.loads(random.choice(corpus.schedules()))
        return kind, text


_SCHEDULE = _text(corpus.schedules, '"kind"', "null", "true", "{}", "[]", "triggers", "trigger")


def _calendar(given: Any) -> None:
    found = rows.calendar_from_text(given)
    assert calendar_from_json(calendar_to_json(found)) == found
    found.next_included(NOW)


def _job(given: Any) -> None:
    placement, definition, job_data = given
    unset = dict.fromkeys(rows.JobColumns._fields)
    columns = {"job_name": "j", "job_group": "g", "job_type": "type", "job_is_durable": True, "overlap_policy": "block"}
    flags = {"persists_data": False, "requests_recovery": False}
    fuzzed = {"placement": placement, "definition": definition, "job_data": job_data}
    rows.JobColumns(**{**unset, **columns, **flags, **fuzzed}).job()


def _job_input(random: Random) -> tuple[str, str, str]:
    """One of the columns is tampered with: the first that is wrong would hide the others."""
    makers = (_PLACEMENT, _DEFINITION, _DATA)
    good = ("", '{"timeout": "90s"}', "{}")
    tampered = random.randrange(3)
    placement, definition, data = (make(random) if n == tampered else good[n] for n, make in enumerate(makers))
    return placement, definition, data


_PLACEMENT = _text(lambda: ["", '{"executor":"cpu","group":"reports","requires":["gpu","eu"]}', '{"requires":["a"]}'])
_POLICY = RetryPolicy(attempts=9, on=[ValueError], jitter=0.5)
_DEFINED = (
    JobDetail("type", "j", "g", retry=_POLICY),
    JobDetail("type", "j", "g", timeout="90s", capture_logs="INFO", description="It runs at night."),
)
_DEFINITION = _text(lambda: [options_text(job) or "" for job in _DEFINED])


def _fires(given: Any) -> None:
    make, calendar = given
    trigger = make()
    with suppress(TriggerNeverFiresError):
        prepared = prepare(trigger, NOW, calendar)
        upcoming = (prepared.progress.next_fire_time, *prepared.upcoming.instants)
        assert list(upcoming) == sorted(set(upcoming))


def _fires_input(random: Random) -> tuple[Callable[[], Trigger], BaseCalendar | None]:
    """Rules with many exclusions, nested combinations, and chains of calendars that exclude much."""
    depth = random.choice((0, 0, 1, 2, 4, 8))
    choices = [random.randrange(4) for _ in range(depth)]
    rule, cron, span = hostile.rule(random), hostile.cron(random), random.choice(("0s", "1s", "1h", "36d"))

    def make() -> Trigger:
        inner: Trigger = RecurrenceTrigger("t", rule=rule) if rule else CronTrigger(cron)
        for choice in choices:
            other = CronTrigger(cron)
            match choice:
                case 0:
                    inner = Jitter(trigger=inner, up_to=span if span != "0s" else "1m")
                case 1:
                    inner = AllOf(triggers=[inner, other], threshold=span)
                case 2:
                    inner = AnyOf(triggers=[inner, other, other])
                case _ if not inner.needs_calendar:
                    inner = Rolled("t", trigger=inner, roll="nearest", offset=len(choices), calendar="c")
        return inner

    return make, hostile.calendar(random)


def _events(given: Any) -> None:
    calendar_from_ics(given, years=[2026, 2027])


def _events_input(random: Random) -> str:
    lines = [
        random.choice(("DTSTART:20260101", "DTSTART:20260101T090000Z", "DTSTART:18000101T000000", "DTSTART:99900101"))
    ]
    lines += hostile.rule(random).splitlines() or ["RRULE:FREQ=DAILY"]
    lines.append(random.choice(("", "DTEND:99901231", "DURATION:P1D", "DURATION:P99999W")))
    text = "\r\n".join(["BEGIN:VCALENDAR", "BEGIN:VEVENT", *filter(None, lines), "END:VEVENT", "END:VCALENDAR", ""])
    return text if random.random() < 0.7 else mutated(random, [text], corpus.words([text], ()))[:40_000]


def _body(given: Any) -> None:
    _parsed(given.encode("utf-8", "surrogatepass"))


def _body_input(random: Random) -> str:
    number = random.choice((1, 100, 20_000))
    match random.randrange(4):
        case 0:
            return json.dumps({f"k{n}": n for n in range(number)})[:-1] + ',"k0": 1}'
        case 1:
            return "[" * number + "]" * number
        case 2:
            return json.dumps({"x": "9" * number}).replace('"9', "9").replace('9"', "9")
    return _DATA(random)


TARGETS = {
    target.name: target
    for target in (
        Target("cron", _cron_input, _cron),
        Target("crontab", _crontab_input, _crontab),
        Target(
            "recurrence", _text(lambda: corpus.RECURRENCE, "FREQ=", "BYDAY=", "COUNT=", "\n ", "Z", "T"), _recurrence
        ),
        Target("data", _DATA, _decoded),
        Target("round-trip", data, _round_trip),
        Target("config", _config_input, _config),
        Target(
            "declared-toml",
            _text(lambda: [*corpus.DECLARED_TOML, *corpus.examples("toml")], "[[", "nan", "1979-05-27T07:32:00Z"),
            _declared("toml"),
        ),
        Target(
            "declared-yaml",
            _text(
                lambda: corpus.DECLARED_YAML,
                "!!python/object:os.system",
                "!!set",
                "&a",
                "*a",
                "<<",
                "? ",
                "|",
                "{",
                longest=3_000,
            ),
            _declared("yaml"),
        ),
        Target("job", _job_input, _job),
        Target("fires", _fires_input, _fires, limit=3.0),
        Target("events", _events_input, _events, limit=9.0),
        Target("body", _body_input, _body, limit=0.5),
        Target("schedule", _schedule_input, _schedule),
        Target("calendar", _text(corpus.calendars, '"base"', "null", "true", "{}", "[]"), _calendar),
    )
}
