"""The scheduler of a Django project: its settings `QUARTZPY`, its database, and its transactions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import connections, transaction
from django.utils.module_loading import autodiscover_modules
from sqlalchemy import URL

from quartzpy.config.config import DEFAULT_TABLE_PREFIX
from quartzpy.factory import Scheduler
from quartzpy.scheduler.transactions import TransactionMethods

_OWN: Mapping[str, Any] = {"DATABASE": "default", "NODE_IN_RUNSERVER": False, "VERSION": None}
"""The settings that are not those of a scheduler, with their defaults."""
_OF_DRIVER = ("cursor_factory", "context", "prepare_threshold", "client_encoding")
"""What Django passes to psycopg beside libpq's parameters."""


def own_setting(name: str) -> Any:
    """Return an entry of `QUARTZPY` that is not a setting of the scheduler."""
    return getattr(settings, "QUARTZPY", {}).get(name, _OWN[name])


def scheduler_settings() -> dict[str, Any]:
    """Return the settings of the project's scheduler: the entries of `QUARTZPY`, whose names are in upper case."""
    written = getattr(settings, "QUARTZPY", {})
    return {"name": "django", **{name.lower(): value for name, value in written.items() if name not in _OWN}}


def table_settings() -> tuple[str | None, str]:
    """Return the schema and the prefix of the tables."""
    values = scheduler_settings()
    return values.get("schema"), values.get("table_prefix", DEFAULT_TABLE_PREFIX)


def database_url() -> str:
    """Return the URL of the database that Django uses now; in tests it is the test database.

    Raises:
        ImproperlyConfigured: it is not PostgreSQL, or Django does not use psycopg 3.
    """
    alias = own_setting("DATABASE")
    connection = connections[alias]
    if connection.vendor != "postgresql":
        raise ImproperlyConfigured(
            f"quartzpy needs PostgreSQL: DATABASES[{alias!r}] is {connection.vendor}; name another one by"
            ' QUARTZPY = {"DATABASE": ...}'
        )
    parameters = connection.get_connection_params()
    query = {name: str(value) for name, value in parameters.items() if name not in _OF_DRIVER and value is not None}
    user, password, database = (query.pop(name, None) for name in ("user", "password", "dbname"))
    url = URL.create("postgresql+psycopg", user, password, database=database, query=query)
    return url.render_as_string(hide_password=False)


def scheduler() -> Scheduler:
    """Return the scheduler of the project in this process. It runs no jobs; `node` does."""
    return _scheduler_on(database_url())


@cache
def _scheduler_on(url: str) -> Scheduler:
    return Scheduler(url, **scheduler_settings())


@contextmanager
def in_transaction() -> Iterator[TransactionMethods]:
    """Yield the methods of the scheduler inside Django's transaction; begin one where there is none.

    with transaction.atomic(), in_transaction() as jobs:
        order.save()
        jobs.schedule_job(remind, timedelta(hours=1), data={"order": order.pk})
    """
    alias = own_setting("DATABASE")
    with transaction.atomic(using=alias, savepoint=False):
        yield scheduler().using(connections[alias])


def import_tasks() -> None:
    """Import the modules `tasks` and `jobs` of each installed app, as far as there are any."""
    autodiscover_modules("tasks", "jobs")
