"""The option that says where the cases are."""

from __future__ import annotations

from pathlib import Path

import pytest

DEFAULT_DIRECTORY = Path(__file__).parent / "cases"


def add_conformance_option(parser: pytest.Parser) -> None:
    parser.addoption(
        "--conformance-dir",
        type=Path,
        default=DEFAULT_DIRECTORY,
        help="A directory of case files (.jsonl or .jsonl.gz); a family whose file is absent there is left out.",
    )
