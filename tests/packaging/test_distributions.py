"""The wheel and the sdist hold what they should, are the same when built again, and each extra works alone."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from tests.packaging.environments import environment, run, unpacked
from tools import release
from tools.release import EXTRAS, ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
DEVELOPERS = {"bench", "dev", "docs", "release"}
EPOCH = "1700000000"


def checkout(place: Path) -> Path:
    """Copy what the sdist may take, with the litter that a checkout in use has."""
    for name in PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, place / name, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
        else:
            shutil.copy(source, place / name)
    for name in ("pyproject.toml", ".gitignore"):
        shutil.copy(ROOT / name, place)
    for name in ("schema/versions/__pycache__/0001_initial.cpython-311.pyc", "quartzpy/__pycache__/errors.pyc"):
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_bytes(b"compiled")
    for name in ("docs/reference/commands.md", "site/index.html", ".cache/index.md", "tests/.hypothesis/unicode"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text("made by a command")
    return place


def build(project: Path, into: Path, *, umask: int = 0o022) -> tuple[Path, Path]:
    """Build a wheel and an sdist; the tool that the page calls builds with the same backend."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", into],
        cwd=project,
        env={**os.environ, "SOURCE_DATE_EPOCH": EPOCH},
        umask=umask,
        check=True,
        capture_output=True,
    )
    [wheel], [sdist] = into.glob("*.whl"), into.glob("*.tar.gz")
    return wheel, sdist


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    place = tmp_path_factory.mktemp("built")
    return build(checkout(tmp_path_factory.mktemp("checkout")), place)


@pytest.fixture(scope="module")
def wheel(built: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(built[0], tmp_path_factory.mktemp("wheel"))


def test_the_files_hold_what_they_should_and_nothing_else(built: tuple[Path, Path]) -> None:
    wheel, sdist = built
    assert list(release.wrong_in_wheel(wheel)) == []
    assert list(release.wrong_in_sdist(sdist)) == []


def test_what_a_wheel_lacks_or_has_too_much_is_noticed(
    built: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged = tmp_path / built[0].name
    with zipfile.ZipFile(built[0]) as whole, zipfile.ZipFile(damaged, "w") as part:
        for name in whole.namelist():
            text = whole.read(name)
            if name == "quartzpy/py.typed":
                continue
            if name.endswith("METADATA"):
                text = text.replace(b"Version: ", b"Version: 9").replace(b"](https://quartzpy.example/docs", b"](docs")
            part.writestr(name, text)
        part.writestr("tests/__init__.py", "")
    monkeypatch.setattr(release, "LARGEST_WHEEL", 1000)
    wrong = "\n".join(release.wrong_in_wheel(damaged))
    for part_of_it in (
        "it lacks quartzpy/py.typed",
        "tests/__init__.py does not belong",
        "pyproject.toml says",
        "more than 1000",
        "cannot follow: docs/",
    ):
        assert part_of_it in wrong


def test_both_are_the_same_when_built_again_from_the_sdist(built: tuple[Path, Path], tmp_path: Path) -> None:
    """Elsewhere, with another umask, other times of files, and without what the repository ignores."""
    wheel, sdist = built
    shutil.unpack_archive(sdist, tmp_path, filter="data")
    [unpacked_sdist] = tmp_path.iterdir()
    for path in unpacked_sdist.rglob("*.py"):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    wheel_again, sdist_again = build(unpacked_sdist, tmp_path / "again", umask=0o077)
    assert wheel_again.read_bytes() == wheel.read_bytes()
    assert sdist_again.read_bytes() == sdist.read_bytes()


def test_an_index_takes_both(built: tuple[Path, Path]) -> None:
    command = [sys.executable, "-m", "twine", "check", "--strict", *built]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_extra_of_users_is_examined() -> None:
    assert set(EXTRAS) - {""} == set(PROJECT["project"]["optional-dependencies"]) - DEVELOPERS


@pytest.mark.parametrize("extra", EXTRAS)
def test_the_wheel_runs_with_each_extra_alone_in_an_empty_directory(extra: str, wheel: Path, tmp_path: Path) -> None:
    if extra == "exchanges" and find_spec("exchange_calendars") is None:
        pytest.skip("exchange-calendars is not here; python -m tools.release check installs it")
    python = environment(tmp_path / "environment", wheel, extra)
    (tmp_path / "empty").mkdir()
    assert run(python, EXTRAS[extra], tmp_path / "empty") == ""


def test_without_its_extra_each_statement_fails(wheel: Path, tmp_path: Path) -> None:
    """Otherwise the test above would show nothing."""
    python = environment(tmp_path / "environment", wheel, "")
    program = f"""
ran = []
for extra, code in {EXTRAS}.items():
    try:
        exec(code, {{}})
    except BaseException:
        continue
    ran.append(extra)
assert ran == ["", "rrule"], ran
"""
    # croniter, which everybody has, brings dateutil today.
    assert run(python, program, tmp_path) == ""


def test_the_bill_of_materials_is_valid_and_names_no_address_of_a_component(wheel: Path, tmp_path: Path) -> None:
    environment(tmp_path / "environment", wheel, "all")
    text = release.bill_of_materials(tmp_path / "environment")
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    bill = json.loads(text)
    assert bill["metadata"]["component"]["name"] == "quartzpy"
    assert bill["metadata"]["component"]["version"] == PROJECT["project"]["version"]
    names = {component["name"].lower() for component in bill["components"]}
    assert {"sqlalchemy", "psycopg", "starlette", "holidays"} <= names
    assert "pytest" not in names
    addresses = set(re.findall(r"(?:https?|file)://[^/\"]+", text))
    own = {re.match(r"https://[^/]+", url)[0] for url in PROJECT["project"]["urls"].values()}  # type: ignore[index]
    assert addresses == own | {"http://cyclonedx.org"}, "that of the schema, and our own"
    [own] = [entry for entry in bill["dependencies"] if entry["ref"] == bill["metadata"]["component"]["bom-ref"]]
    assert len(own["dependsOn"]) > 15
    assert str(tmp_path) not in text


# --- the metadata


def classified() -> Iterator[str]:
    for classifier in PROJECT["project"]["classifiers"]:
        name, _, version = classifier.rpartition(" :: ")
        if name == "Programming Language :: Python" and "." in version:
            yield version


def test_the_pythons_of_the_metadata_are_those_that_a_release_tries() -> None:
    assert tuple(classified()) == release.PYTHONS
    assert PROJECT["project"]["requires-python"] == f">={release.PYTHONS[0]}"


def test_there_is_one_version_and_the_changelog_begins_with_it() -> None:
    version = PROJECT["project"]["version"]
    assert (ROOT / "CHANGELOG.md").read_text().split("\n## ")[1].startswith(f"{version} (")
    elsewhere = [
        path
        for folder in ("quartzpy", "schema", "examples")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".toml", ".html", ".sql") and f"{version}" in path.read_text().replace("10.1.0", "")
    ]
    assert elsewhere == []


def test_what_nobody_may_publish_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for path in ("pyproject.toml", "CHANGELOG.md", "quartzpy/installing.py"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
    (tmp_path / "pyproject.toml").write_text('Source = "https://quartzpy.example/"')
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 1.0 (unreleased)\n\n## 0.9 (2026-01-01)\n")
    (tmp_path / "installing.py").write_text("IS_RELEASED = False\n")
    monkeypatch.setattr(release, "ROOT", tmp_path)
    monkeypatch.setattr(release, "VARIABLE", tmp_path / "installing.py")
    assert len(list(release.wrong_for_an_index())) == 3
    (tmp_path / "pyproject.toml").write_text('Source = "https://forge.example/quartzpy"')
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 1.0 (2026-12-01)\n\n## 0.9 (unreleased)\n")
    (tmp_path / "installing.py").write_text("IS_RELEASED = True\n")
    assert list(release.wrong_for_an_index()) == []
