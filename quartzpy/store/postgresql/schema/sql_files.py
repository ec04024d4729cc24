"""The `.sql` files of the store: named statements in the language of psql.

- `-- name: acquire` begins a statement, and `;` ends it.
- `:'limit'` is a value. It is sent as text, so each is cast at its first use. `:now` is the store's clock, an
  expression.
- `\\if :name`, `\\else` and `\\endif`, each on a line of its own, are psql's. A switch that is not named is off.
- The names of the tables have the default prefix, and no schema.

What several statements share stands once, as a part of one of the files of `SHARED`: `-- part: node` begins it. The
line `-- include: node` puts it in, with the indentation of its place. `-- include: matches_group of t.job_group` puts
in a part about a column, which is `:column` in the part. `python -m tools.sql NAME` prints a whole statement.
"""

from __future__ import annotations

import pkgutil
import re
import textwrap
from collections.abc import Iterator, Mapping
from functools import cache

SHARED = ("shared.sql", "steps/shared.sql", "steps/acquire_parts.sql", "admin/shared.sql")
"""The files of parts."""
_PACKAGE = "quartzpy.store.postgresql"
_INCLUDE = re.compile(r"^( *)-- include: (\w+)(?: of ([\w.]+))?\n", re.MULTILINE)
_PART = re.compile(r"^-- part: (\w+)\n", re.MULTILINE)
_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_SWITCH = re.compile(r"^ *\\(if :\w+|else|endif) *\n", re.MULTILINE)


class SqlFile:
    """The statements of one file, at a path within the package of this store.

    Each is an attribute, and a call chooses its switches. A module has a constant for what others use, too.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._texts: dict[tuple[str, frozenset[tuple[str, bool]]], str] = {}

    def __call__(self, name: str, **switches: bool) -> str:
        """Return the text of a statement, with the lines that these switches choose.

        Raises:
            LookupError: the file has no such statement, or the statement no such switch.
        """
        wanted = name, frozenset(switches.items())
        if wanted not in self._texts:
            self._texts[wanted] = self._text(name, switches)
        return self._texts[wanted]

    def __getattr__(self, name: str) -> str:
        # Only for a name that is asked for the first time.
        if name.startswith("_"):
            raise AttributeError(name)
        text = self(name)
        setattr(self, name, text)
        return text

    def _text(self, name: str, switches: Mapping[str, bool]) -> str:
        statements = _statements(self._path)
        if name not in statements:
            raise LookupError(f"{self._path} has no statement {name!r}; it has {', '.join(statements)}")
        first, *rest = _SWITCH.split(statements[name])
        commands = rest[::2]
        if unknown := switches.keys() - {command.removeprefix("if :") for command in commands}:
            raise LookupError(f"{self._path}: the statement {name!r} has no switch {', '.join(sorted(unknown))}")
        chosen, taken = [first], [True]
        for command, lines in zip(commands, rest[1::2], strict=True):
            match command:
                case "else":
                    taken[-1] = not taken[-1]
                case "endif":
                    taken.pop()
                case _:
                    taken.append(switches.get(command.removeprefix("if :"), False))
            if all(taken):
                chosen.append(lines)
        return "".join(chosen)


def names_in(path: str) -> list[str]:
    """Return the names of the statements of a file."""
    return list(_statements(path))


def switches_in(path: str, name: str) -> list[str]:
    """Return the switches of a statement of a file."""
    return sorted(set(re.findall(r"^ *\\if :(\w+)", _statements(path)[name], re.MULTILINE)))


def expanded(text: str) -> str:
    """Return a text with the parts that it includes.

    Raises:
        LookupError: no file has one of these parts.
    """
    parts = _parts()

    def part(match: re.Match[str]) -> str:
        indentation, name, column = match.groups()
        if name not in parts:
            raise LookupError(f"no part is called {name!r}: the parts stand in {', '.join(SHARED)}")
        text = parts[name].replace(":column", column or ":column")
        return f"{match[0]}{textwrap.indent(expanded(text), indentation)}{indentation}-- end\n"

    return _INCLUDE.sub(part, text)


@cache
def _statements(path: str) -> Mapping[str, str]:
    return {name: expanded(text).strip().removesuffix(";") for name, text in _named(_NAME, path)}


@cache
def _parts() -> Mapping[str, str]:
    return {name: text.rstrip("\n") + "\n" for path in SHARED for name, text in _named(_PART, path)}


def _named(begins: re.Pattern[str], path: str) -> Iterator[tuple[str, str]]:
    data = pkgutil.get_data(_PACKAGE, path)
    assert data is not None, "the loader of a package with files can read them"
    _, *texts = begins.split(data.decode())
    yield from zip(texts[::2], texts[1::2], strict=True)
