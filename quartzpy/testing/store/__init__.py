"""A kit for those who write a store of their own: the tests of the contract that our stores keep.

A test module imports the tests, and gives them a store by a fixture of this name:

    import pytest
    from quartzpy.testing.store import Harness, ManualClock
    from quartzpy.testing.store.contract import *

    class MyHarness(Harness):
        def __init__(self):
            clock = ManualClock()
            super().__init__(MyStore(clock), clock)
            self.store.open()

        def set_state(self, trigger, state):
            self.store.overwrite_state(trigger, state)

    @pytest.fixture
    def store():
        harness = MyHarness()
        yield harness
        harness.close()

`contract` holds all tests. A store that leaves out a feature imports the modules of those that it has instead; the
manual page on the store protocol lists them. The kit needs pytest.
"""

from __future__ import annotations

import pkgutil

import pytest

pytest.register_assert_rewrite(*(module.name for module in pkgutil.iter_modules(__path__, f"{__name__}.")))

from quartzpy.testing.store.harness import Harness, ManualClock  # noqa: E402

__all__ = ["Harness", "ManualClock"]
