"""The options that select the scheduler of a command: its database and its name."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from quartzpy.errors import SchedulerNotFoundError, SettingsError
from quartzpy.table_names import DEFAULT_TABLE_PREFIX

if TYPE_CHECKING:
    from quartzpy.factory import Scheduler

URL_VARIABLE = "QUARTZPY_URL"
URL_HELP = "The database: postgresql+psycopg://user@host/database"
DEFAULT_NAME = "quartzpy"

_Command = Callable[..., None]


def url_option(*, required: bool = True, text: str = URL_HELP) -> Callable[[_Command], _Command]:
    """Return the option that names the database."""
    return click.option("--dsn", "--url", "dsn", envvar=URL_VARIABLE, show_envvar=True, required=required, help=text)


def schema_option(command: _Command) -> _Command:
    """Add the option that names the database schema."""
    return click.option("--schema", envvar="QUARTZPY_SCHEMA", help="The database schema of the quartzpy tables.")(
        command
    )


def prefix_option(command: _Command) -> _Command:
    """Add the option that names the prefix of the tables."""
    return click.option(
        "--table-prefix",
        envvar="QUARTZPY_TABLE_PREFIX",
        default=DEFAULT_TABLE_PREFIX,
        show_default=True,
        help="The prefix of the names of the quartzpy tables.",
    )(command)


@dataclass(frozen=True, slots=True)
class Target:
    """The scheduler that the options of a command select."""

    dsn: str
    name: str | None
    schema: str | None
    table_prefix: str
    pooled: bool

    def settings(self, name: str) -> dict[str, Any]:
        """Return the settings of the scheduler with this name."""
        return {"name": name, "schema": self.schema, "table_prefix": self.table_prefix, "pooled": self.pooled}

    def chosen_name(self) -> str:
        """Return the name that the user gave, or that of the only scheduler in the database.

        Raises:
            SchedulerNotFoundError: the database has schedulers, but none with the given name.
            SettingsError: no name was given, and the database has several schedulers.
        """
        known = self._known_names()
        if self.name is None:
            if len(known) > 1:
                raise SettingsError(f"--name is required: the database has several schedulers: {', '.join(known)}")
            return known[0] if known else DEFAULT_NAME
        if known and self.name not in known:
            near = difflib.get_close_matches(self.name, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise SchedulerNotFoundError(
                f"the database has no scheduler named {self.name!r}{hint} (known schedulers: {', '.join(known)})"
            )
        return self.name

    def _known_names(self) -> list[str]:
        from quartzpy.config import SchedulerConfig
        from quartzpy.store.sql.store import SqlJobStore

        store = SqlJobStore(self.dsn, SchedulerConfig.of(self.settings(DEFAULT_NAME)))
        try:
            return store.scheduler_names()
        finally:
            store.close()

    @contextmanager
    def client(self) -> Iterator[Scheduler]:
        """Yield a scheduler that is not started, and shut it down afterwards."""
        from quartzpy.factory import Scheduler

        scheduler = Scheduler(self.dsn, **self.settings(self.chosen_name()))
        try:
            yield scheduler
        finally:
            scheduler.shutdown()


def scheduler_options(command: Callable[..., None]) -> _Command:
    """Add the options that select a scheduler and its database. The command receives them as a `Target`."""

    @wraps(command)
    def collected(
        *, dsn: str, name: str | None, schema: str | None, table_prefix: str, pooled: bool, **rest: Any
    ) -> None:
        command(Target(dsn, name, schema, table_prefix, pooled), **rest)

    given = click.option(
        "--name",
        envvar="QUARTZPY_NAME",
        show_envvar=True,
        help="The name of the scheduler. Optional if the database has only one.",
    )
    pooled_option = click.option(
        "--pooled",
        is_flag=True,
        envvar="QUARTZPY_POOLED",
        show_envvar=True,
        help="The URL is that of a pooler in transaction mode.",
    )
    return url_option()(given(schema_option(prefix_option(pooled_option(collected)))))
