"""Write the stubs of the awaitable facade: `python -m tools.async_facade`.

`quartzpy.aio` makes the awaitable methods when it is imported. Type checkers cannot see that, so this program writes
the same methods, without their docstrings, into stubs beside the modules; a test fails where somebody changed a method
and did not run it.

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
from typing import Any

from quartzpy.scheduler.awaitable.derived import IMMEDIATE, members_of, returned
from quartzpy.scheduler.methods.base import Methods
from quartzpy.scheduler.methods.scheduling import SchedulingMethods

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "quartzpy"


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
        """The path of the stub."""
        return PACKAGE.joinpath(*self.name.split(".")[1:]).with_suffix(".pyi")


def _twins_of_methods() -> Iterator[Twin]:
    """Yield a twin for each class that has methods on jobs and triggers, base classes first."""
    for cls in reversed(SchedulingMethods.__mro__):
        if issubclass(cls, Methods) and (
            cls is SchedulingMethods or any(name in vars(cls) for name, _ in members_of(cls))
        ):
            yield Twin(f"{cls.__module__}:{cls.__name__}", f"Async{cls.__name__}", is_inherited=True)


MODULES = (
    Module(
        "quartzpy.scheduler.awaitable.results",
        "Handles, queries and streams of events, which are awaited.",
        (
            Twin("quartzpy.scheduler.cluster_events:ClusterEvents", "AsyncClusterEvents", is_stream=True),
            Twin("quartzpy.scheduler.querying:Query", "AsyncQuery", is_lazy=True),
            Twin("quartzpy.scheduler.methods.scheduling:ScheduledJob", "AsyncScheduledJob"),
            Twin("quartzpy.scheduler.methods.scheduling:ScheduledTrigger", "AsyncScheduledTrigger"),
            Twin("quartzpy.scheduler.methods.handles:TriggeredExecution", "AsyncTriggeredExecution"),
        ),
    ),
    Module(
        "quartzpy.scheduler.awaitable.methods",
        "The methods of a scheduler, which are awaited.",
        tuple(_twins_of_methods()),
    ),
    Module(
        "quartzpy.aio.methods",
        "The methods of a node's scheduler, which are awaited.",
        (Twin("quartzpy.scheduler.scheduler:BaseScheduler", "AsyncSchedulerMethods", is_inherited=True),),
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
        head = f"# {self._module.docstring} `python -m tools.async_facade` writes this stub."
        imports = "\n".join(sorted(self._imports))
        return f"{head}\n\nfrom __future__ import annotations\n\n{imports}\n\n" + "\n\n".join(bodies) + "\n"

    def _class(self, twin: Twin) -> str:
        parameters = [parameter.__name__ for parameter in getattr(twin.cls, "__parameters__", ())]
        self._parameters = frozenset(parameters)
        members = [self._member(name, member) for name, member in self._members(twin)]
        if not twin.is_inherited and "__iter__" in vars(twin.cls):
            members.insert(0, self._iterator(twin))
        source_module, _, source_name = twin.source.partition(":")
        self._imports.add(f"from {source_module} import {source_name}")
        if twin.is_inherited:
            # It leaves the methods of `AsyncFacade` abstract, which a stub has to say.
            base = ", ".join([*(f"{name}[{twin.variable}]" for name in self._base_names(twin)), "metaclass=ABCMeta"])
            self._imports.add("from abc import ABCMeta")
        else:
            kind = "AsyncLazyMirror" if twin.is_lazy else "AsyncMirror"
            self._imports.add(f"from quartzpy.scheduler.async_calls import {kind}")
            shown = ", ".join(parameters)
            base = f"{kind}[{source_name}[{shown}]], Generic[{shown}]" if parameters else f"{kind}[{source_name}]"
        if twin.is_stream:
            members.append(self._context_manager())
        declared = "".join(f'{parameter} = TypeVar("{parameter}")\n' for parameter in parameters)
        if twin.is_inherited:
            declared = f'{twin.variable} = TypeVar("{twin.variable}", bound={source_name})\n'
        head = f"{declared}\n\nclass {twin.name}({base}):\n"
        return head + textwrap.indent("\n".join(members or ["..."]), "    ")

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

    def _members(self, twin: Twin) -> list[tuple[str, Any]]:
        bases = [base.cls for base in self._base_twins(twin.cls)] if twin.is_inherited else []
        return [
            (name, member)
            for name, member in members_of(twin.cls)
            if not any(inspect.getattr_static(base, name, None) is member for base in bases)
        ]

    def _member(self, name: str, member: Any) -> str:
        function = member.fget if isinstance(member, property) else member
        node, source = self._definition(function)
        assert node.returns is not None
        self._note_names(node.returns, source)
        signature, returns = self._signature(node, source), ast.unparse(node.returns)
        form, _ = returned(returns)
        if form is not None:
            twin = self._twins[form]
            self._use(twin)
            returns = returns.replace(form, twin.name)
            kind = "def" if twin.is_lazy else "async def"
            return f"{kind} {name}({signature}) -> {returns}: ..."
        if name in IMMEDIATE:
            decorator = "@property\n" if isinstance(member, property) else ""
            return f"{decorator}def {name}({signature}) -> {returns}: ..."
        return f"async def {name}({signature}) -> {returns}: ..."

    def _definition(self, function: Any) -> tuple[ast.FunctionDef, Source]:
        source = self._sources.setdefault(function.__module__, Source(sys.modules[function.__module__]))
        node = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
        if not isinstance(node, ast.FunctionDef) or node.returns is None:
            raise CannotDeriveError(f"{function.__qualname__}: expected an ordinary method with a return type")
        if getattr(function, "takes_own_key", False):
            del node.args.args[1]
        return node, source

    def _context_manager(self) -> str:
        self._imports.add("from typing import Self")
        return "async def __aenter__(self) -> Self: ...\nasync def __aexit__(self, *error: object) -> None: ..."

    def _iterator(self, twin: Twin) -> str:
        node, source = self._definition(vars(twin.cls)["__iter__"])
        assert isinstance(node.returns, ast.Subscript)
        self._note_names(node.returns, source)
        self._imports.add("from collections.abc import AsyncIterator")
        return f"def __aiter__(self) -> AsyncIterator[{ast.unparse(node.returns.slice)}]: ..."

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
