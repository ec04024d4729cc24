"""The page that leads through a fire, an end and a death: its numbers of lines follow the files that it names."""

from __future__ import annotations

import re
from pathlib import Path

from tools.journeys import lines_of_code, lines_of_sql

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "explanation" / "a-fire.md"

_ROW = re.compile(r"^\| `(?P<file>[\w/]+\.(?:py|sql))` \| (?P<lines>[\d,]+) \|", re.MULTILINE)
_SUM = re.compile(r"(?<=All files of this page together have )[\d,]+(?= lines)")


def lines_of(file: str) -> int:
    path = ROOT / "quartzpy" / file
    text = path.read_text(encoding="utf-8")
    return lines_of_code(text) if path.suffix == ".py" else lines_of_sql(text)


def page() -> str:
    """The page with the numbers of its files. A number that is right to a tenth stays as it is."""
    files: dict[str, int] = {}

    def row(match: re.Match[str]) -> str:
        lines, written = lines_of(match["file"]), int(match["lines"].replace(",", ""))
        files[match["file"]] = written if abs(lines - written) * 10 <= lines else lines
        return f"| `{match['file']}` | {files[match['file']]:,} |"

    text = _ROW.sub(row, PAGE.read_text(encoding="utf-8"))
    return _SUM.sub(f"{sum(files.values()):,}", text)
