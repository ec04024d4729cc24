"""The checkpoints of triggers with an expectation, and the breaches that were found."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from quartzpy.expect import Breach, BreachRecord, JudgedBreach
from quartzpy.jobs.join import predecessors_from_json
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.store.postgresql.admin.records import CheckpointRecord, LateJoin
from quartzpy.store.postgresql.connection.pipeline import BoundStatement
from quartzpy.store.postgresql.connection.session import SqlSession
from quartzpy.store.postgresql.schema.rows import key_columns
from quartzpy.store.postgresql.schema.sql_files import SqlFile

_SQL = SqlFile("admin/expectations.sql")
LIST_EXPECTED = _SQL("list_expected")
DUE_EXPECTATIONS = _SQL("due_expectations")
LASTING_BREACHES = _SQL("lasting_breaches")
BREACHES_OF_TRIGGER = _SQL("breaches_of_trigger")
END_LATE_JOINS = _SQL("end_late_joins")
LATE_JOINS = _SQL("late_joins")
MAX_LISTED = 5_000
"""The number of the latest executions among which continuations with an expectation are found."""


def due_expectations(session: SqlSession, limit: int, listed_every: timedelta) -> list[tuple[TriggerKey, str]]:
    """Return the triggers whose look is due, the soonest first, with their checkpoints as JSON.

    Triggers with a new expectation are listed first, if that was not done for a time.
    """
    _, due = session.unlocked(
        session.bind(LIST_EXPECTED, every=listed_every, among=MAX_LISTED), session.bind(DUE_EXPECTATIONS, limit=limit)
    )
    return [(TriggerKey(name, group), checkpoint) for group, name, checkpoint in due.rows]


def record_expectations(
    session: SqlSession,
    turn: datetime,
    *,
    checkpoints: Mapping[TriggerKey, CheckpointRecord],
    gone: Collection[TriggerKey],
    broken: Sequence[JudgedBreach],
    met: Mapping[tuple[TriggerKey, Breach], datetime],
) -> list[BreachRecord]:
    """Record a look in one transaction and one round trip, unless the turn is another one's by now.

    Args:
        session: the session.
        turn: the turn that the caller has taken.
        checkpoints: the checkpoints.
        gone: the triggers of which nothing is expected any more.
        broken: what fires did not keep.
        met: what fires kept, with the last of them.

    Returns:
        The breaches that were not recorded before.
    """
    statements = []
    if checkpoints:
        statements.append(
            session.bind(
                _SQL.move_checkpoints,
                turn=turn,
                **key_columns(checkpoints),
                generations=[checkpoint.generation for checkpoint in checkpoints.values()],
                due_ats=[checkpoint.due_at for checkpoint in checkpoints.values()],
                checkpoints=[checkpoint.checkpoint for checkpoint in checkpoints.values()],
            )
        )
    after = []
    if met:
        after.append(_closed(session, turn, met))
    if gone:
        after.append(session.bind(_SQL.drop_checkpoints, turn=turn, **key_columns(gone)))
    return _recorded(session, turn, statements, broken, after)


def late_joins(session: SqlSession, limit: int) -> list[LateJoin]:
    """Return the joins that have waited for longer than they may, and end the breaches of those that wait no more."""
    _, late = session.unlocked(session.bind(END_LATE_JOINS), session.bind(LATE_JOINS, limit=limit))
    return [
        LateJoin(JobKey(name, group), occasion, predecessors_from_json(json.loads(ended or "{}").values()))
        for group, name, occasion, ended in late.rows
    ]


def record_late_joins(
    session: SqlSession, turn: datetime, joins: Sequence[LateJoin], broken: Sequence[JudgedBreach]
) -> list[BreachRecord]:
    """Record in one transaction that these joins were looked at, and what is wrong; see `record_expectations`."""
    looked_at = session.bind(
        _SQL.note_late_joins,
        turn=turn,
        **key_columns(join.job_key for join in joins),
        occasions=[join.occasion for join in joins],
    )
    return _recorded(session, turn, [looked_at], broken)


def lasting_breaches(session: SqlSession, limit: int) -> list[BreachRecord]:
    """Return what fires did not keep, and no later fire has kept."""
    return [_record(row) for row in session.read_one(LASTING_BREACHES, limit=limit)]


def breaches_of_trigger(session: SqlSession, key: TriggerKey) -> list[BreachRecord]:
    """Return what lasts of one trigger."""
    return [_record(row) for row in session.read_one(BREACHES_OF_TRIGGER, group=key.group, name=key.name, limit=10)]


def _in_turns(broken: Sequence[JudgedBreach]) -> list[list[JudgedBreach]]:
    turns: defaultdict[int, list[JudgedBreach]] = defaultdict(list)
    numbers: defaultdict[tuple[TriggerKey, Breach], int] = defaultdict(int)
    for row in sorted(broken, key=lambda row: row.scheduled_fire_time):
        turns[numbers[row.trigger_key, row.kind]].append(row)
        numbers[row.trigger_key, row.kind] += 1
    return list(turns.values())


def _recorded(
    session: SqlSession,
    turn: datetime,
    before: Sequence[BoundStatement],
    broken: Sequence[JudgedBreach],
    after: Sequence[BoundStatement] = (),
) -> list[BreachRecord]:
    """Record breaches between these statements, in one transaction. Return those that were not recorded before."""
    statements = [*before]
    places = []
    # Each fire counts those before it, so those of one trigger and kind are recorded one after the other.
    for breaches in _in_turns(broken):
        places.append(len(statements))
        statements += [
            session.bind(_SQL.open_breaches, turn=turn, **_columns(breaches)),
            _closed(session, turn, {(row.trigger_key, row.kind): row.scheduled_fire_time for row in breaches}),
        ]
    statements += after
    if not statements:
        return []
    results = session.unlocked(*statements)
    return [_record(row) for place in places for row in results[place].rows]


def _columns(broken: Sequence[JudgedBreach]) -> dict[str, list[Any]]:
    return {
        **key_columns(row.trigger_key for row in broken),
        "job_groups": [row.job_key.group for row in broken],
        "job_names": [row.job_key.name for row in broken],
        "scheduled_times": [row.scheduled_fire_time for row in broken],
        "breach_kinds": [str(row.kind) for row in broken],
        "whats": [row.what for row in broken],
        "whys": [json.dumps(row.why) for row in broken],
    }


def _closed(session: SqlSession, turn: datetime, met: Mapping[tuple[TriggerKey, Breach], datetime]) -> BoundStatement:
    return session.bind(
        _SQL.close_breaches,
        turn=turn,
        **key_columns(key for key, _ in met),
        breach_kinds=[str(kind) for _, kind in met],
        scheduled_times=list(met.values()),
    )


def _record(row: tuple[Any, ...]) -> BreachRecord:
    kind, group, name, job_group, job_name, scheduled, what, why, breach_id, found_at, in_a_row, since, over_at = row
    return BreachRecord(
        Breach(kind),
        TriggerKey(name, group),
        JobKey(job_name, job_group),
        scheduled,
        what,
        tuple(json.loads(why)),
        breach_id=breach_id,
        found_at=found_at,
        in_a_row=in_a_row,
        since=since,
        over_at=over_at,
    )
