"""Writes the generated pages of the documentation: `python -m tests.docs.generate`."""

from __future__ import annotations

from pathlib import Path

from tests.docs import api_page, comparison, reference_pages, settings_page

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


def generated() -> dict[Path, str]:
    """Each generated file with its text."""
    reference = {**api_page.pages(), **reference_pages.pages()}
    return {
        DOCS / "decisions" / "index.md": decisions(),
        DOCS / "explanation" / "comparison.md": comparison.page(),
        DOCS / "settings.md": settings_page.page(),
        **{DOCS / "reference" / name: text for name, text in reference.items()},
    }


def main() -> None:
    for path, text in generated().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    main()
