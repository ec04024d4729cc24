"""The plan of an import from a crontab as a schedule file, which `quartzpy serve` runs."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Callable
from itertools import chain, count
from pathlib import PurePosixPath
from typing import Any

from quartzpy.definitions.yaml_text import written_yaml
from quartzpy.errors import InvalidValueError
from quartzpy.migrate.plan import ImportedJob, ImportPlan
from quartzpy.triggers.cron import CronTrigger

_HOME = "HOME"
_SEPARATORS = frozenset({"&&", "||", ";", "|", "&", "(", ")", ";;"})
_BEFORE_PROGRAMS = frozenset(
    {"[", "[[", "test", "cd", "export", "set", "umask", "sleep", ".", "source", "{", "!", "if"}
)
"""The words of the shell that say nothing about what a line is for."""
_WRAPPERS = {
    **dict.fromkeys(("nice", "ionice", "nohup", "env", "exec", "sudo", "time", "command", "then", "do"), 0),
    **dict.fromkeys(("timeout", "chronic", "cronic", "setsid", "stdbuf", "unbuffer", "chrt", "taskset", "doas"), 0),
    **dict.fromkeys(("flock", "setlock", "systemd-cat", "ssh-agent", "softlimit"), 0),
    "flock": 1,
    "setlock": 1,
}
"""The programs whose first word that is no option is what they run, behind so many other words."""
_SKIPPING = re.compile(r"(?:^|[;&|]\s*)(?:\S*/)?flock\s+(?:-\S+\s+)*?(?:-\w*n\w*|--nonblock|--nb)\s")
"""A line that does nothing while an earlier one of it runs."""
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*|-.*|[0-9]+[smh]?", re.DOTALL)
_UNUSUAL = re.compile(r"[^\w.+-]+")
_MAX_NAME = 60


def schedule_text(plan: ImportPlan, *, time_zone: str, home: Callable[[str | None], str]) -> str:
    """Return the jobs of a plan by `read_crontab` in YAML.

    All lines are for the shell, run in the home directory, and leave out the times that they have missed, as in cron.
    `home` returns the home directory of a user, and that of the user of this process for None.

    Raises:
        InvalidValueError: a trigger is of another kind.
        SettingsError: PyYAML is not installed.
    """
    variables = [dict((imported.job.data or {}).get("environment", {})) for imported in plan.jobs]
    common = set.intersection(*(set(each.items()) for each in variables)) if variables else set()
    homes = [
        each.get(_HOME) or home((imported.job.data or {}).get("user"))
        for each, imported in zip(variables, plan.jobs, strict=True)
    ]
    directory = Counter(homes).most_common(1)[0][0] if homes else home(None)
    head: dict[str, Any] = {"time_zone": time_zone, "directory": directory}
    if common:
        head["environment"] = {name: value for name, value in variables[0].items() if (name, value) in common}
    tells = any(imported.job.expect is not None for imported in plan.jobs)
    if tells:
        head["notify_failures"] = True
    names: set[str] = set()
    parts = [f"# From {plan.source}.\n{written_yaml(head)}", "jobs: {}\n" if not plan.jobs else "jobs:\n"]
    for imported, own, its_home in zip(plan.jobs, variables, homes, strict=True):
        program = program_of(str((imported.job.data or {})["command"]))
        numbered = (f"{program}-{number}" for number in count(2))
        name = next(each for each in chain((program,), numbered) if each not in names)
        names.add(name)
        entry = _entry(imported, time_zone, None if its_home == directory else its_home)
        if rest := {variable: value for variable, value in own.items() if (variable, value) not in common}:
            entry["environment"] = rest
        if tells and imported.job.expect is None:
            entry["notify_failures"] = False
        text = written_yaml({name: entry})
        parts.append("".join(f"  {line}" if line.strip() else line for line in text.splitlines(keepends=True)))
    return parts[0] + "\n" + parts[1] + "\n".join(parts[2:])


def _entry(imported: ImportedJob, time_zone: str, directory: str | None) -> dict[str, Any]:
    data = imported.job.data or {}
    [item] = imported.triggers
    trigger = item.trigger
    if not isinstance(trigger, CronTrigger):
        raise InvalidValueError(f"trigger {trigger.key}: only cron triggers can be written to a schedule file")
    line = _with_input(data["command"], data.get("stdin"))
    entry: dict[str, Any] = {}
    if imported.job.description:
        entry["description"] = imported.job.description
    entry["command"] = line if directory is None else {"shell": line, "directory": directory}
    entry["schedule"] = trigger.expression
    if trigger.time_zone != time_zone:
        entry["time_zone"] = trigger.time_zone
    if _SKIPPING.search(data["command"]):
        # The lock stays, because other lines may take it, too.
        entry |= {"max_concurrent": 1, "overlap_policy": "skip"}
    return entry | {"misfire": "do_nothing"}


def _with_input(command: str, text: str | None) -> str:
    """Return a line for the shell that gets a text at its standard input, which ends with a line break as in cron."""
    if text is None:
        return command
    lines = text.removesuffix("\n").split("\n")
    end = "INPUT"
    while end in lines:
        end += "_"
    return "\n".join([f"exec <<'{end}'", *lines, end, command])


def program_of(command: str) -> str:
    """Return the name of the program that a line is for: `backup.sh` of `cd /srv && nice /opt/backup.sh --all`."""
    words = shlex.shlex(command, posix=True, punctuation_chars=True)
    words.whitespace_split = True
    words.commenters = ""
    candidate = ""
    at_start, is_skipped = True, False
    others = 0
    try:
        for word in words:
            if word in _SEPARATORS:
                at_start, is_skipped, others = True, False, 0
            elif others and not word.startswith("-") and not _ASSIGNMENT.fullmatch(word):
                others -= 1
            elif candidate in _WRAPPERS and " " in word:
                # A line of its own, as in flock -c.
                return program_of(word)
            elif at_start and not is_skipped and not _ASSIGNMENT.fullmatch(word):
                name = PurePosixPath(word).name
                candidate = candidate or name
                is_skipped = name in _BEFORE_PROGRAMS
                others = _WRAPPERS.get(name, 0)
                if name in _WRAPPERS:
                    candidate = name
                elif not is_skipped:
                    candidate = name
                    break
    except ValueError:  # A quotation mark is missing; the shell will say so.
        candidate = candidate or PurePosixPath(command.split(maxsplit=1)[0]).name
    return _UNUSUAL.sub("-", candidate).strip("-.")[:_MAX_NAME] or "command"
