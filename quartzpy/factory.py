"""The composition root: the only module that knows every implementation."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, entry_points, version
from typing import Any, Self

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

IN_MEMORY = "memory://"
PLUGINS = "quartzpy.plugins"


def installed_version() -> str:
    try:
        return version("quartzpy")
    except PackageNotFoundError:
        return "0+unknown"


def make_store(url: str | JobStore, config: SchedulerConfig) -> JobStore:
    """Return the store that a URL names, or the store that is given.

    Raises:
        SettingsError: it is neither a store nor the URL of one.
    """
    if isinstance(url, JobStore):
        return url
    if not isinstance(url, str) or not url:
        raise SettingsError("url: postgresql+psycopg://user@host/database, or memory://, is needed")
    if url == IN_MEMORY:
        return RamJobStore(SystemClock())
    # Only who has a database waits for SQLAlchemy: the child processes of a node import quartzpy, and have none.
    from quartzpy.store.sql.store import SqlJobStore

    return SqlJobStore(url, config)


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
    """A scheduler on the database at `url`: `Scheduler("postgresql+psycopg://app@db/app", name="billing")`.

    `memory://` keeps everything in this process; a `JobStore` of your own can be given instead of a URL.
    The settings are those of `SchedulerConfig`; nothing is
    connected before the first call that needs it. `job_factory` makes the instances of jobs (see
    `quartzpy.job_factory`); `middleware` surrounds executions (see `quartzpy.middleware`); `plugins` live with the
    scheduler (see `quartzpy.plugins`); `context` is what jobs find in `context.scheduler.context`;
    `job_defaults` are values of `JobDetail` for jobs that do not give them (`JobDetail.with_defaults` has the rule).

    Raises:
        SettingsError: a wrong URL, an unknown setting, a wrong value.
    """

    def __init__(
        self,
        url: str | JobStore,
        *,
        job_factory: JobFactory = new_instance,
        middleware: Sequence[Middleware] = (),
        plugins: Sequence[Plugin | str] = (),
        context: Mapping[str, Any] | None = None,
        job_defaults: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        config = SchedulerConfig.of(settings)
        super().__init__(
            make_store(url, config),
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
                "QUARTZPY_URL (QUARTZPY_DSN is the command line's only), or url = ... in the TOML file that path or "
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
