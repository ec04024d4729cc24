"""A file with several schedulers: one table `[[scheduler]]` for each, with the settings that select it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from quartzpy.config.setting_names import DATABASE, URL
from quartzpy.config.sources import gather_settings, settings_of_table, toml_of
from quartzpy.errors import SettingsError
from quartzpy.outgoing import read_place
from quartzpy.texts import quoted

FLEET_FILE = "fleet.toml"
_TABLE = "scheduler"
_OWN = ("title", "dashboard")


@dataclass(frozen=True, slots=True)
class FleetEntry:
    """One scheduler of a file."""

    title: str
    """What it is called among the others: the entry `title`, else its name."""
    dashboard: str | None
    """The URL of its own page."""
    settings: Mapping[str, Any] = field(repr=False)
    origin: str
    """Its place in the file, in words."""

    def placed(self) -> dict[str, Any]:
        """Return its settings with the URL of the database, read anew from its place: `env:NAME` or `file:/path`.

        Raises:
            OutgoingError: there is none.
        """
        return {name: read_place(value) if name == URL else value for name, value in self.settings.items()}


def fleet_from_toml(path: str | os.PathLike[str]) -> Sequence[FleetEntry]:
    """Return the schedulers of a file, in its order.

    Each table `[[scheduler]]` has the settings of a quartzpy.toml, and `title` and `dashboard` besides. No error shows
    the URL of a database.

    Raises:
        SettingsError: the file cannot be read, has no schedulers or two of one title, or a setting is wrong.
    """
    content = toml_of(Path(path))
    tables = content.pop(_TABLE, None)
    if content or not isinstance(tables, list) or not tables or not all(isinstance(each, dict) for each in tables):
        beside = f" and nothing beside it (got {quoted(next(iter(content)))})" if content else ""
        raise SettingsError(
            f"{path} must have a table [[{_TABLE}]] for each scheduler, with name = ... and url = ...{beside}"
        )
    entries = [_entry(f"{path}: [[{_TABLE}]] {number}", table) for number, table in enumerate(tables, 1)]
    for title in _repeated(entry.title for entry in entries):
        raise SettingsError(f"{path}: two schedulers are called {title}; tell them apart by title = ...")
    return entries


def _entry(origin: str, table: Mapping[str, Any]) -> FleetEntry:
    own = {name: table[name] for name in _OWN if name in table}
    for name, value in own.items():
        if not isinstance(value, str) or not value.strip() or not value.isprintable():
            raise SettingsError(f"{origin}: {name} must be a text (got {quoted(value)})")
    dashboard = own.get("dashboard")
    if dashboard is not None and not dashboard.startswith(("https://", "http://")):
        raise SettingsError(f"{origin}: dashboard must be the URL of a page, https://... (got {quoted(dashboard)})")
    written = {name: value for name, value in table.items() if name not in own}
    settings = settings_of_table(origin, _TABLE, written)
    settings = gather_settings(None, {}, settings, dict.fromkeys(settings, origin)).values
    if settings.keys().isdisjoint(DATABASE):
        raise SettingsError(f"{origin} has no database; write url = ... or database.connect = ...")
    title = own.get("title") or settings.get("name")
    if title is None:
        raise SettingsError(f"{origin} has no name; write name = ..., or title = ... if its database has only one")
    return FleetEntry(title, dashboard, settings, origin)


def _repeated(titles: Iterator[str]) -> Iterator[str]:
    earlier: set[str] = set()
    for title in titles:
        if title in earlier:
            yield title
        earlier.add(title)
