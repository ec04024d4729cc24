"""What each setting is called in a program, in the environment and in a file.

All follows from `SchedulerConfig`; the database, `url` or `connect`, is added to its settings.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, get_type_hints

from quartzpy.config.config import SchedulerConfig, Table

PREFIX = "QUARTZPY_"
URL = "url"
CONNECT = "connect"
"""The name of a function that returns a new connection, `module:function`, in place of a URL."""
DATABASE = (URL, CONNECT)


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting by its keyword argument, which is also the attribute of `SchedulerConfig`."""

    name: str
    kind: Any
    """The type of the attribute."""
    table: str = ""
    """The table of a file in which it stands. Empty for those before the tables."""

    @property
    def key(self) -> str:
        """The name within its table: `port` in `[metrics]` for `metrics_port`."""
        return self.name.removeprefix(f"{self.table}_")

    @property
    def dotted(self) -> str:
        """The name in a file, with its table."""
        return f"{self.table}.{self.key}" if self.table else self.name

    @property
    def variable(self) -> str:
        """The environment variable."""
        return environment_variable(self.name)


def environment_variable(setting: str) -> str:
    """Return the name of the environment variable for a setting."""
    return PREFIX + setting.upper()


def _described() -> Iterator[Setting]:
    yield Setting(URL, str)
    kinds = get_type_hints(SchedulerConfig)
    table = ""
    for name in SchedulerConfig.__annotations__:
        if isinstance(begun := vars(SchedulerConfig).get(name), Table):
            table = begun.name
        else:
            yield Setting(name, kinds[name], table)
    yield Setting(CONNECT, str, "database")


SETTINGS = {setting.name: setting for setting in _described()}
TABLES = {table.name: table for table in vars(SchedulerConfig).values() if isinstance(table, Table)}
