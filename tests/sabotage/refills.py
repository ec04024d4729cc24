"""The guards of fires without claims: refills before fires, and the lead with which a fire is committed."""

from __future__ import annotations

from tests.sabotage.build import Edit, Sabotage

_SQL = "quartzpy.store.postgresql"
_SQL_FILES = "quartzpy/store/postgresql"
_STEPS = f"{_SQL_FILES}/steps"
_HOLDINGS = f"{_STEPS}/holdings.sql"
_RAM = "quartzpy.store.memory"
_THREAD = "quartzpy.node.scheduler_thread"
_FIRE = "tests/contract/test_fire.py"
_CHANGED = f"{_FIRE}::test_what_has_changed_meanwhile_is_neither_refilled_nor_rejected"
_TWO_NODES = f"{_FIRE}::test_two_nodes_that_compute_the_same_fire_it_once"
_OLD_CALENDAR = "tests/contract/test_calendars.py::test_what_was_computed_from_the_old_calendar_is_not_stored"
_ACQUIRE = "tests/contract/test_acquire.py"
_REFILLED_FIRST = f"{_ACQUIRE}::test_a_trigger_whose_stored_instants_are_used_up_is_refilled_first"
_AHEAD = f"{_ACQUIRE}::test_what_is_due_within_the_look_ahead_fires_ahead_and_its_fire_time_is_its_instant"
_ON_TIME = "tests/facade/test_on_time.py::test_a_fire_is_committed_before_its_instant_and_the_job_starts_after_it"

REFILLS = (
    Sabotage(
        "unfilled_triggers_fire",
        "a trigger whose stored fire times are used up fires, and is taken for one that never fires again",
        (
            Edit(
                f"{_STEPS}/acquire.sql",
                "t.upcoming_is_complete OR cardinality(t.upcoming) > 0 AS is_filled",
                "true AS is_filled",
            ),
        ),
        (f"{_REFILLED_FIRST}[postgresql]",),
    ),
    Sabotage(
        "unfilled_triggers_of_jobs_with_a_limit_fire",
        "the same, for jobs with a limit",
        (
            Edit(
                f"{_STEPS}/acquire.sql",
                "t.upcoming_is_complete OR cardinality(t.upcoming) > least(late.passed, 1000) AS is_filled",
                "true AS is_filled",
            ),
        ),
        ("tests/contract/test_serial_jobs.py::test_a_trigger_of_a_serial_job_is_refilled_first[postgresql]",),
    ),
    Sabotage(
        "refills_of_an_earlier_fire",
        "fire times are stored that follow a fire which another node has committed meanwhile: they fire twice",
        (Edit(_HOLDINGS, " AND o.next_fire_time = w.scheduled", ""),),
        (f"{_TWO_NODES}[postgresql]",),
    ),
    Sabotage(
        "refills_of_an_earlier_fire_in_memory",
        "the same, in the store in memory",
        (
            Edit(
                f"{_RAM}.holdings",
                "there = row.generation, row.progress.next_fire_time,",
                "there = row.generation, unfilled.progress.next_fire_time,",
            ),
        ),
        (f"{_TWO_NODES}[ram]",),
    ),
    Sabotage(
        "refills_of_another_schedule",
        "fire times of a schedule that was replaced meanwhile are stored",
        (Edit(_HOLDINGS, "AND o.generation = w.generation ", ""),),
        (f"{_CHANGED}[postgresql-rescheduled from the same instant]",),
    ),
    Sabotage(
        "refills_of_another_schedule_in_memory",
        "the same, in the store in memory",
        (
            Edit(
                f"{_RAM}.holdings",
                "there = row.generation, row.progress",
                "there = unfilled.generation, row.progress",
            ),
        ),
        (f"{_CHANGED}[ram-rescheduled from the same instant]",),
    ),
    Sabotage(
        "refills_by_another_calendar",
        "fire times that a calendar excludes are stored, because it was changed while they were computed",
        (Edit(_HOLDINGS, "AND c.revision = w.revision\n", "\n"),),
        (f"{_OLD_CALENDAR}[postgresql]",),
    ),
    Sabotage(
        "paused_triggers_are_rejected",
        "a trigger that was paused meanwhile goes into ERROR",
        (Edit(_HOLDINGS, " AND o.trigger_state || '' = 'WAITING'\n", "\n"),),
        (f"{_CHANGED}[postgresql-paused]",),
    ),
    Sabotage(
        "any_epoch_refills",
        "a node that was declared dead stores fire times, and puts triggers into ERROR",
        (Edit(_HOLDINGS, " AND EXISTS (\n    -- include: registered\n )", ""),),
        (f"{_FIRE}::test_a_dead_epoch_refills_and_rejects_nothing[postgresql]",),
    ),
    Sabotage(
        "any_epoch_refills_in_memory",
        "the same, in the store in memory",
        (Edit(f"{_RAM}.holdings", "    tables.require(node)\n    for", "    for"),),
        (f"{_FIRE}::test_a_dead_epoch_refills_and_rejects_nothing[ram]",),
    ),
    Sabotage(
        "a_node_forgets_to_fire_what_it_has_refilled",
        "a node that has stored fire times rests, and the fire for which it stored them is late",
        (Edit(_THREAD, "acquired.now)\n            may_take_more = True\n", "acquired.now)\n"),),
        ("tests/node/test_scheduler_thread.py::test_what_was_refilled_fires_at_once",),
    ),
    Sabotage(
        "what_is_due_later_fires",
        "a fire is committed however long before its instant",
        (
            Edit(
                f"{_STEPS}/acquire.sql",
                "           AND t.next_fire_time <= node.at + :'look_ahead'::interval\n",
                "",
            ),
        ),
        (f"{_ACQUIRE}::test_what_is_due_later_is_not_taken[postgresql]",),
    ),
    Sabotage(
        "the_instant_of_a_fire_is_that_of_its_step",
        "a fire that is committed before its instant seems to be early",
        (
            Edit(f"{_STEPS}/acquire.sql", "greatest(front.at, scheduled_time) AS at", "front.at AS at"),
            Edit(f"{_STEPS}/acquire.sql", "greatest(d.at, d.scheduled_time) AS at", "d.at AS at"),
        ),
        (f"{_AHEAD}[postgresql]",),
    ),
    Sabotage(
        "a_fire_is_committed_at_its_instant",
        "each job starts a round trip after its instant",
        (
            Edit(
                _THREAD,
                "timedelta(seconds=2 * self._lead.seconds if look.is_on_time else 0.0)",
                "timedelta(seconds=0.0)",
            ),
        ),
        (f"{_ON_TIME}[memory-StartsAsync]",),
    ),
    Sabotage(
        "a_job_starts_before_its_instant",
        "a job starts when its fire is committed, which is before its instant",
        (Edit("quartzpy.node.workers.execution", "        if early > 0:\n", "        if False:\n"),),
        (f"{_ON_TIME}[memory-Starts]",),
    ),
)
