"""The column `misfire_rule`: the rule by which a waiting trigger is found to be late, and its return to the usual one.

A trigger that was resumed with a `missed` policy waits under the rule SKIP or ONCE, even if it is only slightly late:
no step but the misfire step takes it. A trigger that catches up ignores misfires until it has passed the instant at
which its misfire was handled, so that a missed fire is not judged twice.
"""

from __future__ import annotations

# The regular rule of a trigger that was resumed with a `missed` policy, or is new. Outside of the acquire step, only a
# trigger that repeats a fire which was admitted and handed back has a rate limit and the rule IGNORE. It keeps it.
USUAL_RULE = """
CASE WHEN t.rate_limit IS NOT NULL AND t.misfire_rule <> 'IGNORE' THEN 'RATE_LIMIT'
     WHEN t.misfire_rule NOT IN ('SKIP', 'ONCE', 'NEW', 'HELD') THEN t.misfire_rule
     WHEN t.misfire_instruction = 'ignore' THEN 'IGNORE'
     WHEN t.misfire_threshold IS NULL THEN 'SCHEDULER' ELSE 'OWN' END
"""


_UNTIL_CAUGHT_UP = "CASE WHEN t.rate_limit IS NULL THEN t.misfire_rule ELSE 'RATE_LIMIT' END"


def caught_up(following: str, otherwise: str = _UNTIL_CAUGHT_UP) -> str:
    """Return the SQL, for SET, that ends a catch-up if `following`, the new next fire time, is after its end."""
    return f"""\
           misfire_rule = CASE WHEN t.catch_up_until < coalesce({following}, 'infinity')
                               THEN CASE WHEN t.rate_limit IS NOT NULL THEN 'RATE_LIMIT'
                                         WHEN t.misfire_threshold IS NULL THEN 'SCHEDULER' ELSE 'OWN' END
                               ELSE {otherwise} END,
           catch_up_until = CASE WHEN t.catch_up_until >= {following} THEN t.catch_up_until END"""
