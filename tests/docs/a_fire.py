"""The page that leads through a fire, an end and a death: its numbers of lines follow the files that it names.

A row names a file, and may name those of its functions, classes and methods that the way leads through.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

from tools.journeys import lines_of_code, lines_of_sql

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "explanation" / "a-fire.md"

_ROW = re.compile(r"^\| (?P<what>`(?P<file>[\w/]+\.(?:py|sql))`(?:: (?P<names>[^|]+))?) \| (?P<lines>[\d,]+) \|", re.M)
_SUM = re.compile(r"(?<=All of it together has )[\d,]+(?= lines)")


def lines_of(file: str, names: Sequence[str] = ()) -> int:
    """Return the lines of a file, or of those parts of it, without blanks, comments and docstrings.

    Raises:
        KeyError: the file has no such part.
    """
    path = ROOT / "quartzpy" / file
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".sql":
        return lines_of_sql(text)
    if not names:
        return lines_of_code(text)
    parts = dict(_parts(text))
    return sum(lines_of_code(parts[name]) for name in names)


def _parts(text: str) -> Iterator[tuple[str, str]]:
    lines = text.splitlines()

    def within(nodes: Sequence[ast.stmt], prefix: str) -> Iterator[tuple[str, str]]:
        for node in nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                first = min((node.lineno, *(decorator.lineno for decorator in node.decorator_list)))
                yield prefix + node.name, textwrap.dedent("\n".join(lines[first - 1 : node.end_lineno]))
                if isinstance(node, ast.ClassDef):
                    yield from within(node.body, f"{node.name}.")

    return within(ast.parse(text).body, "")


def page() -> str:
    """The page with the numbers of its rows. A number that is right to a tenth stays as it is."""
    rows: dict[str, int] = {}

    def row(match: re.Match[str]) -> str:
        names = re.findall(r"`([\w.]+)`", match["names"] or "")
        lines, written = lines_of(match["file"], names), int(match["lines"].replace(",", ""))
        rows[match["what"]] = written if abs(lines - written) * 10 <= lines else lines
        return f"| {match['what']} | {rows[match['what']]:,} |"

    text = _ROW.sub(row, PAGE.read_text(encoding="utf-8"))
    return _SUM.sub(f"{sum(rows.values()):,}", text)
