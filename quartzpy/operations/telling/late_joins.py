"""Jobs that have waited for others for longer than they may: their breaches, beside those of expectations."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from quartzpy.expect import Breach, BreachRecord, JudgedBreach
from quartzpy.jobs.job import JobDetail
from quartzpy.jobs.join import Join, as_join, instant_of_occasion, short_occasion
from quartzpy.keys import TriggerKey
from quartzpy.scheduler.explain import span_in_words
from quartzpy.scheduler.explain_joins import missing_jobs
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.postgresql.admin.records import LateJoin
from quartzpy.store.protocol import JobStore

MAX_LATE = 200
"""The number of joins that one turn judges; the next one judges the others."""


def judge_joins(store: JobStore, turn: datetime) -> Sequence[BreachRecord]:
    """Record which jobs have waited for too long since the last turn, and return the new breaches.

    Raises:
        QuartzpyError: the store cannot be reached; nothing is recorded, and the next turn looks again.
    """
    late = admin(store).late_joins(MAX_LATE)
    if not late:
        return []
    jobs = store.jobs({join.job_key for join in late})
    broken = [breach for join in late if (breach := _breach(join, jobs.get(join.job_key))) is not None]
    return admin(store).record_late_joins(turn, late, broken)


def _breach(late: LateJoin, job: JobDetail | None) -> JudgedBreach | None:
    """Return the breach; None if the job does not wait any more, or may wait for ever by now."""
    after: Join | None = None if job is None or job.after is None else as_join(job.after)
    if after is None or after.within is None:
        return None
    key, occasion = late.job_key, short_occasion(late.occasion)
    ended = " and ".join(f"{end.job_key} ({end.outcome})" for end in late.ended)
    return JudgedBreach(
        Breach.JOINS_LATE,
        TriggerKey(key.name, key.group),
        key,
        instant_of_occasion(late.occasion),
        f"Job {key} still waits for {missing_jobs(late.ended, after)} of {occasion},"
        f" {span_in_words(after.within)} after the first end.",
        (f"It runs after others ({after.rule}). So far {ended} {'has' if len(late.ended) == 1 else 'have'} ended.",),
    )
