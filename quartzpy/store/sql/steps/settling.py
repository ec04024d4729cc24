"""The state of a newly stored trigger, which depends on pauses, modes and running executions.

A user's transaction takes no lock, so its rows may be out of date when it commits: a pause or another definition of the
job may have been committed in the meantime. Therefore it stores its triggers with the misfire rule NEW (HELD if they
are paused afterwards), and no step takes triggers with that rule. The next `acquire` reconciles them under
TRIGGER_ACCESS: it checks the pauses and the job again, and sets their regular misfire rule.
"""

from __future__ import annotations

from quartzpy.store.sql.db.sql_files import SqlFile

_SQL = SqlFile("steps/settling.sql")
SETTLE_NEW = _SQL("settle_new")
IS_ORDINARY = _SQL("is_ordinary")
STILL_ORDINARY = _SQL("still_ordinary")

# The misfire rule of a trigger once its job is `j`.
RULE_OF_JOB = """
CASE WHEN t.misfire_rule IN ('SKIP', 'ONCE', 'NEW', 'HELD') THEN t.misfire_rule
     WHEN t.misfire_rule = 'IGNORE' AND t.rate_limit = j.rate_limit THEN 'IGNORE'
     WHEN j.rate_limit IS NOT NULL THEN 'RATE_LIMIT'
     WHEN t.misfire_rule NOT IN ('RATE_LIMIT', 'LATE') THEN t.misfire_rule
     WHEN t.misfire_instruction = 'ignore' OR t.catch_up_until IS NOT NULL THEN 'IGNORE'
     WHEN t.misfire_threshold IS NULL THEN 'SCHEDULER' ELSE 'OWN' END
"""
