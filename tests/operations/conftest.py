"""A store on PostgreSQL whose time a test moves, and the operations on it."""

from __future__ import annotations

import pytest

from quartzpy import Scheduler
from quartzpy.config.config import SchedulerConfig
from quartzpy.operations import Operations
from tests.admin.conftest import pytest_generate_tests as pytest_generate_tests
from tests.contract.conftest import sql_backends as sql_backends
from tests.contract.conftest import store as store
from tests.contract.harness import Harness
from tests.full_reads import _every_read_is_full as _every_read_is_full


@pytest.fixture
def operations(store: Harness, monkeypatch: pytest.MonkeyPatch) -> Operations:
    """Operations of a client, which is not started. A pause is an incident at once: so the nodes say in their rows."""
    monkeypatch.setattr(store.store, "_config", SchedulerConfig(name="contract", pause_grace="1us"))
    return Operations(Scheduler(store.store, name="contract", pause_grace="1us"))
