"""The names of values say what the values are: some words that only say how a value got there are refused as names."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tools.house import ROOT

REFUSED = {"found", "given", "known", "left", "told", "one", "seen", "kept", "asked"}
"""Words that fit every value, so that a reader learns nothing from them and nobody can search for them."""


def _names(node: ast.AST) -> Iterator[str]:
    """Yield the names that a node of the syntax tree gives to something."""
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()) | ast.arg(arg=name):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.alias(asname=str(name)):
            yield name
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name
        case ast.MatchMapping(rest=str(name)):
            yield name


def refused_names(source: str) -> list[tuple[int, str]]:
    """Return the line and the name of each value of a module that has a refused name, in the order of the lines."""
    lines = []
    for node in ast.walk(ast.parse(source)):
        lines += [(getattr(node, "lineno", 0), name) for name in _names(node) if name in REFUSED]
    return sorted(lines)


def test_no_value_of_the_package_and_of_the_tools_has_a_refused_name() -> None:
    modules = sorted(path for folder in ("quartzpy", "tools") for path in (ROOT / folder).rglob("*.py"))
    assert len(modules) > 300
    refused = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in modules
        for line, name in refused_names(path.read_text(encoding="utf-8"))
    ]
    assert not refused, "\n".join(["name each for what it is, such as a row or a trigger:", *refused])


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("found = 1", "found"),
        ("for one in rows: pass", "one"),
        ("[row for one, row in rows]", "one"),
        ("if (known := first()): pass", "known"),
        ("self.left = 1", "left"),
        ("class Row:\n    seen: int", "seen"),
        ("def given(): pass", "given"),
        ("async def asked(): pass", "asked"),
        ("class kept: pass", "kept"),
        ("def f(told): pass", "told"),
        ("def f(*, told=1): pass", "told"),
        ("def f(*told): pass", "told"),
        ("def f(**told): pass", "told"),
        ("lambda one: one", "one"),
        ("with lock() as kept: pass", "kept"),
        ("import row as known", "known"),
        ("try: pass\nexcept ValueError as seen: pass", "seen"),
        ("match row:\n    case [*left]: pass", "left"),
        ("match row:\n    case {**left}: pass", "left"),
        ("match row:\n    case int() as found: pass", "found"),
    ],
)
def test_every_way_to_name_a_value_is_examined(source: str, name: str) -> None:
    assert [refused for _, refused in refused_names(source)] == [name]


def test_the_line_of_each_refused_name_is_reported() -> None:
    source = "row = 1\n\n\ndef f(\n    trigger,\n    given,\n):\n    one = trigger\n    return one, given\n"
    assert refused_names(source) == [(6, "given"), (8, "one")]


@pytest.mark.parametrize(
    "source",
    ["rows_found = 1", "cursor.one()", "send(seen=1)", "print(left)", "'found'", "# found", "from rows import one"],
)
def test_uses_texts_and_longer_names_are_not_refused(source: str) -> None:
    assert refused_names(source) == []
