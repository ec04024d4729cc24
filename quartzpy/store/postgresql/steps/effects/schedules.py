"""The schedules of triggers: further fire times for those that have few left, and fires that follow from ends."""

from __future__ import annotations

from collections.abc import Sequence

from quartzpy.store.postgresql.connection.pipeline import BoundStatement
from quartzpy.store.postgresql.connection.session import SqlSession
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.postgresql.steps.effects.effect import Completed, Flight, fire_ids_of
from quartzpy.store.protocol import Completion, FiredTrigger
from quartzpy.store.zone_renewal import Outdated
from quartzpy.triggers.upcoming import UpcomingFireTimes

_SQL = SqlFile("steps/effects/schedules.sql")
REFILL = _SQL("refill")


def move_by_end(ends: Completed) -> Flight:
    """Return what moves the triggers whose next fires follow from these ends."""
    moving = [c for c in ends.completions if c.moves_its_trigger()]
    if not moving:
        return {}
    return {
        "move_by_end": ends.session.bind(
            _SQL.move_by_end,
            instance=ends.node.instance_id,
            fire_ids=fire_ids_of(moving),
            expected=[c.fired.next_fire_time for c in moving],
            next=[c.next_by_end() for c in moving],
        )
    }


def refill(ends: Completed) -> Flight:
    """Return what appends further fire times to triggers that have few left."""
    return {f"refill {place}": statement for place, statement in enumerate(refills(ends.session, ends.completions))}


def refills(session: SqlSession, completions: Sequence[Completion]) -> list[BoundStatement]:
    """Return the statements that append further fire times to triggers that have few left, if there are such."""
    outdated = Outdated(session.other_rules)
    some = [(c.fired, _once(outdated, c.fired, c.refill)) for c in completions if c.refill]
    return [_refill(session, some)] if some else []


def _once(outdated: Outdated, fired: FiredTrigger, refill: UpcomingFireTimes) -> UpcomingFireTimes:
    if not outdated.rules:
        return refill
    return outdated.without_repeated(fired.trigger, fired.calendar, fired.last_known_fire_time, refill)


def _refill(session: SqlSession, refilled: Sequence[tuple[FiredTrigger, UpcomingFireTimes]]) -> BoundStatement:
    return session.bind(
        REFILL,
        groups=[fired.trigger_group for fired, _ in refilled],
        names=[fired.trigger_name for fired, _ in refilled],
        generations=[fired.generation for fired, _ in refilled],
        after=[fired.last_known_fire_time for fired, _ in refilled],
        further=[refill.instants for _, refill in refilled],
        complete=[refill.is_complete for _, refill in refilled],
        revisions=[fired.calendar_revision for fired, _ in refilled],
    )
