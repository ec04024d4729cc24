"""The documentation is one site: it builds without a warning, every page has its place, and the reference is whole."""

from __future__ import annotations

import inspect
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from quartzpy.cli.main import cli
from quartzpy.store.postgresql.schema import tables
from tests.docs import api_page, reference_pages
from tests.docs.generate import DOCS, kept, reference, write
from tests.docs.site import add_markdown, summary

ROOT = DOCS.parent


def pages_of(entries: list[dict[str, Any]]) -> Iterator[str]:
    for entry in entries:
        for value in entry.values():
            if isinstance(value, str):
                yield value
            else:
                yield from pages_of(value)


def build(directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict", "--clean"],
        cwd=directory,
        env={**os.environ, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def copy_of_the_site(tmp_path: Path) -> Path:
    shutil.copy(ROOT / "zensical.toml", tmp_path)
    # What a checkout may have of an earlier reference must not count.
    shutil.copytree(DOCS, tmp_path / "docs", ignore=shutil.ignore_patterns("reference"))
    write(reference(), tmp_path / "docs")
    return tmp_path


def test_the_site_builds_and_no_link_is_broken(copy_of_the_site: Path) -> None:
    built = build(copy_of_the_site)
    assert built.returncode == 0, (built.stdout + built.stderr)[-3000:]
    docs = copy_of_the_site / "docs"
    for page in docs.rglob("*.md"):
        name = page.relative_to(docs).with_suffix("")
        folder = name.parent if name.name == "index" else name
        assert (copy_of_the_site / "site" / folder / "index.html").exists(), page
    home = (copy_of_the_site / "site" / "index.html").read_text()
    assert "(prefers-color-scheme: dark)" in home, "the site follows the light or dark mode of the system"
    for asset in ("stylesheets/tables.css", "img/demo.svg"):
        assert asset in home
        assert (copy_of_the_site / "site" / asset).exists()
    assert (copy_of_the_site / "site" / "reference" / "openapi.json").exists()
    add_markdown(copy_of_the_site)
    check_markdown(copy_of_the_site / "site", docs)


def check_markdown(site: Path, docs: Path) -> None:
    """Each page is there as Markdown, whose links lead to files of the site, and llms.txt lists the pages."""
    listed = re.findall(r"^- \[[^\]]+\]\(([^)]+)\)(?:: (.+))?$", (site / "llms.txt").read_text(), re.M)
    config = tomllib.loads((ROOT / "zensical.toml").read_text())
    assert [path for path, _ in listed] == list(pages_of(config["project"]["nav"]))
    assert sum(bool(said) for _, said in listed) > len(listed) / 2
    assert max(len(said) for _, said in listed) < 400
    for page in docs.rglob("*.md"):
        copy = site / page.relative_to(docs)
        assert copy.read_bytes() == page.read_bytes()
        text = re.sub(r"^```.*?^```|`[^`]*`", "", copy.read_text(), flags=re.S | re.M)
        for target in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", text):
            assert (copy.parent / target).exists(), f"{page.name}: {target}"


@pytest.mark.parametrize(
    ("page", "first"),
    [
        ("# A\n\nIt [does](x.md) this. And that.\n", "It does this."),
        ("# A\n\n![picture](x.svg)\n\nTwo\nlines: a list\n", "Two lines"),
        ("# A\n\n<!-- made by a command -->\n\n`a.b` is it.\n", "`a.b` is it."),
        ("# A\n\n```python\nx = 1\n\ny = 2\n```\n\n    pip list\n\nLater.\n", "Later."),
        ("# A\n\n| a | b |\n\n## B\n\nLater.\n", ""),
        ("# A\n", ""),
    ],
)
def test_the_first_sentence_of_a_page_describes_it(page: str, first: str) -> None:
    assert summary(page) == first


def test_broken_links_fail_the_build(tmp_path: Path) -> None:
    """With the settings of the site, on two pages: the whole takes as long again."""
    nav = 'nav = [{ "Home" = "index.md" }, { "Cluster" = "cluster.md" }]'
    settings, replaced = re.subn(r"(?ms)^nav = \[$.*?^\]$", nav, (ROOT / "zensical.toml").read_text())
    assert replaced == 1
    (tmp_path / "zensical.toml").write_text(settings)
    docs = tmp_path / "docs"
    shutil.copytree(DOCS / "stylesheets", docs / "stylesheets")
    (docs / "cluster.md").write_text("# Cluster\n\nEqual nodes.\n")
    (docs / "index.md").write_text("# Home\n\n[a heading](cluster.md#cluster)\n")
    assert build(tmp_path).returncode == 0
    (docs / "index.md").write_text("# Home\n\n[a page](missing.md) and [a heading](cluster.md#no-such-heading)\n")
    built = build(tmp_path)
    assert built.returncode != 0
    assert "2 issues found" in built.stdout + built.stderr


def test_every_page_has_a_place_in_the_navigation(copy_of_the_site: Path) -> None:
    config = tomllib.loads((ROOT / "zensical.toml").read_text())
    named = list(pages_of(config["project"]["nav"]))
    assert len(named) == len(set(named)), "a page has one place"
    docs = copy_of_the_site / "docs"
    there = {str(page.relative_to(docs)) for page in docs.rglob("*.md")}
    reached_by_their_index = {page for page in there if re.fullmatch(r"decisions/\d.*", page)}
    assert there - reached_by_their_index == set(named)


def test_the_generated_pages_that_are_kept_are_those_of_the_code() -> None:
    for name, text in kept().items():
        assert (DOCS / name).read_text() == text, f"{name}: python -m tests.docs.generate"


def test_every_public_name_is_in_the_reference_once() -> None:
    text = "\n".join(api_page.pages().values())
    for documented in api_page.public_names():
        assert text.count(f"\n## {documented.name}\n") == 1, documented


def test_every_public_class_method_and_function_says_what_it_does() -> None:
    silent = []
    for documented in api_page.public_names():
        value = documented.value
        if inspect.isclass(value):
            names = [documented.name, *(f"{documented.name}.{name}" for name, _ in api_page.members(value))]
            values = [value, *(getattr(value, name) for name, _ in api_page.members(value))]
            silent += [name for name, each in zip(names, values, strict=True) if not inspect.getdoc(each)]
        elif inspect.isroutine(value) and not inspect.getdoc(value):
            silent.append(documented.name)
    assert not silent


def test_every_command_table_and_event_is_in_the_reference() -> None:
    for path, _ in reference_pages.every_command(cli, "quartzpy"):
        assert f"## {path}\n" in reference_pages.commands()
    for table in tables.metadata.tables:
        assert f"## {table}\n" in reference_pages.database_tables()
    for event in reference_pages.event_classes():
        assert f"| `{event.__name__}` |" in reference_pages.events()
        assert inspect.getdoc(event)
