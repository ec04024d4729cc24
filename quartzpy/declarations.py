"""Jobs and triggers declared in TOML or YAML: text to definitions, each wrong word named with the nearest right one.

    [[job]]
    type = "app.jobs:NightlyReport"
    name = "nightly-report"
    data = { region = "eu" }
    timeout = "30m"
    retry = { attempts = 3, delay = "1m" }

      [[job.trigger]]
      kind = "cron"
      expression = "0 0 2 ? * MON-FRI"
      time_zone = "Europe/Berlin"

The words are those of `JobDetail`, `RetryPolicy` and the classes of triggers. A trigger without a name is called after
its job; spans of time are texts such as "5s".
"""

from __future__ import annotations

import difflib
import tomllib
import typing
from collections.abc import Collection, Mapping
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from quartzpy.config import as_duration
from quartzpy.errors import InvalidJobError, QuartzpyError, SettingsError
from quartzpy.function_job import ARGS, KWARGS
from quartzpy.job import JobDetail, JobTypes, job_types
from quartzpy.retry import RetryPolicy
from quartzpy.sync import Definitions
from quartzpy.triggers.kinds import trigger_kind
from quartzpy.triggers.trigger import Trigger

_YAML = (".yaml", ".yml")
_JOB_WORDS = {one.name for one in fields(JobDetail)} - {"job"} | {"type", "trigger", ARGS, KWARGS}
_RETRY_WORDS = {one.name for one in fields(RetryPolicy)}


def load_definitions(path: str | Path, *, types: JobTypes = job_types) -> Definitions:
    """The jobs and triggers that a file declares; `.yaml` and `.yml` need the extra `yaml`, all else is TOML.

    The modules of the job types are imported: whoever writes this file decides what runs.

    Raises:
        SettingsError: the file cannot be read, or says what there is not; names the job and the word.
    """
    where = Path(path)
    try:
        text = where.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{where}: cannot be read: {error}") from error
    return definitions(_parsed(where, text), str(where), types=types)


def _parsed(where: Path, text: str) -> object:
    if where.suffix.lower() not in _YAML:
        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise SettingsError(f"{where}: not TOML: {error}") from error
    try:
        import yaml
    except ImportError:
        raise SettingsError(f"{where}: YAML needs PyYAML: pip install 'quartzpy[yaml]'") from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise SettingsError(f"{where}: not YAML: {error}") from error


def definitions(document: object, where: str, *, types: JobTypes = job_types) -> Definitions:
    """The jobs and triggers of a parsed document. Errors as in `load_definitions`."""
    whole = _table(document, where, {"job"})
    if "job" not in whole:
        # An empty file is more often an accident than a wish to have no jobs.
        raise SettingsError(f"{where}: declares no job; where that is meant, write job = []")
    jobs = whole["job"]
    if not isinstance(jobs, list):
        raise SettingsError(f"{where}: job is a list of tables ([[job]])")
    return [_job(one, f"{where}: job {number}", types) for number, one in enumerate(jobs, start=1)]


def _job(given: object, where: str, types: JobTypes) -> tuple[JobDetail, list[Trigger]]:
    table = _table(given, where, _JOB_WORDS)
    for word in ("type", "name"):
        if not isinstance(table.get(word), str):
            raise SettingsError(f"{where}: {word} is missing, or no text")
    where = f"{where} ({table['name']})"
    triggers = table.pop("trigger", [])
    if not isinstance(triggers, list):
        raise SettingsError(f"{where}: trigger is a list of tables ([[job.trigger]])")
    name = table.pop("type")
    try:
        if not types.load(name, (name.partition(":")[0],)):
            raise InvalidJobError(f"type {name!r} is registered by no module; it is module:class, or a type_name")
        job = JobDetail(types.find(name), **_job_values(table, where))
        return job, [_trigger(one, f"{where}: trigger {number}", job) for number, one in enumerate(triggers, start=1)]
    except SettingsError:
        raise
    except (QuartzpyError, ImportError, TypeError) as error:
        raise SettingsError(f"{where}: {error}") from error


def _job_values(table: dict[str, Any], where: str) -> dict[str, Any]:
    values = dict(table)
    if ARGS in values or KWARGS in values:
        function = {ARGS: values.pop(ARGS, []), KWARGS: values.pop(KWARGS, {})}
        values["data"] = {**function, **values.get("data", {})}
    if isinstance(values.get("timeout"), str):
        values["timeout"] = as_duration(values["timeout"], f"{where}: timeout")
    if "retry" in values:
        retry = _table(values["retry"], f"{where}: retry", _RETRY_WORDS)
        for span in ("delay", "max_delay"):
            if isinstance(retry.get(span), str):
                retry[span] = as_duration(retry[span], f"{where}: retry.{span}")
        values["retry"] = RetryPolicy(**retry)
    return values


def _trigger(given: object, where: str, job: JobDetail) -> Trigger:
    if not isinstance(given, Mapping):
        raise SettingsError(f"{where}: a table is needed (got {given!r})")
    values = dict(given)
    kind = trigger_kind(str(values.pop("kind", "cron")))
    words = {one.name for one in fields(kind)} - {"job_key"}
    values = _table(values, where, words)
    hints = typing.get_type_hints(kind)
    for word, value in values.items():
        accepted = (hints[word], *typing.get_args(hints[word]))
        if timedelta in accepted and isinstance(value, str):
            values[word] = as_duration(value, f"{where}: {word}")
        elif datetime in accepted and isinstance(value, datetime) and value.tzinfo is not None:
            values[word] = value.astimezone(UTC)
        elif isinstance(value, list):
            values[word] = tuple(value)
    return kind(**{"name": job.name, "group": job.group, **values})


def _table(given: object, where: str, words: Collection[str]) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise SettingsError(f"{where}: a table is needed (got {given!r})")
    for word in given:
        if word not in words:
            near = difflib.get_close_matches(str(word), sorted(words), n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(words))}"
            raise SettingsError(f"{where}: {word!r} is not known; {hint}")
    return dict(given)
