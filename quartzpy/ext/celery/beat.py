"""A scheduler for `celery beat` that is a node of a quartzpy cluster."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import celery.beat
import psycopg
from celery.schedules import crontab

from quartzpy.errors import InvalidJobError, SettingsError
from quartzpy.ext.celery.schedules import trigger_of
from quartzpy.ext.celery.task_job import CeleryTask, use_app
from quartzpy.factory import Scheduler
from quartzpy.jobs.job import JobDetail
from quartzpy.keys import TriggerKey
from quartzpy.store.postgresql.connection.urls import parse_dsn
from quartzpy.texts import quoted
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.trigger import Trigger

URL_VARIABLE = "QUARTZPY_URL"
OWNER = "celery-beat"
GROUP = "celery-beat"
_TICK = 1.0
_CLEANUP = "celery.backend_cleanup"
_ENTRY_WORDS = frozenset(("task", "schedule", "args", "kwargs", "options", "relative"))
_SHUTDOWN_LIMIT = timedelta(seconds=10)


class BeatScheduler(celery.beat.Scheduler):  # type: ignore[misc]
    """Runs the app's own `beat_schedule` as a node of a cluster: `celery -A app beat -S quartzpy.ext.celery:Scheduler`.

    Any number of beats may run at once. Each instant is sent once, by one of them, and a beat that dies delays nothing
    by more than its lease. At its start, each beat makes the stored schedule match the app's `beat_schedule`; entries
    that the app no longer has are removed.

    Settings of the app: `quartzpy_url` (default: the environment variable QUARTZPY_URL), `quartzpy_name` (default: the
    app's name, else "celery"), `quartzpy_version`, the version of the schedule, of which older ones change nothing, and
    `quartzpy_settings`, a dict of other settings of the scheduler.

    Raises:
        SettingsError: no database is configured.
        InvalidTriggerError: an entry has a schedule without an equivalent, such as `solar`.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self._quartz: Scheduler | None = None
        super().__init__(*arguments, **named)

    def setup_schedule(self) -> None:
        """Store the app's schedule, and start a node."""
        conf = self.app.conf
        definitions = definitions_of(self.app)
        url = conf.get("quartzpy_url") or os.environ.get(URL_VARIABLE)
        if not url:
            raise SettingsError(
                f"celery beat: no database; set app.conf.quartzpy_url, or the environment variable {URL_VARIABLE}"
            )
        use_app(self.app)
        settings: Mapping[str, Any] = conf.get("quartzpy_settings") or {}
        self._quartz = Scheduler(url, name=conf.get("quartzpy_name") or self.app.main or "celery", **settings)
        try:
            _sync(self._quartz, url, definitions, conf.get("quartzpy_version"))
            self._quartz.start()
        except BaseException:
            self._quartz.shutdown(wait=False)
            raise

    @property
    def schedule(self) -> dict[str, celery.beat.ScheduleEntry]:
        """The entries of the app. The node sends them; nothing in here is due."""
        return {}

    @property
    def info(self) -> str:
        """A line for the banner of `celery beat`."""
        return "    . db -> the quartzpy tables; any number of beats may run"

    def tick(self, *arguments: Any, **named: Any) -> float:
        """Check that the node is alive; return the seconds until the next check. The node itself sends the tasks.

        Raises:
            SystemExit: the node has ended, for example because this process may not go on.
        """
        if self._quartz is None or not self._quartz.is_started:
            raise SystemExit("quartzpy: the node has ended")
        return _TICK

    def should_sync(self) -> bool:
        """Return False: there is no file to write."""
        return False

    def sync(self) -> None:
        """Do nothing: the database has everything."""

    def close(self) -> None:
        """Leave the cluster, after the tasks that are being sent."""
        if self._quartz is not None:
            self._quartz.shutdown(wait=True, timeout=_SHUTDOWN_LIMIT)


def definitions_of(app: Any) -> list[tuple[JobDetail, list[Trigger]]]:
    """Return the jobs and triggers for the `beat_schedule` of an app, with the entry that Celery itself adds.

    Raises:
        InvalidJobError, InvalidTriggerError: an entry cannot be scheduled; the message names it.
    """
    conf = app.conf
    entries = dict(conf.beat_schedule or {})
    if conf.result_expires and not app.backend.supports_autoexpire:
        cleanup = {"task": _CLEANUP, "schedule": crontab("0", "4"), "options": {"expires": 12 * 3600}}
        entries.setdefault(_CLEANUP, cleanup)
    deadline = conf.beat_cron_starting_deadline
    starting_deadline = None if deadline is None else timedelta(seconds=deadline)
    jobs = []
    for name, entry in entries.items():
        for word in entry:
            if word not in _ENTRY_WORDS:
                raise InvalidJobError(f"entry {name}: unknown key {quoted(word)}")
        options = dict(entry.get("options") or {})
        job = CeleryTask(
            entry["task"],
            name,
            GROUP,
            args=entry.get("args") or (),
            kwargs=entry.get("kwargs"),
            app=str(app.main or "") or None,
            **options,
        )
        trigger = trigger_of(
            entry["schedule"], name, GROUP, time_zone=str(app.timezone), starting_deadline=starting_deadline
        )
        jobs.append((job, [trigger]))
    return jobs


def _sync(scheduler: Scheduler, url: str, definitions: list[tuple[JobDetail, list[Trigger]]], version: Any) -> None:
    """Store the schedule. An interval that is new counts from now, as with Celery: its fire of now is skipped."""
    intervals = {
        trigger.key for _, triggers in definitions for trigger in triggers if isinstance(trigger, SimpleTrigger)
    }
    # In one transaction, so that no other beat sends the first one.
    with psycopg.connect(**parse_dsn(url).parameters) as connection:
        inside = scheduler.using(connection)
        plan = inside.sync(definitions, owner=OWNER, prune=True, version=version)
        for change in plan.changes:
            is_new = change.sign == "+" or any(difference.name == "interval" for difference in change.differences)
            if is_new and isinstance(change.key, TriggerKey) and change.key in intervals:
                inside.skip_next(change.key)
