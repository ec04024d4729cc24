"""A Celery app whose workers do some work, for the engine "celery"."""

from __future__ import annotations

import os
import time
from os import environ
from pathlib import Path
from typing import Any

from celery import Celery, Task

from quartzpy import Job, JobExecutionContext
from quartzpy.ext.celery import add_runner


def app_at(broker: str, results: str, folder: str) -> Celery:
    """Return the app for a broker; that of files has its folder in `folder`."""
    app = Celery("work", broker=broker, backend=results, set_as_current=False)
    app.conf.update(
        broker_connection_retry_on_startup=True,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        redis_socket_timeout=1,
        redis_socket_connect_timeout=1,
        worker_lost_wait=0.5,
        worker_prefetch_multiplier=1,
        broker_transport_options=(
            {"visibility_timeout": 3, "socket_timeout": 5}
            if broker.startswith("redis")
            else {"data_folder_in": folder, "data_folder_out": folder, "control_folder": f"{folder}/control"}
        ),
    )
    for name, function in TASKS.items():
        options = {"acks_late": True, "ignore_result": True} if name == "late" else {}
        app.task(name=f"work.{name}", bind=True, shared=False, **options)(function)
    return add_runner(app)


def _add(task: Task, a: int, b: int) -> int:
    return a + b


def _fail(task: Task) -> None:
    raise ValueError("no sum today")


def _retry(task: Task) -> int:
    if task.request.retries < 2:
        raise task.retry(countdown=0.1)
    return int(task.request.retries)


def _large(task: Task) -> str:
    return "x" * 1_100_000


def _headers(task: Task) -> dict[str, Any]:
    return {"id": task.request.id, "key": task.request.headers["quartzpy_execution_key"]}


def _wait(task: Task, path: str) -> int:
    """Say in a file that it has begun, and end when the file `path.end` is there."""
    with Path(path).open("a") as file:
        file.write(f"{os.getpid()}\n")
    while not Path(f"{path}.end").exists():
        time.sleep(0.05)
    return len(Path(path).read_text().split())


TASKS = {
    "add": _add,
    "fail": _fail,
    "retry": _retry,
    "large": _large,
    "headers": _headers,
    "wait": _wait,
    "late": _wait,
}


class Works(Job, type_name="tests.celery.works"):
    """Waits on a worker for a file, and tells who fired it, and whether it may still write."""

    outlives_node = True

    def execute(self, context: JobExecutionContext) -> str:
        path = Path(context.job_data["path"])
        with path.open("a") as file:
            file.write("begun\n")
        while not Path(f"{path}.end").exists():
            context.raise_if_cancelled()
            context.wait_cancelled(0.05)
        with context.fenced_transaction():
            return f"fired by {context.instance_id}"


if "TEST_CELERY_BROKER" in environ:
    app = app_at(environ["TEST_CELERY_BROKER"], environ["TEST_CELERY_RESULTS"], environ["TEST_CELERY_FOLDER"])
    app.set_current()
