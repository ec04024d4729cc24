"""The figures of the house: what counts as a line of code, and that every figure is found."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.database import Server
from tests.docs.generate import DOCS
from tools.journeys import Journey, figures, fire, lines_of_code, lines_of_sql, schedule, table

SOURCE = '''"""A docstring
of two lines."""

# A comment.
VALUE = (
    1,  # a line of code with a comment

    2,
)
"""A docstring of VALUE counts as one, because it documents."""


def function() -> str:
    """Documented."""
    return """text
of two lines"""
'''


def test_blank_lines_comments_and_docstrings_are_no_lines_of_code() -> None:
    # VALUE takes four lines of code; the function three.
    assert lines_of_code(SOURCE) == 7


def test_blank_lines_and_comments_are_no_lines_of_sql() -> None:
    assert lines_of_sql("-- name: s\nSELECT 1,  -- one\n\n   \n\\if :two\n       2\n\\endif\n  -- and more\n;\n") == 5


def test_the_journeys_are_traced_on_a_real_database(postgres_server: Server) -> None:
    with postgres_server.temporary("quartzpy_journeys", postgres_server.tables) as dsn:
        found = {figure.name: int(figure.value.replace(",", "")) for figure in figures(dsn)}
    assert all(value > 0 for value in found.values()), found
    assert found["files that a warm `schedule_job` crosses"] < found["modules"]


def fired(url: str) -> Journey:
    return fire(url)[0]


@pytest.mark.parametrize(
    ("page", "heading", "journey"),
    [("a-fire.md", "A fire", fired), ("house.md", "A job's way in", schedule)],
)
def test_the_files_that_a_page_names_are_on_the_way(
    postgres_server: Server, page: str, heading: str, journey: Callable[[str], Journey]
) -> None:
    text = (DOCS / "explanation" / page).read_text(encoding="utf-8")
    rows = text.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    named = set(re.findall(r"`([a-z_/]+\.py)`", rows))
    with postgres_server.temporary("quartzpy_journeys", postgres_server.tables) as dsn:
        assert named - journey(dsn).files == set()


def test_the_table_is_markdown() -> None:
    assert table([]) == "| | |\n|---|---:|"
