"""What our statements ask of an engine: the table of the page has the features and the number of files with each."""

from __future__ import annotations

import re

import pytest

from tests.docs.generate import DOCS
from tools.sql import STORE

PAGE = DOCS / "operate" / "beyond-one-database.md"
FEATURES = {
    "`SKIP LOCKED`": r"\bSKIP LOCKED\b",
    "several writes in one statement": r"\(\s*(INSERT INTO|UPDATE|DELETE FROM)\b",
    "`AS MATERIALIZED`": r"\bAS MATERIALIZED\b",
    "`ctid`": r"\bctid\b",
    "`NOTIFY`": r"\bpg_notify\b|\bNOTIFY\b",
    "sequences": r"\bnextval\b",
    "`pg_terminate_backend`": r"\bpg_terminate_backend\b",
    "snapshots and transaction ids": r"\bxmin\b|\bbackend_xmin\b|\bpg_current_xact_id\b|\bpg_snapshot\w*",
    "advisory locks": r"\bpg_(try_)?advisory_\w+",
    "views of sessions and locks": r"\bpg_stat_\w+|\bpg_locks\b",
    "extensions, PL/pgSQL, temporary tables": r"\bCREATE EXTENSION\b|\bplpgsql\b|\bCREATE TEMP",
}
"""Of each feature, how a statement with it reads."""


def counted() -> dict[str, int]:
    """The number of `.sql` files of the package with each feature, comments apart."""
    texts = [re.sub(r"--.*", "", path.read_text(encoding="utf-8")) for path in sorted(STORE.rglob("*.sql"))]
    return {name: sum(bool(re.search(pattern, text)) for text in texts) for name, pattern in FEATURES.items()}


def written() -> dict[str, int]:
    rows = re.findall(r"^\| ([^|]+) \| (\d+) \|", PAGE.read_text(encoding="utf-8"), re.M)
    return {name: int(number) for name, number in rows}


def test_the_table_has_each_feature_with_its_number_of_files() -> None:
    assert written() == counted()


@pytest.mark.parametrize(
    ("statement", "feature"),
    [
        ("SELECT 1 FROM t FOR UPDATE SKIP LOCKED", "`SKIP LOCKED`"),
        ("WITH w AS (\n    UPDATE t SET a = 1 RETURNING a) SELECT a FROM w", "several writes in one statement"),
        ("UPDATE t SET a = 1 WHERE t.ctid = o.row", "`ctid`"),
        ("SELECT pg_try_advisory_xact_lock(1)", "advisory locks"),
    ],
)
def test_a_statement_with_a_feature_is_found(statement: str, feature: str) -> None:
    assert [name for name, pattern in FEATURES.items() if re.search(pattern, statement)] == [feature]
