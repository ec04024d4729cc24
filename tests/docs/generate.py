"""Writes the generated pages of the documentation: `python -m tests.docs.generate`.

Some are kept in the repository, because they are read there. The reference is not: it follows from the source.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from quartzpy.dashboard.api import openapi
from tests.docs import a_fire, api_page, comparison, incidents_page, reference_pages, settings_page

DOCS = Path(__file__).resolve().parents[2] / "docs"


def decisions() -> str:
    """The index of the decision records."""
    lines = [
        "# Decisions",
        "",
        "Choices that a later reader may question: the context, the choice, its consequences.",
        "",
    ]
    for path in sorted((DOCS / "decisions").glob("0*.md")):
        title = path.read_text().split("\n", 1)[0].removeprefix("# ")
        lines.append(f"- [{title.replace('. ', ': ', 1)}]({path.name})")
    return "\n".join(lines) + "\n"


def kept() -> dict[str, str]:
    """The text of each generated page that the repository has, by its path under docs."""
    return {
        "decisions/index.md": decisions(),
        "explanation/a-fire.md": a_fire.page(),
        "explanation/comparison.md": comparison.page(),
        "operate/incidents.md": incidents_page.page(),
        "settings.md": settings_page.page(),
    }


@cache
def reference() -> dict[str, str]:
    """The text of each file of the reference, by its path under docs."""
    description = json.dumps(openapi.document(), indent=1, ensure_ascii=True) + "\n"
    files = {**api_page.pages(), **reference_pages.pages(), "openapi.json": description}
    return {f"reference/{name}": text for name, text in files.items()}


def write(files: dict[str, str], docs: Path = DOCS) -> None:
    for name, text in files.items():
        path = docs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def main() -> None:
    write({**kept(), **reference()})


if __name__ == "__main__":
    main()
