"""What makes a change of very many triggers harmless for the others, and complete."""

from __future__ import annotations

from tests.sabotage.build import Edit, Sabotage

_STORE = "quartzpy.store.postgresql"
_SQL_FILES = "quartzpy/store/postgresql"
_TESTS = "tests/postgresql/test_slices.py"

_HALTS = "tests/postgresql/test_halts.py"

BULK = (
    Sabotage(
        "ends_change_all_under_the_lock",
        "the end of an execution that pauses or ends very many triggers of its job holds the cluster up",
        (Edit(f"{_SQL_FILES}/steps/halts.sql", "AS first_of_job) > :'most'::int", "AS first_of_job) < 0"),),
        (
            f"{_HALTS}::test_under_the_lock_no_statement_is_about_all_triggers[instruction]",
            f"{_HALTS}::test_under_the_lock_no_statement_is_about_all_triggers[failures]",
        ),
    ),
    Sabotage(
        "ends_commit_though_not_recorded",
        "the triggers of a job are changed by an execution that another transaction keeps from ending",
        (Edit(f"{_STORE}.steps.complete", "session.bind(halts.ALL_ENDED, **ended),", ""),),
        (f"{_HALTS}::test_if_the_end_cannot_be_recorded_nothing_changes",),
    ),
    Sabotage(
        "ends_pass_over_held_triggers",
        "a job pauses or ends all its triggers but one that a user's transaction holds",
        (Edit(f"{_STORE}.steps.halts", "    else:\n        raise HeldError\n", ""),),
        (
            f"{_HALTS}::test_it_is_tried_again_where_a_user_holds_a_row[trigger-instruction]",
            f"{_HALTS}::test_it_is_tried_again_where_a_user_holds_a_row[trigger-failures]",
        ),
    ),
    Sabotage(
        "clear_at_once",
        "the removal of everything holds the rows of very many due triggers, over which all passes walk",
        (Edit(f"{_STORE}.removing", "    _delete_ahead(session, slices.Affected((), {}))\n", ""),),
        (f"{_TESTS}::test_everything_is_removed_in_slices_of_the_soonest",),
    ),
    Sabotage(
        "calendars_are_replaced_at_once",
        "another calendar holds the rows of very many due triggers, over which all passes walk",
        (Edit(f"{_STORE}.calendars", "    if replace:\n        _clear_ahead(session, name)\n", ""),),
        (f"{_TESTS}::test_what_an_old_calendar_has_computed_is_voided_in_slices",),
    ),
    Sabotage(
        "marks_without_the_lock",
        "a trigger that is being stored while its group is paused may stay as it is",
        (Edit(f"{_STORE}.slices", "if is_marked else ()), *after", "if False else ()), *after"),),
        (f"{_TESTS}::test_a_trigger_whose_storing_has_read_that_nothing_is_paused_is_paused_in_the_end",),
    ),
    Sabotage(
        "slices_wait_for_held_rows",
        "one row that a user's transaction holds keeps all that follow from being paused",
        (Edit(f"{_STORE}.slices", "if waits_now or (waits and is_whole) else []", "if True else []"),),
        (f"{_TESTS}::test_a_held_row_is_passed_over_first_and_waited_for_at_the_end[pause]",),
    ),
    Sabotage(
        "one_pass_of_slices",
        "what is stored during a change of many triggers, and what was held, is forgotten",
        (Edit(f"{_STORE}.slices", "(False, True) if waits else (False,)", "(False,)"),),
        (
            f"{_TESTS}::test_a_pause_of_a_job_includes_what_is_stored_before_its_end",
            f"{_TESTS}::test_a_trigger_whose_storing_has_read_that_nothing_is_paused_is_paused_in_the_end",
        ),
    ),
    Sabotage(
        "slices_miss_what_is_written_meanwhile",
        "a trigger that fires while a pause of very many waits for it is not paused",
        (
            Edit(
                f"{_STORE}.slices",
                "*([session.bind(HOLD, **columns)] if waits_now or (waits and is_whole) else [])",
                "",
            ),
        ),
        (f"{_TESTS}::test_a_row_that_its_holder_writes_is_changed_when_it_is_free[pause]",),
    ),
    Sabotage(
        "opposite_calls_chase_each_other",
        "a pause pauses again what another call has resumed in the meantime",
        (Edit(f"{_STORE}.slices", "if row.generation not in changed]", "]"),),
        (f"{_TESTS}::test_opposite_calls_change_each_trigger_at_most_once",),
    ),
    Sabotage(
        "slices_take_any_generation",
        "a trigger is paused that has replaced one of those that were to be",
        (Edit(f"{_SQL_FILES}/pausing.sql", "\n           AND t.generation = k.generation", ""),),
        (f"{_TESTS}::test_a_trigger_that_another_one_replaces_meanwhile_is_left_alone",),
    ),
    Sabotage(
        "jobs_that_kill_nodes_are_stopped_at_once",
        "however many triggers a job has, they go to ERROR in one statement under the lock",
        (Edit(f"{_STORE}.steps.recover", "most=slices.AT_FIRST", "most=1_000_000"),),
        (f"{_TESTS}::test_the_triggers_of_a_job_that_nodes_die_of_are_not_read_under_the_lock[80]",),
    ),
    Sabotage(
        "the_mark_of_a_job_that_kills_nodes_goes_first",
        "after a crash between two slices, the rest of the triggers of a job that kills nodes go on firing",
        (Edit(f"{_SQL_FILES}/steps/recover.sql", "is_stopping = NOT result.is_whole", "is_stopping = false"),),
        (f"{_TESTS}::test_another_node_goes_on_with_a_job_that_nodes_die_of",),
    ),
    Sabotage(
        "deletions_take_any_generation",
        "a trigger is deleted that has replaced one of those that were to be",
        (Edit(f"{_SQL_FILES}/removing.sql", "\n       AND o.generation = k.generation", ""),),
        (f"{_TESTS}::test_a_trigger_that_another_one_replaces_meanwhile_is_left_alone",),
    ),
    Sabotage(
        "all_triggers_of_a_job_are_read_under_the_lock",
        "a change of a job with very many triggers holds the cluster up",
        (Edit(f"{_STORE}.storing", "self._corrected > batches.CHUNK", "False"),),
        (f"{_TESTS}::test_a_job_with_many_triggers_is_not_read_under_the_lock_when_it_changes[45]",),
    ),
    Sabotage(
        "many_jobs_are_announced_one_by_one",
        "the announcement of many triggers costs the square of their number, under the lock",
        (Edit(f"{_STORE}.connection.listen", " or len(soonest) > MAX_COMPARED", ""),),
        (f"{_TESTS}::test_triggers_of_many_jobs_are_announced_without_a_look",),
    ),
    Sabotage(
        "batches_of_misfires_keep_their_size",
        "the writes of a backlog of misfires hold the lock for long on a slow server",
        (Edit(f"{_STORE}.steps.misfire", "session.misfire_batch.adapt(time.monotonic() - began)", "began"),),
        (f"{_TESTS}::test_a_batch_of_misfires_is_smaller_after_a_write_that_held_the_lock_for_long",),
    ),
)
