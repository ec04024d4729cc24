"""Jobs, triggers, calendars and maintenance windows that are declared in TOML or YAML.

An unknown key is reported with the nearest known one.

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

The same in YAML:

    job:
      - type: app.jobs:NightlyReport
        name: nightly-report
        data: {region: eu}
        trigger: 0 0 2 ? * MON-FRI

The keys are the parameters of `JobDetail`, `RetryPolicy` and the trigger classes. A trigger may be just a cron text, an
interval ("every 10s") or an instant, as in `trigger = "0 0 2 * * ?"`; a table with `every = "10s"` is an interval. One
trigger and one job need no list. A trigger without a name takes the job's name and group. Durations are texts such as
"5s". The trigger within a trigger is written in the same forms:

    trigger = { kind = "rolled", calendar = "target", roll = "preceding", trigger = "0 0 18 L * ?" }

    [calendar.holidays]
    kind = "holiday"
    time_zone = "Europe/Berlin"
    excluded_dates = [2026-12-25, 2026-12-26]
    base = { kind = "weekly", excluded_days = [1, 7] }

    [window.database]
    cron = "0 2 * * SUN"
    duration = "4h"
    time_zone = "Europe/Berlin"
    job_group = "billing"

The other keys of a calendar are the rules of its kind, as the stores keep them. `base` is a calendar in the same form,
and a calendar of the user's own class has `class = "module:Class"` instead of a kind. `exporting` writes both.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from quartzpy.definitions.declarations import read_declarations
from quartzpy.definitions.faults import Fault, Faults, Place
from quartzpy.definitions.forms import TOML, YAML, FileForm
from quartzpy.definitions.lines import line_of
from quartzpy.definitions.yaml_text import parsed_yaml
from quartzpy.errors import InvalidDefinitionError, SettingsError
from quartzpy.jobs.job import JobTypes, job_types
from quartzpy.scheduler.sync import Declarations
from quartzpy.text_files import alike_in_line, read_text_file
from quartzpy.texts import quoted, reason

_YAML = (".yaml", ".yml")
_MAX_SHOWN = 10
"""The number of faults that one error shows."""


def load_definitions(path: str | Path, *, types: JobTypes = job_types) -> Declarations:
    """Return what a file declares; `.yaml` and `.yml` need the extra `yaml`, others are TOML.

    The modules of the job types and of the users' classes of calendars are imported, so write access to this file gives
    control over the executed code.

    Raises:
        SettingsError: The file cannot be read, or has unknown keys or wrong values. The message has a line for each of
            them, with the line of the file, the job or the calendar, and the key.
    """
    text = read_text_file(Path(path))
    return definitions(parsed_document(Path(path), text), str(path), types=types, text=text)


def read_document(path: Path) -> object:
    """Return the values in a file: YAML if its name ends so, and otherwise TOML.

    Raises:
        SettingsError: the file cannot be read.
    """
    return parsed_document(path, read_text_file(path))


def parsed_document(where: Path, text: str) -> object:
    """Return the values in the text of a file, as `read_document`."""
    if where.suffix.lower() in _YAML:
        return parsed_yaml(text, str(where))
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise SettingsError(f"{where}: not TOML: nested too deep") from None
    except ValueError as error:
        # int() also raises ValueError, for a number of too many digits.
        raise SettingsError(f"{where}: not TOML: {reason(error)}{alike_in_line(text, error)}") from error


def definitions(document: object, where: str, *, types: JobTypes = job_types, text: str = "") -> Declarations:
    """Return what a parsed document declares. `text` is that of the file, for the lines of what is wrong in it.

    Raises:
        SettingsError: as for `load_definitions`.
    """
    faults = Faults()
    declared = declared_in(document, where, faults, types=types)
    if declared is None:
        wrong = [(place, _labels(document, place), fault) for place, fault in faults.placed]
        raise wrong_file(where, text, wrong) from faults.cause
    return declared


def declared_in(document: object, where: str, faults: Faults, *, types: JobTypes = job_types) -> Declarations | None:
    """Return what a parsed document declares; None if it has faults."""
    form = FileForm(YAML if where.lower().endswith(_YAML) else TOML, types)
    try:
        return read_declarations(document, form, faults)
    except InvalidDefinitionError:
        return None


def wrong_file(where: str, text: str, wrong: Sequence[tuple[Place, Sequence[str], object]]) -> SettingsError:
    """Return the error of a file, with a line for each place that is wrong, the labels of the place, and a detail."""
    is_yaml = where.lower().endswith(_YAML)
    lines = []
    for place, labels, fault in wrong[:_MAX_SHOWN]:
        detail = fault.detail if isinstance(fault, Fault) else str(fault)
        number = line_of(place, text, is_yaml=is_yaml) if text else None
        shown = [where if number is None else f"{where}:{number}", *labels]
        # A detail mostly begins with the name of the value.
        shown = shown[:-1] if labels and detail.startswith(f"{labels[-1]}:") else shown
        lines.append(": ".join([*shown, detail]))
    if len(wrong) > _MAX_SHOWN:
        lines.append(f"{where}: {len(wrong) - _MAX_SHOWN} more")
    return SettingsError("\n".join(lines))


def _labels(document: object, place: Place) -> list[str]:
    """Return the words for a place: the job with its name, the trigger with its number, the value."""
    number: int
    table: Any
    match place:
        case ("job", int(index), *rest):
            number, table = index + 1, document["job"][index] if isinstance(document, Mapping) else None
        case ("job", *rest) if rest:
            number, table = 1, document["job"] if isinstance(document, Mapping) else None
        case (("calendar" | "window") as kind, named, *_):
            return [f"{kind} {quoted(named)}"]
        case _:
            return []
    name = table.get("name") if isinstance(table, Mapping) else None
    labels = [f"job {number} ({name})" if isinstance(name, str) else f"job {number}"]
    if rest[:1] == ["trigger"]:
        labels.append(f"trigger {rest[1] + 1 if len(rest) > 1 and isinstance(rest[1], int) else 1}")
    elif len(rest) > 1:
        labels.append(str(rest[0]))
    return labels
