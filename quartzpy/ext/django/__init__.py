"""Django with quartzpy: a backend of its tasks, an app with commands, tables and admin, and nodes of the project.

Needs the extra `django`. Add "quartzpy.ext.django" to INSTALLED_APPS, and on Django 5.2 the package django-tasks.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quartzpy.ext.django.backend import ImmediateBackend, QuartzBackend, task
    from quartzpy.ext.django.nodes import node
    from quartzpy.ext.django.project import in_transaction, scheduler

__all__ = ["ImmediateBackend", "QuartzBackend", "in_transaction", "node", "scheduler", "task"]

_MODULES = {"ImmediateBackend": "backend", "QuartzBackend": "backend", "task": "backend", "node": "nodes"}


def __getattr__(name: str) -> Any:
    # Django imports this module before its settings and its apps can be used.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES.get(name, 'project')}"), name)
