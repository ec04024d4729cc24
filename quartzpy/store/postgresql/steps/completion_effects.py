"""The effects of a completion that only some executions have: on their triggers, and on the deaths of nodes."""

from __future__ import annotations

from collections.abc import Sequence

from quartzpy.states import Outcome
from quartzpy.store.postgresql.connection.pipeline import BoundStatement
from quartzpy.store.postgresql.connection.session import SqlSession
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.postgresql.steps.orphans import orphans
from quartzpy.store.postgresql.steps.slots import pass_on_of
from quartzpy.store.protocol import Completion, FiredTrigger, Node
from quartzpy.store.protocol.outcomes import NOT_FAILED
from quartzpy.store.zone_renewal import Outdated
from quartzpy.triggers.upcoming import UpcomingFireTimes

_SQL = SqlFile("steps/completion_effects.sql")
RESET_NODE_DEATHS = _SQL("reset_node_deaths")
REFILL = _SQL("refill")
REFILL_OF_LIMITED = _SQL("refill", of_limited=True)
MOVE_BY_END = _SQL("move_by_end")
SET_STATES = _SQL("set_states")
DELETE_TRIGGERS = _SQL("delete_triggers")


def effects(
    session: SqlSession, node: Node, completions: Sequence[Completion], *, at_length: bool = False
) -> list[BoundStatement]:
    """Return the statements that only some completions need, to be sent after the one that ended the executions.

    With `at_length`, the same transaction has given all triggers of a job their state before.
    """
    more = []
    asking = [
        c
        for c in completions
        if c.instruction.state is not None and not (at_length and c.instruction.is_about_all_triggers)
    ]
    if asking:
        more.append(
            session.bind(
                SET_STATES,
                instance=node.instance_id,
                fire_ids=[c.fired.fire_id for c in asking],
                all=[c.instruction.is_about_all_triggers for c in asking],
                states=[c.instruction.state for c in asking],
                not_failed=NOT_FAILED,
            )
        )
    deleting = [c.fired.fire_id for c in completions if c.instruction.deletes]
    if deleting:
        more.append(session.bind(DELETE_TRIGGERS, instance=node.instance_id, fire_ids=deleting))
    survived = [c.fired.fire_id for c in completions if c.fired.node_deaths and c.outcome is Outcome.SUCCEEDED]
    if survived:
        more.append(session.bind(RESET_NODE_DEATHS, instance=node.instance_id, fire_ids=survived))
    ending = {(c.fired.job_group, c.fired.job_name) for c in completions if c.ends_its_trigger or c.instruction.deletes}
    more += orphans(session, ending)
    moving = [c for c in completions if c.moves_its_trigger()]
    if moving:
        more.append(
            session.bind(
                MOVE_BY_END,
                instance=node.instance_id,
                fire_ids=[c.fired.fire_id for c in moving],
                expected=[c.fired.next_fire_time for c in moving],
                next=[c.next_by_end() for c in moving],
            )
        )
    # The end has given its slot to the trigger that is soonest, which may be the one that it moves or ends.
    changing = {
        (c.fired.job_group, c.fired.job_name)
        for c in completions
        if c.fired.max_concurrent is not None
        and (c.moves_its_trigger() or c.instruction.deletes or c.instruction.state is not None)
    }
    return [*more, *pass_on_of(session, changing), *refills(session, completions)]


def refills(session: SqlSession, completions: Sequence[Completion]) -> list[BoundStatement]:
    """Return the statements that append further fire times to triggers that have few left, if there are such."""
    more = []
    outdated = Outdated(session.other_rules)
    for text, is_limited in ((REFILL, False), (REFILL_OF_LIMITED, True)):
        some = [
            (c.fired, _once(outdated, c.fired, c.refill))
            for c in completions
            if c.refill and (c.fired.max_concurrent is not None) is is_limited
        ]
        if some:
            more.append(_refill(session, text, some))
    return more


def _once(outdated: Outdated, fired: FiredTrigger, refill: UpcomingFireTimes) -> UpcomingFireTimes:
    if not outdated.rules:
        return refill
    return outdated.without_repeated(fired.trigger, fired.calendar, fired.last_known_fire_time, refill)


def _refill(
    session: SqlSession, text: str, refilled: Sequence[tuple[FiredTrigger, UpcomingFireTimes]]
) -> BoundStatement:
    return session.bind(
        text,
        groups=[fired.trigger_group for fired, _ in refilled],
        names=[fired.trigger_name for fired, _ in refilled],
        generations=[fired.generation for fired, _ in refilled],
        after=[fired.last_known_fire_time for fired, _ in refilled],
        further=[refill.instants for _, refill in refilled],
        complete=[refill.is_complete for _, refill in refilled],
        revisions=[fired.calendar_revision for fired, _ in refilled],
    )
