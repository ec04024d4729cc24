"""The composition root: the only module that knows every implementation."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, entry_points, version
from typing import TYPE_CHECKING, Any, Self

from quartzpy.clock import SystemClock
from quartzpy.config import SchedulerConfig
from quartzpy.config_sources import URL, load_settings
from quartzpy.errors import SettingsError
from quartzpy.job import job_types
from quartzpy.job_factory import JobFactory, new_instance
from quartzpy.middleware import Middleware
from quartzpy.plugin import Plugin
from quartzpy.scheduler import BaseScheduler
from quartzpy.store.protocol import JobStore
from quartzpy.store.ram.store import RamJobStore

if TYPE_CHECKING:
    import psycopg
    from sqlalchemy.engine import Engine

IN_MEMORY = "memory://"
PLUGINS = "quartzpy.plugins"


def installed_version() -> str:
    try:
        return version("quartzpy")
    except PackageNotFoundError:
        return "0+unknown"


def make_store(
    database: str | Engine | JobStore | None, config: SchedulerConfig, *, connect: Callable[[], Any] | None = None
) -> JobStore:
    """Return the store on a database: at a URL, behind an engine, or where a function connects to; or the given store.

    Raises:
        SettingsError: a wrong URL, an engine that cannot be used, or none or two of them.
    """
    if isinstance(database, JobStore) and connect is None:
        return database
    if database == IN_MEMORY and connect is None:
        return RamJobStore(SystemClock())
    if (database is None) == (connect is None) or not (connect is None or callable(connect)):
        raise SettingsError(
            "database: expected either a URL (postgresql+psycopg://user@host/database, or memory://), a SQLAlchemy"
            " Engine, or connect=..., a function that returns a new psycopg connection; Scheduler.from_config() takes"
            " the URL from the environment variable QUARTZPY_URL"
        )
    # Only who has a database waits for SQLAlchemy: the child processes of a node import quartzpy, and have none.
    from sqlalchemy.engine import Engine

    from quartzpy.store.sql.store import SqlJobStore

    if database is not None and not (isinstance(database, Engine) or (isinstance(database, str) and database)):
        kind = type(database).__name__
        hint = "; an AsyncEngine is for AsyncScheduler" if kind == "AsyncEngine" else ""
        raise SettingsError(
            "url: expected postgresql+psycopg://user@host/database, memory://, or a SQLAlchemy Engine"
            f" (got {repr(database) if database == '' else 'a ' + kind}){hint}"
        )
    source = connect if database is None else database
    assert source is not None
    return SqlJobStore(source, config)


def plugin_of(given: Plugin | str) -> Plugin:
    """A plugin, or the one whose entry point in the group "quartzpy.plugins" has this name.

    Raises:
        SettingsError: no plugin, or no such entry point.
    """
    if not isinstance(given, str):
        if not isinstance(given, Plugin):
            raise SettingsError(f"plugins: initialize, start and shutdown are needed (got {given!r})")
        return given
    found = {point.name: point for point in entry_points(group=PLUGINS)}
    if given not in found:
        raise SettingsError(f"plugins: no entry point {given!r} in the group {PLUGINS}; there are {sorted(found)}")
    return plugin_of(found[given].load()())


class Scheduler(BaseScheduler):
    """A scheduler on a database: `Scheduler("postgresql+psycopg://app@db/app", name="billing")`.

    `database` is a URL, or a SQLAlchemy `Engine` for `postgresql+psycopg://`, or `memory://`, which keeps everything in
    this process, or a `JobStore` of your own. Instead of it, `connect` is a function that returns a new psycopg
    connection each time it is called, as a provider of short-lived passwords needs. Nothing is connected before the
    first call that needs it.

    An engine stays the caller's: its pool gives the connections, its events are called, and `shutdown` does not dispose
    of it. A scheduler that only schedules takes one connection of the pool for each call, while it lasts; a node takes
    at most `pool_size` + 3 at once, one more for each job that has a transaction, and two outside the pool.

    The settings are those of `SchedulerConfig`. `job_factory` makes the instances of jobs (see `quartzpy.job_factory`);
    `middleware` surrounds executions (see `quartzpy.middleware`); `plugins` live with the scheduler (see
    `quartzpy.plugins`); jobs find `context` in `context.scheduler.context`; `job_defaults` are values of `JobDetail`
    for jobs that do not give them (`JobDetail.with_defaults` has the rule).

    Raises:
        SettingsError: a wrong URL, an engine that cannot be used, an unknown setting, or a wrong value.
    """

    def __init__(
        self,
        database: str | Engine | JobStore | None = None,
        *,
        connect: Callable[[], psycopg.Connection[Any]] | None = None,
        job_factory: JobFactory = new_instance,
        middleware: Sequence[Middleware] = (),
        plugins: Sequence[Plugin | str] = (),
        context: Mapping[str, Any] | None = None,
        job_defaults: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        config = SchedulerConfig.of(settings)
        super().__init__(
            make_store(database, config, connect=connect),
            config,
            clock=SystemClock(),
            job_types=job_types,
            version=installed_version(),
            job_factory=job_factory,
            middleware=middleware,
            plugins=[plugin_of(one) for one in plugins],
            context=context,
            job_defaults=job_defaults,
        )

    @classmethod
    def from_config(
        cls,
        path: str | os.PathLike[str] | None = None,
        *,
        job_factory: JobFactory = new_instance,
        middleware: Sequence[Middleware] = (),
        plugins: Sequence[Plugin | str] = (),
        context: Mapping[str, Any] | None = None,
        job_defaults: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> Self:
        """A scheduler from what is set outside the program: `Scheduler.from_config()`.

        A keyword argument (`url` is one) stands over a `QUARTZPY_...` variable of the environment, that over the
        TOML file at `path`, or else at QUARTZPY_CONFIG, and that over the default. `Scheduler(url, ...)` reads
        neither environment nor file.

        Raises:
            SettingsError: a source cannot be read, a wrong or unknown setting (says where it came from), or none of
                them has a URL.
        """
        found = load_settings(path, os.environ, **settings)
        if URL not in found:
            raise SettingsError(
                "url: no database is set. There are three ways: the keyword argument url=..., the environment variable "
                "QUARTZPY_URL, or url = ... in the TOML file that path or "
                "QUARTZPY_CONFIG names"
            )
        return cls(
            found.pop(URL),
            job_factory=job_factory,
            middleware=middleware,
            plugins=plugins,
            context=context,
            job_defaults=job_defaults,
            **found,
        )
