"""Builds the documentation as a site: `python -m tests.docs.site`.

Beside each page as HTML there is the page as Markdown, under the path that it has in `docs`, so that the links between
them work as they are. `llms.txt` lists these, in the order of the navigation, for programs that read.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.docs.generate import DOCS, kept, reference, write

Entries = Sequence[Mapping[str, Any]]


def sections(entries: Entries) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield each part of the navigation with the titles and the paths of its pages."""
    for entry in entries:
        for title, value in entry.items():
            yield title, [(title, value)] if isinstance(value, str) else list(pages(value))


def pages(entries: Entries, above: str = "") -> Iterator[tuple[str, str]]:
    for entry in entries:
        for title, value in entry.items():
            if isinstance(value, str):
                yield f"{above}{title}", value
            else:
                yield from pages(value, f"{above}{title}: ")


NO_PROSE = re.compile(r"<!--.*?-->|!\[[^\]]*\]\([^)]*\)|^```.*?^```|^    [^\n]*", re.S | re.M)
"""Remarks, pictures and programs."""


def summary(page: str) -> str:
    """Return the first sentence of the beginning of a page, without its links; nothing if there is only a table."""
    beginning = NO_PROSE.sub("", page).partition("\n## ")[0]
    for paragraph in beginning.split("\n\n")[1:]:
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(paragraph.split()))
        if re.match(r"[A-Za-z`*]", text):
            return re.split(r"(?<=[.:?!])\s", text, maxsplit=1)[0].rstrip(":")
    return ""


def index(settings: Mapping[str, Any], docs: Path) -> str:
    """Return llms.txt."""
    lines = [f"# {settings['site_name']}", "", f"> {settings['site_description']}"]
    for title, listed in sections(settings["nav"]):
        lines += ["", f"## {title}", ""]
        for name, path in listed:
            said = summary((docs / path).read_text())
            lines.append(f"- [{name}]({path})" + (f": {said}" if said else ""))
    return "\n".join(lines) + "\n"


def add_markdown(project: Path) -> None:
    """Write llms.txt and each page as Markdown into the site of a project that is built."""
    settings = tomllib.loads((project / "zensical.toml").read_text())["project"]
    docs, site = project / settings["docs_dir"], project / settings["site_dir"]
    (site / "llms.txt").write_text(index(settings, docs))
    for path in docs.rglob("*.md"):
        target = site / path.relative_to(docs)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)


def main() -> None:
    write({**kept(), **reference()})
    subprocess.run([sys.executable, "-m", "zensical", "build", "--strict", "--clean"], cwd=DOCS.parent, check=True)
    add_markdown(DOCS.parent)


if __name__ == "__main__":
    main()
