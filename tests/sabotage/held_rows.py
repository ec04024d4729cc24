"""What keeps an open transaction of a user from delaying more than its own triggers, and a job its successors."""

from __future__ import annotations

from tests.sabotage.build import Edit, Sabotage

_SQL = "quartzpy.store.postgresql"
_SQL_FILES = "quartzpy/store/postgresql"
_TESTS = "tests/postgresql/test_held_rows.py"
_WAITS = f"{_TESTS}::test_no_step_waits_for_a_held_row"
_LEFT = "tests/postgresql/test_left_by_jobs.py"

HELD_ROWS = (
    Sabotage(
        "an_end_does_not_wait_for_the_trigger_it_moves",
        "the end of an execution is recorded although the row of the trigger whose delay it begins is locked",
        (Edit(f"{_SQL}.steps.effects.instructions", " or c.moves_its_trigger())", ")"),),
        (f"{_TESTS}::test_a_fixed_delay_begins_once_the_row_of_its_trigger_is_free",),
    ),
    Sabotage(
        "the_end_of_an_execution_waits_for_its_row",
        "a completion under the lock waits for a row that a transaction of a user has locked",
        (Edit(f"{_SQL_FILES}/steps/complete.sql", "\n           FOR UPDATE SKIP LOCKED) AS f", ") AS f"),),
        (f"{_WAITS}[complete a serial job]",),
    ),
    Sabotage(
        "a_plain_end_waits_for_its_row",
        "all completions of a node wait for one whose row is locked",
        (Edit(f"{_SQL_FILES}/steps/plain_completions.sql", "own.row FOR UPDATE SKIP LOCKED", "own.row"),),
        (f"{_WAITS}[complete]",),
    ),
    Sabotage(
        "a_second_update_waits_for_the_job",
        "a trigger is updated twice in a completion, and the check of its foreign key waits for its job",
        (
            Edit(
                f"{_SQL_FILES}/steps/effects/instructions.sql",
                "t.is_free IS NULL OR j.is_free IS NULL",
                "t.is_free IS NULL",
            ),
        ),
        (f"{_WAITS}[complete in error with a fixed delay]",),
    ),
    Sabotage(
        "a_refill_waits_for_its_trigger",
        "a node waits for the row of a trigger that it refills or rejects, and fires nothing meanwhile",
        (Edit(f"{_SQL_FILES}/steps/holdings.sql", "   OFFSET 0))\n   FOR NO KEY UPDATE SKIP LOCKED", "   OFFSET 0))"),),
        (f"{_WAITS}[reject]",),
    ),
    Sabotage(
        "an_execution_to_replace_is_waited_for",
        "the acquire step waits for an execution that it asks to stop",
        (
            Edit(
                f"{_SQL_FILES}/steps/acquire.sql",
                "FOR NO KEY UPDATE SKIP LOCKED) AS f ON true",
                "LIMIT 1) AS f ON true",
            ),
        ),
        (f"{_WAITS}[acquire and cancel others]",),
    ),
    Sabotage(
        "a_rate_is_waited_for",
        "the acquire step waits for the row of a limit that somebody else holds",
        (
            Edit(
                f"{_SQL_FILES}/steps/acquire.sql",
                "WHERE f.ctid = o.ctid FOR NO KEY UPDATE SKIP LOCKED)",
                "WHERE f.ctid = o.ctid)",
            ),
        ),
        (f"{_WAITS}[acquire with rate limits]",),
    ),
    Sabotage(
        "settling_waits_for_the_job",
        "a trigger of a user's transaction is reconciled and fired by one transaction, which waits for its job",
        (
            Edit(
                f"{_SQL_FILES}/steps/acquire.sql",
                "             LIMIT 1\n               FOR NO KEY UPDATE SKIP LOCKED) AS j\n",
                "             LIMIT 1) AS j\n",
            ),
        ),
        (f"{_WAITS}[acquire what users stored]",),
    ),
    Sabotage(
        "a_resumption_waits_under_the_lock",
        "a resumption updates triggers again under the lock, and waits there for a job",
        (Edit(f"{_SQL_FILES}/pausing.sql", "       AND t.xmin <> pg_current_xact_id()::xid\n", ""),),
        (f"{_TESTS}::test_a_bulk_call_waits_for_a_held_row_without_the_lock[resume by name]",),
    ),
    Sabotage(
        "calls_use_up_the_pool",
        "threads of the application that wait for a row leave no connection for the steps of the node",
        (Edit(f"{_SQL}.connection.connections", "with share.place(), self.checked_out()", "with self.checked_out()"),),
        (f"{_TESTS}::test_a_call_that_gets_no_connection_names_the_setting",),
    ),
    Sabotage(
        "steps_share_the_places_of_calls",
        "the steps of a node wait for a place among the calls of the application",
        (Edit(f"{_SQL}.connection.session", "        session.share = self.connections.steps\n", ""),),
        (f"{_TESTS}::test_a_call_that_gets_no_connection_names_the_setting",),
    ),
    Sabotage(
        "the_end_looks_where_the_job_looked",
        "the completion in a job's transaction finds its tables by the search_path that the job has set",
        (Edit(f"{_SQL}.connection.connections", '("role", "search_path")', '("role",)'),),
        (f"{_LEFT}::test_the_end_of_a_job_is_recorded_whatever_it_has_set[url-search_path]",),
    ),
    Sabotage(
        "the_end_has_the_rights_of_the_jobs_role",
        "the completion in a job's transaction runs as the role that the job has set",
        (Edit(f"{_SQL}.connection.connections", '("role", "search_path")', '("search_path",)'),),
        (f"{_LEFT}::test_the_end_of_a_job_is_recorded_whatever_it_has_set[url-role]",),
    ),
    Sabotage(
        "the_next_job_finds_what_was_left",
        "settings, locks and temporary tables of a job stay in the session of the next one",
        (
            Edit(
                f"{_SQL}.connection.engines",
                "        connection.execute((_TIDY + again).encode(), prepare=False)\n",
                "",
            ),
        ),
        (f"{_LEFT}::test_what_a_job_leaves_behind_is_not_found_by_the_next[commit-url]",),
    ),
)
