"""The misfire rule of a trigger whose job was stored again."""

from __future__ import annotations

# The misfire rule of a trigger once its job is `j`.
RULE_OF_JOB = """
CASE WHEN t.misfire_rule IN ('SKIP', 'ONCE', 'NEW', 'HELD') THEN t.misfire_rule
     WHEN t.misfire_rule = 'IGNORE' AND t.rate_limit = j.rate_limit THEN 'IGNORE'
     WHEN j.rate_limit IS NOT NULL THEN 'RATE_LIMIT'
     WHEN t.misfire_rule NOT IN ('RATE_LIMIT', 'LATE') THEN t.misfire_rule
     WHEN t.misfire_instruction = 'ignore' OR t.catch_up_until IS NOT NULL THEN 'IGNORE'
     WHEN t.misfire_threshold IS NULL THEN 'SCHEDULER' ELSE 'OWN' END
"""
