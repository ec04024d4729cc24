"""No two classes have one name, so that a name in a traceback, a message or a search means one thing."""

from __future__ import annotations

import ast
from collections import defaultdict

from tools.journeys import PACKAGE, modules


def test_no_two_classes_have_one_name() -> None:
    places = defaultdict(list)
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    assert {name: of for name, of in places.items() if len(of) > 1} == {}
