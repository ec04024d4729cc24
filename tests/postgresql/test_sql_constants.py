"""Constants that a `.sql` file repeats have the values that the code gives them."""

from __future__ import annotations

import re

import pytest

from quartzpy.keys import UNSCHEDULED_GROUPS
from quartzpy.store.postgresql.connection.locks import LOCK, MISSING
from quartzpy.store.postgresql.storing import LOCK_IF_NEW, SOME_STORED
from quartzpy.triggers.misfire import MAX_MISSED
from quartzpy.triggers.upcoming import REFILL_BELOW
from tools.sql import files, whole

CONSTANTS = {
    "MAX_MISSED": (r"missed::timestamptz\[\]\)\[:(\d+)\]", str(MAX_MISSED)),
    "REFILL_BELOW": (r"cardinality\(\w+\.upcoming\) < (\d+)", str(REFILL_BELOW)),
    "UNSCHEDULED_GROUPS": (r"trigger_group\s+NOT IN \(\s*('[^)]*')\)", ", ".join(map(repr, UNSCHEDULED_GROUPS))),
}


def in_statements(pattern: str) -> set[str]:
    return {text for file in files() for text in re.findall(pattern, whole(file))}


@pytest.mark.parametrize(("pattern", "value"), CONSTANTS.values(), ids=list(CONSTANTS))
def test_a_constant_of_a_statement_is_that_of_the_code(pattern: str, value: str) -> None:
    assert {re.sub(r"\s+", " ", text) for text in in_statements(pattern)} == {value}


def test_all_statements_hash_a_concurrency_key_from_the_same_length_on() -> None:
    assert len(in_statements(r"length\(k\.value\) <= (\d+)")) == 1


def test_the_locks_fail_with_the_texts_by_which_their_errors_are_recognised() -> None:
    assert f"repeat('{MISSING}'" in LOCK
    assert f"repeat('{MISSING}'" in LOCK_IF_NEW
    assert f"repeat('{SOME_STORED}'" in LOCK_IF_NEW
