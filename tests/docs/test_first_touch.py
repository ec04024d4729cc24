"""Each row of the table of what one tries first names a test that exists."""

from __future__ import annotations

import ast
import re

import pytest

from tests.docs.code_blocks import ROOT

PAGE = (ROOT / "docs" / "first-touch.md").read_text()
NAMED = sorted(set(re.findall(r"`([a-z_]+/test_[a-z_]+\.py)::(test_[a-z_0-9]+)`", PAGE)))
ROWS = [line for line in PAGE.partition("## Names of other")[0].splitlines() if line.startswith("| ")]


@pytest.mark.parametrize(("path", "name"), NAMED)
def test_the_test_of_a_row_exists(path: str, name: str) -> None:
    tree = ast.parse((ROOT / "tests" / path).read_text())
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_row_names_one() -> None:
    unnamed = [row for row in ROWS if "::test_" not in row and not row.startswith("| typed")]
    assert unnamed == []
    assert len(NAMED) > 50
