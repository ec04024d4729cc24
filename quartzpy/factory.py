"""The composition root: the only module that imports every implementation."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from quartzpy.clock import SystemClock
from quartzpy.config.config import SchedulerConfig
from quartzpy.config.setting_names import CONNECT, DATABASE, URL
from quartzpy.config.setting_types import OutsideSettings, Settings
from quartzpy.config.sources import CONFIG_VARIABLE, function_at, load_settings
from quartzpy.connection_types import is_engine
from quartzpy.errors import SettingsError
from quartzpy.jobs.context import Middleware
from quartzpy.jobs.job import JobFactory, job_types, new_instance
from quartzpy.scheduler.plugin import Plugin
from quartzpy.scheduler.scheduler import BaseScheduler
from quartzpy.store.node_metadata import installed_release
from quartzpy.store.postgresql.admin import has_admin
from quartzpy.store.protocol import JobStore
from quartzpy.store.records import LastingIncident
from quartzpy.texts import quoted

if TYPE_CHECKING:
    import psycopg
    from sqlalchemy.engine import Engine

IN_MEMORY = "memory://"
PLUGINS = "quartzpy.plugins"
HEALTH_CHECKS_AFTER = 5.0
"""The time, in seconds, after which a node begins to judge what is wrong."""
_SchedulerT = TypeVar("_SchedulerT")


def make_store(
    database: str | Engine | JobStore | None, config: SchedulerConfig, *, connect: Callable[[], Any] | None = None
) -> JobStore:
    """Return a store for a database (a URL, an engine, or a connect function), or the given store itself.

    Raises:
        SettingsError: the URL is wrong, the engine cannot be used, or not exactly one database is given.
    """
    if isinstance(database, JobStore) and connect is None:
        return database
    # A process needs one kind of store at most: the children of a process pool need none, and a node on PostgreSQL does
    # not need the in-memory store.
    if database == IN_MEMORY and connect is None:
        from quartzpy.store.memory.store import RamJobStore

        return RamJobStore(SystemClock())
    if (database is None) == (connect is None) or not (connect is None or callable(connect)):
        raise SettingsError(
            "database: expected either a URL (postgresql+psycopg://user@host/database, or memory://), a SQLAlchemy"
            " Engine, or connect=..., a function that returns a new psycopg connection; Scheduler.from_config() takes"
            " the URL from the environment variable QUARTZPY_URL"
        )
    from quartzpy.store.postgresql.store import SqlJobStore

    if database is not None and not (is_engine(database) or (isinstance(database, str) and database)):
        kind = type(database).__name__
        hint = "; an AsyncEngine is for AsyncScheduler" if kind == "AsyncEngine" else ""
        raise SettingsError(
            "url: expected postgresql+psycopg://user@host/database, memory://, or a SQLAlchemy Engine"
            f" (got {repr(database) if database == '' else 'a ' + kind}){hint}"
        )
    source = connect if database is None else database
    assert source is not None
    return SqlJobStore(source, config)


def plugin_of(plugin: Plugin[_SchedulerT] | str) -> Plugin[_SchedulerT]:
    """Return the plugin itself, or the one whose entry point in the group "quartzpy.plugins" has this name.

    Raises:
        SettingsError: the object is not a plugin, or there is no such entry point.
    """
    if not isinstance(plugin, str):
        if not isinstance(plugin, Plugin):
            raise SettingsError(f"plugins: initialize, start and shutdown are needed (got {quoted(plugin)})")
        return plugin
    points = {point.name: point for point in entry_points(group=PLUGINS)}
    if plugin not in points:
        raise SettingsError(f"plugins: no entry point {plugin!r} in the group {PLUGINS}; there are {sorted(points)}")
    return plugin_of(points[plugin].load()())


def _plugins_of(config: SchedulerConfig) -> list[Plugin[Any]]:
    """Return the plugins that settings ask for."""
    if config.metrics_port is None:
        return []
    # Few processes need an HTTP server.
    from quartzpy.metrics.plugin import Metrics

    return [Metrics(port=config.metrics_port, host=config.metrics_host)]


def _judge_of(scheduler: BaseScheduler) -> Callable[[], Sequence[LastingIncident]]:
    """Return what a node calls after its check-ins, to judge what is wrong with the cluster."""
    if not has_admin(scheduler._store):
        return tuple
    # A scheduler that only schedules does not need these modules. A node imports them before it runs jobs, because an
    # import takes the interpreter for a tenth of a second.
    from quartzpy.operations.telling.health_check import HealthCheck

    clock, judge_now = scheduler._clock, HealthCheck(scheduler)
    first = clock.monotonic() + HEALTH_CHECKS_AFTER

    def judge() -> Sequence[LastingIncident]:
        return judge_now() if clock.monotonic() >= first else ()

    return judge


class Scheduler(BaseScheduler):
    """A scheduler on a database: `Scheduler("postgresql+psycopg://app@db/app", name="billing")`.

    `database` is a URL, a SQLAlchemy `Engine` for `postgresql+psycopg://`, `memory://`, which keeps everything in this
    process, or your own `JobStore`. Alternatively, `connect` is a function that returns a new psycopg connection at
    each call, as short-lived passwords need it. The scheduler connects at the first call that needs the database.

    An engine remains the caller's: its pool provides the connections, its events are called, and `shutdown` does not
    dispose of it. A scheduler that only schedules uses one connection of the pool during each call; a node uses at most
    `pool_size` + 3 at once, one more for each job that has a transaction, and two outside the pool.

    The settings are those of `SchedulerConfig`. `job_factory` creates the instances of jobs (see
    `quartzpy.jobs.job`); `middleware` wraps executions (see `quartzpy.jobs.context`); `plugins` start and
    stop with the scheduler (see `quartzpy.plugins`); jobs find `context` in `context.scheduler.context`; `job_defaults`
    are defaults for values of `JobDetail` (`JobDetail.with_defaults` defines the precedence).

    Raises:
        SettingsError: the URL is wrong, the engine cannot be used, a setting is unknown, or its value is wrong.
    """

    def __init__(
        self,
        database: str | Engine | JobStore | None = None,
        *,
        connect: Callable[[], psycopg.Connection[Any]] | None = None,
        job_factory: JobFactory = new_instance,
        middleware: Sequence[Middleware] = (),
        plugins: Sequence[Plugin[Scheduler] | str] = (),
        context: Mapping[str, Any] | None = None,
        job_defaults: Mapping[str, Any] | None = None,
        **settings: Unpack[Settings],
    ) -> None:
        config = SchedulerConfig.of(settings)
        super().__init__(
            make_store(database, config, connect=connect),
            config,
            clock=SystemClock(),
            job_types=job_types,
            version=installed_release(),
            job_factory=job_factory,
            middleware=middleware,
            plugins=[*_plugins_of(config), *(plugin_of(plugin) for plugin in plugins)],
            context=context,
            job_defaults=job_defaults,
            judge=_judge_of,
        )

    @classmethod
    def from_config(
        cls,
        path: str | os.PathLike[str] | None = None,
        *,
        job_factory: JobFactory = new_instance,
        middleware: Sequence[Middleware] = (),
        plugins: Sequence[Plugin[Scheduler] | str] = (),
        context: Mapping[str, Any] | None = None,
        job_defaults: Mapping[str, Any] | None = None,
        **settings: Unpack[OutsideSettings],
    ) -> Self:
        """Create a scheduler from settings outside the program: `Scheduler.from_config()`.

        In order of precedence: a keyword argument, a `QUARTZPY_...` environment variable, the TOML file at `path` or
        else at QUARTZPY_CONFIG, the default. The database is `url`, or `connect`, the name of a function that returns
        a new psycopg connection ("billing.database:connect"). `Scheduler(url, ...)` reads neither environment nor file.

        Raises:
            SettingsError: a source cannot be read, a setting is wrong or unknown (the message names its source), or no
                source has a URL.
        """
        config = load_settings(path, os.environ, **settings)
        if config.keys().isdisjoint(DATABASE):
            raise SettingsError(
                "url: no database is set. There are three ways: the keyword argument url=..., the environment variable "
                "QUARTZPY_URL, or url = ... in the TOML file that path or "
                "QUARTZPY_CONFIG names"
            )
        scheduler = cls(
            config.pop(URL, None),
            connect=function_at(config.pop(CONNECT)) if CONNECT in config else None,
            job_factory=job_factory,
            middleware=middleware,
            plugins=plugins,
            context=context,
            job_defaults=job_defaults,
            **config,
        )
        file = path or os.environ.get(CONFIG_VARIABLE)
        scheduler._settings_file = None if not file else os.fspath(file)
        return scheduler
