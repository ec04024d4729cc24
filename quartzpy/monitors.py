"""What outside monitors are called with: healthchecks.io and its relatives, Sentry Crons, and Cronitor.

Pure functions, which make the calls of the HTTP forms of these services and send nothing.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import quote, urlencode, urlsplit, urlunsplit
from uuid import UUID

from quartzpy.config.setting_checks import NO_MONITOR
from quartzpy.errors import CommandFailedError
from quartzpy.keys import DEFAULT_GROUP, JobKey
from quartzpy.outgoing import Ping
from quartzpy.texts import error_summary, storable_text, visible
from quartzpy.triggers.cron import CRONTAB, CronTrigger
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.trigger import Trigger

MAX_SLUG = 50
"""The length of the name of a monitor, which Sentry limits."""
MAX_MESSAGE = 1_000
_JOB = "{job}"
_SENTRY = re.compile(r"/api/[0-9]+/cron/[^/]+/[^/]+/?")
_FORMS = ("healthchecks", "sentry", "cronitor")


class Moment(StrEnum):
    """What a monitor is told."""

    START = "start"
    SUCCESS = "success"
    FAILURE = "failure"
    HEARTBEAT = "heartbeat"


def monitor_of(monitors: Mapping[str, str], job: JobKey) -> str | None:
    """Return the URL, or its place, of the monitor of a job: of the first pattern that matches; None if it has none.

    A pattern is one of "group.name"; one without a wildcard and a full stop is the name of a job in the default group.
    """
    for pattern, place in monitors.items():
        if fnmatchcase(str(job), pattern) or (job.group == DEFAULT_GROUP and fnmatchcase(job.name, pattern)):
            return None if place == NO_MONITOR else place
    return None


def slug(job: JobKey) -> str:
    """Return the name of the monitor of a job: in small letters, digits, "-" and "_".

    A digest tells jobs apart whose names would otherwise be the same.
    """
    text = job.name if job.group == DEFAULT_GROUP else f"{job.group}-{job.name}"
    plain = re.sub(r"[^a-z0-9_]+", "-", text.lower()).strip("-_")
    if plain == text.lower() and len(plain) <= MAX_SLUG:
        return plain
    digest = hashlib.sha256(str(job).encode()).hexdigest()[:6]
    return f"{plain[: MAX_SLUG - 7].strip('-_')}-{digest}".lstrip("-")


def run_id(execution_key: str) -> str:
    """Return the id of a run, which is the same in all of its attempts."""
    return str(UUID(hashlib.sha256(execution_key.encode()).hexdigest()[:32]))


def ping(
    url: str,
    moment: Moment,
    name: str,
    *,
    what: str,
    run: str | None = None,
    error: BaseException | None = None,
    outcome: str = "",
    duration: timedelta | None = None,
    schedule: Mapping[str, Any] | None = None,
) -> Ping:
    """Return the call that tells a monitor what happened.

    Args:
        url: the URL of the monitor, in which `{job}` stands for its name. It may begin with the name of a form:
            "cronitor+https://...".
        moment: what happened.
        name: the name of the monitor.
        what: what the call is about, for the log.
        run: the id of the run.
        error: why the run failed.
        outcome: how it ended, if there is no error.
        duration: the time that it took.
        schedule: the schedule of the job, as Sentry understands it.
    """
    form, url = _form(url.replace(_JOB, quote(name, safe="")))
    message = "" if moment is not Moment.FAILURE else _message(error, outcome)
    if form == "sentry":
        return _sentry(url, moment, what, run, duration, schedule)
    if form == "cronitor":
        return _cronitor(url, moment, what, run, message, error)
    return _healthchecks(url, moment, what, run, message, error)


def _form(url: str) -> tuple[str, str]:
    prefix, plus, rest = url.partition("+")
    if plus and prefix in _FORMS:
        return prefix, rest
    parts = urlsplit(url)
    if _SENTRY.fullmatch(parts.path):
        return "sentry", url
    if (parts.hostname or "").endswith(("cronitor.link", "cronitor.io")):
        return "cronitor", url
    return "healthchecks", url


def _message(error: BaseException | None, outcome: str) -> str:
    text = outcome if error is None else f"{type(error).__name__}: {error_summary(str(error)) or ''}"
    return visible(storable_text(text))[:MAX_MESSAGE]


def _exit_status(error: BaseException | None) -> int | None:
    """Return the exit status of the command that failed."""
    status = error.exit_status if isinstance(error, CommandFailedError) else None
    return status if status is not None and 0 < status < 256 else None


def _with(url: str, ending: str, values: Mapping[str, str | None]) -> str:
    parts = urlsplit(url)
    added = urlencode({name: value for name, value in values.items() if value})
    query = "&".join(filter(None, (parts.query, added)))
    return urlunsplit(parts._replace(path=parts.path.rstrip("/") + ending if ending else parts.path, query=query))


def _healthchecks(
    url: str, moment: Moment, what: str, run: str | None, message: str, error: BaseException | None
) -> Ping:
    ending = ""
    if moment is Moment.START:
        ending = "/start"
    elif moment is Moment.FAILURE:
        status = _exit_status(error)
        ending = "/fail" if status is None else f"/{status}"
    body = message.encode() or None
    return Ping(_with(url, ending, {"rid": run}), "POST" if body else "GET", body, what=what)


def _cronitor(url: str, moment: Moment, what: str, run: str | None, message: str, error: BaseException | None) -> Ping:
    states = {Moment.START: "run", Moment.FAILURE: "fail"}
    status = _exit_status(error)
    values = {"state": states.get(moment, "complete"), "series": run, "message": message}
    return Ping(_with(url, "", {**values, "status_code": None if status is None else str(status)}), what=what)


def _sentry(
    url: str,
    moment: Moment,
    what: str,
    run: str | None,
    duration: timedelta | None,
    schedule: Mapping[str, Any] | None,
) -> Ping:
    states = {Moment.START: "in_progress", Moment.FAILURE: "error"}
    document: dict[str, Any] = {"status": states.get(moment, "ok")}
    if run is not None:
        document["check_in_id"] = run.replace("-", "")
    if duration is not None:
        document["duration"] = round(duration.total_seconds(), 3)
    if schedule is not None:
        document["monitor_config"] = dict(schedule)
    return Ping(url, "POST", json.dumps(document).encode(), {"content-type": "application/json"}, what)


# --- our schedule, as monitors understand it


def monitor_config(trigger: Trigger, timeout: timedelta | None) -> dict[str, Any] | None:
    """Return the schedule of a trigger in the form of Sentry; None where that would expect other runs than ours.

    It knows no calendars, no ends, no seconds, and no days such as "the last Friday".
    """
    if trigger.calendar is not None or trigger.end_time is not None:
        return None
    config: dict[str, Any]
    if isinstance(trigger, CronTrigger):
        line = crontab_of(trigger)
        if line is None or ("/" not in trigger.time_zone and trigger.time_zone != "UTC"):
            return None
        config = {"schedule": {"type": "crontab", "value": line}, "timezone": trigger.time_zone}
    elif isinstance(trigger, SimpleTrigger) and trigger.repeat_count is None and trigger.interval:
        minutes, rest = divmod(trigger.interval, timedelta(minutes=1))
        if rest:
            return None
        config = {"schedule": {"type": "interval", "value": minutes, "unit": "minute"}}
    else:
        return None
    if timeout is not None:
        config["max_runtime"] = max(1, -(-timeout // timedelta(minutes=1)))
    return config


_NAMES = "SUN|MON|TUE|WED|THU|FRI|SAT|JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC"
_ITEM = re.compile(
    rf"(?P<first>\*|[0-9]{{1,2}}|{_NAMES})(?:-(?P<last>[0-9]{{1,2}}|{_NAMES}))?(?:/(?P<step>[0-9]{{1,2}}))?"
)
_MOST = (59, 23, 31, 12, 6)
_WEEKDAY = 4


def crontab_of(trigger: CronTrigger) -> str | None:
    """Return the crontab line of five fields that means the same as the expression of a trigger; None if none does."""
    tokens = trigger.expression.upper().split()
    is_quartz = trigger.dialect != CRONTAB
    if len(tokens) == 1 and tokens[0].startswith("@"):
        return tokens[0].lower() if not tokens[0].startswith("@EVERY") else None
    if len(tokens) == 7 and tokens.pop() != "*":
        return None
    if len(tokens) == 6 and tokens.pop(0) != "0":
        return None
    if trigger.day_or is False or len(tokens) != 5:
        return None
    fields = [_field(token, place, is_quartz=is_quartz) for place, token in enumerate(tokens)]
    return None if None in fields else " ".join(field for field in fields if field is not None)


def _field(token: str, place: int, *, is_quartz: bool) -> str | None:
    if token == "?":
        return "*"
    items = []
    for item in token.split(","):
        match = _ITEM.fullmatch(item)
        if match is None:
            return None
        shift = is_quartz and place == _WEEKDAY
        first, last = (_value(match[name], shift=shift) for name in ("first", "last"))
        step = match["step"]
        if step is not None and last is None and first != "*":
            # Quartz counts from the value to the end of its field.
            last = str(_MOST[place])
        items.append(f"{first}{f'-{last}' if last else ''}{f'/{step}' if step else ''}")
    return ",".join(items)


def _value(text: str | None, *, shift: bool) -> str | None:
    """Return a value of a field. Quartz counts the days of the week from 1, crontabs from 0."""
    return str(int(text) - 1) if text is not None and shift and text.isdigit() else text
