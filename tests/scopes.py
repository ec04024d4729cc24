"""Which tests one worker of xdist runs together.

Tests that share a dear fixture, or the databases of a server, belong together. So do the many quick tests of a module:
each unit of work costs the controller a message and a look at all others. All other tests are given out one by one,
because some of them take half a minute.

Markers of groups cannot say it: xdist 3.8 appends them to an attribute that pytest 9.2 no longer has, and then ignores
them without a word.
"""

from __future__ import annotations

import json
from collections import defaultdict, deque
from pathlib import Path
from typing import Any

from xdist.scheduler import LoadScopeScheduling

from tests.protocol.faults import Mode

TOGETHER = (
    # A cluster and a browser.
    "tests/dashboard/browser/",
    # The databases of a run of the harness are on the server that all workers share.
    "tests/bench/test_harness.py",
    # The tables of Django and of Quartz, and those that are filled to be planned for.
    "tests/migrate/test_celery_beat.py",
    "tests/migrate/test_quartz",
    "tests/postgresql/test_plans.py",
    # The reference of the documentation, which takes seconds to make.
    "tests/docs/test_docs.py",
    "tests/docs/test_site.py",
    # A cluster of Patroni.
    "tests/ha/",
)
OF_ONE_OPERATION = "tests/protocol/test_fault_loop.py::"
"""Each worker that plays faults of an operation plays it without a fault first."""
DURATIONS = Path(__file__).resolve().parent.parent / ".durations.json"
"""The seconds that each scope took the last time, which a run writes for those after it."""
QUICK = ("tests/unit/", "tests/contract/", "tests/security/", "tests/operations/")


PATIENT = (
    "tests/chaos/test_smoke.py",
    "tests/dashboard/browser/",
    "tests/cluster/",
    "tests/facade/test_liveness.py",
    "tests/bench/test_growth.py",
    "tests/conformance/test_state_scenarios.py",
    "tests/postgresql/test_failover.py",
    "tests/docs/test_tutorial.py",
    "tests/cli/test_demo.py",
    "tests/embedded/",
    "tests/ext/test_celery.py",
    "tests/facade/test_lost_answers.py",
    "tests/incidents/test_standstill.py",
)
"""Tests that take seconds of which most are waits: for leases, for instants, for other processes. The longest first."""


def scope_of(nodeid: str) -> str:
    """Return what a test has in common with those that the same worker runs."""
    for start in TOGETHER:
        if nodeid.startswith(start):
            return start
    if nodeid.startswith(OF_ONE_OPERATION):
        return OF_ONE_OPERATION + _operation(nodeid)
    return nodeid.partition("::")[0] if nodeid.startswith(QUICK) else nodeid


def _operation(nodeid: str) -> str:
    _, bracket, parameters = nodeid.partition("[")
    for end in Mode:
        parameters = parameters.removesuffix(f"-{end}]")
    return bracket and parameters.removesuffix("]")


def is_patient(scope: str) -> bool:
    """Return whether the tests of a scope wait for most of their time."""
    return scope.startswith(PATIENT)


class ByScope(LoadScopeScheduling):
    """Gives each worker one scope after the other: at most half of the workers wait, and the others compute.

    The scopes that took longest the last time are given out first; those of which nothing is known, the patient ones in
    the order of `PATIENT`, and the others by their sizes, the largest first. With one queue for both, all workers wait
    at the same time, and the last ones of a run wait for the longest test.
    """

    def __init__(self, config: Any, log: Any, durations: Path = DURATIONS) -> None:
        super().__init__(config, log)
        self._patient: deque[str] | None = None
        self._busy: deque[str] = deque()
        self._file = durations
        self._took: defaultdict[str, float] = defaultdict(float)
        """The seconds that each scope took in this run."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)

    def _assign_work_unit(self, node: Any) -> None:
        self.workqueue.move_to_end(self._next_scope(), last=False)
        super()._assign_work_unit(node)

    def _next_scope(self) -> str:
        if self._patient is None:
            last = self._last_durations()
            by_place = {place: [scope for scope in self.workqueue if scope.startswith(place)] for place in PATIENT}
            patient = [scope for scopes in by_place.values() for scope in scopes]
            busy = [scope for scope in self.workqueue if not is_patient(scope)]
            self._patient, self._busy = (
                deque(sorted(scopes, key=lambda scope: last.get(scope, 0.0), reverse=True))
                for scopes in (patient, busy)
            )
        waiting = sum(any(map(is_patient, assigned)) for assigned in self.assigned_work.values())
        queues = [self._patient, self._busy] if 2 * waiting < len(self.nodes) else [self._busy, self._patient]
        for queue in queues:
            while queue:
                # A crashed worker's scopes are in the queue of xdist again, and stay there to the end.
                if (scope := queue.popleft()) in self.workqueue:
                    return scope
        return next(iter(self.workqueue))

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        nodeid = self.registered_collections[node][item_index]
        scope = scope_of(nodeid)
        self._took[scope] += duration
        assigned = self.assigned_work[node]
        assigned[scope][nodeid] = True
        # xdist keeps the scopes that have ended, and counts the pending tests of all of them after each test.
        if all(assigned[scope].values()):
            del assigned[scope]
        self._reschedule(node)

    def _last_durations(self) -> dict[str, float]:
        try:
            last: dict[str, float] = json.loads(self._file.read_text())
        except (OSError, ValueError):
            return {}
        return last

    def remember(self) -> None:
        """Write how long the scopes of this run took, beside what is known of others."""
        if self._took:
            self._file.write_text(json.dumps(self._last_durations() | self._took, indent=0, sort_keys=True))
