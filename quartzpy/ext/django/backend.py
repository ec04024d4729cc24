"""The backend of Django's tasks: a task is a job, each call of `enqueue` a trigger of it, and its result the history.

The tasks are those of Django 6 (`django.tasks`), or of the package django-tasks on Django 5.2.
"""

from __future__ import annotations

import inspect
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any, ClassVar, Unpack

import django
from asgiref.sync import sync_to_async
from django.db import close_old_connections
from django.utils import timezone

from quartzpy.errors import InvalidJobError, JobNotFoundError
from quartzpy.ext.django.project import import_tasks, in_transaction
from quartzpy.jobs.context import JobExecutionContext
from quartzpy.jobs.function_arguments import ARGS, KWARGS, OF_CLASS, FunctionArguments
from quartzpy.jobs.internal_entries import nominal_fire
from quartzpy.jobs.job import Job, JobDetail
from quartzpy.jobs.options import JobOptions
from quartzpy.keys import MANUAL_TRIGGERS, TriggerKey
from quartzpy.main_module import import_path
from quartzpy.node.workers.error_handling import describe
from quartzpy.scheduler.coercion import TriggerLike, as_triggers, bind
from quartzpy.states import ExecutionState
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.queries import ExecutionQuery
from quartzpy.store.records import ExecutionRecord
from quartzpy.texts import headline
from quartzpy.triggers.cron import CronTrigger
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.trigger import DEFAULT_PRIORITY, Trigger

_TASKS = "django.tasks" if django.VERSION >= (6,) else "django_tasks"
tasks: Any = import_module(_TASKS)
_base: Any = import_module(f"{_TASKS}.base")
_signals: Any = import_module(f"{_TASKS}.signals")
TaskResultDoesNotExist: Any = import_module(f"{_TASKS}.exceptions").TaskResultDoesNotExist
BaseTaskBackend: Any = import_module(f"{_TASKS}.backends.base").BaseTaskBackend
ImmediateBackend: Any = import_module(f"{_TASKS}.backends.immediate").ImmediateBackend
_Status: Any = _base.TaskResultStatus

DEFAULT_QUEUE = _base.DEFAULT_TASK_QUEUE_NAME
MAX_ATTEMPTS = 1_000
_ID_LENGTH, _TIME_LENGTH, _MAX_DIGITS = 32, 12, 18
_ID = re.compile(f"[0-9a-f]{{{_ID_LENGTH}}}")
_STATES = {
    ExecutionState.SCHEDULED: _Status.READY,
    ExecutionState.ENQUEUED: _Status.READY,
    ExecutionState.PROCESSING: _Status.RUNNING,
    ExecutionState.SNOOZED: _Status.READY,
    ExecutionState.SUCCEEDED: _Status.SUCCESSFUL,
}
"""The states of results by those of executions; all others are failures."""


class TaskCall:
    """What the job of a task does: it calls the function. Each task has a job type of its own with this base."""

    task: ClassVar[Any]
    arguments: ClassVar[FunctionArguments]

    def execute(self, context: JobExecutionContext) -> Any:
        """Call a plain function, between Django's signals."""
        result, bound, sender = self._begin(context)
        _signals.task_started.send(sender, task_result=result)
        try:
            value = _base.normalize_json(self.task.func(*bound.args, **bound.kwargs))
        except BaseException as error:
            _signals.task_finished.send(sender, task_result=_failed(result, error))
            raise
        _signals.task_finished.send(sender, task_result=_succeeded(result, value))
        return value

    def _begin(self, context: JobExecutionContext) -> tuple[Any, inspect.BoundArguments, type[Any]]:
        """Return the result of this attempt, which has just begun, the arguments, and the sender of the signals."""
        result = _result(self.task, result_id(context), context.job_data)
        at = context.fire_time
        _change(result, status=_Status.RUNNING, started_at=at, last_attempted_at=at)
        result.worker_ids.extend([context.instance_id] * context.attempt)
        bound = self.arguments.bound(context)
        if self.task.takes_context:
            bound.arguments["context"] = _base.TaskContext(task_result=result)
        return result, bound, type(self.task.get_backend())


class AsyncTaskCall(TaskCall):
    """The same for a coroutine function, which is awaited on the event loop of the node."""

    async def execute(self, context: JobExecutionContext) -> Any:
        """Await the function, between Django's signals."""
        # What a coroutine does with the ORM runs in a thread of asgiref's, whose connections no middleware closes.
        close = sync_to_async(close_old_connections)
        await close()
        result, bound, sender = self._begin(context)
        await _signals.task_started.asend(sender, task_result=result)
        try:
            value = _base.normalize_json(await self.task.func(*bound.args, **bound.kwargs))
        except BaseException as error:
            await _signals.task_finished.asend(sender, task_result=_failed(result, error))
            raise
        finally:
            await close()
        await _signals.task_finished.asend(sender, task_result=_succeeded(result, value))
        return value


# --- the tasks of this process

_options: dict[Callable[..., Any], dict[str, Any]] = {}
"""What `task` was told of functions: the options of their jobs, and their schedules."""
job_types: dict[str, type[Any]] = {}
"""The job types of the tasks that use this backend, by their names: each has the `task`."""
_SCHEDULE = "schedule"
_OF_TASK = frozenset(("job", "name", "group", "durable"))
"""What `job_of` says itself."""


def task(
    function: Callable[..., Any] | None = None,
    *,
    schedule: TriggerLike | Sequence[TriggerLike] = (),
    priority: int = _base.DEFAULT_TASK_PRIORITY,
    queue_name: str = DEFAULT_QUEUE,
    backend: str = _base.DEFAULT_TASK_BACKEND_ALIAS,
    takes_context: bool = False,
    **options: Unpack[JobOptions],
) -> Any:
    """Make a task as Django's own `task` does, with a schedule and with the options of a job.

        @task(schedule="0 2 * * *", retry=RetryPolicy(attempts=5), timeout="5m", max_concurrent=1)
        def report() -> None: ...

    `schedule` is one or several of what `Scheduler.schedule_job` takes as triggers; a `Trigger` may carry arguments, as
    `CronTrigger("0 2 * * *", data={"region": "eu"})` does. The options hold for every call of the task. Other backends
    ignore all of this, so that tests can run the task at once. It also takes a task that Django's `task` has made.

    Raises:
        InvalidJobError: an option has a wrong value.
        InvalidValueError: so has the schedule.
    """
    _check(options)
    triggers = _triggers(schedule)

    def made(function: Any) -> Any:
        make = tasks.task(priority=priority, queue_name=queue_name, backend=backend, takes_context=takes_context)
        ready = function if isinstance(function, _base.Task) else make(function)
        _options[ready.func] = {**options, _SCHEDULE: triggers}
        return ready

    return made if function is None else made(function)


def _check(options: Mapping[str, Any]) -> None:
    if taken := options.keys() & _OF_TASK:
        raise InvalidJobError(f"{min(taken)}: is no option of a task, because the job of a task has its own")
    JobDetail("checked", "checked", **options)


def _triggers(schedule: Any) -> list[Trigger]:
    """Return the triggers of a schedule; a cron text means the time zone of the project."""
    several = [schedule] if isinstance(schedule, str | Trigger) or not isinstance(schedule, Sequence) else schedule
    zone = timezone.get_default_timezone_name()
    return as_triggers([CronTrigger(each, time_zone=zone) if isinstance(each, str) else each for each in several])


def _register(task: Any) -> type[Any]:
    """Return the job type of a task."""
    function = task.func
    name = import_path(function)
    if name not in job_types:
        body = {
            "__doc__": function.__doc__,
            "__module__": function.__module__,
            "__qualname__": function.__qualname__,
            "task": task,
            "arguments": (arguments := FunctionArguments(function, name, None)),
            OF_CLASS: arguments,
        }
        base = AsyncTaskCall if inspect.iscoroutinefunction(function) else TaskCall
        job_types[name] = type(function.__name__, (base, Job), body, type_name=name)
    return job_types[name]


def job_of(task: Any) -> JobDetail:
    """Return the job of a task: GROUP.NAME is the path of its function, and its queue a group of executions."""
    job_type = _register(task)
    group, _, name = f"{task.func.__module__}.{task.func.__qualname__}".partition(".")
    if task.queue_name != job_type.task.queue_name:
        name = f"{name}@{task.queue_name}"
    options = {**task.get_backend().options, **_options.get(task.func, {})}
    options.pop(_SCHEDULE, None)
    if task.queue_name != DEFAULT_QUEUE:
        options.setdefault("execution_group", task.queue_name)
    return JobDetail(job_type, name, group, **{**options, "durable": True})


def triggers_of(task: Any) -> list[Trigger]:
    """Return the triggers of a task."""
    return bind(_options.get(task.func, {}).get(_SCHEDULE, ()), job_of(task).key)


# --- the backend


class QuartzBackend(BaseTaskBackend):
    """A backend of Django's tasks that stores them in quartzpy's tables, inside the transaction of the caller.

    `OPTIONS` are the defaults of all its tasks: options of jobs, such as `{"retry": RetryPolicy(attempts=3)}`. Nodes
    (`manage.py quartzpy node`) run the tasks.
    """

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        _check(self.options)

    def validate_task(self, task: Any) -> None:
        """Check a task, as Django does when it is made, and note its function for the nodes."""
        super().validate_task(task)
        _register(task)

    def enqueue(self, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Store a call of a task, in the caller's transaction if there is one; return its result, which is READY."""
        self.validate_task(task)
        result = _result(task, _new_id(), {ARGS: args, KWARGS: kwargs})
        job = job_of(task)
        run_after = task.run_after
        trigger = SimpleTrigger(
            result.id,
            MANUAL_TRIGGERS,
            job_key=job.key,
            start_time=timezone.make_aware(run_after) if run_after and timezone.is_naive(run_after) else run_after,
            priority=DEFAULT_PRIORITY + task.priority,
            data={ARGS: result.args, KWARGS: result.kwargs},
            interval=timedelta(0),
            repeat_count=0,
        )
        with in_transaction() as methods:
            try:
                methods.schedule(trigger)
            except JobNotFoundError:
                # No node has started since the task was written.
                methods.schedule_jobs([(job, [trigger])])
        _signals.task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> Any:
        """Return the result of an earlier `enqueue`, or of a scheduled run by its `fire_id`, from the history.

        Raises:
            TaskResultDoesNotExist: there is none with this id, or the history no longer has it.
        """
        with in_transaction() as methods:
            store = methods._usable_store()
            first: ExecutionRecord | None = None
            if _ID.fullmatch(result_id):
                trigger_key = TriggerKey(result_id, MANUAL_TRIGGERS)
                query = ExecutionQuery(states=frozenset(ExecutionState), trigger_key=trigger_key)
                first = next(iter(store.find(query, 1)), None)
            elif result_id.isdecimal() and len(result_id) <= _MAX_DIGITS:
                first = methods.execution(int(result_id))
            attempts = [] if first is None else [first]
            if first is not None and first.fire_id is not None:
                attempts = admin(store).attempts([first.fire_id], MAX_ATTEMPTS).get(first.fire_id, attempts)
        if first is not None and first.job_type not in job_types:
            import_tasks()
        if first is None or first.job_type not in job_types:
            raise TaskResultDoesNotExist(result_id)
        return _read(job_types[first.job_type].task, result_id, attempts)


# --- results


def _new_id() -> str:
    """Return an id that begins with the time, in milliseconds: it is the instant of `enqueue`, which no table has."""
    milliseconds = int(timezone.now().timestamp() * 1_000)
    return f"{milliseconds:0{_TIME_LENGTH}x}{secrets.token_hex((_ID_LENGTH - _TIME_LENGTH) // 2)}"


def result_id(context: JobExecutionContext) -> str:
    """Return the id of the result of an execution: that of `enqueue`, or the `fire_id` of a scheduled run."""
    first, _ = nominal_fire(context.trigger_key, context.scheduled_fire_time, context.job_data)
    return first.name if first.group == MANUAL_TRIGGERS and len(first.name) == _ID_LENGTH else str(context.fire_id)


def _result(task: Any, number: str, data: Mapping[str, Any]) -> Any:
    enqueued_at = None
    if len(number) == _ID_LENGTH:
        enqueued_at = datetime.fromtimestamp(int(number[:_TIME_LENGTH], 16) / 1_000, UTC)
    return _base.TaskResult(
        task=task,
        id=number,
        status=_Status.READY,
        enqueued_at=enqueued_at,
        started_at=None,
        finished_at=None,
        last_attempted_at=None,
        args=list(data.get(ARGS, ())),
        kwargs=dict(data.get(KWARGS, {})),
        backend=task.backend,
        errors=[],
        worker_ids=[],
    )


def _read(task: Any, number: str, attempts: Sequence[ExecutionRecord]) -> Any:
    """Return the result that the attempts of one execution have, the first attempt first."""
    first, last = attempts[0], attempts[-1]
    result = _result(task, number, first.trigger_data)
    status = _STATES.get(last.state, _Status.READY if last.retry_at is not None else _Status.FAILED)
    _change(
        result,
        status=status,
        started_at=first.fire_time,
        last_attempted_at=last.fire_time,
        finished_at=last.ended_at if status in (_Status.SUCCESSFUL, _Status.FAILED) else None,
        _return_value=last.result if status == _Status.SUCCESSFUL else None,
    )
    result.errors.extend(_error(record.error) for record in attempts if record.error)
    result.worker_ids.extend(record.instance_id for record in attempts if record.instance_id)
    return result


def _change(result: Any, **values: Any) -> None:
    # As Django's own backends do it: a result is frozen for everybody else.
    for name, value in values.items():
        object.__setattr__(result, name, value)


def _succeeded(result: Any, value: Any) -> Any:
    _change(result, finished_at=timezone.now(), status=_Status.SUCCESSFUL, _return_value=value)
    return result


def _failed(result: Any, error: BaseException) -> Any:
    _change(result, finished_at=timezone.now(), status=_Status.FAILED)
    result.errors.append(_error(describe(error)))
    return result


def _error(text: str) -> Any:
    """Return an error of the history as Django's: the path of its class, and the traceback."""
    path = (headline(text) or "").partition(":")[0]
    return _base.TaskError(exception_class_path=path if "." in path else f"builtins.{path}", traceback=text)
