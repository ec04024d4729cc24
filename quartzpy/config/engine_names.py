"""The names of engines, by which settings choose them: ours, and the entry points of other packages."""

from __future__ import annotations

from importlib.metadata import entry_points

GROUP = "quartzpy.engines"
"""The group of entry points under which a package offers an engine."""
OURS = {
    "processes": "quartzpy.node.engines.processes:engine",
    "futures": "quartzpy.node.engines.futures:engine",
    "dask": "quartzpy.node.engines.dask_cluster:engine",
    "celery": "quartzpy.ext.celery.engine:engine",
}
"""The function of each engine, as `module:name`."""


def engine_reference(name: str) -> str | None:
    """Return the function that makes the engine, as `module:name`; None if no engine has this name."""
    if name in OURS:
        return OURS[name]
    return next((entry.value for entry in entry_points(group=GROUP, name=name)), None)


def engine_names() -> list[str]:
    """Return the names of all engines that are installed."""
    return sorted({*OURS, *(entry.name for entry in entry_points(group=GROUP))})
