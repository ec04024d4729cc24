"""The figures of the house: what counts as a line of code, and that every figure is found."""

from __future__ import annotations

from quartzpy.store.sql import migrations
from tests.database import Server
from tools.journeys import figures, lines_of_code, lines_of_sql, table

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
    with postgres_server.temporary("quartzpy_journeys") as dsn:
        migrations.upgrade(dsn)
        found = {figure.name: int(figure.value.replace(",", "")) for figure in figures(dsn)}
    assert all(value > 0 for value in found.values()), found
    assert found["files that a warm `schedule_job` crosses"] < found["modules"]


def test_the_table_is_markdown() -> None:
    assert table([]) == "| | |\n|---|---:|"
