"""Pages of the misfires that were handled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quartzpy.keys import JobKey, TriggerKey
from quartzpy.states import MisfireAction
from quartzpy.store.queries import MisfireQuery, Position
from quartzpy.store.records import MisfireRecord
from quartzpy.store.sql.conditions import LIMIT, all_of, between

_MISFIRES = f"""
SELECT id, trigger_group, trigger_name, job_group, job_name, instance_id, handled_at, misfire_instruction, action,
       scheduled_time, missed, has_more, caught_up, next_fire_time
  FROM $misfires WHERE {{scheduler}} = %(sched)s {{conditions}} ORDER BY id DESC {LIMIT}
"""


def misfires_text(query: MisfireQuery, after: Position | None) -> str:
    conditions = [
        query.trigger_key and "trigger_group = %(trigger_group)s AND trigger_name = %(trigger_name)s",
        query.job_key and "job_group = %(job_group)s AND job_name = %(job_name)s",
        query.action and "action = %(action)s",
        query.instance_id and "instance_id = %(instance_id)s",
        *between(query, "scheduled_time"),
        after and "id < %(after_id)s::bigint",
    ]
    scheduler = "sched_name || ''" if query.trigger_key else "sched_name"
    return _MISFIRES.format(scheduler=scheduler, conditions=all_of(conditions))


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
