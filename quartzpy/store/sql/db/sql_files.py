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
from collections.abc import Iterator, Mapping
from functools import cache

from quartzpy.config.table_names import DEFAULT_TABLE_PREFIX

_PACKAGE = "quartzpy.store.sql"
_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_SWITCH = re.compile(r"\\(?:if :(?P<name>\w+)|(?P<word>else|endif))$")
_VALUE = re.compile(r":'(\w+)'")
_NOW = re.compile(r"(?<!:):now\b")
_TABLE = re.compile(rf"\b{DEFAULT_TABLE_PREFIX}(?=\w)")


class SqlFile:
    """The statements of one file, at a path within the package of this store."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._texts: dict[tuple[str, frozenset[tuple[str, bool]]], str] = {}

    def __call__(self, name: str, **switches: bool) -> str:
        """Return the text of a statement, as `prepare` takes it.

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
        lines = statements[name].splitlines()
        known = {found["name"] for line in lines if (found := _SWITCH.match(line.strip()))}
        if unknown := switches.keys() - known:
            raise LookupError(f"{self._path}: the statement {name!r} has no switch {', '.join(sorted(unknown))}")
        text = "\n".join(_chosen(lines, switches)).replace("$", "$$")
        return _TABLE.sub("$", _NOW.sub("$now", _VALUE.sub(r"%(\1)s", text)))


@cache
def _statements(path: str) -> Mapping[str, str]:
    data = pkgutil.get_data(_PACKAGE, path)
    assert data is not None, "the loader of a package with files can read them"
    _, *parts = _NAME.split(data.decode())
    return {name: text.strip().removesuffix(";") for name, text in zip(parts[::2], parts[1::2], strict=True)}


def _chosen(lines: list[str], switches: Mapping[str, bool]) -> Iterator[str]:
    """Yield the lines that remain with these switches."""
    taken: list[bool] = []
    for line in lines:
        found = _SWITCH.match(line.strip())
        if found is None:
            if all(taken):
                yield line
        elif found["name"]:
            taken.append(switches.get(found["name"], False))
        elif found["word"] == "else":
            taken[-1] = not taken[-1]
        else:
            taken.pop()
