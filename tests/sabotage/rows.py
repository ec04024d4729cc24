"""The guards against values that a server cannot compute with, and against threads that only seem to work."""

from __future__ import annotations

from tests.sabotage.build import Edit, Sabotage

_SQL = "quartzpy.store.postgresql"
_SQL_FILES = "quartzpy/store/postgresql"
_LIMITS = "tests/postgresql/test_rate_limit_instants.py"
_BAD_ROWS = "tests/postgresql/test_bad_rows.py"
_PARKED = "test_a_bad_rate_of_what_is_parked_stops_neither_acquire_nor_the_check_in"
_PASSES = "tests/node/test_failing_passes.py"

ROWS = (
    Sabotage(
        "rates_lead_to_any_instant",
        "a rate whose burst lasts longer than there are instants stops the step",
        (
            Edit(
                f"{_SQL_FILES}/steps/acquire.sql",
                "least(r.ahead + r.gap * r.fires, 1e16)",
                "(r.ahead + r.gap * r.fires)",
            ),
        ),
        (f"{_LIMITS}::test_a_rate_whose_burst_lasts_longer_than_there_are_instants_stops_nothing",),
    ),
    Sabotage(
        "one_bad_row_stops_the_acquire_step",
        "a trigger whose row the server cannot process stops all others",
        (
            Edit(
                f"{_SQL}.steps.acquire",
                "if not step.set_bad_rows_aside():",
                "if True:",
            ),
        ),
        (f"{_BAD_ROWS}::test_acquire_sets_every_bad_row_aside_and_says_why[the counter is at its end]",),
    ),
    Sabotage(
        "one_bad_rate_of_what_is_parked_stops_the_acquire_step",
        "a parked trigger whose rate the server cannot process stops all others",
        (Edit(f"{_SQL}.steps.acquire", "set_aside_parked(self._session, at_node) or ", ""),),
        (f"{_BAD_ROWS}::{_PARKED}[fires per no time-False]",),
    ),
    Sabotage(
        "one_bad_row_stops_the_misfire_step",
        "a late trigger whose row the server cannot process stops all others",
        (Edit(f"{_SQL}.steps.misfire", "if not blamed:", "if True:"),),
        (f"{_BAD_ROWS}::test_misfires_are_handled_beside_a_row_that_was_edited",),
    ),
    Sabotage(
        "all_rows_are_blamed",
        "an error that every row meets, as of a wrong table, puts every trigger into ERROR",
        (Edit(f"{_SQL}.steps.bad_rows", "return blamed if succeeded else {}", "return blamed"),),
        (f"{_BAD_ROWS}::test_a_step_that_fails_for_all_rows_puts_none_of_them_into_error",),
    ),
    Sabotage(
        "failing_passes_are_healthy",
        "a node on which every pass of a thread fails is healthy",
        (Edit("quartzpy.node.health", "if thread.alive and thread.is_failing\n", "if False\n"),),
        (f"{_PASSES}::test_passes_that_fail_again_and_again_are_a_problem_until_one_succeeds",),
    ),
    Sabotage(
        "failures_are_never_forgotten",
        "a node stays unhealthy for ever after passes that failed",
        (Edit("quartzpy.node.service", "        self.failed_passes, self.failing_since = 0, None\n", ""),),
        (f"{_PASSES}::test_passes_that_fail_again_and_again_are_a_problem_until_one_succeeds",),
    ),
)
