"""The guards of rates, and of limits that jobs share."""

from __future__ import annotations

from tests.sabotage.build import Edit, Sabotage

_STORE = "quartzpy.store.postgresql"
_ACQUIRE = "quartzpy/store/postgresql/steps/acquire.sql"
_SQL = "quartzpy/store/postgresql/steps/limits.sql"
_TESTS = "tests/contract/test_shared_limits.py"
_RATES = "tests/contract/test_rate_limits.py"

SHARED_LIMITS = (
    Sabotage(
        "fires_use_no_slot",
        "fires of jobs that share a limit are not counted",
        (Edit(_ACQUIRE, "t.coalesced, t.limits\n", "t.coalesced, NULL\n"),),
        (f"{_TESTS}::test_jobs_that_share_a_limit_run_as_often_together_as_it_says[postgresql]",),
    ),
    Sabotage(
        "one_limit_of_several_suffices",
        "a job with several limits fires while one of them is used up",
        (
            Edit(_ACQUIRE, "bool_and(place <= free)", "bool_or(place <= free)"),
            Edit(_ACQUIRE, "min(coalesce(l.free, 0))", "max(coalesce(l.free, 0))"),
        ),
        (f"{_TESTS}::test_a_job_with_two_limits_gets_a_slot_of_both_or_of_none[postgresql]",),
    ),
    Sabotage(
        "nothing_is_kept_for_what_waits_for_two_limits",
        "a job with two limits starves while others take their slots in turn",
        (Edit(_ACQUIRE, "WHERE free_of_set > 0 OR reserves", "WHERE free_of_set > 0"),),
        (f"{_TESTS}::test_what_waits_for_two_limits_is_not_overtaken_for_ever[postgresql]",),
    ),
    Sabotage(
        "slots_are_kept_for_what_no_node_runs",
        "a job with two limits that no live node runs keeps others from the free one",
        (Edit(_ACQUIRE, "n.runs[width_bucket(a.key_hash, n.runs)] = a.key_hash OFFSET 0", "true OFFSET 0"),),
        (f"{_TESTS}::test_slots_are_not_kept_for_what_no_node_runs[postgresql]",),
    ),
    Sabotage(
        "what_a_limit_held_back_is_late",
        "a trigger misfires because a limit has held it back",
        (Edit(_ACQUIRE, "THEN at END AS held_until", "THEN NULL::timestamptz END AS held_until"),),
        (f"{_TESTS}::test_what_was_held_back_and_waits_for_another_node_is_not_late[postgresql]",),
    ),
    Sabotage(
        "a_new_limit_opens_nothing",
        "what was parked for a limit waits for the next check-in after it was raised",
        (Edit(_SQL, ", opens_at = excluded.opens_at", ""),),
        (f"{_TESTS}::test_a_limit_of_none_at_all_holds_everything_until_it_is_raised[postgresql]",),
    ),
    Sabotage(
        "sets_beside_a_full_job_are_passed_over",
        "what is parked behind triggers of a full job waits although its limit has places",
        (Edit(_ACQUIRE, "coalesce(u.moves, false)", "false"),),
        (f"{_TESTS}::test_what_waits_at_a_limit_beside_others_of_a_full_job_is_not_passed_over[postgresql]",),
    ),
    Sabotage(
        "rates_that_jobs_share_are_not_charged",
        "a shared rate admits everything",
        (Edit(_ACQUIRE, "r.ahead + r.gap * r.fires, 1e16", "r.ahead, 1e16"),),
        (f"{_TESTS}::test_a_rate_holds_for_all_jobs_that_share_it[postgresql]",),
    ),
    Sabotage(
        "a_rate_that_was_raised_opens_never",
        "a bucket that was charged by a slow rate stays closed after the rate was raised",
        (Edit(_ACQUIRE, "(r.fires = 0 AND r.ahead < r.gap + r.tolerance)", "r.fires = 0"),),
        (f"{_RATES}::test_a_limit_that_is_raised_or_removed_takes_effect_at_once[postgresql-60 per minute]",),
    ),
    Sabotage(
        "nobody_looks_when_a_rate_opens",
        "what waits for a rate waits for the next trigger that is due",
        (Edit(_ACQUIRE, "(SELECT min(l.opens_at) + :'look_ahead'::interval FROM", "(SELECT NULL::timestamptz FROM"),),
        (f"{_RATES}::test_a_rate_and_a_number_of_executions_hold_together[postgresql]",),
    ),
    Sabotage(
        "limits_that_are_not_stored_are_taken",
        "a job with a mistyped limit is stored, and never fires",
        (Edit(f"{_STORE}.steps.limits", "if name in missing:", "if False:"),),
        (
            f"{_TESTS}::test_a_job_that_names_a_limit_that_is_not_stored_is_refused_with_words_that_show_one"
            "[postgresql]",
        ),
    ),
    Sabotage(
        "limits_are_removed_although_jobs_share_them",
        "jobs wait for ever for a limit that was removed",
        (
            Edit(_SQL, "AND NOT EXISTS (SELECT FROM sharing)", ""),
            Edit(
                f"{_STORE}.steps.limits",
                "    if names:\n        raise refusals.limit_in_use",
                "    if False:\n        raise refusals.limit_in_use",
            ),
        ),
        (f"{_TESTS}::test_a_limit_that_jobs_share_cannot_be_removed[postgresql]",),
    ),
)
