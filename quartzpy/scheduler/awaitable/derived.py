"""The methods of the asynchronous facade, made from those of the ordinary one when they are imported.

Each public method becomes a coroutine method that runs the method it is made from on a worker thread, with the same
parameters and docstring. Each public property that asks the database becomes a coroutine method of the same name. A
method that returns a handle or a query returns its awaitable form. Type checkers read the same from the stubs that
`python -m tools.async_facade` writes.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from functools import lru_cache, wraps
from typing import Any, ClassVar

IMMEDIATE = frozenset(
    {
        "config",
        "currently_executing_jobs",
        "health",
        "instance_id",
        "is_in_standby",
        "is_shut_down",
        "is_started",
        "job_key",
        "key",
        "metadata",
        "name",
        "node",
    }
)
"""Members that ask no database: they stay as they are."""
WAITING = frozenset({"next", "shutdown", "wait", "wait_until_recorded", "wait_until_shut_down"})
"""Methods that may wait for long: each has a thread of its own."""
BY_HAND = frozenset({"cluster_events", "run", "scheduled_job", "start", "start_delayed", "using"})
"""Members that `quartzpy.aio.async_scheduler` has in a form of its own."""
LAZY = frozenset({"Query"})
"""Classes that ask the database only when they are used: methods return them without being awaited."""
RETURNED = LAZY | {"ClusterEvents", "ScheduledJob", "ScheduledTrigger", "TriggeredExecution"}
"""Classes that methods return, and that have an awaitable form."""

_forms: dict[str, Any] = {}
"""The awaitable form of each class, by its name."""


class Derived:
    """A base class of the awaitable forms: each has the methods of the class that it names as `behind`."""

    _derived_from: ClassVar[type]

    def __init_subclass__(cls, behind: type | None = None, **values: Any) -> None:
        if behind is not None:
            cls._derived_from = behind
            _forms[behind.__name__] = cls
            inherited = [vars(base)["_derived_from"] for base in cls.__mro__[1:] if "_derived_from" in vars(base)]
            for name, member in members_of(behind):
                if name in vars(cls) or any(inspect.getattr_static(base, name, None) is member for base in inherited):
                    continue
                setattr(cls, name, _awaitable(cls, name, member))
        # Last, because the other base classes look at the methods.
        super().__init_subclass__(**values)


def members_of(behind: type) -> Iterator[tuple[str, Any]]:
    """Yield the public methods and properties that have an awaitable form."""
    members = {
        name: member
        for owner in reversed(behind.__mro__)
        if owner.__module__.startswith("quartzpy.")
        for name, member in vars(owner).items()
        if not (name.startswith("_") or name in BY_HAND)
        if inspect.isfunction(member) or isinstance(member, property)
    }
    yield from members.items()


@lru_cache
def returned(annotation: str) -> tuple[str | None, str]:
    """Return which of `RETURNED` a return type names, and how: plain, optional, list, tuple or set.

    Raises:
        TypeError: there is no rule for such a return type.
    """
    tree = ast.parse(annotation, mode="eval").body
    named = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id in RETURNED]
    if not named:
        return None, ""
    [name] = named
    if isinstance(tree, ast.Subscript) and name in LAZY:
        tree = tree.value
    if isinstance(tree, ast.Name):
        return name, "plain"
    if isinstance(tree, ast.BinOp) and ast.unparse(tree) == f"{name} | None":
        return name, "optional"
    if isinstance(tree, ast.Subscript) and ast.unparse(tree.value) in _COLLECTIONS:
        return name, ast.unparse(tree.value)
    raise TypeError(f"return type {annotation}: no rule for this form")


_COLLECTIONS: dict[str, Callable[[Any], Any]] = {"list": list, "tuple": tuple, "set": set}


def _awaitable(cls: type, name: str, member: Any) -> Any:
    """Return what a class has in place of a method or property of the class behind it."""
    is_property = isinstance(member, property)
    function: Any = member.fget if isinstance(member, property) else member
    annotation = function.__annotations__["return"]
    form, shape = returned(annotation)

    def call(behind: Any, *args: Any, **kwargs: Any) -> Any:
        member_of_it = getattr(behind, name)
        return member_of_it if is_property else member_of_it(*args, **kwargs)

    if form is None and name in IMMEDIATE:

        def immediate(self: Any, *args: Any, **kwargs: Any) -> Any:
            return call(self._behind, *args, **kwargs)

        made: Any = wraps(function)(immediate)
    elif form in LAZY:

        def lazy(self: Any, *args: Any, **kwargs: Any) -> Any:
            return _forms[form](self, lambda behind: call(behind, *args, **kwargs))

        made = wraps(function)(lazy)
    else:
        how = "_wait" if name in WAITING else "_run"

        async def awaited(self: Any, *args: Any, **kwargs: Any) -> Any:
            result = await getattr(self, how)(lambda behind: call(behind, *args, **kwargs))
            if form is None or result is None:
                return result
            if shape in _COLLECTIONS:
                return _COLLECTIONS[shape](_forms[form]._of(self, item) for item in result)
            return _forms[form]._of(self, result)

        made = wraps(function)(awaited)
    made.__module__, made.__qualname__ = cls.__module__, f"{cls.__qualname__}.{name}"
    if form is not None:
        signature = inspect.signature(function)
        made.__signature__ = signature.replace(return_annotation=annotation.replace(form, f"Async{form}"))
    return property(made) if is_property and form is None and name in IMMEDIATE else made
