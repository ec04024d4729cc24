"""What the package imports is declared in `pyproject.toml`, with lower bounds that have no published holes."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions

import pytest

from tests.docs.code_blocks import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
FOR_DEVELOPERS = {"dev", "docs", "bench", "release"}
PARTS = {
    "dashboard": ("dashboard", "mcp", "oidc"),
    "embedded": ("embedded",),
    "otel": ("otel",),
    "ext/celery": ("celery",),
    "ext/django": ("django",),
    "demo": ("embedded",),
}
"""What the packages with an extra of their own may import beside what everybody has."""
WITHOUT_HOLES = {
    "h11": (0, 16),  # CVE-2025-43859
    "starlette": (1, 0, 1),  # CVE-2026-48710
    "jinja2": (3, 1, 6),  # CVE-2025-27516
    "python-multipart": (0, 0, 30),  # CVE-2026-53539, CVE-2026-42561
}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def requirements(*extras: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The names of what these extras and everybody need, with their lower bounds."""
    for text in [*PROJECT["dependencies"], *(text for extra in extras for text in EXTRAS[extra])]:
        match = re.match(r"([\w.-]+)(?:\[([\w,]+)\])?(?:.*?>=([\d.]+))?", text)
        assert match is not None, text
        name, nested, bound = match.groups()
        if name == "quartzpy":
            yield from requirements(*nested.split(","))
        else:
            yield normal(name), tuple(map(int, bound.split("."))) if bound else ()


def undeclared(declared: set[str], part: str = "") -> set[str]:
    """The packages that modules import, at any place in them, and that none of the declared distributions brings."""
    names = set()
    for path in (ROOT / "quartzpy" / part).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Import():
                    names |= {alias.name for alias in node.names}
                case ast.ImportFrom(module=str(module), level=0):
                    names.add(module)
    modules = {name.partition(".")[0] for name in names} - {*sys.stdlib_module_names, "quartzpy"}
    distributions = packages_distributions()
    return {module for module in modules if not declared & {normal(name) for name in distributions.get(module, ())}}


def test_each_package_that_is_imported_is_declared() -> None:
    declared = {name for name, _ in requirements(*EXTRAS.keys() - FOR_DEVELOPERS)}
    assert undeclared(declared) == set()


@pytest.mark.parametrize("part", PARTS)
def test_a_part_with_an_extra_imports_what_the_extra_installs(part: str) -> None:
    needed = {name for name, _ in requirements(*PARTS[part])}
    # Each is asked for where it is needed, with the line that installs it.
    optional = {normal(name) for extra in ("yaml", "http", "terminal") for name, _ in requirements(extra)}
    assert undeclared(needed | optional, part) == set()


def test_all_is_all() -> None:
    everything = {name for name, _ in requirements(*EXTRAS.keys() - FOR_DEVELOPERS)}
    assert {name for name, _ in requirements("all")} == everything


def test_no_lower_bound_admits_a_release_with_a_published_hole() -> None:
    bounds = [item for extra in EXTRAS for item in requirements(extra)]
    for name, bound in bounds:
        assert bound or name in ("tzdata", "httpx2", "types-jsonschema", "sqlalchemy"), f"{name} has no lower bound"
        assert bound >= WITHOUT_HOLES.get(name, ()), f"{name} {bound}"
