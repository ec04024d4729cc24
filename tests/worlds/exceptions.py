"""What a world cannot do: the tests that are left out there, each with its reason."""

from __future__ import annotations

from collections.abc import Mapping

_PLANS = "tests/postgresql/test_plans.py"
_PAGE_OF_13 = "the planner of PostgreSQL 13 sorts all rows for this page of the history or the console: slow, not wrong"
LEFT_OUT: Mapping[str, Mapping[str, str]] = {
    "pg13": {
        **{
            f"{_PLANS}::{test}": _PAGE_OF_13
            for test in (
                "test_executions_are_read_off_the_end_of_their_index[the latest-statistics: none]",
                "test_executions_are_read_off_the_end_of_their_index[to come-statistics: none]",
                "test_a_page_does_not_read_the_whole_history[scheduled long ago-",
                "test_a_page_does_not_read_the_whole_history[triggers by next fire time-statistics: none]",
                "test_a_page_is_read_from_its_cursor_on[the history-statistics: none]",
                "test_a_page_is_read_from_its_cursor_on[triggers with an unknown part in the name, by time-",
                "test_a_page_is_read_from_its_cursor_on[triggers of a job that has many, by time-statistics: none]",
            )
        },
        "tests/postgresql/test_broken_pipelines.py::test_a_session_that_was_ended_before_a_pipeline[idle_session_ti": (
            "PostgreSQL 13 has no idle_session_timeout"
        ),
        "tests/facade/test_using.py::test_the_connection_of_django_will_do": "Django refuses PostgreSQL 13",
    },
    "pgbouncer": {
        "tests/facade/test_lost_answers.py::test_each_instant_runs_once_though_the_answer_to_a_step_is_lost": (
            "the test's proxy knows a step by its prepared statement, and there are none behind a pooler"
        )
    },
}
"""By the world's name and the beginning of the test's id."""


def reason(world: str, nodeid: str) -> str | None:
    """Why a test is left out in a world; None if it is not."""
    for beginning, why in LEFT_OUT.get(world, {}).items():
        if nodeid.startswith(beginning):
            return why
    return None
