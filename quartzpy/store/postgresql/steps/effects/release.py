"""The slots of jobs with a limit: the end of an execution releases triggers that wait for one."""

from __future__ import annotations

from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.postgresql.steps.effects.effect import Completed, Ends, Flight
from quartzpy.store.postgresql.steps.slots import pass_on_of

_SQL = SqlFile("steps/effects/release.sql")
RELEASE = _SQL("release")


def release(ends: Ends) -> Flight:
    """Return what gives the slots of these ends to triggers that wait; a node may not know that a job has a limit."""
    values = {"misfire_threshold": ends.session.misfire_threshold}
    return {"release": ends.waking(RELEASE, ends.fire_ids, **values)}


def release_anew(ends: Completed) -> Flight:
    """Return what passes slots on if the triggers that have got them are moved or ended by these ends."""
    changing = {
        (c.fired.job_group, c.fired.job_name)
        for c in ends.completions
        if c.fired.max_concurrent is not None
        and (c.moves_its_trigger() or c.instruction.deletes or c.instruction.state is not None)
    }
    return dict(zip(("release_anew",), pass_on_of(ends.session, changing), strict=False))
