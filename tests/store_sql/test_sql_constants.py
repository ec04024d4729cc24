"""The statements hold constants of the Python code as plain numbers and texts: both are the same."""

from __future__ import annotations

import re

import pytest

from quartzpy.keys import UNSCHEDULED_GROUPS
from quartzpy.store.ram.rate_limits import LOOKED_AT
from quartzpy.store.sql.db.locks import LOCK, MISSING
from quartzpy.triggers.misfire import MOST_MISSED
from quartzpy.triggers.upcoming import REFILL_BELOW
from tools.sql_includes import files

CONSTANTS = {
    "LOOKED_AT": (r"LIMIT (\d+)\n *FOR NO KEY UPDATE OF t SKIP LOCKED\) AS front", str(LOOKED_AT)),
    "MOST_MISSED": (r"missed::timestamptz\[\]\)\[:(\d+)\]", str(MOST_MISSED)),
    "REFILL_BELOW": (r"cardinality\(\w+\.upcoming\) < (\d+)", str(REFILL_BELOW)),
    "UNSCHEDULED_GROUPS": (r"trigger_group\s+NOT IN \(\s*('[^)]*')\)", ", ".join(map(repr, UNSCHEDULED_GROUPS))),
}


@pytest.mark.parametrize(("pattern", "value"), CONSTANTS.values(), ids=list(CONSTANTS))
def test_a_constant_of_a_statement_is_that_of_the_code(pattern: str, value: str) -> None:
    texts = [text for file in files() for text in re.findall(pattern, file.read_text(encoding="utf-8"))]
    assert {re.sub(r"\s+", " ", text) for text in texts} == {value}


def test_the_lock_fails_with_the_text_by_which_its_error_is_recognised() -> None:
    assert f"repeat('{MISSING}'" in LOCK
