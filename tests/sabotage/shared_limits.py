"""The guards of limits that jobs share."""

from __future__ import annotations

from tests.sabotage.build import Edit, Sabotage

_STORE = "quartzpy.store.postgresql"
_SQL = "quartzpy/store/postgresql/steps/shared_limits.sql"
_TESTS = "tests/contract/test_shared_limits.py"

SHARED_LIMITS = (
    Sabotage(
        "slots_of_ended_executions_stay_in_use",
        "a slot of a shared limit is never free again",
        (
            Edit(
                _SQL,
                "EXISTS (SELECT FROM qrtz_fired_triggers f WHERE f.fire_id = u.fire_id OFFSET 0) AS is_there",
                "true AS is_there",
            ),
            Edit(_SQL, "AND uses.has_ended", "AND false"),
        ),
        (f"{_TESTS}::test_the_soonest_goes_first_and_then_the_one_of_higher_priority[postgresql]",),
    ),
    Sabotage(
        "fires_use_no_slot",
        "fires of jobs that share a limit are not counted",
        (Edit(_SQL, "r.fire_id > (SELECT", "r.fire_id < (SELECT"),),
        (f"{_TESTS}::test_jobs_that_share_a_limit_run_as_often_together_as_it_says[postgresql]",),
    ),
    Sabotage(
        "fires_that_are_handed_back_stay_charged",
        "a fire that its node hands back is charged to the rate of a shared limit once more",
        (Edit(_SQL, "- h.gap * h.fires + (:now - h.since)", ""),),
        (f"{_TESTS}::test_fires_that_are_handed_back_are_not_charged_to_the_rate_of_a_limit[postgresql]",),
    ),
    Sabotage(
        "fires_that_are_handed_back_leave_room_for_more",
        "a fire that its node hands back late lets others exceed the rate of a shared limit",
        (Edit(_SQL, " + (:now - h.since)", ""),),
        (f"{_TESTS}::test_what_fires_between_the_fire_and_its_return_does_not_exceed_the_rate[postgresql]",),
    ),
    Sabotage(
        "one_limit_of_several_suffices",
        "a job with several limits fires while one of them is used up",
        (
            Edit(_SQL, "bool_and((a.free ->> n.name)", "bool_or((a.free ->> n.name)"),
            Edit(_SQL, "min(o.free)", "max(o.free)"),
        ),
        (f"{_TESTS}::test_a_job_with_two_limits_gets_a_slot_of_both_or_of_none[postgresql]",),
    ),
    Sabotage(
        "nothing_is_kept_for_what_waits_for_two_limits",
        "a job with two limits starves while others take their slots in turn",
        (Edit(_SQL, "own.gets OR c.reserves", "own.gets"),),
        (f"{_TESTS}::test_what_waits_for_two_limits_is_not_overtaken_for_ever[postgresql]",),
    ),
    Sabotage(
        "slots_are_kept_for_what_no_node_runs",
        "slots of a limit stay unused for a trigger that no node runs",
        (
            Edit(
                _SQL,
                "-- include: runs_somewhere\n           ) AS c",
                "-- include: runs_somewhere\n OR true\n           ) AS c",
            ),
        ),
        (f"{_TESTS}::test_slots_are_not_kept_for_what_no_node_runs[postgresql]",),
    ),
    Sabotage(
        "what_a_limit_held_back_is_late",
        "a trigger misfires because a limit has held it back",
        (
            Edit(
                _SQL, "UPDATE qrtz_limits q SET full_until = :now", "UPDATE qrtz_limits q SET full_until = q.full_until"
            ),
        ),
        (f"{_TESTS}::test_what_waits_for_a_limit_does_not_misfire_and_what_no_node_took_does[postgresql]",),
    ),
    Sabotage(
        "a_new_limit_makes_late",
        "a trigger misfires because its limit was 0 until now",
        (Edit(_SQL, ", full_until = excluded.full_until", ""),),
        (f"{_TESTS}::test_a_limit_of_none_at_all_holds_everything_until_it_is_raised[postgresql]",),
    ),
    Sabotage(
        "ends_tell_nobody_that_a_slot_is_free",
        "what waits for a shared limit waits for the next poll after an end",
        (Edit(f"{_STORE}.steps.plain_completions", "fired.limits is None\n        and ", ""),),
        (f"{_TESTS}::test_jobs_that_share_a_limit_run_as_often_together_as_it_says[postgresql]",),
    ),
    Sabotage(
        "rates_that_jobs_share_are_not_charged",
        "a shared rate admits everything",
        (Edit(_SQL, "+ rate.gap * u.fires", ""),),
        (f"{_TESTS}::test_a_rate_holds_for_all_jobs_that_share_it[postgresql]",),
    ),
    Sabotage(
        "limits_that_are_not_stored_are_taken",
        "a job with a mistyped limit is stored, and never fires",
        (Edit(f"{_STORE}.steps.shared_limits", "if name in missing:", "if False:"),),
        (
            f"{_TESTS}::test_a_job_that_names_a_limit_that_is_not_stored_is_refused_with_words_that_show_one"
            "[postgresql]",
        ),
    ),
    Sabotage(
        "limits_are_removed_although_jobs_share_them",
        "jobs wait for ever for a limit that was removed",
        (
            Edit(_SQL, " AND NOT EXISTS (SELECT FROM sharing)", ""),
            Edit(
                f"{_STORE}.steps.shared_limits",
                "    if names:\n        raise refusals.limit_in_use",
                "    if False:\n        raise refusals.limit_in_use",
            ),
        ),
        (f"{_TESTS}::test_a_limit_that_jobs_share_cannot_be_removed[postgresql]",),
    ),
    Sabotage(
        "limited_triggers_wake_up_for_others",
        "nobody is announced behind a trigger that waits for a limit, for which no node wakes up",
        (Edit("quartzpy/store/postgresql/connection/listen.sql", "earlier.limits IS NULL", "true"),),
        ("tests/postgresql/test_news.py::test_a_trigger_that_waits_for_a_limit_wakes_nobody_for_others",),
    ),
)
