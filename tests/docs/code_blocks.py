"""The Python code in the documentation: blocks that run alone, and files that a page builds."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from quartzpy.cli.main import cli

ROOT = Path(__file__).resolve().parents[2]
# The reference is generated where somebody asks for it.
PAGES = sorted(
    path
    for folder in ("", "docs/**/", "examples/**/", "benchmarks/")
    for path in ROOT.glob(f"{folder}*.md")
    if not path.is_relative_to(ROOT / "docs" / "reference")
)

_BLOCK = re.compile(r"^```python(?: title=\"(?P<title>[^\"]+)\")?\n(?P<code>.*?)^```", re.S | re.M)


@dataclass(frozen=True)
class Block:
    """A block of Python; one with a title is a file, and belongs to the files of its page."""

    page: Path
    number: int
    title: str | None
    code: str

    @property
    def id(self) -> str:
        return f"{self.page.relative_to(ROOT)}-{self.title or self.number}"

    @property
    def module_name(self) -> str:
        """A name for a block without a title, unique in the documentation."""
        return re.sub(r"\W", "_", f"block_{self.page.relative_to(ROOT).with_suffix('')}_{self.number}")


def blocks(pages: list[Path] = PAGES) -> list[Block]:
    return [
        Block(page, number, found["title"], found["code"])
        for page in pages
        for number, found in enumerate(_BLOCK.finditer(page.read_text()))
    ]


def write_files(page: str, directory: Path) -> list[Path]:
    """Write the files that a page builds; a block with `# ...` first is a part of a file that exists."""
    written = []
    for block in blocks([ROOT / "docs" / page]):
        if block.title:
            path = directory / block.title
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.code)
            written.append(path)
    return written


def check_command(words: list[str]) -> None:
    """A command line of ours names a command and options that exist."""
    assert Path(words[0]).name == "quartzpy"
    command: Any = cli
    arguments = words[1:]
    shared = {name: each for each in cli.params for name in [*each.opts, *each.secondary_opts]}
    while arguments[0] in shared:
        flag = shared[arguments.pop(0)]
        if isinstance(flag, click.Option) and not flag.is_flag:
            arguments.pop(0)
    while isinstance(command, click.Group):
        if command.invoke_without_command and (not arguments or arguments[0].startswith("-")):
            break
        command = command.commands[arguments.pop(0)]
    options = {name for each in command.params for name in [*each.opts, *each.secondary_opts]}
    assert {each for each in arguments if each.startswith("--")} <= options
