"""What lets a node that rests look in time: for what it has fired, reconciled or lost, and after methods."""

from __future__ import annotations

from tests.sabotage.build import Edit, Sabotage

_THREAD = "quartzpy.node.scheduler_thread"
_ON_TIME = "tests/alone/test_on_time.py::test_each_fire_is_on_time"
_ENDS = "tests/alone/test_ends.py"
_WAKES = "tests/facade/test_waking.py::test_it_wakes_a_node_that_rests"

WAKING = (
    Sabotage(
        "a_fire_does_not_count_for_the_next_look",
        "a node rests without regard to when what it has just fired fires next",
        (Edit(_THREAD, "            self._look_at = min(self._look_at, self._clock.monotonic() + until)\n", ""),),
        (f"{_ON_TIME}[memory-one of every second-one node]", f"{_ON_TIME}[postgresql-one of every second-one node]"),
    ),
    Sabotage(
        "a_skipped_fire_does_not_count_for_the_next_look",
        "a node rests without regard to when a trigger fires next whose fire it has just skipped",
        (Edit(_THREAD, ", *firing.skipped])", "])"),),
        (f"{_ENDS}::test_fires_that_are_skipped[memory-one node]",),
    ),
    Sabotage(
        "what_was_reconciled_is_not_looked_for",
        "a node that fires a claim after it has reconciled another fire rests without a look",
        (
            Edit(
                _THREAD,
                "no look has seen it since.\n        self.signals.looks_again = True\n",
                "no look has seen it since.\n",
            ),
        ),
        (f"{_ENDS}::test_a_fire_whose_answer_was_lost[postgresql]",),
    ),
    Sabotage(
        "a_lost_claim_is_not_looked_for",
        "a node whose claim was lost, because its trigger was moved, rests without a look",
        (
            Edit(
                _THREAD,
                "and may be due soon.\n            self.signals.looks_again = True\n",
                "and may be due soon.\n            pass\n",
            ),
        ),
        (f"{_ENDS}::test_a_claim_whose_trigger_was_moved[memory]",),
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
                "        self._notified_at = now\n        self._wake_others(epoch)\n",
                "        self._notified_at = now\n",
            ),
        ),
        ("tests/alone/test_full_nodes.py::test_an_idle_node_takes_the_fire_of_a_full_one[memory]",),
    ),
)
