"""Ends of executions that change very many triggers of their job: those that pause it, or give all of them a state.

The complete step does not end such an execution. A transaction of its own locks the triggers, and from then on no step
takes one of them. It changes them slice by slice, without TRIGGER_ACCESS, which it takes only to end the executions and
to commit. So others see all triggers changed, or none, and the death of the node undoes all.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from quartzpy.keys import JobKey
from quartzpy.states import Outcome
from quartzpy.store.postgresql import slices
from quartzpy.store.postgresql.connection.error_translation import RefusedRowError
from quartzpy.store.postgresql.connection.pipeline import BoundStatement
from quartzpy.store.postgresql.connection.session import SqlSession, Transaction
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.postgresql.steps.effects.effect import Completed, Flight, Results, fire_ids_of
from quartzpy.store.protocol import Completion
from quartzpy.store.protocol.outcomes import NOT_FAILED

logger = logging.getLogger(__name__)

_SQL = SqlFile("steps/halts.sql")
HOLD_FIRES = _SQL("hold_fires")
ALL_ENDED = _SQL("all_ended")

MOST = 500
"""The number of triggers that the end of an execution may change under the lock."""
TRIES, BETWEEN_TRIES = 20, 0.05
"""How often the triggers are locked that a step holds, which is done soon, and the seconds between."""
_DIVISION_BY_ZERO = "(22012)"
"""What the error of `ALL_ENDED` says."""


def may_halt(completion: Completion) -> bool:
    """Return whether an end may change all triggers of its job."""
    return completion.instruction.is_about_all_triggers or (
        completion.counts_for_pause and completion.outcome is Outcome.FAILED
    )


def hold_large_jobs(ends: Completed) -> Flight:
    """Return what takes out the ends that would change more triggers of their jobs than a step may."""
    halting = [] if ends.at_length else [c for c in ends.completions if may_halt(c)]
    if not halting:
        return {}
    failed: defaultdict[JobKey, int] = defaultdict(int)
    for completion in halting:
        failed[completion.fired.job_key] += completion.counts_for_pause
    counts = [None if c.instruction.is_about_all_triggers else failed[c.fired.job_key] for c in halting]
    values = {"fire_ids": fire_ids_of(halting), "failures": counts, "most": MOST}
    return {"hold_large_jobs": ends.session.bind(_SQL.hold_large_jobs, **values)}


def halting(results: Results) -> frozenset[int]:
    """Return the executions whose ends change too many triggers."""
    return (
        frozenset(fire_id for (fire_id,) in results["hold_large_jobs"].rows)
        if "hold_large_jobs" in results
        else frozenset()
    )


class _Change(NamedTuple):
    """What becomes of the triggers."""

    pauses: bool
    values: dict[str, Any]


class HeldError(Exception):
    """Another transaction holds a row that these ends have to change."""


def change_all(session: SqlSession, transaction: Transaction, completions: Sequence[Completion]) -> bool:
    """Change the triggers of the job of these ends. Return whether that has paused some.

    Raises:
        HeldError: another transaction holds the job, or a trigger that has to change.
    """
    job = completions[0].fired.job_key
    at = {"group": job.group, "name": job.name}
    [held] = transaction.execute(session.bind(_SQL.hold_job, **at))
    if (row := held.first()) is None:
        return False
    failures, most, is_free = row
    if not is_free:
        raise HeldError
    paused = False
    for change in _changes(completions, failures, most):
        number = _change(session, transaction, job, change)
        paused |= change.pauses and number > 0
    return paused


def _changes(completions: Sequence[Completion], failures: int, most: int | None) -> list[_Change]:
    """Return the changes that these ends make, in their order: failures are counted before instructions apply."""
    changes = []
    is_reached = False
    for completion in completions:
        if completion.counts_for_pause:
            failures = failures + 1 if completion.outcome is Outcome.FAILED else 0
            is_reached = completion.outcome is Outcome.FAILED
    if is_reached and most is not None and failures >= most:
        changes.append(_Change(True, {"reason": f"{failures} executions in a row failed"}))
    asking = [c for c in completions if c.instruction.is_about_all_triggers]
    if asking:
        changes.append(_Change(False, _state(asking[-1])))
    return changes


def _state(completion: Completion) -> dict[str, Any]:
    return {"state": completion.instruction.state, "error": completion.error, "not_failed": NOT_FAILED}


def change_whole_job(session: SqlSession, completion: Completion) -> list[BoundStatement]:
    """Return what gives all triggers of the job the state that the instruction says, if it is about all of them."""
    if not completion.instruction.is_about_all_triggers:
        return []
    job = completion.fired.job_key
    return [session.bind(_SQL("change", whole_job=True), group=job.group, name=job.name, **_state(completion))]


def _change(session: SqlSession, transaction: Transaction, job: JobKey, change: _Change) -> int:
    at = {"group": job.group, "name": job.name}
    hold, number = (session.bind(_SQL(name, pauses=change.pauses), **at) for name in ("hold_triggers", "number"))
    rows: list[tuple[Any, ...]] = []
    for attempt in range(TRIES):
        rest = session.bind(_SQL.rest, seconds=BETWEEN_TRIES if attempt else 0.0)
        _, held, counted = transaction.execute(rest, hold, number)
        rows = list(held.rows)
        if len(rows) >= counted.rows[0][0]:
            break
    else:
        raise HeldError
    with slices.SliceProgress(
        session.scheduler, "paused" if change.pauses else f"set to {change.values['state']}"
    ) as done:
        for start in range(0, len(rows), slices.MOST):
            part = rows[start : start + slices.MOST]
            transaction.execute(
                session.bind(_SQL("change", pauses=change.pauses), rows=[row for (row,) in part], **change.values)
            )
            done.add(len(part))
    return len(rows)


def is_unended(error: RefusedRowError) -> bool:
    """Return whether this is the error of a transaction that could not end all of its executions."""
    return _DIVISION_BY_ZERO in str(error)


def by_job(completions: Sequence[Completion]) -> list[list[Completion]]:
    """Return the ends of each job, in their order."""
    groups: defaultdict[JobKey, list[Completion]] = defaultdict(list)
    for completion in completions:
        groups[completion.fired.job_key].append(completion)
    return list(groups.values())
