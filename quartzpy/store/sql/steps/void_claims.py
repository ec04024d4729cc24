"""Claims that are void, because the trigger that was claimed has changed: the fragment that deletes them."""

from __future__ import annotations


def void_claims(of: str) -> str:
    """Return the SQL that deletes the claims with the fire ids of `of`, the name of a CTE.

    A claim whose row another transaction has locked stays. It no longer matches its trigger, so it never fires, and its
    node deletes it when it tries to fire it, or at the next comparison of what it holds.
    """
    return f"""
DELETE FROM $fired_triggers f
 USING {of}
 CROSS JOIN LATERAL (
    SELECT o.ctid AS row FROM $fired_triggers o
     WHERE o.fire_id = {of}.fire_id AND o.state = 'ACQUIRED'
       FOR UPDATE SKIP LOCKED) AS void
 WHERE f.ctid = void.row
"""
