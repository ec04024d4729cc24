"""The kinds of incidents, each of them a module of this package; see `IncidentKind`."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

from quartzpy.operations.incidents.incident import About, IncidentKind


@cache
def all_kinds() -> tuple[IncidentKind, ...]:
    """Return the kinds, by what they are about and by name."""
    modules = [import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)]
    order = list(About)
    return tuple(sorted((module.KIND for module in modules), key=lambda kind: (order.index(kind.about), kind.names)))


@cache
def kinds_of_nodes() -> frozenset[str]:
    """Return the names of the kinds whose incidents have a node as their subject."""
    return frozenset(name for kind in all_kinds() if kind.names_node for name in kind.names)
