"""The misfire step. Lock: TRIGGER_ACCESS. Applies the misfire instructions of late triggers.

`LATE` reads a batch without the lock; the instructions are pure functions; `MOVE` writes the batch back in one round
trip, guarding each row by the values with which it was read, and records the misfires in `misfires`. Rows that have
changed in the meantime are left to the next pass.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from operator import itemgetter
from typing import Any, NamedTuple

from quartzpy.calendars.calendar import Calendar
from quartzpy.errors import UnknownTimeZoneError, UnsupportedKindError
from quartzpy.job_data import BATCH
from quartzpy.states import Missed
from quartzpy.store.postgresql.connection.error_translation import RefusedRowError
from quartzpy.store.postgresql.connection.pipeline import BoundStatement
from quartzpy.store.postgresql.connection.session import SqlSession, require_epoch
from quartzpy.store.postgresql.left_batches import leave_ended
from quartzpy.store.postgresql.schema.rows import ANY_TIME, TriggerColumns, calendar_from_text, schedule_text
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.postgresql.steps.bad_rows import reason_of, rehearse, to_blame
from quartzpy.store.protocol import MisfireOutcome, Node
from quartzpy.store.zone_renewal import Outdated
from quartzpy.texts import storable_text
from quartzpy.triggers.misfire import Misfire, misfired
from quartzpy.triggers.simple import SimpleTrigger, similar
from quartzpy.triggers.trigger import Trigger, TriggerProgress

logger = logging.getLogger(__name__)

_SQL = SqlFile("steps/misfire.sql")
LATE = _SQL("late")
MOVE = _SQL("move")

MAX_PASSED_OVER = 10_000


class _LateColumns(NamedTuple):
    """The columns of `LATE` that follow those of which the trigger is built."""

    next_fire_time: datetime
    prev_fire_time: datetime | None
    times_triggered: int
    generation: int
    calendar_text: str | None
    revision: int | None
    coalesced: bool
    place: str
    missed_policy: str | None
    resumed_at: datetime | None
    at: datetime


_OF_EACH = {"trigger_name", "start_time", "trigger_data"}
_of_pattern = itemgetter(*(at for at, name in enumerate(TriggerColumns._fields) if name not in _OF_EACH))
LATE_TRIGGER = (*TriggerColumns._fields, *_LateColumns._fields)
"""The columns of `LATE`, in their order."""


class _LateRow(NamedTuple):
    """A row of `LATE`."""

    trigger: TriggerColumns
    late: _LateColumns

    @classmethod
    def of(cls, row: tuple[Any, ...]) -> _LateRow:
        built_of = len(TriggerColumns._fields)
        return cls(TriggerColumns._make(row[:built_of]), _LateColumns._make(row[built_of:]))


@dataclass(frozen=True, slots=True)
class _Late:
    """A late trigger with the values that were read."""

    trigger: Trigger
    progress: TriggerProgress
    generation: int
    calendar: Calendar | None
    revision: int | None
    coalesced: bool
    """True if the late fire also represents others that were missed before it."""
    row: str
    schedule: str
    """The column `schedule`."""
    missed_policy: Missed
    resumed_at: datetime | None
    """The instant up to which fires are skipped."""


def recover_misfires(
    session: SqlSession,
    node: Node,
    *,
    threshold: timedelta,
    limit: int,
) -> MisfireOutcome:
    """Handle one batch; see `JobStore.recover_misfires`."""
    passed_over = session.left_to_others
    limit = min(limit, session.misfire_batch.number)
    at_node = {"instance": node.instance_id, "epoch": node.epoch, "threshold": threshold}
    of_epoch, since = session.late_since or (node.epoch, ANY_TIME)
    if of_epoch != node.epoch:
        since = ANY_TIME
    batch, standing = session.read(
        session.bind(
            LATE,
            **at_node,
            since=since,
            limit=limit + 1,
            passed_over=sorted(passed_over),
        ),
        session.bind(_SQL.guard, instance=node.instance_id, epoch=node.epoch),
    )
    (now,) = require_epoch(node, standing)
    session.late_since = None
    if not batch.rows:
        return MisfireOutcome(now)
    rows = [_LateRow.of(row) for row in batch.rows]
    at = rows[0].late.at
    late, misfires, spoiled = _computed(rows[:limit], passed_over, at, Outdated(session.other_rules))
    if len(passed_over) > MAX_PASSED_OVER:
        passed_over.clear()
    more = len(batch.rows) > limit
    if more:
        # The next batch does not walk again over late triggers at the front that this node does not run.
        session.late_since = node.epoch, rows[limit - 1].late.next_fire_time
    try:
        written = _write(session, at_node, late, misfires, spoiled, at)
    except RefusedRowError:
        blamed = _bad_rows(session, at_node, late, misfires, at)
        if not blamed:
            raise
        spoiled += [(row, blamed[row.late.place]) for row in rows if row.late.place in blamed]
        misfires = [misfire for misfire, read in zip(misfires, late, strict=True) if read.row not in blamed]
        late = [read for read in late if read.row not in blamed]
        written = _write(session, at_node, late, misfires, spoiled, at)
    done = {(group, name) for group, name in written}
    handled = [misfire for misfire in misfires if (misfire.to.trigger.group, misfire.to.trigger.name) in done]
    if any(BATCH in (row.trigger.trigger_data or "") for row in rows):
        # Not in the transaction above: a trigger that it updates twice may wait under the lock for its job. If the node
        # dies in between, the purge counts them.
        session.unlocked(leave_ended(session, limit=limit))
    return MisfireOutcome(
        now,
        {misfire.to.trigger.key: misfire.missed for misfire in handled},
        tuple(misfire.to.trigger.key for misfire in handled if misfire.to.progress.next_fire_time is None),
        min(
            (following for misfire in handled if (following := misfire.to.progress.next_fire_time) is not None),
            default=None,
        ),
        more=more,
    )


def _computed(
    rows: Sequence[_LateRow], passed_over: set[int], at: datetime, outdated: Outdated
) -> tuple[list[_Late], list[Misfire], list[tuple[_LateRow, str]]]:
    """Return the triggers that can be handled, what becomes of each, and the rows that cannot with the reasons.

    Generations that this node has to leave to others are added to `passed_over`.
    """
    late, misfires, spoiled = [], [], []
    patterns: dict[tuple[Any, ...], SimpleTrigger] = {}
    for row in rows:
        try:
            read = _late(row, patterns)
            misfire = misfired(
                read.trigger,
                read.progress,
                read.calendar,
                now=read.resumed_at or at,
                coalesced=read.coalesced,
                missed_policy=read.missed_policy,
            )
            if outdated.rules:
                upcoming = outdated.without_repeated(
                    read.trigger, read.calendar, read.progress.next_fire_time, misfire.to.upcoming
                )
                misfire = replace(misfire, to=replace(misfire.to, upcoming=upcoming))
        except (UnsupportedKindError, UnknownTimeZoneError) as error:
            logger.warning("trigger %s.%s is left to other nodes: %s", *_names(row), error)
            passed_over.add(row.late.generation)
        except Exception as error:
            logger.exception("the next fire time of trigger %s.%s cannot be computed; it is in ERROR", *_names(row))
            spoiled.append((row, f"its next fire time cannot be computed: {type(error).__name__}: {error}"))
        else:
            late.append(read)
            misfires.append(misfire)
    return late, misfires, spoiled


def _write(
    session: SqlSession,
    at_node: dict[str, Any],
    late: Sequence[_Late],
    misfires: Sequence[Misfire],
    spoiled: Sequence[tuple[_LateRow, str]],
    at: datetime,
) -> Sequence[tuple[Any, ...]]:
    """Write a batch back. Return the keys of the triggers that were moved."""
    move = _move(session, at_node, late, misfires, at)
    statements = [*_spoil(session, at_node, spoiled), *move]
    if not statements:
        return []
    began = time.monotonic()
    results = session.locked(*statements)
    session.misfire_batch.adapt(time.monotonic() - began)
    return results[len(statements) - 1].rows if misfires else []


def _bad_rows(
    session: SqlSession, at_node: dict[str, Any], late: Sequence[_Late], misfires: Sequence[Misfire], at: datetime
) -> dict[str, str]:
    """Return the ctids of the triggers that make the batch fail, with the reasons."""

    def attempt(part: Sequence[int]) -> None:
        rehearse(session, _move(session, at_node, [late[n] for n in part], [misfires[n] for n in part], at))

    blamed = to_blame(range(len(late)), attempt)
    for n, error in blamed.items():
        logger.error("trigger %s goes to ERROR: the database cannot process its row: %s", late[n].trigger.key, error)
    return {late[n].row: reason_of(error) for n, error in blamed.items()}


def _names(row: _LateRow) -> tuple[str, str]:
    return row.trigger.trigger_group, row.trigger.trigger_name


def _spoil(
    session: SqlSession, at_node: dict[str, Any], spoiled: Sequence[tuple[_LateRow, str]]
) -> list[BoundStatement]:
    if not spoiled:
        return []
    return [
        session.bind(
            _SQL.spoil,
            **at_node,
            rows=[row.late.place for row, _ in spoiled],
            groups=[row.trigger.trigger_group for row, _ in spoiled],
            names=[row.trigger.trigger_name for row, _ in spoiled],
            generations=[row.late.generation for row, _ in spoiled],
            reasons=[storable_text(reason) for _, reason in spoiled],
        )
    ]


def _move(
    session: SqlSession, at_node: dict[str, Any], late: Sequence[_Late], misfires: Sequence[Misfire], at: datetime
) -> list[BoundStatement]:
    if not misfires:
        return []
    moves = [misfire.to for misfire in misfires]
    return [
        session.bind(
            MOVE,
            **at_node,
            rows=[read.row for read in late],
            groups=[m.trigger.group for m in moves],
            names=[m.trigger.name for m in moves],
            generations=[read.generation for read in late],
            late_fire_times=[read.progress.next_fire_time for read in late],
            next=[m.progress.next_fire_time for m in moves],
            previous=[m.progress.previous_fire_time for m in moves],
            times=[m.progress.times_triggered for m in moves],
            starts=[m.trigger.start_time for m in moves],
            schedules=[
                read.schedule if m.trigger is read.trigger else schedule_text(m.trigger)
                for read, m in zip(late, moves, strict=True)
            ],
            upcoming=[m.upcoming.instants for m in moves],
            complete=[m.upcoming.is_complete for m in moves],
            revisions=[read.revision for read in late],
            at=at,
            missed_times=[misfire.missed for misfire in misfires],
            more=[misfire.has_more for misfire in misfires],
            caught_up=[misfire.caught_up for misfire in misfires],
            actions=[misfire.action for misfire in misfires],
            coalesces=[misfire.coalesces for misfire in misfires],
        ),
    ]


def _late(row: _LateRow, patterns: dict[tuple[Any, ...], SimpleTrigger]) -> _Late:
    late = row.late
    return _Late(
        _trigger(row.trigger, patterns),
        TriggerProgress(late.next_fire_time, late.prev_fire_time, late.times_triggered),
        late.generation,
        calendar_from_text(late.calendar_text) if late.calendar_text else None,
        late.revision,
        late.coalesced,
        late.place,
        row.trigger.schedule,
        Missed(late.missed_policy or Missed.MISFIRE),
        late.resumed_at,
    )


def _trigger(columns: TriggerColumns, patterns: dict[tuple[Any, ...], SimpleTrigger]) -> Trigger:
    """Build the trigger of a row.

    After an outage, thousands of simple triggers may differ only in their names and start times. The first of them is
    the pattern of the others, so that the equal values are validated once.
    """
    if columns.end_time is not None:
        return columns.trigger(with_data=False)
    # The data is not decoded: its types may be known to other programs only, and fire times do not depend on it.
    equal = _of_pattern(columns)
    if (pattern := patterns.get(equal)) is not None:
        return similar(pattern, columns.trigger_name, columns.start_time)
    trigger = columns.trigger(with_data=False)
    if type(trigger) is SimpleTrigger:
        patterns[equal] = trigger
    return trigger
