"""What lets a node that rests look in time: for what it has fired, reconciled or lost, and after methods."""

from __future__ import annotations

from tests.sabotage.build import Edit, Sabotage

_THREAD = "quartzpy.node.scheduler_thread"
_ON_TIME = "tests/alone/test_on_time.py::test_each_fire_is_on_time"
_ENDS = "tests/alone/test_ends.py"
_TURNS = "tests/alone/test_turns.py"
_WAKES = "tests/facade/test_waking.py::test_it_wakes_a_node_that_rests"

WAKING = (
    Sabotage(
        "a_skipped_fire_does_not_count_for_the_next_look",
        "a node rests without regard to when a trigger fires next whose fire it has just skipped",
        (Edit(_THREAD, "[*acquired.fired, *acquired.skipped]", "acquired.fired"),),
        (f"{_ENDS}::test_fires_that_are_skipped[memory-one node]",),
    ),
    Sabotage(
        "what_was_reconciled_is_not_looked_for",
        "a node that has found a fire whose answer was lost rests without regard to when its trigger fires next",
        (
            Edit(
                _THREAD,
                "no look has seen them since.\n            self.signals.looks_again = True\n",
                "no look has seen them since.\n",
            ),
        ),
        (f"{_ENDS}::test_a_fire_whose_answer_was_lost[postgresql]",),
    ),
    Sabotage(
        "a_changed_job_wakes_no_node",
        "the node of memory:// does not look after a job was modified",
        (
            Edit(
                "quartzpy.scheduler.methods.storing",
                "        self._changed(self._clock.now())\n        self._emit(JobAdded(changed))\n",
                "        self._emit(JobAdded(changed))\n",
            ),
        ),
        (f"{_WAKES}[memory-modify_job, no rate limit]",),
    ),
    Sabotage(
        "a_full_node_keeps_what_is_due_to_itself",
        "a node without free workers does not tell the others when a trigger is due that it has fired",
        (
            Edit(
                _THREAD,
                "        self._notified_at = now\n        self._store.wake_others(epoch.node)\n",
                "        self._notified_at = now\n",
            ),
        ),
        ("tests/alone/test_full_nodes.py::test_an_idle_node_takes_the_fire_of_a_full_one[memory]",),
    ),
    Sabotage(
        "a_node_that_lost_never_looks_again_soon",
        "a node that was slower than others rests for minutes after a fire time, although nobody may have come",
        (Edit("quartzpy.node.turns", "LONGEST_GRACE) * uniform(LEAST_SHARE, 1.0)", "LONGEST_GRACE) * 240"),),
        (
            f"{_TURNS}::test_what_a_node_was_to_take_that_died_is_taken_within_the_grace[memory-many triggers]",
            f"{_TURNS}::test_a_new_trigger_that_is_for_a_dead_node_is_taken_within_the_grace[memory-due]",
        ),
    ),
    Sabotage(
        "no_trigger_has_a_node_of_its_own",
        "where all nodes were slower than others before, nobody is on time for a new trigger",
        (Edit("quartzpy.node.turns", "return len(nodes) < 2 or nodes[zlib", "return len(nodes) < 2 or -nodes[zlib"),),
        (f"{_TURNS}::test_a_new_trigger_is_on_time_although_all_nodes_look_later[memory]",),
    ),
    Sabotage(
        "a_node_forgets_what_only_it_knows",
        "a node that was slower than others is late for a trigger that nobody else knows of",
        (
            Edit(
                _THREAD,
                "        if own is None:\n            return until + grace",
                "        if True:\n            return until + grace",
            ),
        ),
        (f"{_TURNS}::test_a_node_is_on_time_for_what_only_it_knows[memory]",),
    ),
    Sabotage(
        "a_notification_is_answered_by_nobody_but_its_node",
        "a notification that arrives while others are on duty is not looked for",
        (Edit(_THREAD, "            self._look_at = min(self._look_at, self._answers_at)\n", "            pass\n"),),
        (f"{_TURNS}::test_a_notification_that_reaches_one_node_is_answered_within_the_grace[memory]",),
    ),
    Sabotage(
        "a_claim_does_not_make_a_node_look_on_time",
        "a node that takes what others leave stays behind them",
        (Edit(_THREAD, "            self._turns.look_on_time()\n", "            pass\n"),),
        (f"{_TURNS}::test_a_node_that_takes_what_others_left_is_on_time_from_then_on[memory]",),
    ),
    Sabotage(
        "what_a_node_in_standby_leaves_is_announced_as_if_it_were_new",
        "the nodes to which a node leaves its triggers wait for each other",
        (
            Edit(
                "quartzpy.store.postgresql.steps.holdings",
                "news(session, Notification.RESUMED)",
                "news(session)",
            ),
        ),
        ("tests/postgresql/test_news.py::test_what_a_node_leaves_to_the_others_is_for_all_of_them_at_once",),
    ),
    Sabotage(
        "a_look_for_something_else_puts_an_answer_off",
        "what a notification announced is not looked for if another look comes just before",
        (Edit(_THREAD, "now + rest if self._answers_at is None else min(now + rest, self._answers_at)", "now + rest"),),
        (f"{_TURNS}::test_a_notification_is_answered_although_another_look_comes_first[memory]",),
    ),
    Sabotage(
        "a_node_in_standby_answers_no_notification",
        "a node in standby that waits for others does not wake its misfire handler",
        (Edit(_THREAD, " or looks_anyway or self.signals.claims_nothing:", " or looks_anyway:"),),
        (f"{_TURNS}::test_a_node_in_standby_answers_notifications_at_once[memory]",),
    ),
)
