"""Celery with quartzpy: jobs that send tasks, and a scheduler for `celery beat` that runs as a cluster.

Needs the extra `celery`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quartzpy.ext.celery.task_job import CeleryTask, SendCeleryTask, task_id_of, use_app

if TYPE_CHECKING:
    from quartzpy.ext.celery.beat import BeatScheduler
    from quartzpy.ext.celery.engine import add_runner

    Scheduler = BeatScheduler

__all__ = ["CeleryTask", "Scheduler", "SendCeleryTask", "add_runner", "task_id_of", "use_app"]


def __getattr__(name: str) -> Any:
    # Celery itself is imported only where it is used: jobs that send tasks can be declared without it.
    if name == "Scheduler":
        from quartzpy.ext.celery.beat import BeatScheduler

        return BeatScheduler
    if name == "add_runner":
        from quartzpy.ext.celery.engine import add_runner

        return add_runner
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
