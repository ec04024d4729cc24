"""Which tests one worker of xdist runs together.

Tests that share a dear fixture, or the databases of a server, belong together. So do the many quick tests of a module:
each unit of work costs the controller a message and a look at all others. All other tests are given out one by one,
because some of them take half a minute.

Markers of groups cannot say it: xdist 3.8 appends them to an attribute that pytest 9.2 no longer has, and then ignores
them without a word.
"""

from __future__ import annotations

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
    # A cluster of Patroni.
    "tests/ha/",
)
OF_ONE_OPERATION = "tests/protocol/test_fault_loop.py::"
"""Each worker that plays faults of an operation plays it without a fault first."""
QUICK = ("tests/unit/", "tests/contract/", "tests/security/", "tests/operations/")


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


class ByScope(LoadScopeScheduling):
    """Gives each worker one scope after the other, the largest first."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)
