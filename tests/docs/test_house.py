"""The page of the house: its drawing is that of the imports, and every file that it names is there."""

from __future__ import annotations

import ast
import re

from tests.docs.generate import DOCS
from tools.house import FILE, ROOT, drawn, floors, svg

PAGE = DOCS / "explanation" / "house.md"


def test_the_drawing_is_that_of_the_imports() -> None:
    assert FILE.read_text(encoding="utf-8") == svg(), "python -m tools.house renews it"


def test_a_line_that_others_imply_is_left_out() -> None:
    assert drawn({"cli": {"node", "scheduler"}, "scheduler": {"node"}}) == [
        ("cli", "scheduler"),
        ("scheduler", "node"),
    ]


def test_every_package_has_a_floor() -> None:
    packages = {path.parent.name for path in (ROOT / "quartzpy").glob("*/__init__.py")}
    modules = {path.stem for path in (ROOT / "quartzpy").glob("*.py")} - {"__init__"}
    assert {name for floor in floors() for name in floor} == packages | modules


def test_every_file_that_the_page_names_is_there() -> None:
    named = re.findall(r"`([a-z_/]+\.(?:py|sql))`", PAGE.read_text(encoding="utf-8"))
    assert [name for name in named if not (ROOT / "quartzpy" / name).exists()] == []


def test_every_module_begins_with_a_sentence_about_itself() -> None:
    first = {
        path.relative_to(ROOT): (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").split("\n\n")[0]
        for path in (ROOT / "quartzpy").rglob("*.py")
    }
    assert {path: line for path, line in first.items() if len(line.split()) < 3 or line[-1] not in ".:"} == {}
