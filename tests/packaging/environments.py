"""Environments with what an extra brings and nothing else, made of what is installed here, without a package index."""

from __future__ import annotations

import subprocess
import venv
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

Wanted = tuple[str, str]
"""A distribution with one of its extras, or with none."""


def brought(project: Distribution, extra: str, before: set[Wanted]) -> Iterator[Distribution]:
    """Yield what a project needs with an extra, and all that this needs."""
    for text in project.requires or ():
        requirement = Requirement(text)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        needed = project
        if requirement.name != "quartzpy":
            try:
                needed = distribution(requirement.name)
            except PackageNotFoundError:
                # What is not for developers is installed by `python -m tools.release check`.
                continue
            yield needed
        for nested in {"", *requirement.extras}:
            if (requirement.name, nested) not in before:
                before.add((requirement.name, nested))
                yield from brought(needed, nested, before)


def unpacked(wheel: Path, place: Path) -> Path:
    """Unpack a wheel once for several environments, which then share its bytecode."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(place)
    return place


def environment(place: Path, wheel: Path, extra: str) -> Path:
    """Make an environment with an unpacked wheel and what it needs with an extra, and return its Python."""
    venv.create(place, symlinks=True, with_pip=False)
    [packages] = place.glob("lib/python*/site-packages")
    [about] = wheel.glob("*.dist-info")
    for path in wheel.iterdir():
        (packages / path.name).symlink_to(path)
    for needed in brought(Distribution.at(about), extra, {("quartzpy", extra)}):
        for name in {path.parts[0] for path in needed.files or ()} - {"..", "__pycache__"}:
            if not (packages / name).exists():
                (packages / name).symlink_to(Path(str(needed.locate_file(name))))
    return place / "bin" / "python"


def run(python: Path, code: str, directory: Path) -> str:
    """Run a program in a directory, away from what is installed here, and return what it said where it failed."""
    done = subprocess.run(
        [python, "-I", "-c", code], cwd=directory, capture_output=True, text=True, check=False, timeout=240
    )
    return done.stderr.strip() if done.returncode else ""
