"""What protects pipelines: they are sent to their end, hold no lock while they travel, and say why they broke."""

from __future__ import annotations

from tests.sabotage.build import Edit, Sabotage

_SQL = "quartzpy.store.postgresql"
_LARGE = "tests/postgresql/test_large_pipelines.py"
_VALUES = "tests/postgresql/test_large_values.py"
_BROKEN = "tests/postgresql/test_broken_pipelines.py"

PIPELINES = (
    Sabotage(
        "large_pipelines_are_not_flushed",
        "what the kernel's buffers do not take is never sent",
        (
            Edit(f"{_SQL}.connection.pipeline", "        while self._pgconn.flush():\n", "        while False:\n"),
            Edit(
                f"{_SQL}.connection.pipeline",
                "            self._has_more_to_send = self._pgconn.flush() != 0\n",
                "            self._has_more_to_send = False\n",
            ),
        ),
        (f"{_LARGE}::test_a_large_value_is_sent_to_its_end[True]",),
        hangs=True,
    ),
    Sabotage(
        "large_values_travel_under_the_lock",
        "a slow network holds the lock of the cluster while a large pipeline arrives",
        (Edit(f"{_SQL}.connection.pipeline", "_staged(bound) if is_large else []", "[]"),),
        (f"{_VALUES}::test_the_lock_is_free_while_a_large_pipeline_is_under_way",),
    ),
    Sabotage(
        "errors_wait_for_an_import",
        "the first error of a check-in waits until another thread has imported SQLAlchemy",
        (
            Edit(
                "quartzpy.store.postgresql.connection.error_translation",
                old='    exc = sys.modules.get("sqlalchemy.exc")\n    if exc is not None',
                new="    from sqlalchemy import exc\n\n    if exc is not None",
            ),
        ),
        ("tests/unit/test_error_translation.py::test_no_error_is_translated_by_an_import_of_sqlalchemy",),
    ),
    Sabotage(
        "deaf_clients_keep_the_lock",
        "a session whose client does not receive its answers holds the lock for ever",
        (
            Edit(
                "quartzpy/store/postgresql/connection/diagnosis.sql",
                "IN ('ClientRead', 'ClientWrite')",
                "IN ('ClientRead')",
            ),
        ),
        (
            "tests/postgresql/test_unread_answers.py"
            "::test_a_client_that_does_not_receive_its_answers_does_not_keep_the_lock",
        ),
    ),
    Sabotage(
        "last_words_unheard",
        "a pipeline whose session was ended says that the connection was lost, and that the outcome is unknown",
        (
            Edit(
                f"{_SQL}.connection.pipeline",
                "        if result.error_field(pq.DiagnosticField.SQLSTATE):\n",
                "        if False:\n",
            ),
        ),
        (f"{_BROKEN}::test_a_session_that_is_ended_during_a_pipeline",),
    ),
    Sabotage(
        "fatal_at_commit_is_taken_for_a_rollback",
        "a session that ends while it commits is reported as if nothing had changed",
        (
            Edit(
                f"{_SQL}.connection.pipeline",
                "executed_commit = failed_at is None or failed_at >= first + len(bound)",
                "executed_commit = failed_at is None",
            ),
        ),
        (f"{_BROKEN}::test_the_outcome_is_unknown_if_the_session_ends_during_the_commit",),
    ),
    Sabotage(
        "ended_reads_are_not_repeated",
        "a read whose session the server ended is an error",
        (Edit(f"{_SQL}.connection.connections", "error.sqlstate not in SESSION_ENDED", "True"),),
        (f"{_BROKEN}::test_a_read_is_repeated_if_its_session_is_ended",),
    ),
    Sabotage(
        "completions_of_any_size_in_one_batch",
        "a batch of completions is bounded by its number only",
        (Edit("quartzpy.node.completer", "if batch and size > MAX_BATCH_SIZE:", "if False:"),),
        (f"{_VALUES}::test_a_batch_of_completions_is_bounded_by_its_size",),
    ),
    Sabotage(
        "bulk_statements_of_any_size",
        "a statement of a bulk store is bounded by the number of its rows only",
        (Edit(f"{_SQL}.batches", "total > CHUNK_BYTES or ", ""),),
        (f"{_VALUES}::test_many_large_triggers_are_stored_in_several_statements",),
    ),
    Sabotage(
        "a_computing_sync_is_idle",
        "the server ends a sync that computes for longer than the lock timeout",
        (
            Edit(f"{_SQL}.store", "call_transaction(self._session.allow_pauses())", "call_transaction()"),
            Edit(
                f"{_SQL}.connection.external",
                "while not self._ended.wait(self._every):",
                "while not self._ended.wait():",
            ),
        ),
        ("tests/postgresql/test_slow_computing.py::test_a_sync_may_compute_for_long_before_it_stores",),
    ),
    Sabotage(
        "nobody_keeps_a_sync_awake",
        "a sync that computes for longer than all its timeouts is ended",
        (
            Edit(
                f"{_SQL}.connection.external",
                "while not self._ended.wait(self._every):",
                "while not self._ended.wait():",
            ),
        ),
        ("tests/postgresql/test_slow_computing.py::test_a_transaction_that_is_kept_awake_speaks_until_it_ends",),
    ),
)
