"""The operations protocol: aggregates for operators, each bounded in the number of rows that it reads."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

from quartzpy.jobs.rate_limit import RateLimit
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.placement import Placement
from quartzpy.states import Outcome, TriggerState
from quartzpy.store.queries import AnyQuery, Position
from quartzpy.store.records import ExecutionRecord
from quartzpy.store.searches import FoundKeys, KeySearch, SearchPosition


@dataclass(frozen=True, slots=True)
class Tallies:
    """Numbers of rows, each counted up to a maximum: a number above it means that there are more."""

    jobs: int
    triggers: Mapping[TriggerState, int]
    """The triggers by state; states without triggers are left out."""
    claimed: int
    executing: int
    overdue_paused: int
    """The paused triggers whose next fire time has passed, among the first ones by key, as many as are counted."""


@dataclass(frozen=True, slots=True)
class MinuteRecord:
    """The executions that ended within one minute."""

    at: datetime
    """The beginning of the minute."""
    outcomes: Mapping[Outcome, int]
    lateness_p50: timedelta | None
    """The median of the start minus the scheduled instant; None if no execution of the minute had started."""
    lateness_p99: timedelta | None


@dataclass(frozen=True, slots=True)
class Minutes:
    """Minutes in which executions ended, in order."""

    minutes: Sequence[MinuteRecord]
    complete_since: datetime
    """The instant from which all executions are counted. Earlier ones were left out if there are too many."""


@dataclass(frozen=True, slots=True)
class SlotUsage:
    """The use of a job's concurrency limit for one value of its concurrency key."""

    job_key: JobKey
    concurrency_key: str
    limit: int
    executing: int
    blocked: int
    """The triggers that wait because the limit is reached."""


@dataclass(frozen=True, slots=True)
class RateUsage:
    """The state of a job's rate limit for one value of its concurrency key."""

    job_key: JobKey
    concurrency_key: str
    limit: RateLimit
    theoretical_arrival: datetime
    """The theoretical arrival time of the next fire; see `RateLimit`."""
    queued_until: datetime | None
    """The last turn that was given to a trigger."""


@dataclass(frozen=True, slots=True)
class GroupTally:
    """A group of triggers or jobs, with numbers of its rows, each counted up to a maximum."""

    name: str
    count: int
    paused: int
    """The triggers of the group that are PAUSED; 0 for groups of jobs."""
    in_error: int


@dataclass(frozen=True, slots=True)
class TableRecord:
    """A table of the store, as the database's statistics describe it."""

    name: str
    rows: int
    """An estimate of the number of rows, those of other schedulers included."""
    dead_rows: int
    size_bytes: int
    """The size of the table with its indexes."""
    index_bytes: int
    last_vacuum: datetime | None
    last_analyze: datetime | None


@dataclass(frozen=True, slots=True)
class LockRecord:
    """A lock on a table of the store, or a wait for one."""

    table: str
    mode: str
    granted: bool
    pid: int
    application: str
    state: str
    since: datetime | None
    """The beginning of the transaction that holds the lock or waits for it."""
    blocked_by: tuple[int, ...] = ()


class OperationsStore(Protocol):
    """Aggregates for operators. Every method is one round trip, takes no lock and changes nothing.

    The cost of a method has a bound that does not depend on the number of rows, so that a page of 1,000,000 triggers
    and 10,000,000 executions is read as fast as a small one.
    """

    def tallies(self, most: int) -> Tallies:
        """Count jobs, triggers and claims, each up to `most`, and beyond that return a number above `most`."""
        ...

    def minutes(self, since: datetime, *, most: int) -> Minutes:
        """Return the minutes from `since` on in which executions ended; only the latest `most` executions count."""
        ...

    def last_executions(self, keys: Collection[TriggerKey], limit: int) -> dict[TriggerKey, list[ExecutionRecord]]:
        """Return the last ended executions of each trigger, by generation and scheduled fire time, the latest first.

        Triggers without executions in the history are left out.
        """
        ...

    def last_executions_of_job(self, key: JobKey, limit: int, *, among: int) -> list[ExecutionRecord]:
        """Return the last ended executions of a job, the latest first.

        They are those by its stored triggers, and those by other triggers among the latest `among` executions of all
        jobs.
        """
        ...

    def attempts(self, fire_ids: Collection[int], limit: int) -> dict[int, list[ExecutionRecord]]:
        """Return all attempts of the same fire for each of these executions, itself included, in order.

        They are the executions that it repeats, then the retries and recoveries that repeat it, the latter at any
        stage: at most `limit`, those before it first. An execution that is not known is left out.
        """
        ...

    def executions_between(
        self, start: datetime, end: datetime, limit: int, *, margin: timedelta
    ) -> list[ExecutionRecord]:
        """Return executions that were fired before `end` and ended from `start` on, but not after `end` + `margin`.

        The last to end come first, at most `limit` of them.
        """
        ...

    def last_examined(self, query: AnyQuery, after: Position | None) -> Position | None:
        """Return the position of the last record that a page of a query with `among` examines after `after`.

        None if it examines all that follow, or if none that follows can match, so that no page follows. Of executions,
        only those that have ended are examined. Misfires that were handled more than a minute before `since` cannot
        match: a fire time is missed before its misfire is handled, and clocks differ by less.
        """
        ...

    def slot_usage(self, limit: int) -> list[SlotUsage]:
        """Return the use of concurrency limits by executions and blocked triggers, by job; at most `limit`."""
        ...

    def placements(self, keys: Collection[JobKey]) -> dict[JobKey, Placement]:
        """Return the placements of those of these jobs that are stored, without decoding the rest of each job."""
        ...

    def rate_usage(self, limit: int) -> list[RateUsage]:
        """Return the rate limits whose theoretical arrival time is to come, by job; at most `limit`."""
        ...

    def trigger_group_tallies(self, limit: int, after: str | None, *, most: int) -> list[GroupTally]:
        """Return the first `limit` groups of triggers after the group `after`, counting up to `most` rows of each."""
        ...

    def job_group_tallies(self, limit: int, after: str | None, *, most: int) -> list[GroupTally]:
        """Return the first `limit` groups of jobs after the group `after`, counting up to `most` rows of each."""
        ...

    def find_keys(self, keys: KeySearch, after: SearchPosition | None) -> FoundKeys:
        """Return a page of the jobs and triggers whose name or group contains a text: the first page, or that `after`.

        It examines no more than `keys.among` of each kind, in the order of keys, and so may have none of them.
        Whatever it examines, the first page has the key that is the text, then those whose names begin with it, and
        those of the groups that contain it, as far as the limit allows; later pages have them once more.
        """
        ...

    def node_facts(self) -> dict[str, dict[str, Any]]:
        """Return what each node has published about itself, by instance id: release, settings, clock."""
        ...

    def tables(self) -> list[TableRecord]:
        """Return the tables with their sizes; empty for a store that has none."""
        ...

    def locks(self, limit: int) -> list[LockRecord]:
        """Return the locks on the tables that conflict with others, and the waits for them; at most `limit`."""
        ...

    def schema_version(self) -> str | None:
        """Return the revision of the tables; None for a store that has none."""
        ...
