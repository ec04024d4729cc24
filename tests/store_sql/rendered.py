"""The SQL of the steps as it is sent, apart from the values: `golden/*.sql`, one file a statement, to be reviewed.

`python -m tests.store_sql.rendered` renews the files.
"""

from __future__ import annotations

import re
from pathlib import Path
from string import Template

from quartzpy.store.sql.db import locks
from quartzpy.store.sql.db.session import names
from quartzpy.store.sql.steps import (
    acquire,
    complete,
    completion_effects,
    fire,
    holdings,
    misfire,
    orphans,
    plain_completions,
    recover,
)

COMMAND = "python -m tests.store_sql.rendered"
GOLDEN = Path(__file__).with_name("golden")
_PLAIN = {"asks": False, "stores": False, "retries": False, "counts": False, "continues": False, "captures": False}
STATEMENTS = {
    "lock": locks.LOCK,
    "acquire": acquire.ACQUIRE,
    "acquire_unlimited": acquire.ACQUIRE_UNLIMITED,
    "acquire_unlimited_of_one_pool": acquire.ACQUIRE_UNLIMITED_OF_ONE_POOL,
    "acquire_next_due": acquire.NEXT_DUE,
    "acquire_lock_if_due": acquire.LOCK_IF_DUE,
    "acquire_reconcile_new": acquire.RECONCILE_NEW,
    "fire": fire.FIRE,
    "fire_unlimited": fire.FIRE_UNLIMITED,
    "fire_still_claimed": holdings.STILL_CLAIMED,
    "release": holdings.RELEASE,
    "complete": complete.complete_statement(**_PLAIN),
    "complete_with_everything": complete.complete_statement(**dict.fromkeys(_PLAIN, True)),
    "complete_plain": plain_completions.plain_statement(has_details=False, ends_triggers=False),
    "complete_plain_with_everything": plain_completions.plain_statement(has_details=True, ends_triggers=True),
    "complete_refill": completion_effects.REFILL,
    "complete_set_states": completion_effects.SET_STATES,
    "complete_orphans": orphans.ORPHANED_JOBS,
    "misfire_late": misfire.LATE,
    "misfire_move": misfire.MOVE,
    "recover_free": recover.FREE,
    "recover_quarantine": recover.QUARANTINE,
    "recover_repair": recover.REPAIR,
}


def rendered(text: str) -> str:
    """Return a statement with the names of its tables, without empty lines."""
    sql = Template(text).substitute(names(None))
    return re.sub(r"\n[ ]*(?=\n)", "", sql).strip() + "\n"


def main() -> None:
    GOLDEN.mkdir(exist_ok=True)
    for old in GOLDEN.glob("*.sql"):
        old.unlink()
    for name, text in STATEMENTS.items():
        (GOLDEN / f"{name}.sql").write_text(rendered(text), encoding="utf-8")


if __name__ == "__main__":
    main()
