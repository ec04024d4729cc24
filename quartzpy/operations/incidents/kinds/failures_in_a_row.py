"""The last three or more executions of a job failed, or those by one of its triggers, or half of its last 20.

Or the last of several attempts at the last fire of a trigger failed (`retries-exhausted`).

```bash
quartzpy executions --state failed --since 1h
quartzpy show execution 560    # its times, attempts, traceback and log lines
```

Which jobs fail most:

```sql
SELECT job_group, job_name, count(*), max(ended_at) AS last, max(left(error, 80)) AS an_error
  FROM qrtz_errors WHERE kind = 'EXECUTION' GROUP BY 1, 2 ORDER BY 3 DESC;
```

An execution has log lines if its job has `capture_logs`. If the failures do harm, pause the job until their cause is
fixed. Afterwards, run again the executions without a retry:

```bash
quartzpy pause mail.reminders --reason "the mail server is down"
quartzpy resume mail.reminders --missed skip
quartzpy run-again --exhausted --job mail.reminders --since 3h
```
"""

from __future__ import annotations

import shlex
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Any

from quartzpy.job_data import decode
from quartzpy.jobs.internal_entries import nominal_fire
from quartzpy.jobs.job import JobDetail
from quartzpy.keys import JobKey, Naming, TriggerKey
from quartzpy.operations.incidents.cluster_facts import ClusterFacts
from quartzpy.operations.incidents.incident import MAX_OF_A_KIND, About, Incident, IncidentKind, Remedy, Rounds
from quartzpy.operations.incidents.words import named_first
from quartzpy.operations.read_context import attempt
from quartzpy.operations.views.executions import MAX_ATTEMPTS
from quartzpy.scheduler.batched_reads import BatchedReads, Deferred
from quartzpy.scheduler.singles import placements_of_jobs
from quartzpy.secret_texts import Redaction
from quartzpy.states import ExecutionState, Outcome, TriggerState
from quartzpy.store.health_findings import Severity
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.postgresql.admin.records import FailingJob
from quartzpy.store.queries import TriggerQuery
from quartzpy.store.records import ExecutionRecord, TriggerRecord
from quartzpy.texts import error_summary, headline, instant_text, visible

FAILURES_IN_A_ROW = 3
FEWEST_RECENT = 6
"""The number of executions from which on a share of failures says something."""
RECENT_RUNS = 20
"""The number of a job's latest executions by which its share of failures is judged."""
AMONG = 5_000
"""The number of executions of all jobs by which jobs are judged. The triggers of rare ones are looked up as well."""
MAX_JOBS = 200
MAX_EXAMINED = 1_000
"""The number of a job's triggers among which one that fires is looked for."""
COMMAND_TYPE = "quartzpy.CommandJob"
MAX_SHOWN = 200
"""The characters of a command that a sentence shows."""
LOOKED_AT = 10
"""The number of a trigger's last executions that are looked at."""
RECENT = timedelta(days=7)
_FIRES = frozenset({TriggerState.WAITING, TriggerState.BLOCKED})
_UNDECIDED = frozenset({ExecutionState.SCHEDULED, ExecutionState.ENQUEUED, ExecutionState.PROCESSING})
_Fire = tuple[TriggerKey, datetime]


def judge(facts: ClusterFacts) -> Rounds:
    yield
    failures = FailuresInARow(facts.reading, facts.failures, facts.now)
    yield
    failures.look_further()
    yield
    # A trigger in ERROR has an incident of its own, with the same error.
    in_error = facts.in_error()
    return failures.incidents(
        {record.key for record in in_error},
        {record.job_key for record in in_error},
        {node.node: node.host for node in facts.cluster.nodes},
    )


class FailuresInARow:
    """The jobs, and the triggers, whose last executions have failed for good.

    `failures` are the latest executions that failed and are not retried. A fire whose last retry failed counts as one
    failure.
    """

    def __init__(self, reading: BatchedReads, failures: Collection[ExecutionRecord], now: datetime) -> None:
        self._reading = reading
        self._now = now
        self._fires: dict[_Fire, ExecutionRecord] = {}
        self._by_id = {record.fire_id: record for record in failures}
        for record in failures:
            if record.ended_at is not None and now - record.ended_at <= RECENT:
                self._fires.setdefault(_nominal(record), record)
        keys = list(dict.fromkeys(key for key, _ in self._fires))[:MAX_OF_A_KIND]
        self._keys = keys
        self._last = reading.defer(lambda store: admin(store).last_executions(keys, LOOKED_AT)) if keys else dict
        self._failing = _failing_jobs(reading) if self._fires else list
        self.jobs: list[FailingJob] = []
        self._rows: dict[TriggerKey, _FailureRow] = {}
        self._exhausted: dict[TriggerKey, ExecutionRecord] = {}
        self._details: Callable[[], Mapping[JobKey, JobDetail]] = dict

    def look_further(self) -> None:
        """Ask about those that may have failed in a row, with the questions that already wait."""
        last = self._last()
        for key in self._keys:
            row = _FailureRow(key, last.get(key, ()), self._fires)
            if len(row.failed) >= FAILURES_IN_A_ROW:
                self._rows[key] = row
            elif row.failed and not row.retried and row.final.attempt > 1:
                self._exhausted[key] = row.final
        self.jobs = [job for job in self._failing() if _is_failing(job, self._now)]
        if not self._rows and not self.jobs and not self._exhausted:
            return
        retried = [record.fire_id for row in self._rows.values() for record in row.retried if record.fire_id]
        jobs = {row.job for row in self._rows.values()} | {job.job_key for job in self.jobs}
        jobs |= {final.job_key for final in self._exhausted.values()}
        defer, keys = self._reading.defer, list(self._rows)
        self._attempts = defer(lambda store: admin(store).attempts(retried, MAX_ATTEMPTS)) if retried else dict
        self._jobs = placements_of_jobs(self._reading, jobs)
        self._details = defer(lambda store: store.jobs(jobs))
        self._triggers = defer(lambda store: store.triggers(keys))
        self._firing = {job.job_key: _one_that_fires(self._reading, job.job_key) for job in self.jobs[:MAX_OF_A_KIND]}

    def incidents(
        self, stopped: Collection[TriggerKey], jobs_stopped: Collection[JobKey], hosts: Mapping[str, str]
    ) -> list[Incident]:
        """Return an incident for each job, with those that fail by all of their triggers first.

        One whose triggers are `stopped`, because they are in ERROR, has incidents with the same errors. `hosts` are
        those of the nodes, by instance id.
        """
        details = attempt(self._details)[0] or {}

        def ran(fire_id: int | None, job: JobKey) -> tuple[str, ...]:
            return how_it_ran(fire_id, self._by_id.get(fire_id), details.get(job), hosts)

        incidents = []
        for job in self.jobs:
            fires = bool(self._firing[job.job_key]()) if job.job_key in self._firing else True
            if fires or job.job_key not in jobs_stopped:
                incidents.append(
                    _of_job(
                        job,
                        ran(job.last_fire_id, job.job_key),
                        is_stored=job.job_key in self._jobs(),
                        fires=fires,
                    )
                )
        judged = {job.job_key for job in self.jobs}
        by_job: defaultdict[JobKey, list[_FailureRow]] = defaultdict(list)
        for row in self._rows.values():
            if row.trigger not in stopped and row.job not in judged and self._lasts(row):
                by_job[row.job].append(row)
        incidents += [self._by_triggers(rows, ran) for rows in by_job.values()]
        return incidents + [
            _of_last_attempt(key, final, ran(final.fire_id, final.job_key), is_stored=final.job_key in self._jobs())
            for key, final in self._exhausted.items()
            if key not in stopped and final.job_key not in {*judged, *by_job}
        ]

    def _lasts(self, row: _FailureRow) -> bool:
        """Return whether the latest fires do not end a row, because their retries are to come.

        Otherwise a job that always fails would be in order between a first attempt and its last one.
        """
        return all(_is_undecided(record, self._attempts().get(record.fire_id or 0, ())) for record in row.retried)

    def _by_triggers(
        self, rows: Sequence[_FailureRow], ran: Callable[[int | None, JobKey], tuple[str, ...]]
    ) -> Incident:
        """Return the incident about a job that fails by some of its triggers."""
        number, job, triggers = sum(len(row.failed) for row in rows), rows[0].job, [row.trigger for row in rows]
        more = "" if all(row.is_exact for row in rows) else " or more"
        by = f"trigger {triggers[0]}" if len(rows) == 1 else f"{len(rows)} triggers"
        latest = max((row.final.fire_id for row in rows), key=lambda fire_id: fire_id or 0)
        errors = [row.final.error for row in rows]
        paused: JobKey | TriggerKey | None = job
        if len(rows) == 1:
            stored = self._triggers().get(triggers[0])
            paused = triggers[0] if stored is not None and stored.state in _FIRES else None
        return Incident(
            Severity.WARNING,
            "failures-in-a-row",
            str(job),
            f"The last {number:,}{more} executions of job {job} by {by} failed.",
            (
                _commonest(errors),
                *ran(latest, job),
                *([Naming(f"Triggers: {named_first(triggers)}.", *triggers)] if len(rows) > 1 else []),
            ),
            min(row.failed[-1].ended_at or self._now for row in rows),
            _remedies(latest if job in self._jobs() else None, paused),
            triggers[0] if len(rows) == 1 else None,
            job,
            cause=_cause(errors)[0],
        )


class _FailureRow:
    """The last executions of a trigger: first those that are repeated, then those that failed for good."""

    def __init__(
        self, key: TriggerKey, records: Sequence[ExecutionRecord], fires: Mapping[_Fire, ExecutionRecord]
    ) -> None:
        self.trigger = key
        self.retried = list(
            takewhile(lambda record: record.retry_at is not None and not _has_failed(record, fires), records)
        )
        self.failed = list(takewhile(lambda record: _has_failed(record, fires), records[len(self.retried) :]))
        if self.failed:
            first = self.failed[0]
            self.job = first.job_key
            self.final = fires.get(_rounded(key, first.scheduled_fire_time), first)
            """The last attempt at the last fire that failed."""
            self.is_exact = self.failed[-1] is not records[-1] or len(records) < LOOKED_AT
            """False if more executions before these may have failed."""


def _is_undecided(record: ExecutionRecord, attempts: Sequence[ExecutionRecord]) -> bool:
    """Return True if an execution failed and is or will be repeated. `attempts` are those of its fire."""
    place = next((place for place, other in enumerate(attempts) if other.fire_id == record.fire_id), len(attempts))
    for after in attempts[place + 1 :]:
        if record.outcome is not Outcome.FAILED or record.retry_at is None:
            return False
        if after.state in _UNDECIDED:
            return True
        record = after
    return len(attempts) == MAX_ATTEMPTS and record.outcome is Outcome.FAILED and record.retry_at is not None


def _has_failed(record: ExecutionRecord, fires: Collection[_Fire]) -> bool:
    if record.outcome is not Outcome.FAILED:
        return False
    return record.retry_at is None or _rounded(record.trigger_key, record.scheduled_fire_time) in fires


def _nominal(record: ExecutionRecord) -> _Fire:
    """Return the trigger and the instant of the first attempt, to the millisecond, as repetitions record it."""
    data, _ = attempt(lambda: decode(record.trigger_data_text))
    return _rounded(*nominal_fire(record.trigger_key, record.scheduled_fire_time, data or {}))


def _rounded(key: TriggerKey, instant: datetime) -> _Fire:
    return key, instant.replace(microsecond=instant.microsecond // 1000 * 1000)


def _failing_jobs(reading: BatchedReads) -> Deferred[list[FailingJob]]:
    return reading.defer(
        lambda store: admin(store).failing_jobs(MAX_JOBS, among=AMONG, recent=RECENT_RUNS, fewest=FAILURES_IN_A_ROW)
    )


def _one_that_fires(reading: BatchedReads, job: JobKey) -> Deferred[list[TriggerRecord]]:
    query = TriggerQuery(job_key=job, states=_FIRES, among=MAX_EXAMINED)
    return reading.defer(lambda store: store.find(query, 1))


def _is_failing(job: FailingJob, now: datetime) -> bool:
    if job.since is not None and job.in_a_row >= FAILURES_IN_A_ROW:
        return now - job.since <= RECENT
    return job.fails_now and job.recent >= FEWEST_RECENT and 2 * job.recent_failures >= job.recent


def how_it_ran(
    fire_id: int | None, record: ExecutionRecord | None, job: JobDetail | None, hosts: Mapping[str, str]
) -> tuple[str, ...]:
    """Return a sentence that says which execution failed, where it ran, and which command, as far as that is known."""
    if fire_id is None:
        return ()
    node = None if record is None else record.instance_id
    host = f" (host {hosts[node]})" if node is not None and node in hosts else ""
    where = "" if node is None else f" ran on node {node}{host}"
    line = None if job is None or job.job_type != COMMAND_TYPE else command_line(job.data)
    command = "." if line is None else f": {line}"
    return (f"Execution {fire_id}{where or ' was the latest one'}{command}",)


def command_line(data: Mapping[str, Any] | None) -> str | None:
    """Return the command of a job's data on one short line, as a person would type it; None if there is none.

    The line goes into incidents and out of the cluster, so secrets are hidden in it.
    """
    shown = Redaction().of(data or {})
    argv, shell = shown.get("argv"), shown.get("shell")
    line = shell if isinstance(shell, str) else shlex.join(map(str, argv)) if isinstance(argv, list) else None
    return None if not line else visible(line if len(line) <= MAX_SHOWN else f"{line[:MAX_SHOWN]}...")


def _of_job(job: FailingJob, ran: tuple[str, ...], *, is_stored: bool, fires: bool) -> Incident:
    if job.in_a_row >= FAILURES_IN_A_ROW:
        more = " or more" if job.last_success is None and job.complete_since is not None else ""
        what, since = f"The last {job.in_a_row:,}{more} executions of job {job.job_key} failed.", job.since
    else:
        what = f"{job.recent_failures} of the last {job.recent} executions of job {job.job_key} failed."
        since = job.recent_since
    if job.last_success is not None:
        success = f"Its last success was at {instant_text(job.last_success)}."
    elif job.complete_since is not None:
        success = f"None of its executions since {instant_text(job.complete_since)} succeeded."
    else:
        success = "No execution of it in the history succeeded."
    remedies = _remedies(job.last_fire_id if is_stored else None, job.job_key if fires and is_stored else None)
    why = (_commonest(job.errors), *ran, success)
    subject = str(job.job_key)
    return Incident(
        Severity.WARNING,
        "failures-in-a-row",
        subject,
        what,
        why,
        since,
        remedies,
        job=job.job_key,
        cause=_cause(job.errors)[0],
    )


_NO_ERROR = "No error was recorded."


def _cause(errors: Sequence[str | None]) -> tuple[str, int]:
    """Return the error that most of these failures have, and how many."""
    lines = Counter(headline(error) or _NO_ERROR for error in errors)
    return next(iter(lines.most_common(1)), (_NO_ERROR, 0))


def _commonest(errors: Sequence[str | None]) -> str:
    """Return a sentence with the error that most of these failures have."""
    cause, number = _cause(errors)
    latest = next((error for error in errors if (headline(error) or _NO_ERROR) == cause), None)
    line = error_summary(latest) or _NO_ERROR
    return line if number == len(errors) else f"{number} of the last {len(errors)} failures: {line}"


def _of_last_attempt(key: TriggerKey, final: ExecutionRecord, ran: tuple[str, ...], *, is_stored: bool) -> Incident:
    """Return the incident about a fire whose last attempt has failed, while no later fire has succeeded."""
    return Incident(
        Severity.WARNING,
        "retries-exhausted",
        str(key),
        f"All {final.attempt} attempts at the last fire of trigger {key} failed, and no other follows.",
        (error_summary(final.error) or _NO_ERROR, *ran),
        final.ended_at,
        _remedies(final.fire_id if is_stored else None, None),
        key,
        final.job_key,
        cause=headline(final.error) or _NO_ERROR,
    )


def _remedies(fire_id: int | None, paused: JobKey | TriggerKey | None) -> tuple[Remedy, ...]:
    remedies = []
    if fire_id is not None:
        remedies.append(Remedy("run_again", {"selection": fire_id}, "run the last one again"))
    if paused is not None:
        label = "pause job" if isinstance(paused, JobKey) else "pause trigger"
        remedies.append(Remedy("pause", {"selection": paused}, label))
    return tuple(remedies)


KIND = IncidentKind(("failures-in-a-row", "retries-exhausted"), About.JOBS, __doc__, judge)
