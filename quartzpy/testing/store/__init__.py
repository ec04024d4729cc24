"""A test kit for authors of stores: the tests of the contract that quartzpy's own stores pass.

A test module imports the tests, and provides a store in a fixture of this name:

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

`contract` has all tests. For a store without some features, import only the modules of the features that it has; the
manual page on the store protocol lists them. The kit needs pytest.
"""

from __future__ import annotations

import pkgutil

import pytest

pytest.register_assert_rewrite(*(module.name for module in pkgutil.iter_modules(__path__, f"{__name__}.")))

from quartzpy.testing.store.harness import Harness, ManualClock  # noqa: E402

__all__ = ["Harness", "ManualClock"]
