"""The options that select the scheduler of a command: its database and its name.

Each of them is a setting of `SchedulerConfig` (or `url`), which may also come from the environment or from a file; see
`quartzpy.config.sources`.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from quartzpy.config.config import DEFAULT_TABLE_PREFIX
from quartzpy.config.setting_names import CONNECT, DATABASE, URL, environment_variable
from quartzpy.config.sources import CONFIG_FILE, CONFIG_VARIABLE, find_config_file, function_at, gather_settings
from quartzpy.errors import SchedulerNotFoundError, SettingsError
from quartzpy.object_references import find_programs_here

if TYPE_CHECKING:
    from quartzpy.factory import Scheduler
    from quartzpy.operations.operations import Operations
    from quartzpy.store.postgresql.connection.connection_sources import Connect

DEFAULT_NAME = "quartzpy"
EMBEDDED = "embedded:"
"""The scheme of a URL that is the directory of an embedded PostgreSQL, that of quartzpy serve for instance."""

_Command = Callable[..., None]

_FLAGS: dict[str, tuple[str, ...]] = {
    URL: ("--url", "--dsn"),
    CONNECT: ("--connect",),
    "password_command": ("--password-command",),
    "name": ("--name",),
    "schema": ("--schema",),
    "table_prefix": ("--table-prefix",),
    "pooled": ("--pooled/--not-pooled",),
}
SELECTING = tuple(_FLAGS)
"""The settings that select a scheduler, which are options of the commands."""
_HELP = {
    URL: "The database: postgresql+psycopg://user@host/database, or embedded:DIR for quartzpy serve --data DIR",
    CONNECT: "A function that returns a new psycopg connection, module:function, in place of --url.",
    "password_command": "The command that prints the password, for tokens that expire; it is run without a shell.",
    "schema": "The database schema of the quartzpy tables.",
    "table_prefix": f"The prefix of the names of the quartzpy tables. [default: {DEFAULT_TABLE_PREFIX}]",
    "name": "The name of the scheduler. Optional if the database has only one.",
    "pooled": "The URL is that of a pooler in transaction mode.",
}


@dataclass(frozen=True, slots=True)
class Target:
    """The scheduler that the options of a command, the environment and the configuration file select."""

    values: dict[str, Any]
    """The settings that any of these sources gives."""
    origins: dict[str, str]
    """The source of each of them, in words."""
    config_file: Path | None

    @property
    def database(self) -> str | Connect:
        """The URL of the database, or the function that connects.

        Raises:
            SettingsError: no source gives one, or there is no such function.
            StoreUnavailableError: it is `embedded:DIR`, and no server runs in that directory.
        """
        if CONNECT in self.values:
            find_programs_here()
            return function_at(self.values[CONNECT])
        if URL not in self.values:
            raise SettingsError(
                f'no database is selected: give --url, set {environment_variable(URL)}, or write url = "..." in a'
                f" file {CONFIG_FILE} in this directory or above it"
            )
        url = str(self.values[URL])
        if not url.startswith(EMBEDDED):
            return url
        from quartzpy.embedded.postgres import EmbeddedPostgres

        return EmbeddedPostgres(url.removeprefix(EMBEDDED)).running_dsn

    @property
    def connection(self) -> str | Connect:
        """The database for one connection, such as a migration's: its URL, or a function that logs in."""
        database, command = self.database, self.values.get("password_command")
        if command is None:
            return database
        from quartzpy.store.postgresql.connection.connection_sources import logging_in

        if not isinstance(database, str):
            raise SettingsError("password_command: needs the URL of a database; connect logs in by itself")
        return logging_in(database, command)

    @property
    def has_database(self) -> bool:
        """True if a source gives the URL of the database, or a function that connects."""
        return not self.values.keys().isdisjoint(DATABASE)

    @property
    def name(self) -> str | None:
        """The name of the scheduler, if a source gives one."""
        return self.values.get("name")

    @property
    def schema(self) -> str | None:
        return self.values.get("schema")

    @property
    def table_prefix(self) -> str:
        return str(self.values.get("table_prefix", DEFAULT_TABLE_PREFIX))

    def settings(self, name: str) -> dict[str, Any]:
        """Return the settings of the scheduler with this name."""
        return {setting: value for setting, value in self.values.items() if setting not in DATABASE} | {"name": name}

    def chosen_name(self, *, may_be_new: bool = False) -> str:
        """Return the name that the user gave, or that of the only scheduler in the database.

        A name that is not known is accepted with `may_be_new`, and said on standard error.

        Raises:
            SchedulerNotFoundError: the database has schedulers, but none with the given name.
            SettingsError: no name was given, and the database has several schedulers.
        """
        names = self.known_names()
        if self.name is None:
            if len(names) > 1:
                raise SettingsError(f"--name is required: the database has several schedulers: {', '.join(names)}")
            return names[0] if names else DEFAULT_NAME
        if names and self.name not in names and may_be_new:
            click.echo(f"scheduler {self.name!r} is new here (known schedulers: {', '.join(names)})", err=True)
        elif names and self.name not in names:
            near = difflib.get_close_matches(self.name, names, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise SchedulerNotFoundError(
                f"the database has no scheduler named {self.name!r}{hint} (known schedulers: {', '.join(names)})"
            )
        return self.name

    def known_names(self) -> list[str]:
        """Return the names of the schedulers in the database."""
        from quartzpy.config.config import SchedulerConfig
        from quartzpy.store.postgresql.store import SqlJobStore

        store = SqlJobStore(self.database, SchedulerConfig.of(self.settings(DEFAULT_NAME)))
        try:
            return store.scheduler_names()
        finally:
            store.close()

    def scheduler(self, name: str, **more: Any) -> Scheduler:
        """Return the scheduler with this name, and further arguments of `Scheduler`; errors as for it."""
        from quartzpy.factory import Scheduler

        database = self.database
        place: dict[str, Any] = {"database": database} if isinstance(database, str) else {"connect": database}
        return Scheduler(**place, **self.settings(name) | more)

    @contextmanager
    def client(self, *, may_be_new: bool = False) -> Iterator[Scheduler]:
        """Yield a scheduler that is not started, and shut it down afterwards; the name is that of `chosen_name`."""
        scheduler = self.scheduler(self.chosen_name(may_be_new=may_be_new))
        try:
            yield scheduler
        finally:
            scheduler.shutdown()

    @contextmanager
    def operations(self, *, may_be_new: bool = False) -> Iterator[Operations]:
        """Yield the operations of the user of this process on a scheduler that is not started."""
        from quartzpy.operations import Operations
        from quartzpy.scheduler.explain import COMMANDS

        with self.client(may_be_new=may_be_new) as scheduler:
            yield Operations(scheduler, advice=COMMANDS)


def select_target(options: dict[str, Any], config: str | None = None, **overriding: Any) -> Target:
    """Return the target that options (by the names of their settings), the environment and a file select.

    `config` is the path of the file; by default it is the one that QUARTZPY_CONFIG names, else the nearest
    `quartzpy.toml` in the current directory or above it. `overriding` are settings of the command itself.

    Raises:
        SettingsError: a source cannot be read, or a setting is wrong.
    """
    named = config or os.environ.get(CONFIG_VARIABLE)
    path = Path(named) if named else find_config_file(Path.cwd())
    origins = {setting: _FLAGS[setting][0].partition("/")[0] for setting in options}
    origins |= dict.fromkeys(overriding, "the command")
    settings = gather_settings(path, os.environ, {**options, **overriding}, origins)
    return Target(settings.values, settings.origins, path)


def scheduler_options(command: Callable[..., None]) -> _Command:
    """Add the options that select a scheduler and its database. The command receives them as a `Target`."""
    return _with_target(command, SELECTING)


def database_options(command: Callable[..., None]) -> _Command:
    """Add the options that select a database and its tables. The command receives them as a `Target`."""
    return _with_target(command, (*DATABASE, "password_command", "schema", "table_prefix"))


def table_options(command: Callable[..., None]) -> _Command:
    """Add the options that name the tables, for a command that needs no database. It receives them as a `Target`."""
    return _with_target(command, ("schema", "table_prefix"))


@dataclass(frozen=True, slots=True)
class TargetOptions:
    """The options by which a user selects a scheduler, for a command that may need none."""

    options: dict[str, Any]
    config: str | None

    @property
    def flags(self) -> list[str]:
        """The options that are on the command line."""
        return [_FLAGS[setting][0].partition("/")[0] for setting in self.options]

    def target(self) -> Target:
        """Return the target; errors as for `select_target`."""
        return select_target(self.options, self.config)


def optional_scheduler_options(config_help: str) -> Callable[[Callable[..., None]], _Command]:
    """Add the options that select a scheduler. The command receives `TargetOptions`, which read nothing yet."""
    return lambda command: _with_options(command, SELECTING, config_help)


def _with_target(command: Callable[..., None], settings: Sequence[str]) -> _Command:
    @wraps(command)
    def with_target(selection: TargetOptions, *arguments: Any, **rest: Any) -> None:
        command(selection.target(), *arguments, **rest)

    return _with_options(with_target, settings)


_CONFIG_HELP = f"The TOML file with the settings. [default: the nearest {CONFIG_FILE}]"


class ConnectionOption(click.Option):
    """An option that selects a scheduler. It stands before the command or after it, and is shown before it alone."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        if ctx.parent is None:
            return super().get_help_record(ctx)
        shared = [each for each in ctx.command.params if isinstance(each, ConnectionOption)]
        return (", ".join(each.opts[0] for each in shared), "See `quartzpy --help`.") if self is shared[0] else None


def connection_options(
    command: Callable[..., None], settings: Sequence[str] = SELECTING, config_help: str = _CONFIG_HELP
) -> _Command:
    """Add the options of these settings, and --config."""
    added: Any = command
    config = click.option("--config", cls=ConnectionOption, envvar=CONFIG_VARIABLE, show_envvar=True, help=config_help)
    added = config(added)
    for setting in reversed(settings):
        option = click.option(
            *_FLAGS[setting],
            setting,
            cls=ConnectionOption,
            envvar=environment_variable(setting),
            show_envvar=True,
            default=None,
            help=_HELP[setting],
        )
        added = option(added)
    return added  # type: ignore[no-any-return]


def selection_of(context: click.Context, settings: Sequence[str] = SELECTING) -> TargetOptions:
    """Return the selection that stands before a command or after it; what stands after it counts."""
    options: dict[str, Any] = {}
    config: str | None = None
    for each in (context.find_root(), context):
        # Click has read the environment only for its help; `select_target` reads it and names it in its errors.
        typed = [name for name in each.params if each.get_parameter_source(name) is ParameterSource.COMMANDLINE]
        options |= {setting: each.params[setting] for setting in settings if setting in typed}
        if config is None or "config" in typed:
            config = each.params.get("config")
    return TargetOptions(options, config)


def refuse_unused(context: click.Context, command: click.Command) -> None:
    """Refuse the options before a command that it does not take, nor any command below it.

    Raises:
        click.UsageError: there is one.
    """
    names = command.list_commands(context) if isinstance(command, click.Group) else ()
    below = [command.get_command(context, name) for name in names]  # type: ignore[attr-defined]
    taken = {parameter.name for each in (command, *filter(None, below)) for parameter in each.params}
    for option in context.command.params:
        if isinstance(option, ConnectionOption) and option.name not in taken:
            assert option.name is not None
            if context.get_parameter_source(option.name) is ParameterSource.COMMANDLINE:
                raise click.UsageError(f"`{context.command_path} {command.name}` takes no {option.opts[0]}", context)


def _with_options(command: Callable[..., None], settings: Sequence[str], config_help: str = _CONFIG_HELP) -> _Command:
    @wraps(command)
    def collected(*arguments: Any, **rest: Any) -> None:
        for name in (*settings, "config"):
            del rest[name]
        command(selection_of(click.get_current_context(), settings), *arguments, **rest)

    return connection_options(collected, settings, config_help)
