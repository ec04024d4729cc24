"""Numbers and names that stand in a `.sql` file and in Python are the same."""

from __future__ import annotations

import re

from quartzpy.keys import UNSCHEDULED_GROUPS
from quartzpy.store.sql.db.locks import LOCK, MISSING
from tools.sql_includes import files

GROUPS = re.compile(r"trigger_group\s+NOT IN \(([^)]*)\)")


def test_the_lock_fails_with_the_text_by_which_its_error_is_recognised() -> None:
    assert f"repeat('{MISSING}'" in LOCK


def test_the_groups_of_triggers_without_a_schedule_are_those_of_the_keys() -> None:
    named = {groups for file in files() for groups in GROUPS.findall(file.read_text(encoding="utf-8"))}
    assert named == {", ".join(f"'{group}'" for group in UNSCHEDULED_GROUPS)}
