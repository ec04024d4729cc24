"""The guards of steps that look at a part of what is due: of a backlog of skipped fires, and of many slot pools."""

from __future__ import annotations

from tests.sabotage.build import Edit, Sabotage

_TURNS = "quartzpy.store.skip_backlog"
_STORE = "quartzpy.store.postgresql"
_STEPS = "quartzpy/store/postgresql/steps"
_SKIPS = "tests/contract/test_skip_backlogs.py"
_POOLS = "tests/contract/test_many_slot_pools.py"
_OWN_ENDS = "tests/alone/test_own_ends.py"

BACKLOGS = (
    Sabotage(
        "skips_hold_up_what_can_fire",
        "a backlog of fires to skip is decided before anything behind it fires",
        (Edit(_TURNS, "self._steps < STEPS_FOR_OTHERS", "self._steps < 0"),),
        (f"{_SKIPS}::test_others_fire_while_most_of_a_backlog_waits_to_be_skipped[postgresql]",),
    ),
    Sabotage(
        "skips_are_left_behind",
        "no step returns to the front while others are due",
        (Edit(_TURNS, "self._steps < STEPS_FOR_OTHERS", "True"),),
        (f"{_SKIPS}::test_a_backlog_of_others_does_not_keep_fires_from_being_skipped[postgresql]",),
    ),
    Sabotage(
        "nodes_rest_behind_a_part",
        "a node rests although a step has looked at a part of what is due only",
        (Edit(_TURNS, "is_partial=True", "is_partial=False"),),
        (f"{_SKIPS}::test_a_trigger_of_the_job_fires_once_there_is_a_slot[postgresql]",),
    ),
    Sabotage(
        "keys_behind_a_backlog_stay_undecided",
        "a node is not told of a new job type behind a backlog of fires to skip",
        (Edit(_TURNS, "if taken or others.undecided:", "if taken:"),),
        (f"{_SKIPS}::test_keys_are_told_that_a_node_has_yet_to_decide_about_behind_a_backlog[postgresql]",),
    ),
    Sabotage(
        "backlogs_of_skips_are_walked_over_under_the_lock",
        "a step walks over all fires to skip while it has the lock",
        (Edit(f"{_STORE}.steps.acquire", "reads_first=reads_first or spares_skips)", "reads_first=reads_first)"),),
        ("tests/postgresql/test_floors.py::test_no_step_walks_over_a_backlog_of_skipped_fires_under_the_lock",),
    ),
    Sabotage(
        "turns_at_the_front_are_followed_by_a_read",
        "each step after a turn at the front walks over all fires to skip",
        (
            Edit(
                f"{_STORE}.steps.acquire",
                "goes_on = spares_skips and session.next_due.backlog(step.slots) is not None",
                "goes_on = False",
            ),
        ),
        ("tests/postgresql/test_floors.py::test_after_a_turn_at_the_front_the_others_go_on_without_a_read",),
    ),
    Sabotage(
        "the_front_is_taken_for_what_it_was",
        "behind others that have fired, a step expects at the front what was left there, and rests when it finds less",
        (Edit(f"{_STORE}.steps.acquire", "session.next_due.forget_other_backlogs(step.slots)", "pass"),),
        (f"{_SKIPS}::test_others_fire_first_where_they_are_due_between_fires_to_skip[postgresql]",),
    ),
    Sabotage(
        "held_rows_hide_other_pools",
        "rows that a user's transaction holds hide the triggers of other slot pools",
        (
            Edit(
                f"{_STORE}.steps.acquire",
                "self.has_many_pools and not self._session.reads_whole_fronts",
                "self.has_many_pools",
            ),
        ),
        ("tests/postgresql/test_held_rows.py::test_rows_that_are_held_do_not_hide_those_of_other_slot_pools",),
    ),
    Sabotage(
        "deep_pools_are_cut_short",
        "of a slot pool whose triggers are sooner than those of all others, a step takes the first few",
        (Edit(f"{_STEPS}/acquire.sql", "HAVING count(*) = :'few'::int", "HAVING false"),),
        (f"{_POOLS}::test_the_soonest_of_all_groups_come_first[postgresql-one group after the other]",),
    ),
    Sabotage(
        "others_wait_behind_the_backlog_of_a_long_job",
        "a node rests after each claim that has only let triggers wait",
        (Edit("quartzpy.node.scheduler_thread", "self._has_cleared(front) or opened or", "opened or"),),
        (f"{_OWN_ENDS}::test_others_do_not_wait_behind_the_backlog_of_long_jobs[postgresql-1]",),
    ),
    Sabotage(
        "a_node_does_not_wait_for_its_own_ends",
        "each trigger of a job whose execution is just ending is blocked and released before it fires",
        (Edit("quartzpy.node.own_ends", "if len(self._limited) * FEW > batch:", "if False:"),),
        (f"{_OWN_ENDS}::test_few_claims_meet_only_jobs_whose_executions_are_just_ending[postgresql-3]",),
    ),
    Sabotage(
        "a_node_waits_for_long_jobs",
        "a node waits before each claim for executions that do not end soon",
        (Edit("quartzpy.node.own_ends", "now >= self._never_until", "True"),),
        ("tests/node/test_own_ends.py::test_a_wait_in_vain_is_the_only_one_of_a_period",),
    ),
)
