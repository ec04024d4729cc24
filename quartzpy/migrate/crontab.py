"""Imports from a crontab. The rules of the file are those of Debian's crontab(5)."""

from __future__ import annotations

import hashlib
import pwd
import re
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any

from quartzpy.errors import QuartzpyError
from quartzpy.expect import EACH_FAILURE, Expect
from quartzpy.jobs.job import JobDetail
from quartzpy.keys import JobKey
from quartzpy.migrate.class_map import LeftOut
from quartzpy.migrate.plan import ImportedJob, ImportedTrigger, ImportPlan, Note, NoteSeverity
from quartzpy.texts import quoted
from quartzpy.triggers.cron import CronTrigger
from quartzpy.triggers.trigger import TriggerProgress

GROUP = "crontab"
_VARIABLE = re.compile(r"\s*(\"[^\"]*\"|'[^']*'|[A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)")
_FIELDS = 5
_REBOOT = "@reboot"
_ZONE = "CRON_TZ"
_MAIL = "MAILTO"
_DELAY = "RANDOM_DELAY"
_OF_CRON = (_ZONE, _MAIL, _DELAY)
"""The variables that are for cron itself."""
_HEADING = re.compile(r"[-|.*+\s]*|m\s+h\s.*", re.IGNORECASE)
"""The lines of comments that name the columns of a crontab."""
_TURNED_OFF = re.compile(r"(@[a-z]+|([0-9*][0-9*/,~-]*\s+){2}(\S+\s+){3}\S)", re.IGNORECASE)
"""How a comment begins that is a line of the crontab which somebody has turned off."""


@dataclass(frozen=True, slots=True)
class _Line:
    schedule: str
    command: str
    stdin: str | None
    user: str | None


def read_crontab(
    text: str,
    *,
    time_zone: str,
    job_type: str,
    system: bool = False,
    user: str | None = None,
    group: str = GROUP,
    name: str = "crontab",
) -> ImportPlan:
    """Return the plan of an import from a crontab. Each line becomes a job of the type `job_type`.

    The data of a job are `command`, and where the crontab has them `stdin`, `user` and `environment`. `time_zone` is
    the zone of the machine; a line `CRON_TZ=...` overrides it for the lines after it. With `system`, lines have a field
    for the user, as in /etc/crontab; those of others than `user` are left out, if it is given. The comment directly
    above a line becomes the description. `name` identifies the crontab in a later import.

    Raises:
        UnknownTimeZoneError: there is no such zone.
    """
    notes: list[Note] = []
    jobs: dict[JobKey, ImportedJob] = {}
    environment: dict[str, str] = {}
    comment: list[str] = []
    now = datetime.now(UTC)  # noqa: TID251 - a crontab has no other clock
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if not line or line.startswith("#"):
            words = line.lstrip("# \t")
            comment = [] if _HEADING.fullmatch(words) or _TURNED_OFF.match(words) else [*comment, words]
            continue
        subject = f"line {number}"
        variable = _VARIABLE.fullmatch(line)
        if variable is not None:
            _set(environment, variable, subject, notes)
            continue
        try:
            parsed = _parsed(line, system)
            if user is not None and parsed.user not in (None, user):
                raise LeftOut(f"it runs as {parsed.user}, and not as {user}; import it as that user")
            zone = environment.get(_ZONE, time_zone)
            imported = _imported(parsed, zone, job_type, group, environment, " ".join(comment), now)
        except LeftOut as error:
            notes.append(Note(NoteSeverity.LEFT_OUT, subject, str(error)))
        except QuartzpyError as error:
            notes.append(Note(NoteSeverity.UNDECIDED, subject, str(error)))
        else:
            if imported.job.key in jobs:
                notes.append(
                    Note(NoteSeverity.DIFFERS, subject, "it repeats a line before; the job runs once for both")
                )
            jobs[imported.job.key] = imported
            if not system and _is_user(line):
                text = "it begins with the name of a user, as lines of /etc/crontab do; --system reads them"
                notes.append(Note(NoteSeverity.DIFFERS, subject, text))
        comment = []
    return ImportPlan(
        source=f"crontab {name}", owner=f"import:crontab:{name}"[:200], jobs=list(jobs.values()), notes=notes
    )


def _is_user(line: str) -> bool:
    """Return whether the first word of a line's command is a user of this machine, and no program."""
    columns = 1 if line.startswith("@") else _FIELDS
    words = line.split(maxsplit=columns)[columns].split()
    if len(words) < 2 or shutil.which(words[0]) is not None:
        return False
    try:
        pwd.getpwnam(words[0])
    except (KeyError, ValueError):
        return False
    return True


def _set(environment: dict[str, str], variable: re.Match[str], subject: str, notes: list[Note]) -> None:
    name, value = (_unquoted(part) for part in variable.groups())
    environment[name] = value
    if name == _MAIL and value:
        text = (
            f"the output is not mailed to {value}; each failure of the lines below is an incident, of which notify: of"
            " a schedule file, or notify_channels, tells with the end of the output"
        )
        notes.append(Note(NoteSeverity.DIFFERS, subject, text))
    if name == _DELAY:
        notes.append(
            Note(NoteSeverity.DIFFERS, subject, "the lines below start at their times, without a random delay")
        )


def _unquoted(text: str) -> str:
    text = text.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def _parsed(line: str, system: bool) -> _Line:
    fields = 1 if line.startswith("@") else _FIELDS
    columns = fields + (1 if system else 0)
    parts = line.split(maxsplit=columns)
    if parts[0].lower() == _REBOOT:
        raise LeftOut("@reboot is no time of a schedule; start the program as a service of the machine")
    if len(parts) <= columns:
        expected = "a schedule, a user and a command" if system else "a schedule and a command"
        raise LeftOut(f"it is no line of a crontab, which has {expected}: {quoted(line)}")
    command, stdin = _split_percent(parts[columns])
    return _Line(" ".join(parts[:fields]), command, stdin, parts[fields] if system else None)


def _split_percent(text: str) -> tuple[str, str | None]:
    """Split a command at the first "%", after which is its input; further ones end lines, and "\\%" is a "%"."""
    parts = [part.replace("\\%", "%") for part in re.split(r"(?<!\\)%", text)]
    return parts[0].strip(), "\n".join(parts[1:]) if len(parts) > 1 else None


def _imported(
    line: _Line, time_zone: str, job_type: str, group: str, environment: dict[str, str], comment: str, now: datetime
) -> ImportedJob:
    key = JobKey(_name(line), group)
    variables = {name: value for name, value in environment.items() if name not in _OF_CRON}
    data: dict[str, Any] = {"command": line.command}
    data |= {"stdin": line.stdin} if line.stdin is not None else {}
    data |= {"user": line.user} if line.user is not None else {}
    data |= {"environment": variables} if variables else {}
    trigger = CronTrigger(line.schedule, key.name, key.group, dialect="crontab", time_zone=time_zone, job_key=key)
    following = next(iter(trigger.upcoming(1, now)), None)
    if following is None:
        raise LeftOut("it never fires")
    expect = Expect(**EACH_FAILURE) if environment.get(_MAIL) else None
    job = JobDetail(job_type, key.name, key.group, data=data, description=comment[:1000] or None, expect=expect)
    return ImportedJob(job, [ImportedTrigger(trigger, TriggerProgress(following))])


def _name(line: _Line) -> str:
    """Return a name that stays the same when other lines are added or removed."""
    program = PurePosixPath(line.command.split(maxsplit=1)[0]).name if line.command else "command"
    whole = "\0".join((line.schedule, line.user or "", line.command, line.stdin or ""))
    return f"{program[:100]}-{hashlib.sha256(whole.encode()).hexdigest()[:8]}"
