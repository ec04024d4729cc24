"""What the protocol rests on: locks, fire_ids, clocks, evidence, deadlines. One build without each."""

from __future__ import annotations

from tests.sabotage.build import Edit, Sabotage

_SQL = "quartzpy.store.postgresql"
_SQL_FILES = "quartzpy/store/postgresql"

PROTECTIONS = (
    Sabotage(
        "no_lock_on_acquire",
        "nodes fire without holding TRIGGER_ACCESS",
        (
            Edit(
                f"{_SQL}.steps.acquire",
                "session.locked(*self._statements(self._text(needs), sinces))",
                "session.unlocked(*self._statements(self._text(needs), sinces))",
            ),
        ),
        ("tests/postgresql/test_locks.py::test_two_nodes_that_claim_at_once_keep_the_limit_of_a_job",),
    ),
    Sabotage(
        "no_fence_on_complete",
        "a completion counts whichever epoch sends it",
        (
            Edit(
                f"{_SQL_FILES}/steps/complete.sql",
                "r.epoch = :'epoch'::bigint LIMIT 1",
                "true LIMIT 1",
            ),
            Edit(
                f"{_SQL_FILES}/steps/plain_completions.sql",
                "r.fire_id = e.fire_id AND r.epoch = :'epoch'::bigint",
                "r.fire_id = e.fire_id",
            ),
        ),
        ("tests/contract/test_complete.py::test_only_the_epoch_that_fired_can_complete[postgresql]",),
    ),
    Sabotage(
        "no_unique_index",
        "the tables let a serial job execute twice at once",
        (
            Edit(
                f"{_SQL}.migrations",
                "                command.upgrade(_config(schema, prefix, connection), revision)\n",
                "                command.upgrade(_config(schema, prefix, connection), revision)\n"
                '                connection.execute(text("DROP INDEX IF EXISTS qrtz_fired_triggers_limited"))\n',
            ),
        ),
        ("tests/postgresql/test_faults.py::test_the_tables_refuse_two_executions_of_a_serial_job_at_once",),
    ),
    Sabotage(
        "time_of_the_transactions_begin",
        "a step decides by the time at which its transaction began to wait for the lock",
        (Edit(f"{_SQL}.schema.naming", 'DATABASE_CLOCK = "clock_timestamp()"', 'DATABASE_CLOCK = "now()"'),),
        ("tests/postgresql/test_locks.py::test_a_step_decides_by_the_time_at_which_it_has_the_lock",),
    ),
    Sabotage(
        "window_is_interval",
        "a node is dead after one interval of silence",
        (
            Edit(
                "quartzpy.node.registration",
                "window=self._config.failure_window",
                "window=self._config.checkin_interval",
            ),
        ),
        ("tests/facade/test_liveness.py::test_connections_lost_in_the_network_do_not_make_a_node_look_dead",),
    ),
    Sabotage(
        "no_unbroken_evidence",
        "a peer is dead by the database's clock alone, whatever this node saw itself",
        (
            Edit(
                "quartzpy.node.peers",
                "if at - self._sightings[key].since >= peer.failure_window.total_seconds()\n            and ",
                "if ",
            ),
        ),
        (
            "tests/node/test_peer_watch.py::test_a_peer_whose_counter_changes_is_alive_even_if_its_last_check_in_seems_old",
        ),
    ),
    Sabotage(
        "recovery_deletes_all",
        "recovery frees what living nodes hold, too",
        (
            Edit(
                f"{_SQL_FILES}/steps/recover.sql",
                "           AND NOT EXISTS (SELECT FROM qrtz_scheduler_state s\n"
                "                            WHERE s.sched_name = r.sched_name AND s.epoch = r.epoch)\n",
                "",
            ),
            Edit(
                f"{_SQL_FILES}/steps/recover.sql",
                "AND s.instance_id <> ALL(:'instances'::text[])",
                "AND s.epoch IS NULL",
            ),
        ),
        ("tests/contract/test_recover.py::test_the_work_of_living_nodes_is_left_alone[postgresql]",),
    ),
    Sabotage(
        "a_node_that_is_back_is_recovered",
        "executions are ended whose node has checked in since it was judged dead",
        (
            Edit(
                f"{_SQL_FILES}/steps/recover.sql",
                "           AND NOT EXISTS (SELECT FROM qrtz_scheduler_state s\n"
                "                            WHERE s.sched_name = r.sched_name AND s.epoch = r.epoch)\n",
                "",
            ),
        ),
        ("tests/contract/test_recover.py::test_a_node_that_checked_in_meanwhile_is_not_recovered[postgresql]",),
    ),
    Sabotage(
        "a_recovered_execution_has_ended",
        "the history says of an execution that runs again that it is lost",
        (Edit(f"{_SQL_FILES}/steps/recover.sql", "o.retry_at IS NOT NULL LIMIT 1", "false LIMIT 1"),),
        (
            "tests/contract/test_recover.py::test_an_execution_that_requests_recovery_runs_again_exactly_once[postgresql]",
        ),
    ),
    Sabotage(
        "a_departure_is_a_death",
        "a node that left with executions has died of them",
        (Edit(f"{_SQL_FILES}/steps/recover.sql", "FROM ended WHERE epoch = ANY(:'died'::bigint[])", "FROM ended"),),
        ("tests/contract/test_node_deaths.py::test_a_node_that_left_with_executions_did_not_die_of_them[postgresql]",),
    ),
    Sabotage(
        "errors_are_swallowed",
        "an error inside a transaction is passed over: COMMIT rolls back, and nobody is told",
        (
            Edit(
                f"{_SQL}.connection.pipeline",
                "        raise error_from_result(failed)\n",
                "        return [Result([], 0) for _ in bound]\n",
            ),
        ),
        (
            "tests/postgresql/test_faults.py"
            "::test_a_half_received_round_trip_holds_the_lock_no_longer_than_the_lock_timeout",
        ),
    ),
    Sabotage(
        "unknown_is_taken_for_failed",
        "where the answer to COMMIT was lost, the pipeline is simply sent again",
        (
            Edit(
                f"{_SQL}.connection.connections",
                "if state not in RETRYABLE or attempt == TRIES:",
                "if (state not in RETRYABLE and not isinstance(error, OutcomeUnknownError)) or attempt == TRIES:",
            ),
        ),
        ("tests/postgresql/test_faults.py::test_a_commit_whose_answer_was_lost_is_found_by_a_query",),
    ),
    Sabotage(
        "the_last_fire_of_any_job_ends_without_the_lock",
        "two completions that delete the last two triggers of a job that is not durable both keep the job",
        (
            Edit(
                f"{_SQL}.steps.plain_completions",
                "        and (fired.job_is_durable or not completion.ends_its_trigger)\n",
                "",
            ),
        ),
        (
            "tests/postgresql/test_plain_completions.py"
            "::test_the_last_fire_of_a_job_that_is_not_durable_ends_both_under_the_lock",
        ),
    ),
    Sabotage(
        "a_job_that_has_become_non_durable_is_kept",
        "a job without triggers that is not durable stays, if it was durable when its last trigger fired",
        (Edit(f"{_SQL}.steps.plain_completions", "            *orphans(session, ending),\n", ""),),
        (
            "tests/postgresql/test_plain_completions.py"
            "::test_the_last_fire_ends_a_job_that_has_become_non_durable_meanwhile",
        ),
    ),
    Sabotage(
        "the_last_fire_ends_a_trigger_that_was_replaced",
        "an execution deletes a trigger that was stored anew while it ran",
        (
            Edit(
                f"{_SQL_FILES}/steps/plain_completions.sql",
                "c.generation = e.generation AND c.trigger_state || '' = 'COMPLETE' AND ",
                "",
            ),
        ),
        (
            "tests/postgresql/test_plain_completions.py"
            "::test_the_last_fire_of_a_trigger_that_was_replaced_meanwhile_does_not_end_the_new_one",
        ),
    ),
    Sabotage(
        "checkin_on_the_work_pool",
        "a check-in waits for a connection that jobs and steps use",
        (
            Edit(
                f"{_SQL}.connection.checkin_connection",
                "        deadline = time.monotonic() + (self._connections.seconds if within is None else within)\n",
                "        from quartzpy.store.postgresql.connection.pool import PoolShare\n"
                "        return self._connections.execute(statements, PoolShare())\n"
                "        deadline = time.monotonic() + (self._connections.seconds if within is None else within)\n",
            ),
        ),
        ("tests/postgresql/test_control.py::test_a_check_in_waits_for_no_connection_of_the_pool",),
        hangs=True,
    ),
    Sabotage(
        "no_socket_deadline",
        "a pipeline waits for its answer as long as the network is silent",
        (
            Edit(
                f"{_SQL}.connection.pipeline",
                "        if remaining <= 0 or not self._poller.poll(remaining * 1000):\n",
                "        if not self._poller.poll(None if remaining < 1e9 else 0):\n",
            ),
        ),
        (
            "tests/postgresql/test_faults.py::test_behind_a_network_that_swallows_packets_a_step_ends_by_its_own_deadline",
        ),
        hangs=True,
    ),
)
