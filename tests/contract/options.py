"""The store and the engine that the contract tests run on, if they are not our own."""

from __future__ import annotations

import pkgutil
from typing import TypeVar

import pytest

from tests.contract.engine_harness import EngineHarness
from tests.contract.harness import Harness

T = TypeVar("T")


def add_contract_option(parser: pytest.Parser) -> None:
    parser.addoption(
        "--store",
        metavar="MODULE:CLASS",
        help="run tests/contract on the store of this harness, a subclass of tests.contract.harness.Harness that takes"
        " no arguments, instead of on our own stores",
    )
    parser.addoption(
        "--engine",
        metavar="MODULE:CLASS",
        help="run tests/contract/test_engines.py on the engine of this harness, a subclass of"
        " tests.contract.engine_harness.EngineHarness that takes no arguments, instead of on our own engines",
    )


def given_harness(config: pytest.Config) -> type[Harness] | None:
    """Return the class that the option `--store` names.

    Raises:
        UsageError: there is no such class, or it is no harness.
    """
    return _given(config, "--store", Harness)


def given_engine(config: pytest.Config) -> type[EngineHarness] | None:
    """Return the class that the option `--engine` names.

    Raises:
        UsageError: there is no such class, or it is no harness.
    """
    return _given(config, "--engine", EngineHarness)


def _given(config: pytest.Config, option: str, base: type[T]) -> type[T] | None:
    name: str | None = config.getoption(option)
    if name is None:
        return None
    try:
        harness = pkgutil.resolve_name(name)
    except (ImportError, AttributeError, ValueError) as error:
        raise pytest.UsageError(
            f"{option}={name}: {error}; name a class as in {option}=my_package.tests:MyHarness"
        ) from None
    if not (isinstance(harness, type) and issubclass(harness, base)):
        raise pytest.UsageError(f"{option}={name}: it is no subclass of {base.__module__}.{base.__name__}")
    return harness
