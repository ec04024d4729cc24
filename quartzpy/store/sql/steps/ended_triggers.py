"""The end of triggers whose last execution ends: the fragment that deletes them, for both ways to complete."""

from __future__ import annotations

ENDED_TRIGGERS = """
-- The triggers whose last fire this was. A declared one (it has an owner) stays, or the next sync would store it anew.
ended_triggers AS (
    DELETE FROM $triggers t
     USING (SELECT sched_name, trigger_group, trigger_name, generation FROM done WHERE is_last) AS d
     CROSS JOIN LATERAL (
        SELECT c.ctid AS row
          FROM $triggers c
         WHERE c.sched_name = d.sched_name AND c.trigger_group = d.trigger_group AND c.trigger_name = d.trigger_name
           AND c.generation = d.generation AND c.trigger_state || '' = 'COMPLETE' AND c.owner IS NULL
           FOR UPDATE SKIP LOCKED) AS over
     WHERE t.ctid = over.row
)"""
