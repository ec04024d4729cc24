"""Numbers and names that stand in a `.sql` file and in Python are the same."""

from __future__ import annotations

import re

from quartzpy.keys import UNSCHEDULED_GROUPS
from quartzpy.store.sql.db.locks import LOCK, MISSING
from quartzpy.store.sql.steps.settling import MAX_KEY_LENGTH
from quartzpy.store.sql.storing import LOCK_IF_NEW, SOME_STORED
from tools.sql_includes import files

KEY_LENGTH = re.compile(r"length\(k\.value\) <= (\d+)")
GROUPS = re.compile(r"trigger_group\s+NOT IN \(([^)]*)\)")


def named(pattern: re.Pattern[str]) -> set[str]:
    """Return what this pattern finds in all files."""
    return {value for file in files() for value in pattern.findall(file.read_text(encoding="utf-8"))}


def test_the_locks_fail_with_the_texts_by_which_their_errors_are_recognised() -> None:
    assert f"repeat('{MISSING}'" in LOCK
    assert f"repeat('{MISSING}'" in LOCK_IF_NEW
    assert f"repeat('{SOME_STORED}'" in LOCK_IF_NEW


def test_a_concurrency_key_has_one_greatest_length() -> None:
    assert named(KEY_LENGTH) == {str(MAX_KEY_LENGTH)}


def test_the_groups_of_triggers_without_a_schedule_are_those_of_the_keys() -> None:
    assert named(GROUPS) == {", ".join(f"'{group}'" for group in UNSCHEDULED_GROUPS)}
