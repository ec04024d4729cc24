"""Write the names of Quartz with their equivalents, which errors show, from the tables of docs/from-quartz*.md.

    python -m tools.quartz_names

Each line of `quartzpy/quartz_names.txt` is a section of a page, a name, and what the page says about it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "docs" / f"from-quartz{part}.md" for part in ("", "-triggers", "-more")]
FILE = ROOT / "quartzpy" / "quartz_names.txt"
_CODE = re.compile(r"`([^`]+)`")
_ROW = re.compile(r"^\| (?P<quartz>.+?) \| (?P<here>.+) \|$")
_NAME = re.compile(r"@?((?:\w+\.)*\w+)")


def lines() -> list[str]:
    """Return the lines of the file."""
    written = {}
    section, is_head = "", True
    for line in [line for page in PAGES for line in page.read_text().splitlines()]:
        row = _ROW.match(line.replace("\\|", "/"))
        if line.startswith("## "):
            section = line.removeprefix("## ")
        if row is None:
            is_head = not line.startswith("|") or is_head
            continue
        if is_head:
            of_builder = _CODE.fullmatch(row["quartz"])
            if of_builder is not None:
                for name, here in _entries(row["quartz"], _plain(row["here"])):
                    written.setdefault((section, name), here)
            is_head = False
            continue
        for name, here in _entries(row["quartz"], _plain(row["here"])):
            written.setdefault((section, name), here)
    return [f"{section}\t{name}\t{here}" for (section, name), here in written.items() if section]


def _plain(cell: str) -> str:
    return re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", cell)


def _entries(quartz: str, here: str) -> Iterator[tuple[str, str]]:
    codes = _CODE.findall(quartz)
    answers = _CODE.findall(here)
    is_a_pair_each = len(codes) == len(answers) > 1 and not re.sub(r"`[^`]+`|[,; ]", "", here)
    before = ""
    for place, code in enumerate(codes):
        name = _whole(code, before)
        if name is None:
            continue
        before = name
        answer = f"`{answers[place]}`" if is_a_pair_each else here
        yield name, answer
        first, dot, last = name.rpartition(".")
        if dot and first[:1].isupper():
            yield last, answer
            yield first, answer
        elif dot and last != "class":
            yield last, answer


def _whole(code: str, before: str) -> str | None:
    """Return a name without its arguments; one that begins with dots goes on from the one before it."""
    if code.startswith("..."):
        return re.sub(r"[A-Z][a-z]+$", "", before) + code[3:].partition("(")[0]
    if code.startswith("."):
        return f"{before.partition('.')[0]}{code}"
    match = _NAME.match(code)
    return None if match is None or "..." in code.partition("(")[0] or code.startswith("(") else match[1]


if __name__ == "__main__":
    FILE.write_text("\n".join(lines()) + "\n")
    print(f"{FILE.relative_to(ROOT)}: {len(lines())} names")
