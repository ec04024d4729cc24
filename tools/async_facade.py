"""Write the awaitable twins of the facade's classes: `python -m tools.async_facade`.

The asynchronous facade has the methods of the ordinary one, with the same signatures and docstrings. So they are
written once, by hand, and this program derives the others from the classes themselves; a test fails where somebody
changed a method and did not run it. Each public method becomes a coroutine method that runs the method it is derived
from on a worker thread. Each public property that asks the database becomes a coroutine method of the same name.

Each class from which a scheduler inherits methods has a twin. A class that methods return and whose methods ask the
database in turn (a handle, a query) has one too: add it to `MODULES`, before the methods that return it.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
import textwrap
import types
import typing
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from quartzpy.scheduler.methods.base import Methods
from quartzpy.scheduler.methods.scheduling import SchedulingMethods

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "quartzpy"

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
    }
)
"""Members that ask no database: they stay as they are."""
WAITING = frozenset({"next", "shutdown", "wait", "wait_until_recorded", "wait_until_shut_down"})
"""Methods that may wait for long: each has a thread of its own."""
BY_HAND = frozenset({"cluster_events", "run", "scheduled_job", "start", "start_delayed", "using"})
"""Members that `quartzpy.aio.async_scheduler` has in a form of its own."""


@dataclass(frozen=True)
class Twin:
    """A class, and the class that is derived from it."""

    source: str
    name: str
    is_inherited: bool = False
    """A class of methods: it extends the twins of its base classes, and others extend it."""
    is_stream: bool = False
    """Its items come one by one for as long as it is open: it has `next`, which may wait for long, and `close`."""
    is_lazy: bool = False
    """The class asks the database only when it is used, as a query does: methods return it without being awaited."""

    @property
    def cls(self) -> type:
        """The class that it is derived from."""
        module, _, name = self.source.partition(":")
        return typing.cast(type, getattr(importlib.import_module(module), name))

    @property
    def variable(self) -> str:
        """The name of the type variable that a class of methods has for the class behind it."""
        return f"_{self.cls.__name__}T"


@dataclass(frozen=True)
class Module:
    """A module that is written."""

    name: str
    docstring: str
    twins: tuple[Twin, ...]

    @property
    def path(self) -> Path:
        """The path of the generated module."""
        return PACKAGE.joinpath(*self.name.split(".")[1:]).with_suffix(".py")


def _wanted(name: str, member: object) -> bool:
    """Return whether a member of a class is public and has a twin that is derived from it."""
    is_public = name == "__iter__" or not (name.startswith("_") or name in BY_HAND)
    return is_public and (inspect.isfunction(member) or isinstance(member, property))


def _twins_of_methods() -> Iterator[Twin]:
    """Yield a twin for each class that has methods on jobs and triggers, base classes first."""
    for cls in reversed(SchedulingMethods.__mro__):
        has_methods = issubclass(cls, Methods) and any(_wanted(name, member) for name, member in vars(cls).items())
        if has_methods or cls is SchedulingMethods:
            yield Twin(f"{cls.__module__}:{cls.__name__}", f"Async{cls.__name__}", is_inherited=True)


MODULES = (
    Module(
        "quartzpy.aio.results",
        "Handles, queries and streams of events, which are awaited.",
        (
            Twin("quartzpy.scheduler.cluster_events:ClusterEvents", "AsyncClusterEvents", is_stream=True),
            Twin("quartzpy.scheduler.querying:Query", "AsyncQuery", is_lazy=True),
            Twin("quartzpy.scheduler.methods.scheduling:ScheduledJob", "AsyncScheduledJob"),
            Twin("quartzpy.scheduler.methods.handles:TriggeredExecution", "AsyncTriggeredExecution"),
        ),
    ),
    Module(
        "quartzpy.aio.methods",
        "The methods of a scheduler, which are awaited.",
        (
            *_twins_of_methods(),
            Twin("quartzpy.scheduler.scheduler:BaseScheduler", "AsyncSchedulerMethods", is_inherited=True),
        ),
    ),
)


class CannotDeriveError(Exception):
    """A member has a form that this program does not know yet."""


@dataclass
class Source:
    """The source of a module: where each of its names comes from."""

    module: types.ModuleType
    imports: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Read the module's imports, also those that are for type checkers only."""
        for node in ast.walk(ast.parse(inspect.getsource(self.module))):
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    shown = f"{alias.name} as {alias.asname}" if alias.asname else alias.name
                    self.imports[alias.asname or alias.name] = f"from {node.module} import {shown}"
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    shown = f"{alias.name} as {alias.asname}" if alias.asname else alias.name
                    self.imports[(alias.asname or alias.name).partition(".")[0]] = f"import {shown}"

    def import_of(self, name: str) -> str | None:
        """The statement that imports a name of this module; None for a builtin."""
        if name in self.imports:
            return self.imports[name]
        if hasattr(self.module, name):
            return f"from {self.module.__name__} import {name}"
        return None


class Writer:
    """Writes one module."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._imports: set[str] = set()
        self._sources: dict[str, Source] = {}
        self._parameters: frozenset[str] = frozenset()
        self._twins = {twin.source.partition(":")[2]: twin for other in MODULES for twin in other.twins}
        self._homes = {twin.source: other.name for other in MODULES for twin in other.twins}

    def text(self) -> str:
        """The whole module, not yet formatted."""
        bodies = [self._class(twin) for twin in self._module.twins]
        self._imports.add("from typing import Any, Generic, TypeVar")
        docstring = (
            f'"""{self._module.docstring}\n\n'
            "`python -m tools.async_facade` writes this from the classes that stand behind. Change those instead.\n"
            '"""'
        )
        imports = "\n".join(sorted(self._imports))
        return f"{docstring}\n\nfrom __future__ import annotations\n\n{imports}\n\n" + "\n\n".join(bodies) + "\n"

    def _class(self, twin: Twin) -> str:
        parameters = [parameter.__name__ for parameter in getattr(twin.cls, "__parameters__", ())]
        self._parameters = frozenset(parameters)
        members = [self._member(twin, owner, name, member) for owner, name, member in self._members(twin)]
        source_module, _, source_name = twin.source.partition(":")
        self._imports.add(f"from {source_module} import {source_name}")
        if twin.is_inherited:
            base = ", ".join(f"{name}[{twin.variable}]" for name in self._base_names(twin))
        else:
            kind = "AsyncLazyMirror" if twin.is_lazy else "AsyncMirror"
            self._imports.add(f"from quartzpy.scheduler.async_calls import {kind}")
            shown = ", ".join(parameters)
            base = f"{kind}[{source_name}[{shown}]], Generic[{shown}]" if parameters else f"{kind}[{source_name}]"
        if twin.is_stream:
            members.append(self._context_manager())
        docstring = f'"""The methods of `{source_name}`, each of them awaitable."""'
        declared = "".join(f'{parameter} = TypeVar("{parameter}")\n' for parameter in parameters)
        if twin.is_inherited:
            declared = f'{twin.variable} = TypeVar("{twin.variable}", bound={source_name})\n'
        head = f"{declared}\n\nclass {twin.name}({base}):\n"
        return head + textwrap.indent("\n\n".join([docstring, *members]), "    ")

    def _base_names(self, twin: Twin) -> list[str]:
        """The names of the classes that a class of methods extends, which are imported."""
        bases = list(self._base_twins(twin.cls))
        for base in bases:
            self._use(base)
        if not bases:
            self._imports.add("from quartzpy.scheduler.async_calls import AsyncFacade")
        return [base.name for base in bases] or ["AsyncFacade"]

    def _base_twins(self, cls: type) -> Iterator[Twin]:
        """The twins of the base classes; of the bases of those that have no twin."""
        for base in cls.__bases__:
            twin = self._twins.get(base.__name__)
            if twin is not None and twin.cls is base:
                yield twin
            else:
                yield from self._base_twins(base)

    def _members(self, twin: Twin) -> list[tuple[type, str, object]]:
        bases = [base.cls for base in self._base_twins(twin.cls)] if twin.is_inherited else []
        members: dict[str, tuple[type, str, object]] = {}
        for owner in reversed(twin.cls.__mro__):
            if not owner.__module__.startswith("quartzpy."):
                continue
            for name, member in vars(owner).items():
                has_twin = any(inspect.getattr_static(base, name, None) is member for base in bases)
                if _wanted(name, member) and not has_twin:
                    members[name] = (owner, name, member)
        return list(members.values())

    def _member(self, twin: Twin, owner: type, name: str, member: object) -> str:
        function = member.fget if isinstance(member, property) else member
        assert isinstance(function, types.FunctionType)
        source = self._sources.setdefault(function.__module__, Source(sys.modules[function.__module__]))
        node = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
        if not isinstance(node, ast.FunctionDef) or node.returns is None:
            raise CannotDeriveError(f"{owner.__qualname__}.{name}: expected an ordinary method with a return type")
        docstring = ast.get_docstring(node)
        quoted = "" if docstring is None else textwrap.indent(f'"""{_closed(docstring)}"""', "    ") + "\n"
        if name == "__iter__":
            return self._iterator(node, source, is_stream=twin.is_stream)
        signature = self._signature(node, source)
        call = f"behind.{name}" if isinstance(member, property) else f"behind.{name}({_passed(node.args)})"
        head, body = self._body(node, source, name, call, is_property=isinstance(member, property))
        hints = "".join(f"@{ast.unparse(decorator)}\n" for decorator in self._hints(node, source))
        return f"{hints}{head.format(signature=signature)}\n{quoted}{textwrap.indent(body, '    ')}"

    def _hints(self, node: ast.FunctionDef, source: Source) -> list[ast.expr]:
        """The decorators that add advice to the error about an unknown argument."""
        decorators = [each for each in node.decorator_list if ast.unparse(each).startswith("argument_hints(")]
        for decorator in decorators:
            self._note_names(decorator, source)
        return decorators

    def _body(
        self, node: ast.FunctionDef, source: Source, name: str, call: str, *, is_property: bool
    ) -> tuple[str, str]:
        assert node.returns is not None
        returns = ast.unparse(node.returns)
        twin, shape = self._twin_in(node.returns)
        self._note_names(node.returns, source)
        if name in IMMEDIATE and twin is None:
            decorated = "@property\n" if is_property else ""
            return (
                f"{decorated}def {name}({{signature}}) -> {returns}:",
                f"return {call.replace('behind.', 'self._behind.', 1)}",
            )
        if twin is None:
            how = "_wait" if name in WAITING else "_run"
            return f"async def {name}({{signature}}) -> {returns}:", f"return await self.{how}(lambda behind: {call})"
        source_name = twin.source.partition(":")[2]
        self._use(twin)
        returned = returns.replace(source_name, twin.name)
        if twin.is_lazy:
            return f"def {name}({{signature}}) -> {returned}:", f"return {twin.name}(self, lambda behind: {call})"
        made = f"{twin.name}._of(self, result)"
        if shape == "optional":
            made = f"None if result is None else {made}"
        elif shape != "plain":
            begin, end = {"list": "[]", "set": "{}", "tuple": ("tuple(", ")")}[shape]
            made = f"{begin}{twin.name}._of(self, item) for item in result{end}"
        return (
            f"async def {name}({{signature}}) -> {returned}:",
            f"result = await self._run(lambda behind: {call})\nreturn {made}",
        )

    def _context_manager(self) -> str:
        self._imports.add("from typing import Self")
        return (
            "async def __aenter__(self) -> Self:\n"
            "    await self._run(lambda behind: None)  # From here on it misses nothing.\n"
            "    return self\n\n"
            "async def __aexit__(self, *error: object) -> None:\n    await self.close()"
        )

    def _iterator(self, node: ast.FunctionDef, source: Source, *, is_stream: bool) -> str:
        assert node.returns is not None
        self._note_names(node.returns, source)
        self._imports.add("from collections.abc import AsyncIterator")
        if not isinstance(node.returns, ast.Subscript):
            raise CannotDeriveError("__iter__: expected the return type Iterator[...]")
        item = ast.unparse(node.returns.slice)
        if is_stream:
            return (
                f"async def __aiter__(self) -> AsyncIterator[{item}]:\n"
                "    while (event := await self.next()) is not None:\n        yield event"
            )
        return f"def __aiter__(self) -> AsyncIterator[{item}]:\n    return self._items(lambda behind: behind)"

    def _twin_in(self, returns: ast.expr) -> tuple[Twin | None, str]:
        """The twin of the class that a return type names, and how: plain, optional, list, tuple or set."""
        named = [node for node in ast.walk(returns) if isinstance(node, ast.Name) and node.id in self._twins]
        if not named:
            return None, ""
        twin = self._twins[named[0].id]
        bare = returns.value if twin.is_lazy and isinstance(returns, ast.Subscript) else returns
        if isinstance(bare, ast.Name):
            return twin, "plain"
        if isinstance(bare, ast.BinOp) and ast.unparse(bare) == f"{named[0].id} | None":
            return twin, "optional"
        if isinstance(bare, ast.Subscript) and ast.unparse(bare.value) in {"list", "tuple", "set"}:
            return twin, ast.unparse(bare.value)
        raise CannotDeriveError(f"return type {ast.unparse(returns)}: no rule for this form")

    def _use(self, twin: Twin) -> None:
        home = self._homes[twin.source]
        if home != self._module.name:
            self._imports.add(f"from {home} import {twin.name}")

    def _signature(self, node: ast.FunctionDef, source: Source) -> str:
        arguments = node.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        every += [argument for argument in (arguments.vararg, arguments.kwarg) if argument is not None]
        for argument in every:
            if argument.annotation is not None:
                self._note_names(argument.annotation, source)
        for default in [*arguments.defaults, *[argument for argument in arguments.kw_defaults if argument is not None]]:
            self._note_names(default, source)
        return ast.unparse(arguments)

    def _note_names(self, node: ast.expr, source: Source) -> None:
        for name in ast.walk(node):
            if isinstance(name, ast.Name) and name.id not in self._parameters and name.id not in self._twins:
                statement = source.import_of(name.id)
                if statement is not None:
                    self._imports.add(statement)


def _closed(docstring: str) -> str:
    """The text of a docstring, so that the quotes may follow."""
    return docstring + "\n" if "\n" in docstring else docstring


def _passed(arguments: ast.arguments) -> str:
    """The arguments of a call that passes on all parameters but the first."""
    positional = [argument.arg for argument in [*arguments.posonlyargs, *arguments.args]][1:]
    passed = list(positional)
    if arguments.vararg is not None:
        passed.append(f"*{arguments.vararg.arg}")
    passed += [f"{argument.arg}={argument.arg}" for argument in arguments.kwonlyargs]
    if arguments.kwarg is not None:
        passed.append(f"**{arguments.kwarg.arg}")
    return ", ".join(passed)


def texts() -> dict[Path, str]:
    """The text of each module, not yet formatted."""
    return {module.path: Writer(module).text() for module in MODULES}


def main() -> None:
    """Write the modules, sorted and formatted as all others are."""
    for path, text in texts().items():
        path.write_text(text)
        for arguments in (["check", "--fix", "--quiet", "--select", "I,F401,UP"], ["format", "--quiet"]):
            subprocess.run([sys.executable, "-m", "ruff", *arguments, str(path)], check=True, cwd=ROOT)


if __name__ == "__main__":
    main()
