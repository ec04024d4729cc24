"""The guards of joins and batches: what counts, once, and who waits for whom."""

from __future__ import annotations

from tests.sabotage.build import Edit, Sabotage

_SQL = "quartzpy.store.postgresql"
_SQL_FILES = "quartzpy/store/postgresql"
_JOINED = f"{_SQL_FILES}/steps/effects/joins.sql"
_JOINS = "tests/contract/test_joins.py"
_ROWS = "tests/postgresql/test_join_rows.py"

JOINS = (
    Sabotage(
        "a_join_fires_again",
        "an end that comes after a job was started starts it again",
        (Edit(_JOINED, "WHEN d.state = 'FIRED' AND d.former <> 'FIRED' THEN", "WHEN d.state = 'FIRED' THEN"),),
        (f"{_JOINS}::test_as_many_ends_as_are_needed_start_the_job_and_later_ones_nothing[postgresql-any-1]",),
    ),
    Sabotage(
        "a_retried_failure_is_an_end",
        "a failed attempt that is retried counts for a join",
        (
            Edit(
                _JOINED,
                "FROM ended f WHERE retry_at IS NULL) AS e",
                "FROM ended f) AS e",
            ),
        ),
        (f"{_JOINS}::test_a_retry_is_the_end_of_its_trigger_and_a_run_by_hand_is_none[postgresql]",),
    ),
    Sabotage(
        "a_run_by_hand_counts_for_a_batch",
        "an execution of a batch that is run again counts twice, so that the batch ends too early",
        (Edit("quartzpy.jobs.internal_entries", " if name != BATCH}", "}"),),
        (f"{_JOINS}::test_a_retry_is_the_end_of_its_trigger_and_a_run_by_hand_is_none[postgresql]",),
    ),
    Sabotage(
        "a_repetition_counts_for_its_own_instant",
        "a retry or a run by hand counts for the instant at which it ran",
        (Edit(_JOINED, "least(f.scheduled_time,\n", "greatest(f.scheduled_time,\n"),),
        (f"{_JOINS}::test_one_that_is_run_again_by_hand_counts_for_the_instant_of_the_original[postgresql]",),
    ),
    Sabotage(
        "a_failure_undoes_a_success",
        "an execution that counts is replaced by a later one of the same job that does not",
        (
            Edit(
                _JOINED,
                "OR NOT coalesce(jsonb_exists(j.after -> 'outcomes',\n",
                "OR coalesce(true OR jsonb_exists(j.after -> 'outcomes',\n",
            ),
        ),
        (f"{_JOINS}::test_an_execution_that_counts_is_not_undone_by_one_that_does_not[postgresql]",),
    ),
    Sabotage(
        "an_end_is_recorded_without_its_join",
        "an end is recorded although the row of the join is locked, and is never counted",
        (Edit(_JOINED, "FROM arrivals JOIN joins_held", "FROM (SELECT * FROM arrivals LIMIT 0) AS a JOIN joins_held"),),
        (f"{_ROWS}::test_an_end_waits_for_the_rows_of_its_join_and_no_other_completion_does[qrtz_job_details]",),
    ),
    Sabotage(
        "an_end_waits_for_a_locked_join",
        "the complete step waits under the lock for the row of a join that a user has locked",
        (Edit(_JOINED, "WHERE o.ctid = stored.row FOR UPDATE SKIP LOCKED", "WHERE o.ctid = stored.row FOR UPDATE"),),
        (f"{_ROWS}::test_an_end_waits_for_the_rows_of_its_join_and_no_other_completion_does[qrtz_joins]",),
    ),
    Sabotage(
        "joined_ends_are_plain",
        "the end of an execution that others wait for is recorded without the lock, and is not counted",
        (Edit(f"{_SQL}.steps.plain_completions", "        and not fired.joins\n", ""),),
        (f"{_JOINS}::test_a_job_runs_once_for_each_instant_when_all_have_ended[postgresql]",),
    ),
    Sabotage(
        "a_dead_node_ends_nothing",
        "an execution whose node died is never the end that a join waits for",
        (Edit(f"{_SQL}.steps.recover", "joining=fire_ids)", "joining=())"),),
        (f"{_JOINS}::test_an_execution_whose_node_died_is_an_end[postgresql]",),
    ),
    Sabotage(
        "a_job_is_stored_before_those_it_waits_for",
        "a job may wait for one that is not stored, for ever",
        (Edit(f"{_SQL}.storing", "                if name is not None:\n", "                if False:\n"),),
        (f"{_JOINS}::test_a_job_that_is_not_stored_cannot_be_waited_for[postgresql]",),
    ),
    Sabotage(
        "the_second_program_forgets_the_first",
        "of two programs that store jobs which wait for the same one, the second takes the first one's entry away",
        (Edit(f"{_SQL}.removing", "for text in (HOLD_UPSTREAMS, JOIN_JOBS)]", "for text in (JOIN_JOBS,)]"),),
        (f"{_ROWS}::test_of_two_programs_that_store_jobs_which_wait_for_the_same_neither_is_forgotten",),
    ),
)
