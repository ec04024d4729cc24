"""`Operations`: what operators read of a scheduler, for the command line, the web page, the JSON API and programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from quartzpy.errors import InvalidValueError
from quartzpy.instants import as_instant
from quartzpy.keys import JobKey, TriggerKey, checked_key
from quartzpy.operations import overview
from quartzpy.operations.actions import Actions, audit_log, run_progress
from quartzpy.operations.actions.action import Actor, local_user
from quartzpy.operations.actions.audit_log import AuditEntry
from quartzpy.operations.actions.run_progress import Followed
from quartzpy.operations.actions.values import checked_incident_id
from quartzpy.operations.definitions import Definitions
from quartzpy.operations.incidents import cluster_diagnosis, cluster_facts, recorded
from quartzpy.operations.incidents.cluster_diagnosis import Incidents
from quartzpy.operations.incidents.late_triggers import LateTrigger
from quartzpy.operations.incidents.recorded import RecordedIncident
from quartzpy.operations.overview import Overview
from quartzpy.operations.published_job_types import JobTypeView
from quartzpy.operations.read_context import EXAMINED, Count, ReadContext, are_few, counted
from quartzpy.operations.views import (
    agenda,
    calendars,
    cluster,
    executions,
    jobs,
    limits,
    lock_holders,
    maintenance_windows,
    search,
    system,
    timeline,
    triggers,
)
from quartzpy.operations.views.agenda import PlannedRun
from quartzpy.operations.views.calendars import CalendarSummary, CalendarYear
from quartzpy.operations.views.cluster import Cluster
from quartzpy.operations.views.executions import (
    ExecutionSummary,
    ExecutionView,
    MisfireView,
    RankedExecutions,
    RunningView,
)
from quartzpy.operations.views.jobs import JobHint, JobSummary, JobView
from quartzpy.operations.views.limits import Groups, Limits
from quartzpy.operations.views.maintenance_windows import WindowView
from quartzpy.operations.views.search import SearchResults
from quartzpy.operations.views.system import System
from quartzpy.operations.views.timeline import Timeline
from quartzpy.operations.views.triggers import NEXT_TIMES, TriggerSummary, TriggerView
from quartzpy.scheduler.explain import PYTHON, Advice
from quartzpy.scheduler.methods.queries import MAX_FIRE_ID, FireRef, checked_fire_id
from quartzpy.scheduler.querying import (
    DEFAULT_LIMIT,
    Page,
    checked_choice,
    checked_instant,
    query_of,
)
from quartzpy.scheduler.scheduler import BaseScheduler
from quartzpy.secret_texts import SECRETS, Redaction
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.postgresql.admin.records import Lanes, LockRecord
from quartzpy.store.queries import (
    ActionQuery,
    ExecutionQuery,
    IncidentQuery,
    JobQuery,
    MisfireQuery,
    Rank,
    TriggerQuery,
)
from quartzpy.texts import quoted

MAX_UPCOMING = 1000
MAX_HIDDEN = 1_000
"""The number up to which the triggers that the scheduler itself made are counted."""


class Operations:
    """What operators read of a scheduler, and their `actions`.

    The scheduler need not be started: one that is not is a client of the cluster. Each method reads the store anew, and
    returns frozen values with instants in UTC. A row that this process cannot decode is returned with the reason in
    `unreadable`, and never prevents the others from being shown.
    """

    def __init__(
        self,
        scheduler: BaseScheduler,
        *,
        actor: Actor | None = None,
        redact: Sequence[str] = SECRETS,
        read_only: bool = False,
        advice: Advice = PYTHON,
    ) -> None:
        """Describe the operations of `actor` on a scheduler.

        Args:
            scheduler: the scheduler, whose store is a database.
            actor: who operates it. By default the user of this process, as an administrator.
            redact: patterns of keys ("*token*") whose values in job data are hidden.
            read_only: refuse all actions.
            advice: the words in which explanations tell the reader what to do.

        Raises:
            InvalidValueError: the scheduler keeps its jobs in memory.
        """
        admin(scheduler._store)
        self._scheduler = scheduler
        self.actor = actor or local_user()
        self.read_only = read_only
        self._redact = tuple(redact)
        self._context = ReadContext(scheduler, Redaction(self._redact), advice)

    def of_one_page(self) -> Operations:
        """Return the same operations for one page, on one thread: all that it shows is of the same instant.

        The time is asked once, in the round trip of the first question; `now` is that time.
        """
        page = self._like(self.actor, self._context.advice)
        page._context = replace(page._context, page=page._context.reading())
        return page

    @property
    def scheduler(self) -> BaseScheduler:
        """The scheduler."""
        return self._scheduler

    @property
    def actions(self) -> Actions:
        """The actions of this actor."""
        return Actions(self._scheduler, self.actor, read_only=self.read_only, redaction=self._context.redaction)

    @property
    def definitions(self) -> Definitions:
        """The definitions of jobs, triggers and calendars as documents, for this actor."""
        return Definitions(self._scheduler, self.actor, read_only=self.read_only, redaction=self._context.redaction)

    def job_types(self) -> tuple[JobTypeView, ...]:
        """Return the job types that running nodes have published, with the entries of their data, sorted by name."""
        return self.definitions.job_types()

    def acting_as(self, actor: Actor) -> Operations:
        """Return the same operations for another actor."""
        return self._like(actor, self._context.advice)

    def advising(self, advice: Advice) -> Operations:
        """Return the same operations for readers who are told what to do in other words."""
        return self._like(self.actor, advice)

    def _like(self, actor: Actor, advice: Advice) -> Operations:
        return Operations(self._scheduler, actor=actor, redact=self._redact, read_only=self.read_only, advice=advice)

    def now(self) -> datetime:
        """Return the time of the store, by which everything is decided."""
        return self._context.reading().now()

    def overview(self) -> Overview:
        """Return the state of the whole cluster: what runs, what is late and why, what failed, and what comes next."""
        return overview.overview(self._context)

    def counts(self) -> Mapping[str, Count]:
        """Return the numbers of jobs, of triggers by state and of executions, as the overview has them."""
        return overview.counts(self._context.reading())

    def late(self) -> tuple[LateTrigger, ...]:
        """Return the triggers that are due and that no node has fired, as the overview has them, without reasons.

        They are at most 20, those that wait longest first. `why` explains one of them.
        """
        return cluster_facts.late_triggers(self._context.reading())

    def jobs(self, *, limit: int = DEFAULT_LIMIT, after: str | None = None, **filters: Any) -> Page[JobSummary]:
        """Return a page of jobs, by key. The filters are those of `Scheduler.jobs`.

        A page with filters examines at most 10,000 jobs, as that of `executions` does.

        Raises:
            InvalidValueError: a filter, the limit or the cursor is wrong.
        """
        return jobs.page(self._context.reading(), query_of(JobQuery, filters), limit, after)

    def jobs_are_few(self, most: int, **filters: Any) -> bool:
        """Return whether a page of `most` jobs would be the whole list. At most so many are read to find out."""
        query = replace(query_of(JobQuery, filters), among=EXAMINED, most_triggers=0)
        return are_few(self._context.reading(), query, most)

    def job_hint(self, key: JobKey | str) -> JobHint | None:
        """Return what is said of a job that is not stored: the key that was probably meant; None if it is stored."""
        return jobs.hint(self._context.reading(), checked_key(key, JobKey))

    def job(self, key: JobKey | str) -> JobView:
        """Return one job with its triggers, next runs and last runs.

        Raises:
            JobNotFoundError: the job is not stored.
        """
        return jobs.view(self._context, checked_key(key, JobKey))

    def triggers(self, *, limit: int = DEFAULT_LIMIT, after: str | None = None, **filters: Any) -> Page[TriggerSummary]:
        """Return a page of triggers. The filters and orders are those of `Scheduler.triggers`.

        A page with filters examines at most 10,000 triggers, as that of `executions` does, except those of one job or
        of one calendar.

        Raises:
            InvalidValueError: a filter, the limit or the cursor is wrong.
        """
        return triggers.page(self._context.reading(), query_of(TriggerQuery, filters), limit, after)

    def triggers_are_few(self, most: int, **filters: Any) -> bool:
        """Return whether a page of `most` triggers would be the whole list. At most so many are read to find out."""
        query = replace(query_of(TriggerQuery, filters), among=EXAMINED)
        return are_few(self._context.reading(), query, most)

    def unscheduled_triggers(self) -> Callable[[], Count]:
        """Ask for the number of triggers of runs by hand, retries, recoveries and continuations, up to 1,000.

        The answer comes with what is read next.
        """
        number = self._context.reading().defer(lambda store: admin(store).unscheduled_triggers(MAX_HIDDEN))
        return lambda: counted(number(), MAX_HIDDEN)

    def trigger(self, key: TriggerKey | str, *, next_times: int = NEXT_TIMES) -> TriggerView:
        """Return one trigger with its next fire times, its last executions, and why it does not fire.

        Raises:
            TriggerNotFoundError: the trigger is not stored.
        """
        return triggers.view(self._context, checked_key(key, TriggerKey), next_times=next_times)

    def trigger_summary(self, key: TriggerKey | str) -> TriggerSummary:
        """Return one trigger, as a row of `triggers`.

        Raises:
            TriggerNotFoundError: the trigger is not stored.
        """
        return triggers.one_summary(self._context.reading(), checked_key(key, TriggerKey))

    def why(self, key: TriggerKey | str) -> tuple[str, ...]:
        """Explain why a trigger has not fired, or when it will; see `Scheduler.why`.

        Raises:
            TriggerNotFoundError: the trigger is not stored, and the history has no execution of it.
        """
        return tuple(triggers.why(self._context, checked_key(key, TriggerKey)))

    def executions(
        self, *, limit: int = DEFAULT_LIMIT, after: str | None = None, **filters: Any
    ) -> Page[ExecutionSummary]:
        """Return a page of executions, the latest first. The filters are those of `Scheduler.executions`.

        A page of the history with filters examines at most 20,000 executions, so that it also answers at once if few of
        millions match. Then it has fewer than `limit` items, even none, and its `next_cursor` continues from there;
        only a `next_cursor` of None marks the last page.

        Raises:
            InvalidValueError: a filter, the limit or the cursor is wrong.
        """
        return executions.page(self._context.reading(), query_of(ExecutionQuery, filters), limit, after)

    def ranked_executions(
        self, by: Rank | str, *, limit: int = DEFAULT_LIMIT, after: str | None = None, **filters: Any
    ) -> RankedExecutions:
        """Return the ended executions that ran longest ("duration") or waited longest for a node ("wait").

        They are found among the latest 20,000 executions, or those of the trigger, within the span of the filters;
        `next_cursor` continues with as many before these. The filters are those of `executions`.

        Raises:
            InvalidValueError: a filter or the limit is wrong.
        """
        rank = checked_choice(by, Rank, "by")
        assert rank is not None
        return executions.ranked(self._context.reading(), query_of(ExecutionQuery, filters), rank, limit, after)

    def execution(self, fire_id: FireRef) -> ExecutionView:
        """Return one execution with its times, attempts, error, log lines and progress.

        Raises:
            ExecutionNotFoundError: the execution is not known, or no longer in the history.
            InvalidValueError: no execution can have this id.
        """
        return executions.view(self._context, checked_fire_id(fire_id))

    def followed(self, trigger: TriggerKey | str, after: int, *, again: bool = False) -> Followed:
        """Return how a run is that an action began, or that follows from it.

        Args:
            trigger: its trigger, the first of the `keys` of the result.
            after: the `action_id` of the result.
            again: the action runs it again, for the words.
        """
        return run_progress.followed(self._context.reading(), checked_key(trigger, TriggerKey), after, again=again)

    def has_run(self, job: JobKey | str) -> bool:
        """Return whether one of the last 20,000 executions is of this job, which need not be stored any more."""
        return executions.has_run(self._context.reading(), checked_key(job, JobKey))

    def misfires(self, *, limit: int = DEFAULT_LIMIT, after: str | None = None, **filters: Any) -> Page[MisfireView]:
        """Return a page of misfires, the latest first. The filters are those of `Scheduler.misfires`.

        A page with filters examines at most 10,000 misfires, as that of `executions` does.

        Raises:
            InvalidValueError: a filter, the limit or the cursor is wrong.
        """
        return executions.misfire_page(self._context.reading(), query_of(MisfireQuery, filters), limit, after)

    def running(self, *, node: str | None = None) -> tuple[RunningView, ...]:
        """Return the running executions of the whole cluster or of one node, by fire time."""
        reading = self._context.reading()
        running = reading.defer(lambda store: store.list_running())
        return tuple(
            executions.running_view(record, reading.now())
            for record in running()
            if node is None or record.instance_id == node
        )

    def upcoming(self, *, until: datetime | timedelta | None = None, limit: int = DEFAULT_LIMIT) -> list[PlannedRun]:
        """Return the fires that are to come, several of one trigger included, the soonest first.

        Args:
            until: an instant, or a span from now; by default one hour.
            limit: the largest number of fires.

        Raises:
            InvalidValueError: `until` is not an instant with a time zone or a span, or the limit is not from 1 to 1000.
        """
        if type(limit) is not int or not 1 <= limit <= MAX_UPCOMING:
            raise InvalidValueError(f"limit: must be a whole number from 1 to {MAX_UPCOMING} (got {quoted(limit)})")
        reading = self._context.reading()
        now = reading.now()
        if until is None or isinstance(until, timedelta):
            end = now + (until or overview.HORIZON)
        else:
            end = as_instant(until, "until", InvalidValueError)
        return agenda.Agenda(reading, now, end, limit).runs()

    def cluster(self) -> Cluster:
        """Return the nodes, judged by the predicate by which they recover each other, and how they differ."""
        return cluster.cluster(self._context.reading())

    def timeline(
        self,
        start: datetime | None = None,
        end: datetime | None = None,
        *,
        lanes: str = Lanes.NODE,
        group: str | None = None,
    ) -> Timeline:
        """Return what ran, what runs and what is planned between two instants.

        Args:
            start: the beginning; by default one hour ago.
            end: the end; by default two hours after the beginning.
            lanes: "node", "job" or "group".
            group: only the executions of jobs of this group.

        Raises:
            InvalidValueError: an instant has no time zone, the end is not within 31 days after the start, or `lanes` is
                none of these.
        """
        reading = self._context.reading()
        since = checked_instant(start, "start") or reading.now() - overview.HORIZON
        until = checked_instant(end, "end") or since + 2 * overview.HORIZON
        return timeline.timeline(reading, since, until, lanes, group)

    def calendars(self) -> tuple[CalendarSummary, ...]:
        """Return the stored calendars, sorted by name; at most the first 500."""
        return calendars.calendars(self._context.reading())

    def calendar(self, name: str, year: int | None = None) -> CalendarYear:
        """Return one calendar with the days of a year that it excludes; by default of this year.

        Raises:
            CalendarNotFoundError: the calendar is not stored.
            InvalidValueError: the year is not from 1970 to 9998.
        """
        return calendars.year(self._context.reading(), name, year)

    def groups(self) -> Groups:
        """Return the groups of triggers and jobs with their pauses, at most the first 100 of each kind."""
        return limits.groups(self._context.reading())

    def windows(self) -> list[WindowView]:
        """Return the maintenance windows, by their names, each with its present or next time."""
        return maintenance_windows.windows(self._context.reading())

    def limits(self) -> Limits:
        """Return the limits that are in use, with their headroom, and the capacity of the nodes."""
        return limits.limits(self._context.reading())

    def locks(self) -> tuple[LockRecord, ...]:
        """Return the locks on the tables that conflict with others, and who waits for them."""
        return tuple(admin(self._context.store).locks(lock_holders.MAX_LOCKS))

    def system(self, *, examine: bool = False) -> System:
        """Return the store with its tables and locks.

        With `examine` it also has the findings of `quartzpy doctor`, which reads whole tables: with a million triggers
        it takes seconds.
        """
        return system.system(self._context, examine=examine)

    def search(self, text: str, *, limit: int = 20, after: str | None = None) -> SearchResults:
        """Return the jobs, triggers, nodes and calendars whose names contain a text, and the execution with that id.

        Args:
            text: a part of a name; the case of ASCII letters is ignored. A key is GROUP.NAME.
            limit: the largest number of each kind.
            after: the `next_cursor` of the page before. A page examines at most 50,000 jobs and 50,000 triggers.

        Raises:
            InvalidValueError: the text is empty or cannot be stored, the limit is not from 1 to 100, or `after` is not
                a cursor of a search.
        """
        return search.search(self._context.reading(), text, limit, after)

    def incidents(self) -> Incidents:
        """Return what is wrong now or soon will be; the overview has it as well, with all that surrounds it.

        Raises:
            SchemaError: the tables do not belong to this release.
        """
        return cluster_diagnosis.incidents(self._context)

    def open_incidents(self) -> tuple[RecordedIncident, ...]:
        """Return the incidents that nodes have recorded and that are not over, the worst first.

        `incidents` judges them anew, and has their remedies.
        """
        return recorded.lasting(self._context.reading())

    def past_incidents(
        self,
        *,
        limit: int = DEFAULT_LIMIT,
        after: str | None = None,
        kind: str | None = None,
        contains: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> Page[RecordedIncident]:
        """Return a page of incidents that are over, by their ends, the latest first; the overview has those that last.

        A page with filters examines at most 10,000 incidents, as that of `executions` does.

        Args:
            limit: the largest number of incidents.
            after: the cursor of the page before.
            kind: the kind: "dead-node", "trigger-error", ...
            contains: a part of the subject or of the sentence; the case of ASCII letters is ignored.
            since: they ended at this instant or later.
            until: they began before this instant.

        Raises:
            InvalidValueError: a filter, the limit or the cursor is wrong.
        """
        filters = {"kind": kind, "contains": contains, "since": since, "until": until}
        return recorded.page(self._context.reading(), query_of(IncidentQuery, filters), limit, after)

    def incident(self, incident_id: int) -> RecordedIncident:
        """Return one incident as a node has recorded it, whether it lasts or is over.

        Raises:
            ObjectNotFoundError: no incident is recorded under this number, or no longer.
            InvalidValueError: `incident_id` is not a whole number from 1 on.
        """
        return recorded.incident(self._context.reading(), checked_incident_id(incident_id))

    def audit_log(
        self,
        *,
        limit: int = DEFAULT_LIMIT,
        after: str | None = None,
        actor: str | None = None,
        action: str | None = None,
        subject: str | None = None,
        state: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> Page[AuditEntry]:
        """Return a page of the audit log, the latest first. A page with filters examines at most 10,000 entries.

        Args:
            limit: the largest number of entries.
            after: the cursor of the page before.
            actor: the name of the actor.
            action: the name of the action: "pause", "trigger", ...
            subject: the whole subject, as an entry shows it.
            state: "RUNNING", "SUCCEEDED", ...; see `ActionState`.
            since: the earliest instant at which the action began.
            until: the action began before this instant.

        Raises:
            InvalidValueError: a filter, the limit or the cursor is wrong.
        """
        filters = {
            "actor": actor,
            "action": action,
            "subject": subject,
            "state": state,
            "since": since,
            "until": until,
        }
        return audit_log.page(self._context.reading(), query_of(ActionQuery, filters), limit, after)

    def audit_entry(self, action_id: int) -> AuditEntry:
        """Return one entry of the audit log, for example that of an action which is still going on.

        Raises:
            ObjectNotFoundError: the audit log has no such entry.
            InvalidValueError: `action_id` is not a whole number from 1 on.
        """
        if type(action_id) is not int or not 1 <= action_id < MAX_FIRE_ID:
            raise InvalidValueError(f"action_id: must be a whole number from 1 on (got {quoted(action_id)})")
        return audit_log.entry(self._context.reading(), action_id)
