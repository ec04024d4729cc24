"""The mutations of the package: each changes one place that runs, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import mutations

PYTHON = '''
import logging

if TYPE_CHECKING:
    from x import y

LIMIT: Literal[3] = 7


def f(a: int = 2, *, b: "1 + 1") -> bool:
    """1 < 2 and 3."""
    logger.info("1 < 2")
    x = (a) + (
        b  # not +
    )
    if a < b and not b:
        self.x = 3
        call()
    return min(a, b) is not None
'''
SQL = """-- name: a
-- 1 = 1 AND 2
\\if :later
SELECT min(a.x), 'AND 1 <= 2', :'limit'
  FROM qrtz_jobs a
 WHERE a.x <= 5 AND a.y = $1
   AND EXISTS (SELECT 1)
   AND a.z @> b.z;
"""


def after(found: list[mutations.Mutation], source: str) -> set[str]:
    return {one.shown(source).rpartition("\n+ ")[2] for one in found}


def test_python_is_changed_where_it_runs() -> None:
    assert after([*mutations.of_python("f.py", PYTHON)], PYTHON) == {
        "LIMIT: Literal[3] = 8",
        'def f(a: int = 3, *, b: "1 + 1") -> bool:',
        "x = (a) - (",
        "if a <= b and not b:",
        "if a < b or not b:",
        "if a < b and (b):",
        "if (not (a < b and not b)):",
        "pass",
        "self.x = 4",
        "return max(a, b) is not None",
        "return min(a, b) is None",
        "return None",
    }


def test_statements_are_changed_outside_of_comments_and_texts() -> None:
    assert after([*mutations.of_sql("f.sql", SQL)], SQL) == {
        "SELECT max(a.x), 'AND 1 <= 2', :'limit'",
        "WHERE a.x < 5 AND a.y = $1",
        "WHERE a.x <= 6 AND a.y = $1",
        "WHERE a.x <= 5 OR a.y = $1",
        "WHERE a.x <= 5 AND a.y <> $1",
        "OR EXISTS (SELECT 1)",
        "AND NOT EXISTS (SELECT 1)",
        "AND EXISTS (SELECT 2)",
        "OR a.z @> b.z;",
        "",
    }


@pytest.mark.parametrize("folder", mutations.MUTATED)
def test_each_folder_has_mutations_and_tests(folder: str) -> None:
    files = [path for path in (mutations.ROOT / folder).rglob("*.py") if path.stem == "__init__"][:3]
    assert files
    for path in files:
        stages = mutations.tests_of(str(path.relative_to(mutations.ROOT)))
        assert all((mutations.ROOT / test).exists() for stage in stages for test in stage)


def test_the_nearest_tests_run_first() -> None:
    stages = mutations.tests_of("quartzpy/triggers/business_days.py")
    assert "tests/unit/test_business_days.py" in stages[0]
    assert stages[-1] == ["tests/unit", "tests/conformance"]


def test_a_mutation_is_killed_by_the_test_that_notices_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".bytecode").mkdir()
    (tmp_path / "limit.py").write_text("def is_full(n):\n    return n >= 3\n\n\ndef f(n):\n    return n + 1\n")
    (tmp_path / "test_limit.py").write_text(
        "from limit import is_full\n\n\ndef test_bad():\n    assert 0\n\n\n"
        "def test_full():\n    assert is_full(3)\n    assert not is_full(2)\n"
    )
    monkeypatch.setattr(mutations, "tests_of", lambda path: [["test_limit.py"]])
    scratch = mutations.Scratch(tmp_path, limit=60, workers=1)
    source = (tmp_path / "limit.py").read_text()
    every = {one.shown(source): one for one in mutations.of_python("limit.py", source)}
    noticed, unnoticed = (every[name] for name in every if "n > 3" in name or "n - 1" in name)
    assert scratch.judge(noticed).killed_by == "test_limit.py::test_full"
    assert scratch.left_out == ["test_limit.py::test_bad"]
    assert scratch.judge(unnoticed).killed_by is None
    assert (tmp_path / "limit.py").read_text() == source
