"""The guards of steps that look at a part of what is due: of many slot pools, and behind full jobs."""

from __future__ import annotations

from tests.sabotage.build import Edit, Sabotage

_STORE = "quartzpy.store.postgresql"
_STEPS = "quartzpy/store/postgresql/steps"
_POOLS = "tests/contract/test_many_slot_pools.py"
_FULL_JOBS = "tests/alone/test_full_jobs.py"

BACKLOGS = (
    Sabotage(
        "pools_behind_the_soonest_starve",
        "of many slot pools, a step reads those with the soonest triggers alone",
        (
            Edit(
                f"{_STORE}.steps.acquire",
                "            min(part, slots.workers, slots.group_slots)\n",
                "            0\n",
            ),
        ),
        ("tests/postgresql/test_held_rows.py::test_rows_that_are_held_do_not_hide_those_of_other_slot_pools",),
    ),
    Sabotage(
        "deep_pools_are_cut_short",
        "of a slot pool whose triggers are sooner than those of all others, a step takes a part",
        (Edit(f"{_STORE}.steps.acquire", "[WHOLE_POOLS:]", ""),),
        (f"{_POOLS}::test_the_soonest_of_all_groups_come_first[postgresql-one group after the other]",),
    ),
    Sabotage(
        "others_wait_behind_the_backlog_of_a_long_job",
        "a node rests after each claim that has only let triggers wait",
        (Edit("quartzpy.node.next_look", "looks_at_once or has_cleared", "looks_at_once"),),
        (f"{_FULL_JOBS}::test_others_do_not_wait_behind_the_backlog_of_long_jobs[postgresql-1]",),
    ),
)
