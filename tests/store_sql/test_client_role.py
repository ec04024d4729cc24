"""Every verb of the scheduler, as the role of a client: its privileges by columns are enough for all of them."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from quartzpy import Job, JobDetail, JobExecutionContext, JobKey, Scheduler, SimpleTrigger, TriggerKey, WeeklyCalendar
from quartzpy.errors import QuartzpyError, SchemaError
from quartzpy.matchers import GroupMatcher
from tests.store_sql.test_roles import LATER, QUICK, SOON, Users, schema, users

__all__ = ["schema", "users"]

OF_NODES = {
    *("start", "start_delayed", "standby", "run", "shutdown", "wait_until_shut_down", "add_middleware", "trace_with"),
    *("set_execution_groups", "scheduled_job", "from_config", "health", "interrupt", "interrupt_execution"),
    # Within transactions or streams of their own, which take the verbs that are called here.
    *("using", "using_async", "cluster_events", "schedule", "wait_until_recorded", "job"),
}
"""The verbs that no client needs, and other names of verbs that are called."""


class Ends(Job):
    def execute(self, context: JobExecutionContext) -> None:
        pass


class Recording:
    """A scheduler that notes which verbs were called, and that none lacked a privilege."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.called: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._scheduler, name)

        def call(*given: Any, **named: Any) -> Any:
            self.called.add(name)
            try:
                return verb(*given, **named)
            except SchemaError:
                raise
            except QuartzpyError:
                # Nothing of this name is stored: the statement was permitted.
                return None

        return call


@pytest.mark.timeout(300)
def test_a_client_may_call_every_verb_of_a_client(users: Users, schema: str | None) -> None:
    job, key, group = JobKey("job", "DEFAULT"), TriggerKey("later", "DEFAULT"), GroupMatcher.anything()
    with Scheduler(users.dsn_of("node"), schema=schema, **QUICK) as node, contextlib.ExitStack() as stack:
        made = Scheduler(users.dsn_of("client"), schema=schema)
        stack.callback(made.shutdown)
        client: Any = Recording(made)
        client.add_calendar("weekdays", WeeklyCalendar({6, 7}))
        client.add_calendar("weekdays", WeeklyCalendar({7}), replace=True)
        client.schedule_job(JobDetail(Ends, "job", durable=True), SimpleTrigger("later", start_time=LATER))
        client.schedule_jobs([(JobDetail(Ends, "other"), [SimpleTrigger("other", start_time=LATER)])])
        client.add_job(JobDetail(Ends, "stored", durable=True))
        client.modify_job(job, data={"a": 1})
        client.reschedule_job(key, SimpleTrigger("later", start_time=LATER, interval="1h", calendar="weekdays"))
        client.add_calendar("weekdays", WeeklyCalendar({6}), replace=True, update_triggers=True)
        client.skip_next(key)
        client.skip_until(key, LATER + timedelta(days=1))
        for name, given in (("trigger", key), ("job", job), ("trigger_group", "DEFAULT"), ("job_group", "DEFAULT")):
            getattr(client, f"pause_{name}")(given)
            getattr(client, f"resume_{name}")(given)
        client.pause_all()
        client.resume_all()
        client.disable_job(job)
        client.run_job_by_hand_only(job)
        client.enable_job(job)
        client.enter_manual_mode()
        client.leave_manual_mode()
        client.reset_trigger_from_error(key)
        client.trigger_job(job)
        assert node.wait_until_recorded(1, SOON)
        ran = next(iter(node.executions()))
        client.run_again(ran.fire_id)
        client.execution(ran.fire_id)
        client.execution_log(ran.fire_id)
        client.cancel(ran.fire_id)
        client.cancel_job(job)
        client.backfill_times(key, datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC))
        client.backfill(key, datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC))
        for reads in ("calendar_names", "cluster_load", "counts", "currently_executing_jobs", "job_group_names"):
            getattr(client, reads)()
        for reads in ("nodes", "running", "paused_job_groups", "paused_trigger_groups", "trigger_group_names"):
            getattr(client, reads)()
        for reads in ("jobs", "triggers", "executions", "misfires"):
            list(getattr(client, reads)() or ())
        client.outdated_jobs()
        client.job_keys(group)
        client.trigger_keys(group)
        client.get_calendar("weekdays")
        for reads in ("check_exists", "get_job_detail", "job_mode", "triggers_of_job"):
            getattr(client, reads)(job)
        for reads in ("get_trigger", "trigger_record", "trigger_state", "why"):
            getattr(client, reads)(key)
        declared = JobDetail(Ends, "declared"), SimpleTrigger("declared", start_time=LATER)
        client.sync([declared], owner="me", version="1")
        client.sync([declared], owner="me", version="2")
        client.sync([], owner="me", prune=True)
        client.unschedule_jobs([TriggerKey("other", "DEFAULT")])
        client.unschedule_job(key)
        client.delete_calendar("weekdays")
        client.delete_jobs([JobKey("stored", "DEFAULT")])
        client.delete_job(job)
        client.clear()
    verbs = {name for name in dir(Scheduler) if not name.startswith("_") and callable(getattr(Scheduler, name))}
    assert verbs - OF_NODES == client.called & verbs
