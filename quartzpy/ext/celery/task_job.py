"""A job that sends a Celery task, with a task id that all attempts of one fire share."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from quartzpy.errors import InvalidJobError, SettingsError
from quartzpy.jobs.job import CELERY_TASK, Job, JobDetail
from quartzpy.jobs.retry import RetryPolicy
from quartzpy.keys import DEFAULT_GROUP
from quartzpy.texts import did_you_mean, quoted

if TYPE_CHECKING:
    from celery import Celery

    from quartzpy.jobs.context import JobExecutionContext

TASK, ARGS, KWARGS, OPTIONS, APP = "task", "args", "kwargs", "options", "app"
EXECUTION_HEADER, SCHEDULED_HEADER = "quartzpy_execution_key", "quartzpy_scheduled_time"
_NAMESPACE = uuid.UUID("6f0d5c1e-6b0f-5d0c-9a63-1f6c1f0b7a11")
# The options of Celery's `send_task` that are values: others are objects of a running program.
SEND_OPTIONS = (
    *("queue", "exchange", "routing_key", "priority", "countdown", "expires", "headers", "time_limit"),
    *("soft_time_limit", "serializer", "compression", "delivery_mode", "ignore_result", "shadow", "reply_to"),
    *("retry", "retry_policy", "mandatory", "argsrepr", "kwargsrepr"),
)
_RETRY = RetryPolicy(attempts=5, delay=timedelta(seconds=1))

_apps: dict[str, Celery] = {}
_lock = threading.Lock()


def use_app(app: Celery) -> Celery:
    """Make a Celery app known to this process, so that its nodes can send tasks with it; return the app.

    A process that uses several apps gives each of them a name (`Celery("shop")`), which `CeleryTask(..., app="shop")`
    refers to.
    """
    with _lock:
        _apps[str(app.main or "")] = app
    return app


def _app(name: str | None) -> Celery:
    with _lock:
        apps = dict(_apps)
    if name is None and len(apps) == 1:
        return next(iter(apps.values()))
    if name is not None and name in apps:
        return apps[name]
    wanted = "a Celery app is needed to send tasks" if name is None else f"the Celery app {quoted(name)} is not known"
    hint = f"; this process knows {', '.join(map(quoted, sorted(apps)))}" if apps else ""
    raise SettingsError(
        f"{wanted}; call quartzpy.ext.celery.use_app(app) in the program of the node"
        f"{', and name the app by CeleryTask(..., app=...)' if name is None and apps else ''}{hint}"
    )


def task_id_of(scheduler_name: str, execution_key: str) -> str:
    """Return the task id that a fire sends: the same for its retries, its recovery and its repetitions, and no other.

    `execution_key` is `JobExecutionContext.execution_key`.
    """
    return str(uuid.uuid5(_NAMESPACE, f"{scheduler_name}/{execution_key}"))


class SendCeleryTask(Job, type_name=CELERY_TASK, operators_set=(ARGS, KWARGS)):
    """Sends a Celery task. `CeleryTask` makes jobs of this type."""

    outlives_node = True

    def execute(self, context: JobExecutionContext) -> str:
        """Send the task, and return its id."""
        data = context.job_data
        task_id = task_id_of(context.scheduler.config.name, context.execution_key)
        send(_app(data.get(APP)), data, context.execution_key, context.nominal_fire_time, task_id)
        return task_id


def send(
    app: Celery,
    data: Mapping[str, Any],
    key: str,
    at: datetime,
    task_id: str,
    more_headers: Mapping[str, Any] | None = None,
    **forced: Any,
) -> None:
    """Send the task of a job with this data, for the execution with this key; `forced` are options of `send_task`."""
    options = {**(data.get(OPTIONS) or {}), **forced}
    headers = {
        **(options.pop("headers", None) or {}),
        **(more_headers or {}),
        EXECUTION_HEADER: key,
        # A recovery knows the instant in milliseconds, and its message is to be the same as the first.
        SCHEDULED_HEADER: at.isoformat(timespec="milliseconds"),
    }
    args, kwargs = tuple(data.get(ARGS) or ()), dict(data.get(KWARGS) or {})
    app.send_task(data[TASK], args=args, kwargs=kwargs, task_id=task_id, headers=headers, **options)


def CeleryTask(  # noqa: N802 - it stands where a job class stands
    task: str,
    name: str | None = None,
    group: str = DEFAULT_GROUP,
    *,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    app: str | None = None,
    job_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> JobDetail:
    """Return a job that sends the Celery task of this name at each fire.

        scheduler.schedule_job(CeleryTask("shop.tasks.report", args=["eu"], queue="slow"), "0 0 2 * * ?")

    `args` and `kwargs` are those of the task, as JSON. `options` are those of Celery's `send_task`, such as `queue`,
    `priority`, `expires` (in seconds) and `headers`. `app` is the name of a Celery app; a process that knows only one
    needs none (see `use_app`). `job_options` are options of `JobDetail`. `name` defaults to the task's.

    A fire happens once in the cluster, and is sent with a task id that only this fire has. If the broker cannot be
    reached, it is sent again, five times by default; if the node dies while it sends, another node sends it again. All
    these attempts have the same task id, because no transaction spans a broker and a database: a task that must not be
    repeated compares `self.request.id` with those that it has done. The job succeeds when the broker has the message,
    whatever becomes of the task. On an executor such as "celery:myapp.celery:app" it ends as the task does.

    The headers `quartzpy_execution_key` and `quartzpy_scheduled_time` (ISO 8601) tell the task which instant it is for.

    Raises:
        InvalidJobError: an option is none of those of `send_task` that are plain values.
        InvalidJobDataError: an argument is no JSON.
    """
    for option in options:
        if option not in SEND_OPTIONS:
            raise InvalidJobError(
                f"CeleryTask({task!r}): no option {quoted(option)}; {did_you_mean(option, SEND_OPTIONS, 'options')}."
                " Options of the job itself are passed as job_options={...}"
            )
    if not isinstance(task, str) or not task:
        raise InvalidJobError(f"CeleryTask: the name of the task comes first, as a text (got {quoted(task)})")
    values = {ARGS: list(args), KWARGS: dict(kwargs or {}), OPTIONS: options, APP: app}
    data = {TASK: task, **{key: value for key, value in values.items() if value}}
    defaults: dict[str, Any] = {"requests_recovery": True, "retry": _RETRY}
    return JobDetail(SendCeleryTask, name or task, group, data=data, **{**defaults, **(job_options or {})})
