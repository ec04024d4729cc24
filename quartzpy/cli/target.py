"""The scheduler that a command is about: its database, and its name."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from quartzpy.errors import SchedulerNotFoundError, SettingsError

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
    return click.option("--schema", envvar="QUARTZPY_SCHEMA", help="The database schema of our tables.")(command)


def scheduler_options(command: _Command) -> _Command:
    """Add the options that name a scheduler and its database."""
    name = click.option(
        "--name",
        envvar="QUARTZPY_NAME",
        show_envvar=True,
        help="The scheduler's name. Not needed where the database has only one.",
    )
    return url_option()(name(schema_option(command)))


def chosen_name(dsn: str, name: str | None, schema: str | None) -> str:
    """Return the name of the scheduler that the user means: the one that is given, or the only one there is.

    Raises:
        SchedulerNotFoundError: the database has no scheduler of the given name.
        SettingsError: no name is given, and the database has several schedulers.
    """
    known = _known_names(dsn, schema)
    if name is None:
        if len(known) > 1:
            raise SettingsError(f"--name is needed, as the database has several schedulers: {', '.join(known)}")
        return known[0] if known else DEFAULT_NAME
    if name not in known and known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise SchedulerNotFoundError(
            f"the database has no scheduler of the name {name!r}{hint} (there are: {', '.join(known)})"
        )
    return name


def _known_names(dsn: str, schema: str | None) -> list[str]:
    from quartzpy.config import SchedulerConfig
    from quartzpy.store.sql.store import SqlJobStore

    store = SqlJobStore(dsn, SchedulerConfig.of({"name": DEFAULT_NAME, "schema": schema}))
    try:
        return store.scheduler_names()
    finally:
        store.close()


@contextmanager
def client(dsn: str, name: str | None, schema: str | None) -> Iterator[Scheduler]:
    """Yield a scheduler that is not started, for the verbs of a command."""
    from quartzpy.factory import Scheduler

    scheduler = Scheduler(dsn, name=chosen_name(dsn, name, schema), schema=schema)
    try:
        yield scheduler
    finally:
        scheduler.shutdown()
