"""The guards of what a node runs, and of the floors where its steps begin."""

from __future__ import annotations

from tests.sabotage.build import Edit, Sabotage

_STORE = "quartzpy.store.postgresql"
_STEPS = "quartzpy/store/postgresql/steps"
_LISTEN = "quartzpy/store/postgresql/connection/listen.sql"
_KEYS = "tests/contract/test_node_keys.py"
_ACCEPTED = "tests/postgresql/test_accepted_keys.py"
_FLOORS = "tests/postgresql/test_floors.py"
_IS_NAMED = f"{_KEYS}::test_a_trigger_about_which_the_node_has_said_nothing_stays_and_is_named[postgresql]"

NODE_KEYS = (
    Sabotage(
        "nodes_fire_what_they_do_not_know",
        "a node fires a trigger of a job type that it has never met, and cannot run it",
        (Edit(f"{_STEPS}/acquire.sql", "AND k.placement = front.placement AND k.runs OFFSET 0", "OR true OFFSET 0"),),
        (_IS_NAMED,),
    ),
    Sabotage(
        "any_hash_is_taken_for_an_accepted_one",
        "a node fires a trigger of a job type that it does not know, because it knows others",
        (
            Edit(
                f"{_STEPS}/acquire.sql",
                "] = front.key_hash",
                "] IS DISTINCT FROM 1",
            ),
        ),
        (_IS_NAMED,),
    ),
    Sabotage(
        "refused_keys_stay_accepted",
        "the hash of a key that a node has refused stays among those of what it runs",
        (Edit(f"{_STEPS}/checkin.sql", " FILTER (WHERE said.runs)", ""),),
        (f"{_ACCEPTED}::test_a_node_notes_the_hashes_of_what_it_runs",),
    ),
    Sabotage(
        "decisions_wait_for_the_row_of_their_node",
        "whoever has locked the row of a node stops the whole cluster, because its decision waits under the lock",
        (
            Edit(
                f"{_STEPS}/checkin.sql",
                "AND o.epoch = :'epoch'::bigint\n           FOR NO KEY UPDATE SKIP LOCKED) AS held",
                "AND o.epoch = :'epoch'::bigint\n           FOR NO KEY UPDATE) AS held",
            ),
        ),
        (f"{_ACCEPTED}::test_a_decision_does_not_wait_for_whoever_has_locked_the_row_of_its_node",),
    ),
    Sabotage(
        "nodes_handle_misfires_of_what_they_do_not_know",
        "a node handles the misfire of a trigger of a job type that it has never met",
        (Edit(f"{_STEPS}/misfire.sql", "AND k.runs OFFSET 0)\n", "AND k.runs OR true OFFSET 0)\n"),),
        (f"{_KEYS}::test_misfires_are_handled_by_a_node_that_runs_the_trigger[postgresql]",),
    ),
    Sabotage(
        "refused_triggers_hide_others",
        "a step takes refused triggers for those that it may take, and finds no other behind them",
        (Edit(f"{_STORE}.connection.refused_keys", "else list(self._of(node))", "else []"),),
        (f"{_KEYS}::test_refused_triggers_hide_nothing_behind_them[postgresql-named]",),
    ),
    Sabotage(
        "many_refused_triggers_hide_others",
        "a step does not look up the refused triggers that are too many to be named",
        (
            Edit(
                f"{_STEPS}/acquire.sql", "AND k.placement = t.placement AND NOT k.runs OFFSET 0)", "AND false OFFSET 0)"
            ),
        ),
        (f"{_KEYS}::test_refused_triggers_hide_nothing_behind_them[postgresql-too many to be named]",),
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
        (Edit(_LISTEN, "               AND k.runs::int = 0\n", "               AND false\n"),),
        ("tests/postgresql/test_news.py::test_what_is_due_after_triggers_that_a_node_has_refused_is_announced",),
    ),
    Sabotage(
        "floors_stay_above_what_is_released",
        "a trigger that gets a slot waits below the floor of its node",
        (Edit(f"{_STORE}.connection.next_due", "floor if floor.at <= at else replace(floor, at=at)", "floor"),),
        (
            f"{_FLOORS}::test_a_change_by_the_same_process_is_found[slot_passed_on]",
            f"{_FLOORS}::test_a_change_by_the_same_process_is_found[stored_in_one_round_trip]",
        ),
    ),
    Sabotage(
        "floors_stay_above_what_is_announced",
        "a trigger that another process stores waits below the floor",
        (
            Edit(
                f"{_STORE}.connection.next_due",
                "            self.note_waiting(at)\n\n    def require_full_read",
                "            pass\n\n    def require_full_read",
            ),
        ),
        (f"{_FLOORS}::test_a_change_by_another_process_is_found[stored]",),
    ),
    Sabotage(
        "floors_stay_above_what_a_limit_admits",
        "a trigger whose turn by its rate limit has come waits below the floor",
        (
            Edit(
                f"{_STEPS}/acquire.sql",
                "CASE WHEN :'admits'::bool AND rule.name = 'IGNORE' THEN '-infinity' ELSE slots.since END",
                "CASE WHEN :'admits'::bool THEN slots.since ELSE slots.since END",
            ),
        ),
        (f"{_FLOORS}::test_what_a_rate_limit_admits_is_found_although_it_has_waited_for_long",),
    ),
    Sabotage(
        "overtaken_reads_set_floors",
        "a read that was under way while a trigger was announced sets a floor above it",
        (Edit(f"{_STORE}.connection.next_due", "if read.changes != self._changes:", "if False:"),),
        ("tests/postgresql/test_next_due.py::test_a_read_that_was_overtaken_by_a_change_sets_no_floor",),
    ),
    Sabotage(
        "floors_outlive_a_refusal",
        "a node that runs after all what it has refused begins its steps behind it",
        (Edit(f"{_STORE}.steps.node_keys", "keeps_next_due=is_expected", "keeps_next_due=True"),),
        (f"{_FLOORS}::test_a_change_by_the_same_process_is_found[type_learned]",),
    ),
    Sabotage(
        "what_an_epoch_has_refused_outlives_it",
        "a node passes over what an epoch before it has refused",
        (
            Edit(
                f"{_STORE}.connection.refused_keys",
                "return self._refused if self._epoch == node.epoch else {}",
                "return self._refused",
            ),
        ),
        (f"{_KEYS}::test_what_an_epoch_has_refused_is_undecided_for_the_next_one[postgresql]",),
    ),
    Sabotage(
        "refusals_are_stored_beside_the_lock",
        "a trigger is not announced because of an earlier one, which a node refuses at the same moment",
        (
            Edit(f"{_STORE}.steps.node_keys", "said, _ = session.locked(", "said, _ = session.unlocked("),
            Edit(f"{_STORE}.steps.node_keys", "keeps_next_due=is_expected,", ""),
        ),
        ("tests/postgresql/test_news.py::test_what_a_node_refuses_is_stored_under_the_lock",),
    ),
    Sabotage(
        "steps_walk_under_the_lock",
        "a step walks over the triggers of other nodes while it has the lock",
        (Edit(f"{_STORE}.steps.acquire", "        if self.is_costly:\n", "        if False:\n"),),
        (f"{_FLOORS}::test_a_step_does_not_walk_over_refused_triggers_under_the_lock",),
    ),
)
