"""What the documentation lists is what there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from quartzpy.cli import commands
from quartzpy.store.postgresql.schema.table_columns import TABLES
from tests.docs.code_blocks import PAGES, ROOT

STATUSES = {name: value for name, value in vars(commands).items() if name.isupper() and isinstance(value, int)}


def test_every_table_is_in_the_list_of_tables() -> None:
    page = (ROOT / "docs" / "explanation" / "the-tables.md").read_text()
    assert set(re.findall(r"`(qrtz_\w+)`", page.partition("\n## ")[0])) == set(TABLES)


def test_an_exit_status_has_one_meaning() -> None:
    assert len(set(STATUSES.values())) == len(STATUSES)


@pytest.mark.parametrize("status", STATUSES.values(), ids=STATUSES)
def test_every_exit_status_is_in_the_list(status: int) -> None:
    page = (ROOT / "docs" / "command-line.md").read_text()
    assert f"\n| {status} |" in page


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_heading_stands_alone_and_the_database_is_named_by_one_option(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "code", page.read_text(), flags=re.M | re.S)
    headings = re.findall(r"^(#+) (.+)\n+(?:(#+) |\Z)", text, re.M)
    alone = [title for level, title, following in headings if len(following) <= len(level)]
    assert not alone, f"nothing is below {alone}"
    assert "--dsn" not in text, "the option is --url; --dsn remains for those who know it"


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_is_read_at_one_sitting(page: Path) -> None:
    name = str(page.relative_to(ROOT / "docs"))
    if not name.startswith("reference/"):
        assert len(page.read_text().splitlines()) <= 250, "split it by subject"
