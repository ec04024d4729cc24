"""Late triggers by job: the facts from which the numbers, the table and the incidents of a page are made."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from quartzpy.keys import JobKey, TriggerKey
from quartzpy.operations.read_context import Count, counted
from quartzpy.store.postgresql.admin.records import OverdueJob
from quartzpy.store.records import TriggerRecord


@dataclass(frozen=True, slots=True)
class LateTrigger:
    """A trigger that is due and that no node has fired."""

    trigger: TriggerKey
    job: JobKey
    job_type: str
    due_at: datetime
    late: timedelta
    why: tuple[str, ...]
    """Sentences that explain it; empty for all but the latest few triggers."""


def late_trigger(record: TriggerRecord, now: datetime, why: tuple[str, ...]) -> LateTrigger:
    due_at = record.next_fire_time
    assert due_at is not None, "it waits for an instant"
    return LateTrigger(record.key, record.job_key, record.job_type, due_at, now - due_at, why)


class LateJobs:
    """The jobs of which triggers are due that no node has fired, those that wait longest first.

    `records` are the late triggers that are listed. They are all, unless the list `is_cut`: then the numbers are those
    of `overdue`, which counts further.
    """

    def __init__(self, records: Sequence[TriggerRecord], overdue: Sequence[OverdueJob], *, is_cut: bool) -> None:
        self.numbers: dict[JobKey, int] = dict(Counter(record.job_key for record in records))
        self.types: dict[JobKey, str] = {record.job_key: record.job_type for record in records}
        self._keys: defaultdict[JobKey, list[TriggerKey]] = defaultdict(list)
        self._since: dict[JobKey, datetime] = {}
        for record in records:
            self._keys[record.job_key].append(record.key)
            if record.next_fire_time is not None:
                self._since.setdefault(record.job_key, record.next_fire_time)
        late = [job for job in overdue if not job.is_held]
        total = len(records)
        if is_cut or sum(job.number for job in overdue) >= MANY:
            for job in late:
                self.numbers[job.job_key] = max(job.number, self.numbers.get(job.job_key, 0))
                self.types[job.job_key] = job.job_type
                self._since[job.job_key] = job.due_at
            total = max([total, *(job.total for job in late)])
        self.total: Count = counted(total)

    def __bool__(self) -> bool:
        return bool(self.numbers)

    @property
    def first(self) -> TriggerKey | None:
        """The trigger that waits longest, if it is listed."""
        return next((key for job in self.numbers for key in self._keys[job]), None)

    @property
    def since(self) -> datetime | None:
        """The first instant at which one of them was due."""
        return min((self._since[job] for job in self.numbers if job in self._since), default=None)

    def keys(self, jobs: Collection[JobKey] | None = None) -> list[TriggerKey]:
        """Return the listed triggers of some jobs, by default of all."""
        return [key for job in self.numbers if jobs is None or job in jobs for key in self._keys[job]]

    def number(self, jobs: Collection[JobKey] | None = None) -> int:
        """Return the number of late triggers of some jobs, by default of all."""
        return sum(number for job, number in self.numbers.items() if jobs is None or job in jobs)

    def without(self, jobs: Collection[JobKey]) -> LateJobs:
        """Return those of the other jobs."""
        rest = LateJobs((), (), is_cut=False)
        rest.numbers = {job: number for job, number in self.numbers.items() if job not in jobs}
        rest.types, rest._keys, rest._since = self.types, self._keys, self._since
        rest.total = counted(rest.number())
        return rest


MANY = 1_000
"""The number of triggers that a list examines. With more, it may be without some that are late."""
