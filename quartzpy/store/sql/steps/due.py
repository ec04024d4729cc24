"""The due query: the front of the index of waiting triggers, for the slots that a node has free.

A row is looked up by LATERAL with a lock or a limit, here and in all steps, and updated by its `ctid`. So no statistics
can make the planner choose a scan of the whole table for each row. Where a row is looked up by its key, its state is
compared as an expression, so that the partial index of claimed and blocked triggers does not match: it looks small to
the planner, but can have an entry for each running one-shot trigger.
"""

from __future__ import annotations

from quartzpy.store.sql.steps.guard import NODE

_RULES = "(VALUES ('SCHEDULER'), ('OWN'), ('IGNORE')) AS rule(name)"


def _is_in_time(now: str) -> str:
    """Return the condition that a trigger `t` under the misfire rule `rule` is no misfire, as a range of the index."""
    return f"""t.next_fire_time >= CASE rule.name
                           WHEN 'SCHEDULER' THEN {now} - %(threshold)s::interval ELSE '-infinity' END
                   AND (rule.name <> 'OWN' OR t.next_fire_time >= {now} - t.misfire_threshold)
                   AND t.generation <> ALL(%(passed_over)s::bigint[])"""


_RANKS = """, slots.workers, slots.group_slots,
                   row_number() OVER (PARTITION BY slots.executor
                                          ORDER BY of_key.scheduled_time, of_key.priority DESC) AS executor_rank,
                   row_number() OVER (PARTITION BY slots.execution_group
                                          ORDER BY of_key.scheduled_time, of_key.priority DESC) AS group_rank"""
_WITHIN_POOLS = """
     WHERE executor_rank <= workers AND group_rank <= group_slots"""


def front(columns: str, *, and_of_each: str = "", of_one_pool: bool = False) -> str:
    """Return the query of the triggers that this node can take, locked, each with `columns` of `t` or of `node`.

    Their fire times are at most `look_ahead` ahead, and not before `since`. `and_of_each` joins more to each `t`. If
    all slots are `of_one_pool`, that is of one executor and one group, `limit` is the only limit that counts.
    """
    ranks, within_pools = ("", "") if of_one_pool else (_RANKS, _WITHIN_POOLS)
    return f"""
    SELECT *
      FROM (SELECT node.at, of_key.*{ranks}
              FROM node
             CROSS JOIN unnest(%(job_types)s::text[], %(placements)s::text[], %(executors)s::text[], %(workers)s::int[],
                               %(groups)s::text[], %(group_slots)s::int[])
                        AS slots(job_type, placement, executor, workers, execution_group, group_slots)
             CROSS JOIN {_RULES}
             CROSS JOIN LATERAL (
                SELECT t.ctid AS row, t.next_fire_time AS scheduled_time, t.priority, t.max_concurrent, {columns}
                  FROM $triggers t{and_of_each}
                 WHERE t.sched_name = %(sched)s AND t.job_type = slots.job_type AND t.placement = slots.placement
                   AND t.misfire_rule = rule.name AND t.trigger_state = 'WAITING'
                   AND t.next_fire_time <= node.at + %(look_ahead)s::interval
                   AND t.next_fire_time >= %(since)s::timestamptz
                   AND {_is_in_time("node.at")}
                 ORDER BY t.next_fire_time, t.priority DESC
                 LIMIT least(%(limit)s::int, slots.workers, slots.group_slots)
                   FOR NO KEY UPDATE OF t SKIP LOCKED
             ) AS of_key) AS found{within_pools}
     ORDER BY scheduled_time, priority DESC
     LIMIT %(limit)s::int"""


NEXT_DUE = f"""
WITH RECURSIVE node AS MATERIALIZED (
    -- No row of the result means that the epoch is no longer registered.
    SELECT $now AS at, clock_timestamp() AS began FROM $scheduler_state
     WHERE sched_name = %(sched)s AND instance_id = %(instance)s AND epoch = %(epoch)s::bigint
),
-- The dispatch keys with a placement for which triggers wait, by a loose index scan.
placed AS (
    (SELECT placement, job_type FROM $triggers
      WHERE sched_name = %(sched)s AND trigger_state = 'WAITING' AND placement <> ''
      ORDER BY placement, job_type LIMIT 1)
    UNION ALL
    SELECT other.placement, other.job_type
      FROM placed p
     CROSS JOIN LATERAL (
        SELECT t.placement, t.job_type FROM $triggers t
         WHERE t.sched_name = %(sched)s AND t.trigger_state = 'WAITING' AND t.placement <> ''
           AND (t.placement, t.job_type) > (p.placement, p.job_type)
         ORDER BY t.placement, t.job_type LIMIT 1) AS other
)
SELECT node.at,
       -- triggers that users' transactions have stored, and that no step has reconciled yet
       (SELECT min(n.next_fire_time) FROM $triggers n WHERE n.sched_name = %(sched)s AND n.misfire_rule = 'NEW'),
       known.soonest, known.soonest_limited,
       EXISTS (SELECT FROM $job_details WHERE sched_name = %(sched)s AND rate_limit IS NOT NULL),
       ARRAY(SELECT job_type FROM placed), ARRAY(SELECT placement FROM placed),
       extract(epoch FROM clock_timestamp() - node.began)::float8
  FROM node
 CROSS JOIN LATERAL (
    SELECT min(first_of_key.next_fire_time) AS soonest,
           min(first_of_key.next_fire_time) FILTER (WHERE first_of_key.max_concurrent IS NOT NULL) AS soonest_limited
      FROM unnest(%(job_types)s::text[], %(placements)s::text[]) AS dispatch_key(job_type, placement)
     CROSS JOIN {_RULES}
     CROSS JOIN LATERAL (
        SELECT t.next_fire_time, t.max_concurrent
          FROM $triggers t
         WHERE t.sched_name = %(sched)s AND t.job_type = dispatch_key.job_type
           AND t.placement = dispatch_key.placement
           AND t.misfire_rule = rule.name AND t.trigger_state = 'WAITING'
           AND t.next_fire_time >= %(since)s::timestamptz
           AND {_is_in_time("node.at")}
         ORDER BY t.next_fire_time
         LIMIT 1
     ) AS first_of_key) AS known
"""

# Takes the lock of the acquire step if a trigger without a limit is due, and unless another transaction has the lock.
# A lock writes to the log of the server, so a node that would find nothing does not take it.
LOCK_IF_DUE = f"""
WITH {NODE.lstrip()}
SELECT 1
  FROM $locks
 WHERE sched_name = %(sched)s AND lock_name = 'TRIGGER_ACCESS'
   AND EXISTS (
    SELECT FROM node
     CROSS JOIN unnest(%(job_types)s::text[], %(placements)s::text[]) AS dispatch_key(job_type, placement)
     CROSS JOIN {_RULES}
     CROSS JOIN LATERAL (
        SELECT t.max_concurrent
          FROM $triggers t
         WHERE t.sched_name = %(sched)s AND t.job_type = dispatch_key.job_type
           AND t.placement = dispatch_key.placement
           AND t.misfire_rule = rule.name AND t.trigger_state = 'WAITING'
           AND t.next_fire_time <= node.at + %(look_ahead)s::interval
           AND t.next_fire_time >= %(since)s::timestamptz
           AND {_is_in_time("node.at")}
         ORDER BY t.next_fire_time
         LIMIT 1
     ) AS first_of_key
     WHERE first_of_key.max_concurrent IS NULL)
   FOR UPDATE SKIP LOCKED
"""
