"""The `.sql` files of the store: named statements, as psql takes them.

- `-- name: acquire` begins a statement, and `;` ends it.
- `:'limit'` is a value. It is sent as text, so each is cast at its first use. `:now` is the store's clock, an
  expression.
- `\\if :name`, `\\else` and `\\endif`, each on a line of its own, are psql's. A switch that is not named is off.
- The names of the tables have the default prefix, and no schema.

The lines from `-- include: node` to `-- end` are the same wherever they stand, apart from their indentation.
`python -m tools.sql_includes FILE` copies those of one file into all others, and a test compares them.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Mapping
from functools import cache

_PACKAGE = "quartzpy.store.postgresql"
_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_SWITCH = re.compile(r"^ *\\(if :\w+|else|endif) *\n", re.MULTILINE)


class SqlFile:
    """The statements of one file, at a path within the package of this store."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._texts: dict[tuple[str, frozenset[tuple[str, bool]]], str] = {}

    def __call__(self, name: str, **switches: bool) -> str:
        """Return the text of a statement, as it stands in the file, with the lines that these switches choose.

        Raises:
            LookupError: the file has no such statement, or the statement no such switch.
        """
        wanted = name, frozenset(switches.items())
        if wanted not in self._texts:
            self._texts[wanted] = self._text(name, switches)
        return self._texts[wanted]

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


@cache
def _statements(path: str) -> Mapping[str, str]:
    data = pkgutil.get_data(_PACKAGE, path)
    assert data is not None, "the loader of a package with files can read them"
    _, *parts = _NAME.split(data.decode())
    return {name: text.strip().removesuffix(";") for name, text in zip(parts[::2], parts[1::2], strict=True)}
