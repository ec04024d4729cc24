"""The store that the contract tests run on, if it is not one of our own."""

from __future__ import annotations

import pkgutil

import pytest

from tests.contract.harness import Harness


def add_contract_option(parser: pytest.Parser) -> None:
    parser.addoption(
        "--store",
        metavar="MODULE:CLASS",
        help="run tests/contract on the store of this harness, a subclass of tests.contract.harness.Harness that takes"
        " no arguments, instead of on our own stores",
    )


def given_harness(config: pytest.Config) -> type[Harness] | None:
    """Return the class that the option names.

    Raises:
        UsageError: there is no such class, or it is no harness.
    """
    name: str | None = config.getoption("--store")
    if name is None:
        return None
    try:
        harness = pkgutil.resolve_name(name)
    except (ImportError, AttributeError, ValueError) as error:
        raise pytest.UsageError(
            f"--store={name}: {error}; name a class as in --store=my_package.tests:MyHarness"
        ) from None
    if not (isinstance(harness, type) and issubclass(harness, Harness)):
        raise pytest.UsageError(f"--store={name}: it is no subclass of tests.contract.harness.Harness")
    return harness
