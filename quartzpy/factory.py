"""The composition root: the only module that knows every implementation."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Any

from quartzpy.clock import SystemClock
from quartzpy.config import SchedulerConfig
from quartzpy.errors import SettingsError
from quartzpy.job import job_types
from quartzpy.scheduler import BaseScheduler
from quartzpy.store.protocol import JobStore
from quartzpy.store.ram.store import RamJobStore
from quartzpy.store.sql.store import SqlJobStore

IN_MEMORY = "memory://"


def installed_version() -> str:
    try:
        return version("quartzpy")
    except PackageNotFoundError:
        return "0+unknown"


def make_store(url: str, config: SchedulerConfig) -> JobStore:
    """The store that a URL names.

    Raises:
        SettingsError: it names none.
    """
    if not isinstance(url, str) or not url:
        raise SettingsError("url: postgresql+psycopg://user@host/database, or memory://, is needed")
    if url == IN_MEMORY:
        return RamJobStore(SystemClock())
    return SqlJobStore(url, config)


class Scheduler(BaseScheduler):
    """A scheduler on the database at `url`: `Scheduler("postgresql+psycopg://app@db/app", name="billing")`.

    `memory://` keeps everything in this process. The settings are those of `SchedulerConfig`; nothing is
    connected before the first call that needs it.

    Raises:
        SettingsError: a wrong URL, an unknown setting, a wrong value.
    """

    def __init__(self, url: str, **settings: Any) -> None:
        config = SchedulerConfig.of(settings)
        super().__init__(
            make_store(url, config),
            config,
            clock=SystemClock(),
            job_types=job_types,
            version=installed_version(),
        )
