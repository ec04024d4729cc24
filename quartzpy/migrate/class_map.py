"""The file in which a user decides what becomes of the classes and the data of another program.

    [classes]
    "com.acme.NightlyReport" = "app.jobs:NightlyReport"
    "com.acme.Retired" = false

    [[data]]
    job = "billing.nightly"
    entry = "token"
    drop = true

A class is mapped to the registered name of a job type; jobs of a class that is mapped to `false` are left out. A table
`[[data]]` decides about one entry of a job's or a trigger's data that cannot be read: `drop` leaves it out, `value`
gives the value to store.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from quartzpy.errors import SettingsError
from quartzpy.keys import check_name
from quartzpy.text_files import read_text_file
from quartzpy.texts import did_you_mean, quoted, reason

_TABLES = ("classes", "data")
_DATA_WORDS = ("job", "trigger", "entry", "drop", "value")


class Undecided(Exception):  # noqa: N818 - it is no error, but a question to the user
    """Something needs a decision of the user; the message says which."""


class LeftOut(Exception):  # noqa: N818 - the user decided so
    """The object does not come over; the message says why."""


@dataclass(frozen=True)
class ClassMap:
    """The user's decisions."""

    classes: Mapping[str, str | None] = field(default_factory=dict)
    """Job types by class; None for a class whose jobs are left out."""
    data: Mapping[tuple[str, str, str], Mapping[str, Any]] = field(default_factory=dict)
    """The decision about an entry, by kind ("job", "trigger"), key and name: {} to drop it, {"value": ...} else."""

    def job_type(self, class_name: str) -> str:
        """Return the job type of a class.

        Raises:
            Undecided: the map does not have the class.
            LeftOut: jobs of the class are not wanted.
        """
        try:
            job_type = self.classes[class_name]
        except KeyError:
            raise Undecided(f"its class {class_name} is mapped to no job type; add it to [classes] of --map") from None
        if job_type is None:
            raise LeftOut(f"its class {class_name} is mapped to false")
        return job_type

    def decision(self, kind: str, key: object, entry: str) -> Mapping[str, Any] | None:
        """Return the decision about an entry that cannot be read; None if there is none."""
        return self.data.get((kind, str(key), entry))


def load_class_map(path: str | Path) -> ClassMap:
    """Read a file of decisions.

    Raises:
        SettingsError: the file cannot be read, or has an unknown key or a wrong value; the message names it.
    """
    try:
        document = tomllib.loads(read_text_file(Path(path)))
    except SettingsError:
        raise
    except ValueError as error:
        raise SettingsError(f"{path}: cannot be read: {reason(error)}") from error
    for word in document:
        if word not in _TABLES:
            raise SettingsError(f"{path}: unknown table {quoted(word)}; {did_you_mean(word, _TABLES, 'tables')}")
    classes = document.get("classes", {})
    entries = document.get("data", [])
    if not isinstance(classes, dict) or not isinstance(entries, list):
        raise SettingsError(f"{path}: classes is a table ([classes]), and data is a list of tables ([[data]])")
    return ClassMap(
        {name: _job_type(entry, f"{path}: classes: {quoted(name)}") for name, entry in classes.items()},
        dict(_decision(entry, f"{path}: data {number}") for number, entry in enumerate(entries, start=1)),
    )


def mapped(pair: str) -> ClassMap:
    """Return the decision that a text is: "shop.tasks.report=shop.jobs:report", or "shop.tasks.report=false".

    Raises:
        SettingsError: it is neither a pair nor a file.
    """
    name, is_pair, job_type = pair.partition("=")
    if not is_pair or not name.strip():
        raise SettingsError(
            f"--map: must be NAME=TYPE, such as shop.tasks.report=shop.jobs:report, or a TOML file (got {quoted(pair)},"
            " which is no file)"
        )
    wanted = False if job_type.strip() == "false" else job_type.strip()
    return ClassMap({name.strip(): _job_type(wanted, f"--map {name}")})


def _job_type(entry: object, where: str) -> str | None:
    if entry is False:
        return None
    if not isinstance(entry, str):
        raise SettingsError(f"{where}: the name of a job type, or false to leave its jobs out (got {quoted(entry)})")
    return check_name(entry, f"{where}: job type name")


def _decision(entry: object, where: str) -> tuple[tuple[str, str, str], Mapping[str, Any]]:
    if not isinstance(entry, dict):
        raise SettingsError(f"{where}: must be a table (got {quoted(entry)})")
    for word in entry:
        if word not in _DATA_WORDS:
            raise SettingsError(f"{where}: unknown key {quoted(word)}; {did_you_mean(word, _DATA_WORDS, 'keys')}")
    kinds = [kind for kind in ("job", "trigger") if isinstance(entry.get(kind), str)]
    if len(kinds) != 1 or not isinstance(entry.get("entry"), str):
        raise SettingsError(f'{where}: needs entry, and either job or trigger ("group.name")')
    if ("value" in entry) == (entry.get("drop") is True):
        raise SettingsError(f"{where}: needs either value, or drop = true")
    decided = {"value": entry["value"]} if "value" in entry else {}
    return (kinds[0], entry[kinds[0]], entry["entry"]), decided
