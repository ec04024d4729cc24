"""The SQL of the steps is checked in as it is sent, so that a review sees what a change of a fragment does to it."""

from __future__ import annotations

import re

import pytest

from tests.store_sql.rendered import COMMAND, GOLDEN, STATEMENTS, rendered

FIRST_OF_A_STEP = ("acquire", "acquire_unlimited", "fire", "fire_unlimited")


@pytest.mark.parametrize("name", STATEMENTS)
def test_the_rendered_statement_is_the_one_that_is_checked_in(name: str) -> None:
    file = GOLDEN / f"{name}.sql"
    assert file.is_file(), f"run `{COMMAND}`"
    assert file.read_text(encoding="utf-8") == rendered(STATEMENTS[name]), f"if this is intended, run `{COMMAND}`"


def test_no_statement_is_left_that_is_no_longer_sent() -> None:
    assert {file.stem for file in GOLDEN.glob("*.sql")} == set(STATEMENTS), f"run `{COMMAND}`"


@pytest.mark.parametrize("name", FIRST_OF_A_STEP)
def test_every_common_table_expression_of_a_step_opens_with_its_reason(name: str) -> None:
    lines = rendered(STATEMENTS[name]).splitlines()
    bare = [
        line
        for before, line in zip(["", *lines], lines, strict=False)
        if re.match(r"\w+ AS (MATERIALIZED )?\(", line) and not before.startswith("--")
    ]
    assert not bare
