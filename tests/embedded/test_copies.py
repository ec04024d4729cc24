"""Copies of PostgreSQL's programs for an account that cannot reach the original, with made-up installations."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from quartzpy.embedded import copies
from quartzpy.embedded.account import server_account
from quartzpy.embedded.binaries import Programs
from quartzpy.errors import SettingsError

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root's server runs as another user")

PROGRAM = """#!/bin/sh
here=$(cd "$(dirname "$0")" && pwd)
read -r answer < "$here/../../../{libraries}/library" && [ "$answer" = whole ] && echo "$0 (PostgreSQL) 18.4"
"""


class Installation:
    """A wheel below a directory that only root can enter: its programs need a file beside the package."""

    def __init__(self, home: Path, package: str = "server") -> None:
        self.site = home / "site-packages"
        self.programs = self.site / package / "pginstall" / "bin"
        self.programs.mkdir(parents=True)
        self.libraries = self.site / f"{package}.libs"
        self.libraries.mkdir()
        (self.libraries / "library").write_text("whole\n")
        for name in ("initdb", "postgres", "pg_ctl", "pg_dump"):
            (self.programs / name).write_text(PROGRAM.format(libraries=self.libraries.name))
            (self.programs / name).chmod(0o700)

    def used(self) -> Path:
        return Programs(self.programs, server_account("nobody")).directory


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with TemporaryDirectory(prefix="quartzpy-copies-") as directory:
        Path(directory).chmod(0o755)
        monkeypatch.setattr(copies, "PLACES", (Path(directory, "first"), Path(directory, "second")))
        yield Path(directory)


@pytest.fixture
def installation(world: Path) -> Installation:
    home = world / "root"
    home.mkdir(mode=0o700)
    return Installation(home)


def all_copies(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir() if path.is_dir())


def test_the_copy_has_the_libraries_beside_the_package_and_is_used_again(
    world: Path, installation: Installation
) -> None:
    used = installation.used()
    assert used.is_relative_to(world / "first")
    changed = (used / "initdb").stat().st_ctime_ns
    assert installation.used() == used
    assert (used / "initdb").stat().st_ctime_ns == changed
    assert (used / "pg_dump").is_file()
    assert {path.stat().st_uid for path in used.rglob("*")} == {0}
    assert not any(path.stat().st_mode & 0o022 for path in (world / "first").rglob("*"))


def test_programs_that_the_account_reaches_are_not_copied(world: Path) -> None:
    installation = Installation(world)
    for path in world.rglob("*"):
        path.chmod(0o755)
    assert installation.used() == installation.programs
    assert not (world / "first").exists()


def _remove_library(copy: Path) -> None:
    shutil.rmtree(copy.parents[2] / "server.libs")


def _truncate(copy: Path) -> None:
    os.truncate(copy / "initdb", 10)


def _empty_library(copy: Path) -> None:
    (copy.parents[2] / "server.libs" / "library").write_text("other\n")


def _remove_tool(copy: Path) -> None:
    (copy / "pg_dump").unlink()


def _close(copy: Path) -> None:
    (copy / "pg_ctl").chmod(0o700)


def _give_away(copy: Path) -> None:
    os.chown(copy / "postgres", 65534, 65534)


def _link(copy: Path) -> None:
    (copy / "postgres").unlink()
    (copy / "postgres").symlink_to("/bin/true")


def _remove_all(copy: Path) -> None:
    shutil.rmtree(copy.parents[2])
    copy.parents[2].mkdir()


DAMAGES = [_remove_library, _truncate, _empty_library, _remove_tool, _close, _give_away, _link, _remove_all]


def test_a_copy_that_is_not_whole_is_made_anew(installation: Installation) -> None:
    used = installation.used()
    for damage in DAMAGES:
        damage(used)
        assert installation.used() == used, damage
        assert (used / "postgres").read_text() == (installation.programs / "postgres").read_text(), damage
        assert (used / "pg_dump").is_file(), damage


def test_a_copy_that_was_interrupted_is_made_anew(
    world: Path, installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(copies.shutil, "copyfile", fail)
        with pytest.raises(SettingsError, match=r"does not run as the user nobody: .*No space left on device"):
            installation.used()
    assert all_copies(world / "first") == []
    # One that was killed leaves a part.
    (world / "first" / ".postgres-0123456789abcdef").mkdir()
    used = installation.used()
    assert all_copies(world / "first") == [used.relative_to(world / "first").parts[0]]


def test_another_release_in_its_place_has_another_copy_and_the_old_one_goes(
    world: Path, installation: Installation
) -> None:
    before = installation.used()
    (installation.programs / "initdb").write_text(PROGRAM.format(libraries="server.libs") + "# newer\n")
    after = installation.used()
    assert after != before
    assert not before.exists()
    assert len(all_copies(world / "first")) == 1


def test_copies_of_environments_that_are_gone_and_those_that_nobody_uses_go(
    world: Path, installation: Installation
) -> None:
    gone, unused, other = (Installation(world / "root" / name) for name in ("gone", "unused", "other"))
    copied = [environment.used() for environment in (gone, unused, other)]
    shutil.rmtree(gone.site)
    os.utime(copied[1].parents[2] / "origin", (0, 0))
    own = installation.used()
    assert [path.exists() for path in [*copied, own]] == [False, False, True, True]


def test_copies_of_earlier_releases_in_another_place_go(world: Path, installation: Installation) -> None:
    former = world / "second" / "postgres-0123456789abcdef"
    (former / "bin").mkdir(parents=True)
    (world / "second" / "demo").mkdir()
    installation.used()
    assert [path.name for path in (world / "second").iterdir() if path.is_dir()] == ["demo"]


def test_a_copy_whose_programs_run_stays(world: Path, installation: Installation) -> None:
    gone = Installation(world / "root" / "gone")
    shutil.copy("/bin/cat", gone.programs / "psql")
    copy = gone.used()
    shutil.rmtree(gone.site)
    with subprocess.Popen([copy / "psql"], stdin=subprocess.PIPE) as server:
        installation.used()
        assert copy.exists()
        server.communicate()
    installation.used()
    assert not copy.exists()


@pytest.mark.parametrize("how", ["of another", "writable", "a link", "a file", "closed"])
def test_a_directory_that_another_user_has_made_is_not_used(world: Path, installation: Installation, how: str) -> None:
    first, target = world / "first", world / "target"
    target.mkdir()
    match how:
        case "a link":
            first.symlink_to(target)
        case "a file":
            first.write_text("")
        case _:
            first.mkdir(mode=0o755)
            first.chmod({"writable": 0o777, "closed": 0o700}.get(how, 0o755))
            if how == "of another":
                os.chown(first, 65534, 65534)
    assert installation.used().is_relative_to(world / "second")
    assert list(target.iterdir()) == []
    (world / "second").chmod(0o1777)
    with pytest.raises(
        SettingsError, match=r"no directory of root can be used.*/first .*/second belongs to root.*1777"
    ):
        installation.used()


def test_several_makers_at_once_make_one_copy(world: Path, installation: Installation) -> None:
    program = (
        "import sys; from pathlib import Path; from quartzpy.embedded import copies;"
        "from quartzpy.embedded.account import server_account; from quartzpy.embedded.binaries import Programs;"
        "copies.PLACES = (Path(sys.argv[1]),); sys.stdin.read();"
        "print(Programs(Path(sys.argv[2]), server_account('nobody')).directory)"
    )
    makers = [
        subprocess.Popen(
            [sys.executable, "-c", program, world / "first", installation.programs],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    directories = {maker.communicate("")[0] for maker in makers}
    assert len(directories) == 1
    assert {maker.returncode for maker in makers} == {0}
    assert len(all_copies(world / "first")) == 1


def test_programs_that_do_not_run_anywhere_are_refused_with_what_they_say(
    world: Path, installation: Installation
) -> None:
    (installation.programs / "initdb").write_text("#!/bin/sh\necho initdb: libpq.so.5 is missing\nexit 127\n")
    with pytest.raises(SettingsError, match=r"does not run as the user nobody: .*initdb: libpq\.so\.5 is missing"):
        installation.used()
