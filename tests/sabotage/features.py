"""The guards of single features: pauses, failures in a row, skipped fires, progress and what follows an end."""

from __future__ import annotations

from tests.sabotage.build import Edit, Sabotage

_SQL = "quartzpy.store.postgresql"
_PAUSING = "quartzpy/store/postgresql/pausing.sql"
_CALENDARS = "quartzpy/store/postgresql/calendars.sql"
_SQL_FILES = "quartzpy/store/postgresql"
_CONTRACT = "tests/contract"
_DELAY = "tests/contract/test_fixed_delay.py"

FEATURES = (
    Sabotage(
        "modes_pause_with_an_instant",
        "a trigger that is paused by the mode of its job only seems to be paused by somebody",
        (Edit(_PAUSING, "CASE WHEN :'by_mode'::bool THEN NULL\n", "CASE WHEN false THEN NULL\n"),),
        (f"{_CONTRACT}/test_pause_notes.py::test_a_mode_is_no_pause_with_a_note[postgresql]",),
    ),
    Sabotage(
        "a_second_pause_moves_its_instant",
        "pausing a paused trigger for another reason changes since when it is paused",
        (Edit(_PAUSING, "THEN coalesce(t.paused_at, :now)", "THEN :now"),),
        (f"{_CONTRACT}/test_pause_notes.py::test_a_later_reason_replaces_the_first_and_the_instant_stays[postgresql]",),
    ),
    Sabotage(
        "failures_are_counted_again",
        "a completion that is sent again counts its failure again, and pauses a job too early",
        (
            Edit(
                f"{_SQL_FILES}/steps/effects/failures.sql",
                "JOIN ended e USING (fire_id)",
                "JOIN qrtz_executions e USING (fire_id)",
            ),
        ),
        (f"{_CONTRACT}/test_failures.py::test_a_completion_that_is_sent_again_is_counted_once[postgresql]",),
    ),
    Sabotage(
        "retried_failures_are_counted",
        "a failure that is retried counts for pause_after_failures",
        (Edit("quartzpy.store.protocol.outcomes", "            and self.retry_after is None\n", ""),),
        (f"{_CONTRACT}/test_failures.py::test_what_is_retried_or_was_cancelled_does_not_count[postgresql]",),
    ),
    Sabotage(
        "any_epoch_reports_progress",
        "a node that was declared dead changes the progress of an execution that is not its own",
        (Edit(f"{_SQL_FILES}/steps/progress.sql", " AND o.epoch = :'epoch'::bigint\n", "\n"),),
        (f"{_CONTRACT}/test_progress.py::test_another_epoch_and_an_ended_execution_report_nothing[postgresql]",),
    ),
    Sabotage(
        "fenced_executions_give_instructions",
        "an execution whose node was declared dead still changes its triggers by its completion instruction",
        (
            Edit(
                f"{_SQL_FILES}/steps/effects/instructions.sql",
                "r.fire_id = a.fire_id AND r.instance_id = :'instance' AND r.outcome || '' <> 'TERMINATED' LIMIT 1",
                "r.fire_id = a.fire_id LIMIT 1",
            ),
        ),
        (
            f"{_CONTRACT}/test_complete.py::test_the_instruction_of_a_fenced_completion_is_ignored[postgresql-SET_TRIGGER_ERROR]",
        ),
    ),
    Sabotage(
        "every_outcome_continues",
        "a job runs after another one whatever the outcome of that was",
        (
            Edit(
                f"{_SQL_FILES}/steps/effects/followers.sql",
                "WHERE jsonb_exists(link.spec -> 'outcomes', e.outcome)",
                "WHERE true",
            ),
        ),
        (f"{_CONTRACT}/test_continuations.py::test_the_outcome_decides_which_jobs_run_after_it[postgresql]",),
    ),
    Sabotage(
        "debounced_calls_pile_up",
        "each call with a debounce key waits for a fire of its own",
        (Edit("quartzpy.scheduler.methods.triggering", 'f"MT_debounced_{digest}"', 'f"MT_debounced_{unique_name()}"'),),
        ("tests/facade/test_debounce.py::test_calls_that_come_at_once_leave_one_that_waits[postgresql]",),
    ),
    Sabotage(
        "fixed_delays_count_from_the_fire",
        "the delay after an execution begins when the execution begins",
        (
            Edit(
                "quartzpy.store.protocol.outcomes",
                "next_by_end(self.ended_at, self.fired.calendar)",
                "next_by_end(self.fired.fire_time, self.fired.calendar)",
            ),
        ),
        (f"{_DELAY}::test_the_next_fire_follows_from_the_end_of_the_execution[postgresql-3]",),
    ),
    Sabotage(
        "an_end_moves_a_changed_trigger",
        "the end of an execution moves a trigger with a fixed delay that was rescheduled meanwhile",
        (
            Edit(
                f"{_SQL_FILES}/steps/effects/schedules.sql",
                "AND o.generation = e.generation AND o.next_fire_time = a.expected\n       AND",
                "AND",
            ),
        ),
        (f"{_DELAY}::test_a_trigger_that_was_moved_meanwhile_is_left_alone[postgresql]",),
    ),
)
