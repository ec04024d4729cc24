"""A node whose jobs run on Celery: `python -m tests.ext.celery_node NAME`, with the database in QUARTZPY_URL."""

from __future__ import annotations

import sys
from os import environ

from quartzpy import Scheduler
from quartzpy.node.run import run_until_stopped
from tests.ext.celery_work import Works

SETTINGS = {
    "name": "celery",
    "checkin_interval": "500ms",
    "lock_timeout": "1s",
    "failure_window": "30s",
    "engine_window": "20s",
}


def scheduler(instance_id: str) -> Scheduler:
    """Return a node with an executor on Celery."""
    executors = {"work": "celery:tests.ext.celery_work:app"}
    return Scheduler(environ["QUARTZPY_URL"], instance_id=instance_id, executors=executors, **SETTINGS)


if __name__ == "__main__":
    assert Works.type_name
    run_until_stopped(scheduler(sys.argv[1]), 10)
