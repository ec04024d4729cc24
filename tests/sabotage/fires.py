"""The guards of fires that are stored again, of requests to stop, and of the failures that are counted."""

from __future__ import annotations

from tests.sabotage.build import Edit, Sabotage

_STEPS = "quartzpy.store.postgresql.steps"
_STEP_FILES = "quartzpy/store/postgresql/steps"
_RAM = "quartzpy.store.memory"
_CONTRACT = "tests/contract"
_NOT_AGAIN = "test_an_execution_that_was_asked_to_stop_does_not_run_again"
_BEGINS = "tests/facade/test_cancelled_before_start.py::test_it_does_not_begin"
_REPEATED = "test_what_a_repeated_fire_keeps"
_RETRIES = f"{_STEP_FILES}/effects/retries.sql"

FIRES = (
    Sabotage(
        "a_refill_visits_old_versions",
        "a refill visits each version of a trigger that somebody's old snapshot keeps",
        (
            Edit(
                "quartzpy/store/postgresql/steps/effects/schedules.sql",
                "ORDER BY n.times_triggered DESC\n    LIMIT 1) AS newest",
                "OFFSET 0) AS newest",
            ),
        ),
        ("tests/postgresql/test_old_versions.py::test_no_step_visits_the_old_versions_of_a_trigger",),
    ),
    Sabotage(
        "a_key_is_not_taken_before_it_is_stored",
        "storing fails where somebody else has begun to store the same trigger",
        (
            Edit(
                "quartzpy.store.postgresql.storing",
                "for text in (_SQL.take_keys, _SQL.hold_stored, STORE_TRIGGERS)",
                "for text in (_SQL.hold_stored, STORE_TRIGGERS)",
            ),
        ),
        (
            "tests/postgresql/test_trigger_keys.py"
            "::test_what_somebody_else_is_storing_is_replaced_once_it_is_there[COMMIT]",
        ),
    ),
    Sabotage(
        "stored_triggers_are_not_held",
        "a stored trigger that somebody else changes meanwhile is not replaced",
        (
            Edit(
                "quartzpy.store.postgresql.storing",
                "for text in (_SQL.take_keys, _SQL.hold_stored, STORE_TRIGGERS)",
                "for text in (_SQL.take_keys, STORE_TRIGGERS)",
            ),
        ),
        ("tests/postgresql/test_trigger_keys.py::test_what_somebody_else_is_changing_is_replaced_once_it_is_free",),
    ),
    Sabotage(
        "repeated_fires_forget_what_was_missed",
        "a retry, a recovery or a fire that was handed back does not know the fire times that were missed",
        (Edit(_RETRIES, "'{}'), f.coalesced_fire_times", "'{}'), NULL"),),
        (f"{_CONTRACT}/test_facts.py::{_REPEATED}[postgresql-retry-recovery]",),
    ),
    Sabotage(
        "repeated_fires_forget_what_was_missed_in_memory",
        "the same, in the store in memory",
        (
            Edit(
                f"{_RAM}.rerun",
                "again.coalesced_fire_times = () if row.fired is None",
                "again.coalesced_fire_times = () if True",
            ),
        ),
        (f"{_CONTRACT}/test_facts.py::{_REPEATED}[ram-retry-recovery]",),
    ),
    Sabotage(
        "successes_in_transactions_are_not_counted",
        "a success that the job records in its own transaction does not end a row of failures",
        (
            Edit(
                f"{_STEP_FILES}/effects/failures.sql",
                "JOIN ended e USING (fire_id)",
                "JOIN ended e USING (fire_id)"
                " JOIN qrtz_executions x ON x.fire_id = e.fire_id AND x.xmin = pg_current_xact_id()::xid",
            ),
        ),
        (
            "tests/facade/test_counted_transactions.py"
            "::test_a_success_in_a_transaction_ends_a_row_of_failures[postgresql-FsFsF-False]",
        ),
    ),
    Sabotage(
        "requests_to_stop_are_lost_in_completions",
        "an execution that was asked to stop while it was handed back, retried or snoozed runs again",
        (
            Edit(
                f"{_STEP_FILES}/complete.sql",
                "r.trigger_data, r.cancel_requested",
                "r.trigger_data, false AS cancel_requested",
            ),
        ),
        (
            f"{_CONTRACT}/test_facts.py::{_NOT_AGAIN}[postgresql-hand_back]",
            "tests/facade/test_cancelled_before_start.py"
            "::test_a_request_that_only_the_store_knows_is_not_lost_in_a_hand_back[postgresql]",
        ),
    ),
    Sabotage(
        "requests_to_stop_are_lost_in_completions_in_memory",
        "the same, in the store in memory",
        (
            Edit(
                f"{_RAM}.complete",
                "if row.cancel_requested and completion.retry_after",
                "if False and completion.retry_after",
            ),
        ),
        (f"{_CONTRACT}/test_facts.py::{_NOT_AGAIN}[ram-retry]",),
    ),
    Sabotage(
        "cancelled_executions_are_recovered",
        "an execution that was asked to stop runs again after the death of its node",
        (
            Edit(f"{_STEP_FILES}/recover.sql", "f.requests_recovery AND NOT f.cancel_requested", "f.requests_recovery"),
            Edit(f"{_STEP_FILES}/recover.sql", "c.requests_recovery AND NOT c.cancel_requested", "c.requests_recovery"),
        ),
        (f"{_CONTRACT}/test_facts.py::{_NOT_AGAIN}[postgresql-recovery]",),
    ),
    Sabotage(
        "executions_out_of_the_pool_are_unknown",
        "an execution that has left the pool and has not begun cannot be asked to stop",
        (
            Edit(
                "quartzpy.node.workers.job_runner",
                "executions = [execution for execution in self.accepted() if chosen(execution)]",
                "executions = [execution for execution in self.running() if chosen(execution)]",
            ),
        ),
        (f"{_BEGINS}[postgresql-threads-out_of_the_pool]",),
    ),
    Sabotage(
        "cancelled_jobs_begin",
        "an execution that is asked to stop just before its job's code begins",
        (
            Edit(
                "quartzpy.node.workers.job_calls",
                "    if run.cancelled.is_requested:\n        raise asyncio",
                "    if False:\n        raise asyncio",
            ),
        ),
        (f"{_BEGINS}[memory-threads-before_the_code]", f"{_BEGINS}[memory-processes-before_the_code]"),
    ),
)
