"""The instructions of jobs: what becomes of the trigger that fired, or of all triggers of the job."""

from __future__ import annotations

from quartzpy.states import CompletionInstruction
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.postgresql.steps.effects.effect import Completed, Flight, fire_ids_of
from quartzpy.store.postgresql.steps.orphans import orphans
from quartzpy.store.protocol.outcomes import NOT_FAILED

_SQL = SqlFile("steps/effects/instructions.sql")


def hold_triggers(ends: Completed) -> Flight:
    """Return what holds the triggers that instructions are about, or that ends move."""
    asking = [
        c
        for c in ends.completions
        if (c.instruction is not CompletionInstruction.NOOP or c.moves_its_trigger())
        and not (ends.at_length and c.instruction.is_about_all_triggers)
    ]
    if not asking:
        return {}
    values = {"fire_ids": fire_ids_of(asking), "all": [c.instruction.is_about_all_triggers for c in asking]}
    return {"hold_triggers": ends.session.bind(_SQL.hold_triggers, **values)}


def follow_instructions(ends: Completed) -> Flight:
    """Return what gives triggers the states that jobs have asked for, and deletes those that they asked to delete."""
    flight: Flight = {}
    instance = ends.node.instance_id
    asking = [
        c
        for c in ends.completions
        if c.instruction.state is not None and not (ends.at_length and c.instruction.is_about_all_triggers)
    ]
    if asking:
        flight["set_states"] = ends.session.bind(
            _SQL.set_states,
            instance=instance,
            fire_ids=fire_ids_of(asking),
            all=[c.instruction.is_about_all_triggers for c in asking],
            states=[c.instruction.state for c in asking],
            not_failed=NOT_FAILED,
        )
    deleting = fire_ids_of([c for c in ends.completions if c.instruction.deletes])
    if deleting:
        flight["delete_triggers"] = ends.session.bind(_SQL.delete_triggers, instance=instance, fire_ids=deleting)
    return flight


def remove_orphans(ends: Completed) -> Flight:
    """Return what removes the jobs that are not durable and have lost their last trigger."""
    ending = {
        (c.fired.job_group, c.fired.job_name) for c in ends.completions if c.ends_its_trigger or c.instruction.deletes
    }
    return dict(zip(("hold_orphans", "remove_orphans"), orphans(ends.session, ending), strict=False))
