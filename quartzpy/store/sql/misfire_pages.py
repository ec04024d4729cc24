"""Pages of the misfires that were handled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quartzpy.keys import JobKey, TriggerKey
from quartzpy.states import MisfireAction
from quartzpy.store.queries import MISFIRE_MARGIN, MisfireQuery, Position
from quartzpy.store.records import MisfireRecord
from quartzpy.store.sql.conditions import LIMIT, all_of, between

_MISFIRES = f"""
SELECT id, trigger_group, trigger_name, job_group, job_name, instance_id, handled_at, misfire_instruction, action,
       scheduled_time, missed, has_more, caught_up, next_fire_time
  FROM {{source}} WHERE {{scheduler}} = %(sched)s {{conditions}} ORDER BY id DESC {LIMIT}
"""
# The misfires that a page examines, and the last of them, unless those that follow it were handled too long ago.
_WALKED_MISFIRES = """
(SELECT * FROM $misfires
  WHERE {scheduler} = %(sched)s {conditions} ORDER BY id DESC LIMIT %(among)s::int) AS examined"""
LAST_MISFIRE = """
SELECT id
  FROM (SELECT id, handled_at FROM $misfires
         WHERE {scheduler} = %(sched)s {conditions} ORDER BY id DESC OFFSET %(among)s::int - 1 LIMIT 1) AS last
 WHERE handled_at >= coalesce(%(since)s::timestamptz - %(margin)s::interval, '-infinity')
"""


def misfires_text(query: MisfireQuery, after: Position | None) -> str:
    if query.walk is None:
        source, scheduler = "$misfires", _scheduler_of_misfires(query)
        return _MISFIRES.format(source=source, scheduler=scheduler, conditions=_misfire_conditions(query, after))
    source = walked_misfires(_WALKED_MISFIRES, query.walk, after)
    return _MISFIRES.format(source=source, scheduler="sched_name", conditions=_misfire_conditions(query, None))


def walked_misfires(text: str, walk: MisfireQuery, after: Position | None) -> str:
    return text.format(scheduler=_scheduler_of_misfires(walk), conditions=_misfire_conditions(walk, after))


def _scheduler_of_misfires(query: MisfireQuery) -> str:
    return "sched_name || ''" if query.trigger_key else "sched_name"


def _misfire_conditions(query: MisfireQuery, after: Position | None) -> str:
    conditions = [
        query.trigger_key and "trigger_group = %(trigger_group)s AND trigger_name = %(trigger_name)s",
        query.job_key and "job_group = %(job_group)s AND job_name = %(job_name)s",
        query.action and "action = %(action)s",
        query.instance_id and "instance_id = %(instance_id)s",
        *between(query, "scheduled_time"),
        after and "id < %(after_id)s::bigint",
    ]
    return all_of(conditions)


def values_of_misfires(query: MisfireQuery, after: Position | None) -> dict[str, Any]:
    job, trigger = query.job_key, query.trigger_key
    return {
        "trigger_group": trigger and trigger.group,
        "trigger_name": trigger and trigger.name,
        "job_group": job and job.group,
        "job_name": job and job.name,
        "action": query.action,
        "instance_id": query.instance_id,
        "since": query.since,
        "until": query.until,
        "after_id": after and after[0],
        "among": query.among,
        "margin": MISFIRE_MARGIN,
    }


def misfire_of(row: Sequence[Any]) -> MisfireRecord:
    number, group, name, job_group, job_name, instance_id, handled_at, instruction, action, *rest = row
    scheduled, missed, has_more, caught_up, following = rest
    return MisfireRecord(
        misfire_id=number,
        trigger_key=TriggerKey(name, group),
        job_key=JobKey(job_name, job_group),
        instance_id=instance_id,
        handled_at=handled_at,
        misfire=instruction,
        action=MisfireAction(action),
        scheduled_fire_time=scheduled,
        missed=tuple(missed),
        has_more=has_more,
        caught_up=caught_up,
        next_fire_time=following,
    )
