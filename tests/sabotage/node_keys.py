"""The guards of what a node runs, and of the floors where its steps begin."""

from __future__ import annotations

from tests.sabotage.build import Edit, Sabotage

_STORE = "quartzpy.store.postgresql"
_STEPS = "quartzpy/store/postgresql/steps"
_LISTEN = "quartzpy/store/postgresql/connection/listen.sql"
_KEYS = "tests/contract/test_node_keys.py"
_ROWS = "tests/postgresql/test_node_keys.py"
_OUTLOOK = "quartzpy.node.outlook"
_FLOORS = "tests/postgresql/test_floors.py"
_IS_NAMED = f"{_KEYS}::test_a_trigger_about_which_the_node_has_said_nothing_stays_and_is_named[postgresql]"


def _all_but_refused(file: str) -> tuple[Edit, ...]:
    """A step takes what its node has not refused."""
    return (
        Edit(f"{_STEPS}/{file}", "AND ((SELECT runs FROM keys))[", "AND ((SELECT refuses FROM keys))["),
        Edit(
            f"{_STEPS}/{file}", ", (SELECT runs FROM keys))] =\n", ", (SELECT refuses FROM keys))] IS DISTINCT FROM\n"
        ),
    )


NODE_KEYS = (
    Sabotage(
        "nodes_fire_what_they_do_not_know",
        "a node fires a trigger of a job type that it has never met, and cannot run it",
        _all_but_refused("acquire.sql"),
        (_IS_NAMED,),
    ),
    Sabotage(
        "refused_keys_stay_accepted",
        "the hash of a key that a node has refused stays among those of what it runs",
        (Edit(f"{_STEPS}/checkin.sql", "WHERE before.key_hash NOT IN (SELECT key_hash FROM said)", ""),),
        (f"{_ROWS}::test_what_a_node_says_is_in_its_row",),
    ),
    Sabotage(
        "decisions_wait_for_the_row_of_their_node",
        "whoever has locked the row of a node stops the whole cluster, because its decision waits under the lock",
        (
            Edit(
                f"{_STEPS}/checkin.sql",
                "       FOR NO KEY UPDATE SKIP LOCKED\n),\ndecided AS",
                "       FOR NO KEY UPDATE\n),\ndecided AS",
            ),
        ),
        (f"{_ROWS}::test_a_decision_does_not_wait_for_whoever_has_locked_the_row_of_its_node",),
    ),
    Sabotage(
        "decisions_that_were_not_stored_are_believed",
        "a node says nothing more about a key, though the row with what it has said was locked",
        (
            Edit(
                "quartzpy.node.workers.capacity",
                "if not (changed and self._store.decide(node, changed)):",
                "if not changed or (self._store.decide(node, changed) and False):",
            ),
        ),
        ("tests/node/test_known_types.py::test_what_could_not_be_stored_is_said_again",),
    ),
    Sabotage(
        "new_keys_are_decided_one_by_one",
        "a node takes a step for each of many new job types before it fires their triggers",
        (
            Edit(
                "quartzpy.node.workers.capacity",
                "return self._decide(node, waiting, met=",
                "return self._decide(node, (), met=",
            ),
        ),
        ("tests/node/test_known_types.py::test_a_node_that_meets_a_new_type_decides_about_all_that_wait",),
    ),
    Sabotage(
        "nodes_handle_misfires_of_what_they_do_not_know",
        "a node handles the misfire of a trigger of a job type that it has never met",
        _all_but_refused("misfire.sql"),
        (f"{_KEYS}::test_misfires_are_handled_by_a_node_that_runs_the_trigger[postgresql]",),
    ),
    Sabotage(
        "refused_triggers_hide_others",
        "a look takes a refused trigger for one that the node may take, and finds no other behind it",
        (Edit(f"{_STEPS}/acquire.sql", "AND (NOT (SELECT refuses_some FROM keys)\n", "AND (true\n"),),
        (f"{_KEYS}::test_refused_triggers_hide_nothing_behind_them[postgresql-1]",),
    ),
    Sabotage(
        "new_slot_pools_stay_unknown",
        "no node looks for triggers of an execution group that nobody has used before",
        (Edit(f"{_STEPS}/acquire.sql", "AND t.slot_pool < met.following", "AND false"),),
        (f"{_KEYS}::test_a_slot_pool_that_the_node_did_not_know_is_named[postgresql]",),
    ),
    Sabotage(
        "announcements_count_on_nodes_that_refuse",
        "a trigger is not announced because an earlier one exists, which a node sleeps past",
        (Edit(_LISTEN, "WHERE sched_name = :'sched' AND refuses <> '{}'", "WHERE false"),),
        ("tests/postgresql/test_news.py::test_what_is_due_after_triggers_that_a_node_has_refused_is_announced",),
    ),
    Sabotage(
        "floors_stay_above_what_is_stored_here",
        "a trigger that a node's own program stores waits below the floor of the node",
        (Edit("quartzpy.node.signals", "self.scheduler.changes.add(own=earliest or EARLIEST)", "pass"),),
        ("tests/facade/test_floors.py::test_what_the_program_stores_fires_at_once[stored]",),
    ),
    Sabotage(
        "floors_stay_above_what_is_released",
        "a trigger that was parked, and fires or waits again, waits below the floor of its node",
        (Edit(_OUTLOOK, "floors if front.waits_from is None else _lowered(floors, front.waits_from)", "floors"),),
        (
            "tests/node/test_outlook.py::test_what_a_step_lets_wait_lowers_the_floors_of_all_slot_pools",
            f"{_FLOORS}::test_a_trigger_that_a_step_lets_wait_is_found_also_in_a_slot_pool_without_free_slots",
        ),
    ),
    Sabotage(
        "reads_after_a_step_miss_what_was_parked",
        "a trigger that was parked, and has fired, is not seen by the read of the same round trip",
        (Edit(f"{_STORE}.steps.acquire", "fired if begin is not None and is_until(fired, begin) else None", "None"),),
        (f"{_FLOORS}::test_a_parked_trigger_that_fires_is_found_at_its_next_fire_time_below_the_floor",),
    ),
    Sabotage(
        "floors_stay_above_what_is_announced",
        "a trigger that another process stores waits below the floor",
        (Edit("quartzpy.node.signals", "self.changes.add(of_others=waits_from or EARLIEST)", "pass"),),
        (f"{_FLOORS}::test_a_change_by_another_process_is_found[stored]",),
    ),
    Sabotage(
        "dear_reads_are_rare_no_more",
        "floors last as long as the short reads that begin at them",
        (Edit(_OUTLOOK, "            if pool in expected.begins\n", "            if False\n"),),
        ("tests/node/test_outlook.py::test_a_read_that_began_at_the_floor_raises_it_and_makes_it_last_no_longer",),
    ),
    Sabotage(
        "what_is_left_before_a_backlog_is_never_looked_for",
        "a trigger that is due before those of a backlog, and of which nobody has told, waits until the next idle look",
        (Edit(_OUTLOOK, "floor.until if floor.is_dear else 0.0", 'floor.until if floor.is_dear else float("inf")'),),
        ("tests/node/test_outlook.py::test_a_full_read_follows_at_once_after_the_last_batch_of_a_backlog",),
    ),
    Sabotage(
        "floors_outlive_a_refusal",
        "a node that runs after all what it has refused begins its steps behind it",
        (Edit("quartzpy.node.scheduler_thread", "may_take_more, outlook = True, Outlook()", "may_take_more = True"),),
        ("tests/node/test_scheduler_thread.py::test_a_thread_that_has_said_what_it_runs_reads_everything_first",),
    ),
    Sabotage(
        "refusals_are_stored_beside_the_lock",
        "a trigger is not announced because of an earlier one, which a node refuses at the same moment",
        (Edit(f"{_STORE}.steps.node_keys", "[said] = session.locked(", "[said] = session.unlocked("),),
        ("tests/postgresql/test_news.py::test_what_a_node_refuses_is_stored_under_the_lock",),
    ),
    Sabotage(
        "steps_walk_under_the_lock",
        "a step walks over the triggers of other nodes while it has the lock",
        (
            Edit(
                _OUTLOOK,
                "reads_first=is_dear or not (is_due and is_on_time)",
                "reads_first=not (is_due and is_on_time)",
            ),
        ),
        (f"{_FLOORS}::test_a_step_does_not_walk_over_refused_triggers_under_the_lock",),
    ),
)
