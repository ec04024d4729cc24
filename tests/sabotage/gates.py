"""The guards of the decision about limits, and of the store in memory, which decides by it."""

from __future__ import annotations

from tests.sabotage.build import Edit, Sabotage

_RULE = "quartzpy.store.gates"
_RAM = "quartzpy.store.memory"
_SHARED = "tests/contract/test_shared_limits.py"
_RATES = "tests/contract/test_rate_limits.py"
_UNIT = "tests/unit/test_gates.py"

GATES = (
    Sabotage(
        "nothing_is_kept_for_what_is_overdue",
        "a job with two limits starves while others take their places in turn",
        (Edit(_RULE, "            taken.update(names)\n            reserved", "            reserved"),),
        (f"{_SHARED}::test_what_waits_for_two_limits_is_not_overtaken_for_ever[ram]",),
    ),
    Sabotage(
        "what_lacks_a_place_at_its_job_takes_those_of_others",
        "a full job takes the places of a shared limit, which nobody uses",
        (Edit(_RULE, "if wishes[n] is not Decision.FIRE:", "if wishes[n] is Decision.SKIP:"),),
        (f"{_UNIT}::test_what_has_no_place_at_its_own_limit_takes_none_of_those_that_others_share",),
    ),
    Sabotage(
        "rates_skip_fires",
        "a fire that a rate holds back is skipped",
        (
            Edit(_RULE, "if place <= own.slots:", "if place <= own.places:"),
            Edit(_RULE, "own.slots <= fires", "own.places <= fires"),
        ),
        (f"{_UNIT}::test_no_rate_and_no_shared_limit_skips_or_replaces_anything[skip]",),
    ),
    Sabotage(
        "what_waits_for_a_slot_is_asked_again_and_again",
        "nodes look at a rate without a rest while a trigger waits for a slot of its job",
        (Edit(_RULE, "return opens if opens > at else None", "return opens"),),
        (f"{_UNIT}::test_a_rate_opens_once_it_admits_the_next",),
    ),
    Sabotage(
        "what_a_limit_held_back_is_late_in_memory",
        "a trigger misfires because a limit has held it back",
        (
            Edit(
                f"{_RAM}.acquire",
                "return row.state is TriggerState.BLOCKED and not row.job",
                "return False and row.job",
            ),
        ),
        (
            f"{_RATES}::test_what_the_limit_has_held_back_for_long_fires_with_all_that_it_has_missed_meanwhile[ram]",
            f"{_SHARED}::test_what_was_held_back_and_waits_for_another_node_is_not_late[ram]",
        ),
    ),
    Sabotage(
        "limits_are_looked_at_only_if_they_have_opened",
        "a trigger that waits overtakes what is parked at its limits",
        (
            Edit(
                f"{_RAM}.met",
                "gates = (_gate(row) for row in front)",
                'gates = (_gate(row)._replace(limits="") for row in front)',
            ),
        ),
        (f"{_SHARED}::test_a_waiting_trigger_does_not_overtake_what_is_parked_at_the_same_limit[ram]",),
    ),
    Sabotage(
        "a_lower_rate_is_bounded_anew",
        "a rate that was raised never admits what it has held back",
        (
            Edit(
                f"{_RAM}.limits", "tables.tats[limit], tables.opens[limit] = tat, opens", "tables.opens[limit] = opens"
            ),
        ),
        (f"{_RATES}::test_a_limit_that_is_raised_or_removed_takes_effect_at_once[ram-60 per minute]",),
    ),
    Sabotage(
        "those_behind_a_full_job_stay_unmet",
        "a place of a shared limit stays unused behind triggers of a full job",
        (Edit(f"{_RAM}.limits", "tables.opens |= dict.fromkeys(at_once, now)", "pass"),),
        (f"{_SHARED}::test_what_waits_at_a_limit_beside_others_of_a_full_job_is_not_passed_over[ram]",),
    ),
)
