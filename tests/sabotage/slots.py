"""The guards of jobs at their limits: who waits for a slot, and who gets it."""

from __future__ import annotations

from tests.sabotage.build import Edit, Sabotage

_STORE = "quartzpy.store.postgresql"
_STEPS = "quartzpy/store/postgresql/steps"
_TESTS = "tests/postgresql/test_blocking.py"
_LATER = f"{_TESTS}::test_a_slot_is_passed_on_by_the_next_check_in"
_IN_TIME = f"{_TESTS}::test_one_that_is_in_time_does_not_wait_for_the_misfire_step_behind_late_ones"
_RELEASE = f"{_STEPS}/effects/release.sql"

SLOTS = (
    Sabotage(
        "ends_release_nothing",
        "the end of an execution leaves those that wait for its slot to the next check-in",
        (Edit(_RELEASE, "(SELECT row FROM in_time\n", "(SELECT row FROM in_time WHERE false\n"),),
        (f"{_TESTS}::test_those_that_wait_follow_by_fire_time_and_priority",),
    ),
    Sabotage(
        "slots_are_not_passed_on_at_check_ins",
        "a slot that the released trigger does not take is lost",
        (Edit(f"{_STORE}.steps.recover", "if has_open_slots:", "if False:"),),
        (f"{_LATER}[set_aside]", f"{_LATER}[delete_in_a_users_transaction]"),
    ),
    Sabotage(
        "pauses_keep_slots",
        "the slot of a trigger that is paused stays free until the next check-in",
        (Edit(f"{_STORE}.pausing", "pass_on_of(session, first) if is_named else []", "[]"),),
        (f"{_TESTS}::test_a_slot_is_passed_on_at_once[pause]",),
    ),
    Sabotage(
        "ends_give_slots_to_what_they_end",
        "the slot of a trigger that an end moves or ends stays free until the next check-in",
        (Edit(f"{_STORE}.steps.complete", "**release.release_anew(ends),", ""),),
        (f"{_TESTS}::test_an_end_that_moves_or_ends_its_own_trigger_leaves_its_slot_to_the_next[None]",),
    ),
    Sabotage(
        "users_transactions_hold_siblings",
        "a user's transaction holds triggers that it is not about",
        (Edit(f"{_STORE}.steps.slots", " or not session.decides_at_once", ""),),
        (f"{_TESTS}::test_a_users_transaction_holds_no_trigger_that_it_is_not_about",),
    ),
    Sabotage(
        "full_jobs_misfire",
        "a trigger that waits for a slot of its job misfires meanwhile",
        (Edit(f"{_STEPS}/misfire.sql", "u.max_concurrent <= executions.running", "false"),),
        (f"{_TESTS}::test_a_late_trigger_of_a_full_job_that_no_step_has_met_is_blocked_and_does_not_misfire",),
    ),
    Sabotage(
        "late_ones_are_handled_one_by_one",
        "of the late triggers of a job that wait, each pass of the misfire step handles one",
        (
            Edit(
                f"{_STEPS}/misfire.sql",
                "(SELECT * FROM waiting UNION ALL SELECT * FROM blocked) AS t",
                "(SELECT * FROM waiting) AS t",
            ),
        ),
        (f"{_TESTS}::test_late_ones_are_handled_together_once_there_is_a_slot",),
    ),
    Sabotage(
        "misfires_keep_slots",
        "the slot of a late trigger that has moved on stays free until the next check-in",
        (Edit(f"{_STORE}.steps.misfire", ", *pass_on_of(session, jobs))", ")"),),
        (f"{_TESTS}::test_a_misfire_that_moves_the_released_one_away_leaves_its_slot_to_the_next",),
    ),
    Sabotage(
        "late_ones_hold_up_those_in_time",
        "a trigger that is in time waits for the misfire step, behind the late ones of its job",
        (
            Edit(
                _RELEASE,
                "WHEN 'NODE' THEN open.at - :'misfire_threshold'::interval ELSE '-infinity' END",
                "WHEN 'NODE' THEN '-infinity'::timestamptz ELSE '-infinity' END",
            ),
        ),
        (f"{_IN_TIME}[the scheduler's threshold]",),
    ),
    Sabotage(
        "full_jobs_crowd_a_node",
        "triggers of full jobs are all that a node with few workers sees, step after step",
        (Edit(f"{_STEPS}/acquire.sql", "         LIMIT 200) AS soonest", "         LIMIT 0) AS soonest"),),
        (f"{_TESTS}::test_a_node_with_few_workers_sees_past_the_triggers_of_full_jobs",),
    ),
)
