"""The guards of steps that look at a part of what is due: of many slot pools, and behind full jobs."""

from __future__ import annotations

from tests.sabotage.build import Edit, Sabotage

_STORE = "quartzpy.store.postgresql"
_STEPS = "quartzpy/store/postgresql/steps"
_POOLS = "tests/contract/test_many_slot_pools.py"
_OWN_ENDS = "tests/alone/test_own_ends.py"

BACKLOGS = (
    Sabotage(
        "pools_behind_the_soonest_starve",
        "of many slot pools, a step reads those with the soonest triggers alone",
        (
            Edit(
                f"{_STORE}.steps.acquire",
                "min(part if slots.slot_pool in of_part else self._limit, slots.workers, slots.group_slots)",
                "0 if slots.slot_pool in of_part else min(self._limit, slots.workers, slots.group_slots)",
            ),
        ),
        ("tests/postgresql/test_held_rows.py::test_rows_that_are_held_do_not_hide_those_of_other_slot_pools",),
    ),
    Sabotage(
        "deep_pools_are_cut_short",
        "of a slot pool whose triggers are sooner than those of all others, a step takes a part",
        (Edit(f"{_STORE}.steps.acquire", "not_soonest(self._pools, WHOLE_POOLS)", "not_soonest(self._pools, 0)"),),
        (f"{_POOLS}::test_the_soonest_of_all_groups_come_first[postgresql-one group after the other]",),
    ),
    Sabotage(
        "others_wait_behind_the_backlog_of_a_long_job",
        "a node rests after each claim that has only let triggers wait",
        (Edit("quartzpy.node.next_look", "looks_at_once or has_cleared", "looks_at_once"),),
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
