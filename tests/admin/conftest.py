"""Operators' views of a database, with the clock of the test: the harness of the contract, on PostgreSQL only."""

from __future__ import annotations

import pytest

from tests.contract.conftest import sql_backends as sql_backends
from tests.contract.conftest import store as store
from tests.full_reads import _every_read_is_full as _every_read_is_full


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    is_parametrized = any(mark.args[0] == "store" for mark in metafunc.definition.iter_markers("parametrize"))
    if "store" in metafunc.fixturenames and not is_parametrized:
        metafunc.parametrize("store", ["postgresql"], indirect=True)
