"""The cures of faults that were found, C1 to C4 and H2 to H8. One build without each."""

from __future__ import annotations

from tests.sabotage.build import Edit, Sabotage

_SQL = "quartzpy.store.postgresql"
_SQL_FILES = "quartzpy/store/postgresql"
_STORING = f"{_SQL_FILES}/storing.sql"
_RUNTIME = "quartzpy.node"

CURES = (
    Sabotage(
        "c1_lost_answers_are_not_settled",
        "what a node has fired without hearing of it never runs",
        (
            Edit(f"{_RUNTIME}.scheduler_thread", "        self._answer_lost = True\n", "        pass\n"),
            Edit(f"{_RUNTIME}.scheduler_thread", "if not holdings.executions <= unrecorded:", "if False:"),
        ),
        (
            "tests/facade/test_lost_answers.py"
            "::test_each_instant_runs_once_though_the_answer_to_a_step_is_lost[acquire]",
        ),
    ),
    Sabotage(
        "c2_given_up_pipelines_commit_later",
        "a pipeline that was given up, and whose outcome was judged, is still committed",
        (
            Edit(
                f"{_SQL}.connection.abandoned",
                "                self.given_up.append(_GivenUp(connection, backend))\n",
                "                pass\n",
            ),
        ),
        ("tests/postgresql/test_faults.py::test_an_abandoned_round_trip_cannot_commit_after_its_outcome_was_decided",),
    ),
    Sabotage(
        "c4_the_thread_that_checks_in_does_the_rest",
        "the thread that checks in also recovers, learns job types and calls listeners",
        (
            Edit(
                f"{_RUNTIME}.cluster_manager",
                "            self._has_answer = True\n        self.wakeup.set()\n",
                "            self._has_answer = True\n        self.run_as(epoch)\n",
            ),
        ),
        ("tests/facade/test_liveness.py::test_a_slow_import_of_a_job_module_does_not_make_a_node_look_dead",),
    ),
    Sabotage(
        "h2_only_known_errors_end_an_attempt",
        "an unforeseen error at the end of an execution leaves its fire and its slot behind",
        (
            Edit(
                "quartzpy.node.workers.job_runner",
                "        try:\n            self.end_as(execution, self._failed(",
                "        if not isinstance(error, ValueError):\n            raise error\n"
                "        try:\n            self.end_as(execution, self._failed(",
            ),
        ),
        ("tests/facade/test_poison.py::test_a_failure_of_the_engine_itself_is_the_end_of_the_execution",),
    ),
    Sabotage(
        "h3_sync_stores_declared_data_anew",
        "what a job kept in its data is overwritten by what was declared",
        (
            Edit(
                _STORING,
                "                       THEN j.job_data ELSE excluded.job_data END,\n",
                "                       THEN excluded.job_data ELSE excluded.job_data END,\n",
            ),
        ),
        ("tests/contract/test_scheduling.py::test_a_job_is_replaced_all_but_its_data[postgresql]",),
    ),
    Sabotage(
        "h10_replacing_begins_anew",
        "a trigger that is stored again with the same schedule begins anew, and a deploy fires or loses an instant",
        (
            Edit(
                _STORING,
                "AND (coalesce(t.schedule_hash = excluded.schedule_hash, false)\n",
                "AND false AND (coalesce(t.schedule_hash = excluded.schedule_hash, false)\n",
            ),
        ),
        (
            "tests/contract/test_storing_again.py::test_a_replaced_trigger_of_the_same_schedule_stays_paused[postgresql]",
        ),
    ),
    Sabotage(
        "h10_the_end_of_a_mode_resumes_everything",
        "enabling a job resumes triggers that somebody paused one by one",
        (
            Edit(
                f"{_SQL}.pausing",
                'HELD_BY_JOBS_MODE: Switches = ("by_job", "held_by_mode")',
                'HELD_BY_JOBS_MODE: Switches = ("by_job",)',
            ),
        ),
        (
            "tests/contract/test_modes.py"
            "::test_the_end_of_a_mode_resumes_nothing_that_was_paused_otherwise[postgresql-job-pause-trigger]",
        ),
    ),
    Sabotage(
        "h3_modified_as_it_was_read",
        "a job is read, changed and written back without holding it meanwhile",
        (
            Edit(
                _STORING,
                "WHERE sched_name = :'sched' AND job_group = :'group' AND job_name = :'name'\n   FOR NO KEY UPDATE;\n",
                "WHERE sched_name = :'sched' AND job_group = :'group' AND job_name = :'name';\n",
            ),
        ),
        ("tests/postgresql/test_locks.py::test_two_who_modify_a_job_at_once_both_do",),
    ),
    Sabotage(
        "h3_recorded_without_its_data",
        "an execution is recorded although the data that it changed was not written",
        (
            Edit(f"{_SQL}.steps.complete", "        **hold_jobs(ends.session, _changing_jobs(ends)),\n", ""),
            Edit(
                f"{_SQL_FILES}/steps/effects/data.sql",
                "AND o.job_name = d.job_name\n               FOR NO KEY UPDATE",
                "AND o.job_name = d.job_name",
            ),
        ),
        ("tests/postgresql/test_users_transactions.py::test_an_execution_is_recorded_only_with_its_data",),
    ),
    Sabotage(
        "h4_retries_wait_for_users_under_the_lock",
        "a retry waits, with the lock held, for whoever is changing its job",
        (
            Edit(
                f"{_SQL_FILES}/steps/complete.sql",
                "FOR NO KEY UPDATE SKIP LOCKED) AS j ON true\n     WHERE j.is_free IS NULL\n       AND",
                "FOR NO KEY UPDATE) AS j ON true\n     WHERE j.is_free IS NULL\n       AND",
            ),
        ),
        (
            "tests/postgresql/test_users_transactions.py"
            "::test_a_retry_of_a_job_that_is_being_deleted_waits_and_no_other_completion_does",
        ),
    ),
    Sabotage(
        "h5_unfilled_triggers_are_read_at_once",
        "one row that cannot be read fails the whole step that has found it",
        (
            Edit(
                f"{_SQL}.schema.rows",
                "            unfilled.append(_unfilled(row))\n",
                "            unfilled.append(_unfilled(row))\n            unfilled[-1].load_trigger()\n",
            ),
        ),
        ("tests/facade/test_lost_answers.py::test_a_trigger_that_cannot_be_read_does_not_affect_others",),
    ),
    Sabotage(
        "h6_spans_without_bounds",
        "a span is taken that overflows in SQL",
        (
            Edit(
                "quartzpy.instants",
                "    if span < timedelta() or span > longest or (above_zero and not span):",
                "    if span < timedelta() or (above_zero and not span):",
            ),
        ),
        (
            "tests/facade/test_bad_input.py::test_bad_input_is_refused_with_its_reason_and_changes_nothing"
            "[memory-a misfire threshold that overflows]",
        ),
    ),
    Sabotage(
        "h7_a_refused_thread_wedges",
        "where a thread could not be started once, none is started again",
        (
            Edit(
                "quartzpy.node.workers.worker_pool",
                "            thread = self._starting.of(",
                "            self._waking = True\n            thread = self._starting.of(",
            ),
        ),
        ("tests/node/test_threads_refused.py::test_tasks_wait_for_a_worker_thread",),
    ),
    Sabotage(
        "h8_old_copies_are_kept",
        "what a user's transaction copied of a job stays although the job was changed before it was committed",
        (
            Edit(
                f"{_SQL_FILES}/steps/acquire.sql",
                "       concurrency_key = j.new_key,\n       -- include: becomes_of_j\n",
                "       fire_id = t.fire_id\n",
            ),
        ),
        ("tests/facade/test_using.py::test_a_limit_that_was_set_before_the_commit_holds",),
    ),
    Sabotage(
        "h8_old_pauses_are_kept",
        "what a user's transaction stored fires although it was paused before the commit",
        (
            Edit(
                f"{_SQL_FILES}/steps/acquire.sql",
                "'BLOCKED') THEN\n",
                "'BLOCKED') THEN o.trigger_state WHEN false THEN\n",
            ),
        ),
        ("tests/facade/test_using.py::test_what_was_paused_before_the_commit_does_not_fire",),
    ),
    Sabotage(
        "i2_running_executions_of_a_key_are_not_counted",
        "more executions run for a concurrency key than the limit",
        (
            Edit(
                f"{_SQL_FILES}/steps/acquire.sql",
                "AND r.concurrency_key = asked.concurrency_key AND r.max_concurrent",
                "AND r.concurrency_key = asked.concurrency_key || 'x' AND r.max_concurrent",
            ),
        ),
        ("tests/postgresql/test_blocking.py::test_what_comes_later_for_a_key_at_its_limit_waits",),
    ),
    Sabotage(
        "i3_an_end_does_not_wait_for_its_follower",
        "a job does not run after another one, because somebody held its row when that ended",
        (
            Edit(
                f"{_SQL_FILES}/steps/effects/followers.sql",
                "AND follower.is_free IS NULL",
                "AND false",
            ),
        ),
        (
            "tests/postgresql/test_users_transactions.py"
            "::test_an_end_waits_for_the_job_that_runs_after_it_and_no_other_completion_does",
        ),
    ),
)
