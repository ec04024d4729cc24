"""Copy the parts that a `.sql` file shares with others into those: `python -m tools.sql_includes FILE`.

A shared part is the lines from `-- include: NAME` to `-- end`. It is the same in every file, apart from its
indentation. A part may stand within another one if it is indented more. Edit it in one file, and name that file.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import dedent, indent

STORE = Path(__file__).parent.parent / "quartzpy" / "store" / "postgresql"
_PART = re.compile(
    r"^(?P<indent> *)-- include: (?P<name>\w+)\n(?P<text>.*?)^(?P=indent)-- end$", re.MULTILINE | re.DOTALL
)


def files() -> list[Path]:
    """Return the files of the store, without the scripts of alembic."""
    return sorted(STORE.rglob("*.sql"))


def parts(text: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each shared part, without its indentation, and then those of the parts in it."""
    for name, part in outer_parts(text):
        yield name, part
        yield from parts(part)


def outer_parts(text: str) -> Iterator[tuple[str, str]]:
    """Yield those that are in no other one."""
    for match in _PART.finditer(text):
        yield match["name"], dedent(match["text"])


def renewed(text: str, shared: Mapping[str, str]) -> str:
    """Return a file's text with these parts in place of its own of the same names."""

    def part(match: re.Match[str]) -> str:
        if match["name"] in shared:
            own = indent(shared[match["name"]], match["indent"])
        else:
            own = renewed(match["text"], shared)
        return f"{match['indent']}-- include: {match['name']}\n{own}{match['indent']}-- end"

    return _PART.sub(part, text)


def main(source: Path) -> None:
    shared: dict[str, str] = {}
    for name, text in parts(source.read_text(encoding="utf-8")):
        if shared.setdefault(name, text) != text:
            sys.exit(f"{source} has two different parts {name!r}: make them the same first")
    for file in files():
        text = file.read_text(encoding="utf-8")
        if (new := renewed(text, shared)) != text:
            file.write_text(new, encoding="utf-8")
            sys.stdout.write(f"renewed {file.relative_to(STORE)}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
