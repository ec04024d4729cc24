"""The app: it moves quartzpy's tables when Django migrates, and can run a node inside the development server."""

from __future__ import annotations

import atexit
import logging
import os
import sys
from typing import Any

from django.apps import AppConfig
from django.core import checks
from django.db import connections
from django.db.models.signals import post_migrate

from quartzpy.config.config import SchedulerConfig
from quartzpy.errors import QuartzpyError

logger = logging.getLogger(__name__)


class QuartzpyConfig(AppConfig):
    """The app "quartzpy.ext.django"."""

    name = "quartzpy.ext.django"
    label = "quartzpy"
    verbose_name = "quartzpy"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        post_migrate.connect(_move_tables, sender=self)
        checks.register(_check, self.label)
        from quartzpy.ext.django.project import own_setting

        if own_setting("NODE_IN_RUNSERVER") and _serves():
            _run_node()


def _check(**_rest: Any) -> list[checks.Error]:
    """Check the settings, so that each command of `manage.py` says in one line what is wrong. Nothing connects."""
    from quartzpy.ext.django.project import database_url, scheduler_settings

    try:
        database_url()
        SchedulerConfig.of(scheduler_settings())
    except Exception as error:
        # Wrong settings may raise anything, and a check says it.
        return [checks.Error(f"QUARTZPY: {error}", id="quartzpy.E001")]
    return []


def _serves() -> bool:
    """Return whether this is the process of the development server that answers requests, not the one that watches."""
    return sys.argv[1:2] == ["runserver"] and (os.environ.get("RUN_MAIN") == "true" or "--noreload" in sys.argv)


def _run_node() -> None:
    from quartzpy.ext.django.nodes import node

    running = node()
    try:
        running.start()
    except QuartzpyError as error:
        logger.error("the node of the development server did not start: %s", error)
        running.shutdown()
    else:
        atexit.register(running.shutdown, timeout=5)


def _move_tables(using: str, verbosity: int = 0, **_rest: Any) -> None:
    """Create quartzpy's tables or bring them to this release, after each `migrate` of their database.

    No migration of Django's does this, so that `migrate` also does it where a test run leaves migrations out.
    """
    from quartzpy.ext.django.project import database_url, own_setting, table_settings
    from quartzpy.store.postgresql import migrations
    from quartzpy.store.postgresql.schema_version import HEAD, stamped

    if using != own_setting("DATABASE"):
        return
    connection = connections[using]
    connection.ensure_connection()
    schema, prefix = table_settings()
    if stamped(connection.connection, schema, prefix) == HEAD:
        return
    migrations.upgrade(database_url(), schema, prefix=prefix)
    if verbosity:
        logger.info("the tables of quartzpy are at revision %s", HEAD)
