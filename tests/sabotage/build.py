"""Takes a guard out of quartzpy: its modules and `.sql` files are changed as they are read, in this process only.

A guard is named by the text of the source that it is. Where that text is no longer there, nothing starts: a build that
is like the original would prove nothing. This module must import nothing of quartzpy.
"""

from __future__ import annotations

import pkgutil
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

ROOT = Path(__file__).resolve().parents[2]
_STORE = "quartzpy/store/postgresql"
SHARED = tuple(
    f"{_STORE}/{path}" for path in ("steps/shared.sql", "steps/acquire_parts.sql", "shared.sql", "admin/shared.sql")
)


class NothingToSabotageError(Exception):
    """What a sabotage takes out is no longer where it was."""


@dataclass(frozen=True)
class Edit:
    """A text of a module that becomes another one, everywhere in that module."""

    module: str
    """The name of a module, or the path of a `.sql` file from the root of the checkout.

    A text that is not in that file may be in a part that its statements share.
    """
    old: str
    new: str

    def applied(self, source: str) -> str:
        """The source with the guard taken out.

        Raises:
            NothingToSabotageError: the guard is not there, or what is left is no Python.
        """
        if self.old not in source:
            raise NothingToSabotageError(f"{self.module} no longer holds the text {self.old!r}: adapt the sabotage")
        changed = source.replace(self.old, self.new)
        if self.module.endswith(".sql"):
            return changed
        try:
            # Not ast.parse(): before Python 3.11.8 it raises SystemError now and then (gh-106905).
            compile(changed, self.module, "exec")
        except SyntaxError as error:
            raise NothingToSabotageError(f"{self.module} without {self.old!r} is no Python: {error}") from error
        return changed


@dataclass(frozen=True)
class Sabotage:
    """One guard, and the tests that fail without it."""

    name: str
    says: str
    """What is wrong with such a build."""
    edits: tuple[Edit, ...]
    caught_by: tuple[str, ...]
    """Ids of tests; the cheapest first."""
    hangs: bool = False
    """Whether a test waits for ever on such a build, and is ended by its time limit."""

    @property
    def guard(self) -> str:
        """What it is a build without. The cure of one fault may have parts, with a build for each."""
        cure = re.match(r"[ch]\d(?=_)", self.name)
        return cure[0] if cure else self.name

    def check(self) -> None:
        """Raises NothingToSabotageError: what it takes out is no longer there."""
        self.changed()

    def changed(self) -> dict[str, str]:
        """The sources of the modules that it changes, by their names."""
        sources: dict[str, str] = {}
        for edit in self.edits:
            module = edit.module
            if module.endswith(".sql") and edit.old not in source_of(module):
                module = next((path for path in SHARED if edit.old in source_of(path)), module)
            if module not in sources:
                sources[module] = source_of(module)
            sources[module] = edit.applied(sources[module])
        return sources

    def install(self) -> None:
        """Change what this process imports from now on.

        Raises:
            NothingToSabotageError: what it takes out is not there, or was imported already.
        """
        early = sorted({edit.module for edit in self.edits}.intersection(sys.modules))
        if early:
            raise NothingToSabotageError(f"{', '.join(early)} was imported before it could be changed")
        changed = self.changed()
        sys.meta_path.insert(0, _Finder(changed))
        _change_data({ROOT / path: text for path, text in changed.items() if path.endswith(".sql")})


def source_of(module: str) -> str:
    """The text of a module of the checkout. Raises NothingToSabotageError: there is none."""
    path = ROOT / module if module.endswith(".sql") else ROOT.joinpath(*module.split(".")).with_suffix(".py")
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise NothingToSabotageError(f"there is no module {module}: adapt the sabotage") from error


def _change_data(texts: Mapping[Path, str]) -> None:
    """From now on, pkgutil reads these texts in place of the files."""
    read = pkgutil.get_data

    def changed(package: str, resource: str) -> bytes | None:
        text = texts.get(ROOT.joinpath(*package.split("."), resource))
        return read(package, resource) if text is None else text.encode()

    pkgutil.get_data = changed


class _Finder(MetaPathFinder):
    def __init__(self, sources: dict[str, str]) -> None:
        self._sources = sources

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self._sources:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.origin is None:
            raise NothingToSabotageError(f"module {fullname} is not imported from a file")
        spec.loader = _Loader(fullname, spec.origin, self._sources[fullname])
        return spec


class _Loader(SourceFileLoader):
    """Loads a changed source; never from, and never into, the cache of compiled modules."""

    def __init__(self, fullname: str, path: str, source: str) -> None:
        super().__init__(fullname, path)
        self._source = source

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._source, self.path, "exec", dont_inherit=True)
