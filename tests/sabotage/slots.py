"""The guards of jobs at their limits: who waits at a gate, and who gets a place."""

from __future__ import annotations

from tests.sabotage.build import Edit, Sabotage

_STORE = "quartzpy.store.postgresql"
_STEPS = "quartzpy/store/postgresql/steps"
_TESTS = "tests/postgresql/test_blocking.py"
_LATER = f"{_TESTS}::test_a_slot_is_passed_on_by_the_next_check_in"
_IN_TIME = f"{_TESTS}::test_one_that_is_in_time_does_not_wait_for_the_misfire_step_behind_late_ones"
_ALONE = "tests/alone/test_full_jobs.py"
_SERIAL = "tests/contract/test_serial_jobs.py"

SLOTS = (
    Sabotage(
        "nodes_name_no_gates",
        "what is parked waits for the next check-in, and not for the step after an end",
        (Edit("quartzpy.node.signals", "self.opened.add(gates)", "pass"),),
        (f"{_ALONE}::test_one_serial_job_uses_most_of_the_time[postgresql]",),
    ),
    Sabotage(
        "gates_are_forgotten_before_the_answer",
        "a step whose answer was lost has looked at the gates for nothing",
        (
            Edit(
                "quartzpy.node.opened_gates",
                "return self._named",
                "named, self._named = self._named, set()\n        return named",
            ),
        ),
        ("tests/node/test_opened_gates.py::test_what_a_step_has_named_is_named_again_until_it_has_answered",),
    ),
    Sabotage(
        "gates_that_open_meanwhile_are_forgotten",
        "a gate that opens while a step is under way is forgotten with its answer",
        (
            Edit(
                "quartzpy.node.opened_gates",
                "self._named = set()\n\n",
                "self._named = set()\n        self._added.clear()\n\n",
            ),
        ),
        ("tests/node/test_opened_gates.py::test_what_opens_while_a_step_is_under_way_is_named_by_the_next",),
    ),
    Sabotage(
        "lost_answers_of_ends_open_nothing",
        "the gate of an end whose answer was lost is named only after its repetition",
        (
            Edit(
                "quartzpy.node.completer",
                "        finally:\n            self._opened(",
                "        else:\n            self._opened(",
            ),
        ),
        ("tests/node/test_opened_gates.py::test_an_end_whose_answer_is_lost_opens_its_gate",),
    ),
    Sabotage(
        "full_nodes_keep_what_they_cannot_take",
        "what is parked at the gates of a full node waits for one of its workers",
        (
            Edit(
                "quartzpy.node.scheduler_thread",
                "        if self.signals.opened:\n            if now",
                "        if False:\n            if now",
            ),
        ),
        (f"{_ALONE}::test_a_full_node_leaves_what_waits_for_its_ends_to_others[postgresql]",),
    ),
    Sabotage(
        "what_is_parked_is_not_taken",
        "a step looks at the gates that have opened, and takes nothing that is parked there",
        (Edit(f"{_STEPS}/acquire.sql", "WHERE policy_of_parked IS NOT NULL AND free > 0", "WHERE false"),),
        (f"{_TESTS}::test_those_that_wait_follow_by_fire_time_and_priority",),
    ),
    Sabotage(
        "the_front_overtakes_what_is_parked",
        "a trigger fires before one of its job that is parked and due earlier",
        (
            Edit(
                f"{_STEPS}/shared.sql",
                "c.is_late, c.scheduled_time, c.priority DESC, c.row) AS nth,",
                "c.is_parked, c.scheduled_time, c.priority DESC, c.row) AS nth,",
            ),
        ),
        (f"{_TESTS}::test_one_that_comes_due_later_does_not_overtake_what_is_parked",),
    ),
    Sabotage(
        "gates_admit_more_than_their_limit",
        "a trigger of a serial job is fired while another one of it runs",
        (Edit(f"{_STEPS}/shared.sql", "nth <= free OR", "nth <= max_concurrent OR"),),
        (f"{_SERIAL}::test_no_trigger_of_a_serial_job_is_taken_while_it_executes[postgresql]",),
    ),
    Sabotage(
        "triggers_are_parked_beside_a_free_place",
        "what a node has no room for is parked, although its gate has a place",
        (
            Edit(f"{_STEPS}/shared.sql", "WHEN fires < free THEN NULL", "WHEN false THEN NULL"),
            Edit(f"{_STEPS}/shared.sql", "WHEN gate IS NULL OR fires < free", "WHEN gate IS NULL"),
        ),
        (f"{_TESTS}::test_nothing_is_parked_beside_a_place_that_this_step_leaves",),
    ),
    Sabotage(
        "check_ins_find_no_open_gate",
        "a place that nobody takes is lost",
        (Edit(f"{_STEPS}/recover.sql", "coalesce(slots.max_concurrent > executions.running, true)", "false"),),
        (f"{_LATER}[set_aside]", f"{_LATER}[delete_in_a_users_transaction]"),
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
        "late_ones_wait_for_a_check_in",
        "of the late triggers of a job, those that a batch does not handle wait for the next check-in",
        (
            Edit(
                f"{_STEPS}/misfire.sql",
                "FROM late WHERE trigger_state = 'BLOCKED') AS job",
                "FROM late WHERE false) AS job",
            ),
        ),
        (f"{_TESTS}::test_late_ones_are_handled_together_once_there_is_a_slot",),
    ),
    Sabotage(
        "late_ones_hold_up_those_in_time",
        "a trigger that is in time waits for the misfire step, behind the late ones of its job",
        (Edit(f"{_STEPS}/shared.sql", "c.is_late, c.scheduled_time", "c.scheduled_time"),),
        (f"{_IN_TIME}[the scheduler's threshold]",),
    ),
    Sabotage(
        "full_jobs_crowd_a_node",
        "triggers of full jobs are all that a node with few workers sees, step after step",
        (Edit(f"{_STORE}.steps.acquire", "LEAST_MET = 100", "LEAST_MET = 0"),),
        (f"{_TESTS}::test_a_node_with_few_workers_sees_past_the_triggers_of_full_jobs",),
    ),
)
