"""The guards of a drain: what jobs may still do, and that it ends."""

from __future__ import annotations

from tests.sabotage.build import Edit, Sabotage

_SCHEDULER = "quartzpy.scheduler.scheduler"
_DRAINING = "tests/facade/test_draining.py"

DRAINS = (
    Sabotage(
        "a_drain_refuses_its_jobs",
        "the jobs that a drain waits for fail, because the scheduler refuses them from the beginning of the drain",
        (
            Edit(
                _SCHEDULER,
                "        if self._closed.is_set():\n            raise",
                "        if self.is_shut_down:\n            raise",
            ),
        ),
        (f"{_DRAINING}::test_a_job_uses_the_scheduler_until_it_has_ended[memory-Following]",),
    ),
    Sabotage(
        "a_drain_waits_for_itself",
        "a drain without a limit waits for a job that waits for what no node can run",
        (Edit(_SCHEDULER, "node.waits_without_limit and not has_begun()", "False and not has_begun()"),),
        (f"{_DRAINING}::test_a_drain_without_a_limit_ends_although_a_job_waits_for_what_no_node_runs[memory]",),
    ),
    Sabotage(
        "abandoned_jobs_schedule",
        "jobs that a drain has abandoned still use the scheduler, while it takes its connections away",
        (
            Edit("quartzpy.node.node", "            closing(False)\n", ""),
            Edit("quartzpy.node.node", "        closing(drained)\n", ""),
            Edit(_SCHEDULER, "        self._close(drained)\n", ""),
        ),
        (f"{_DRAINING}::test_after_the_time_limit_of_the_drain_a_job_is_told_why_it_is_refused[memory]",),
    ),
    Sabotage(
        "a_refire_is_left_before_the_last_pass",
        "a node that begins to drain leaves a refire to others, and its own last pass claims it",
        (
            Edit(
                "quartzpy.node.signals",
                "return self.is_draining and self.scheduler.resting.is_set()",
                "return self.is_draining",
            ),
        ),
        ("tests/facade/test_life.py::test_a_node_leaves_no_refire_to_others_before_it_has_stopped_claiming[memory]",),
    ),
)
