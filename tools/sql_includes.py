"""Copy the parts that a `.sql` file shares with others into those: `python -m tools.sql_includes FILE`.

A shared part is the lines from `-- include: NAME` to `-- end`. It is the same in every file, apart from its
indentation. Edit it in one file, and name that file.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import dedent, indent

STORE = Path(__file__).parent.parent / "quartzpy" / "store" / "postgresql"
_PART = re.compile(r"^(?P<indent> *)-- include: (?P<name>\w+)\n(?P<text>.*?)^ *-- end$", re.MULTILINE | re.DOTALL)


def files() -> list[Path]:
    """Return the files of the store, without the scripts of alembic."""
    return sorted(STORE.rglob("*.sql"))


def parts(file: Path) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each shared part of a file, without its indentation."""
    for match in _PART.finditer(file.read_text(encoding="utf-8")):
        yield match["name"], dedent(match["text"])


def renewed(text: str, shared: Mapping[str, str]) -> str:
    """Return a file's text with these parts in place of its own of the same names."""

    def part(match: re.Match[str]) -> str:
        if match["name"] not in shared:
            return match[0]
        own = indent(shared[match["name"]], match["indent"])
        return f"{match['indent']}-- include: {match['name']}\n{own}{match['indent']}-- end"

    return _PART.sub(part, text)


def main(source: Path) -> None:
    shared: dict[str, str] = {}
    for name, text in parts(source):
        if shared.setdefault(name, text) != text:
            sys.exit(f"{source} has two different parts {name!r}: make them the same first")
    for file in files():
        text = file.read_text(encoding="utf-8")
        if (new := renewed(text, shared)) != text:
            file.write_text(new, encoding="utf-8")
            sys.stdout.write(f"renewed {file.relative_to(STORE)}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
