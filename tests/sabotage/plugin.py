"""pytest's option `--sabotage NAME`: the tests of this run meet a build with one guard taken out.

For a run that must fail: `python -m pytest -p tests.sabotage.plugin --sabotage NAME TESTS`.
"""

from __future__ import annotations

import pytest

from tests.sabotage.guards import SABOTAGES


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--sabotage", choices=sorted(SABOTAGES), help="take this guard out of quartzpy")


def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    # Before any conftest imports quartzpy.
    name = early_config.known_args_namespace.sabotage
    if name:
        SABOTAGES[name].install()


def pytest_report_header(config: pytest.Config) -> str:
    name = config.getoption("--sabotage")
    return f"sabotage: {name} ({SABOTAGES[name].says})" if name else "sabotage: none"
