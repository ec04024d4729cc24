from __future__ import annotations

import os
import subprocess
import sys

import pytest

from quartzpy.store import process_identity
from quartzpy.store.process_identity import has_certainly_ended, own_process, session_tag

linux = pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell which process is which")
SAY = "from quartzpy.store.process_identity import own_process; print(own_process(), flush=True); input()"


def test_a_process_keeps_its_identity_and_is_alive() -> None:
    assert own_process() == own_process()
    assert not has_certainly_ended(own_process())


@linux
def test_another_process_is_alive_until_it_ends() -> None:
    other = subprocess.Popen([sys.executable, "-c", SAY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None
    identity = other.stdout.readline().strip()
    assert identity != own_process()
    assert not has_certainly_ended(identity)
    other.communicate("\n")
    assert has_certainly_ended(identity)


@linux
def test_a_fork_is_another_process() -> None:
    own_process()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, own_process().encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 1000).decode() not in ("", own_process())
    os.close(reading)
    os.close(writing)


@linux
def test_a_reused_process_id_is_another_process() -> None:
    space, _, started = own_process().rpartition("/")
    assert has_certainly_ended(f"{space}/{int(started) - 1}")


@linux
@pytest.mark.parametrize("place", [0, 1])
def test_a_process_of_another_machine_or_container_is_never_known_to_have_ended(place: int) -> None:
    parts = own_process().split("/")
    parts[place] = "1234"
    parts[2] = "999999999"
    assert not has_certainly_ended("/".join(parts))


@pytest.mark.parametrize("text", ["", "x", "a/b/c/d", "//1/", "a/b/99999999999999999999/1"])
def test_an_incomplete_identity_proves_nothing(text: str) -> None:
    assert not has_certainly_ended(text)


def test_a_process_has_an_identity_on_any_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_identity, "_pid_space", lambda: None)
    monkeypatch.setattr(process_identity, "_own", {})
    assert own_process() == own_process()
    assert not has_certainly_ended(own_process())


def test_a_session_tag_is_short_and_of_one_scheduler() -> None:
    assert len(session_tag("p", "billing")) == 16
    assert len({session_tag(p, s) for p in "pq" for s in "st"}) == 4


def test_a_holder_that_wrote_no_identity_proves_nothing_about_others() -> None:
    process_identity.declare_ended("")
    assert not has_certainly_ended("")
