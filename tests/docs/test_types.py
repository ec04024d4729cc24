"""The code of the documentation and the examples passes `mypy --strict`, as a user's program has to."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.docs import comparison
from tests.docs.code_blocks import ROOT, blocks

CONFIG = """
[mypy]
strict = true
python_version = 3.11
namespace_packages = true
explicit_package_bases = true
cache_dir = {root}/.mypy_cache
mypy_path = {root}/examples/service

# These bring no types.
[mypy-django.*,celery.*]
ignore_missing_imports = true

[mypy-billing.*]
disallow_subclassing_any = false
disallow_untyped_decorators = false
"""


def test_documented_code_passes_mypy_strict(tmp_path: Path) -> None:
    files = tmp_path / "code"
    files.mkdir()
    titles: dict[str, str] = {}
    for block in blocks():
        if block.title is not None:
            assert block.title not in titles, f"{block.id} and {titles[block.title]} write one file"
            titles[block.title] = block.id
        path = files / (block.title or f"{block.module_name}.py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.code)
    (files / "compared.py").write_text(comparison.whole_program())
    (tmp_path / "mypy.ini").write_text(CONFIG.format(root=ROOT))
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", tmp_path / "mypy.ini", ".", ROOT / "examples" / "service"],
        cwd=files,
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
