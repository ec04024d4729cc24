"""What lets a node that rests look in time: in its turn and in those of others, and after methods."""

from __future__ import annotations

from tests.sabotage.build import Edit, Sabotage

_THREAD = "quartzpy.node.scheduler_thread"
_LOOKS = "quartzpy.node.next_look"
_TURNS = "tests/alone/test_turns.py"
_WAKES = "tests/facade/test_waking.py::test_it_wakes_a_node_that_rests"

WAKING = (
    Sabotage(
        "a_changed_job_wakes_no_node",
        "the node of memory:// does not look after a job was modified",
        (
            Edit(
                "quartzpy.scheduler.methods.storing",
                "        self._changed(EARLIEST)\n        self._emit(JobAdded(changed))\n",
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
        "a_node_whose_turn_it_is_not_never_looks_soon",
        "a node rests for minutes after a fire time in another one's turn, although that one may not have come",
        (
            Edit(_LOOKS, "return SHORTEST_GRACE + (", "return 240 + ("),
            Edit(_LOOKS, "if self.place(begin) == 0:", "if False:"),
        ),
        (
            f"{_TURNS}::test_what_a_node_was_to_take_that_died_is_taken_within_the_grace[memory-many triggers]",
            f"{_TURNS}::test_a_new_trigger_that_is_for_a_dead_node_is_taken_within_the_grace[memory-due]",
        ),
    ),
    Sabotage(
        "no_turn_belongs_to_a_node",
        "where no node has taken something before, nobody is on time for a new trigger",
        (Edit(_LOOKS, '- zlib.crc32(b"%d" % number)) % nodes', '- zlib.crc32(b"%d" % number)) % nodes + 1'),),
        (f"{_TURNS}::test_a_new_trigger_is_on_time_although_all_nodes_look_later[memory]",),
    ),
    Sabotage(
        "a_node_does_not_look_when_its_turn_begins",
        "a node that has read what is due in the turn of another one knows nothing of what is due in its own",
        (Edit(_LOOKS, "if self.place(begin) == 0:", "if False:"),),
        ("tests/node/test_next_look.py::test_the_node_whose_turn_it_is_knows_what_is_due_in_it",),
    ),
    Sabotage(
        "the_node_that_took_something_last_leaves_what_comes_next_to_the_others",
        "everything is late in the turns of a node that does not come",
        (Edit(_LOOKS, "NEXT_GRACE if took_last else", "peers.grace(at) if took_last else"),),
        (f"{_TURNS}::test_the_node_that_took_something_last_is_on_time_for_what_comes_next[memory]",),
    ),
    Sabotage(
        "a_node_does_not_note_that_it_took_something_last",
        "a node that takes what others leave is late for what comes next",
        (Edit(_LOOKS, "took_last=bool(acquired.taken) or", "took_last="),),
        (f"{_TURNS}::test_a_node_that_takes_what_others_left_is_on_time_from_then_on[memory]",),
    ),
    Sabotage(
        "the_nodes_that_are_asked_to_look_leave_what_they_read_to_each_other",
        "what a node in standby leaves to the others is late in its turn",
        (Edit(_LOOKS, "or was_asked or", "or"),),
        (f"{_TURNS}::test_a_node_in_standby_leaves_its_triggers_to_others_that_are_on_time[memory]",),
    ),
    Sabotage(
        "a_notification_is_answered_by_nobody_but_its_node",
        "a notification that arrives in the turn of another node is not looked for",
        (
            Edit(
                _LOOKS,
                "if knowledge.told_at is not None:",
                "if knowledge.told_at is not None and peers.place(knowledge.told_at) == 0:",
            ),
        ),
        (f"{_TURNS}::test_a_notification_that_reaches_one_node_is_answered_within_the_grace[memory]",),
    ),
    Sabotage(
        "a_node_that_goes_into_standby_answers_no_notification",
        "a node that waits for others and goes into standby does not wake its misfire handler",
        (Edit(_THREAD, "self.signals.claims_nothing or self._is_time_to_look()", "self._is_time_to_look()"),),
        (f"{_TURNS}::test_a_node_that_goes_into_standby_answers_notifications_at_once[memory]",),
    ),
    Sabotage(
        "a_node_trusts_what_it_knew_before_a_look_failed",
        "what a look was to find that failed is found by an idle look",
        (
            Edit(
                _THREAD,
                "        self._answer_lost = True\n        self._knowledge = Knowledge()\n",
                "        self._answer_lost = True\n",
            ),
        ),
        (f"{_TURNS}::test_a_node_looks_again_for_what_a_look_was_to_find_that_failed[memory]",),
    ),
    Sabotage(
        "a_node_believes_that_it_has_read_what_waits_for_a_full_executor",
        "what waits for an executor fires late once it has a free worker",
        (
            Edit(
                _THREAD,
                " and self._knowledge.slot_pools.issuperset(slots.slot_pool for slots in available_slots):",
                ":",
            ),
        ),
        (
            "tests/alone/test_full_nodes.py::test_what_waits_for_a_full_executor_fires_when_it_has_a_free_worker[memory]",
        ),
    ),
)
