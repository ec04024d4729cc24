"""Tests of the gates at which executions of a node have ended."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from quartzpy.errors import OutcomeUnknownError
from quartzpy.node.completer import Completer
from quartzpy.node.opened_gates import OpenedGates
from quartzpy.store.protocol import Gate

A, B = Gate("g", "a", ""), Gate("g", "b", "")


def test_what_a_step_has_named_is_named_again_until_it_has_answered() -> None:
    opened = OpenedGates()
    assert not opened
    opened.add([A])
    assert opened
    assert {*opened.name_all()} == {A}
    opened.add([B])
    assert {*opened.name_all()} == {A, B}
    opened.answered()
    assert not opened


def test_what_opens_while_a_step_is_under_way_is_named_by_the_next() -> None:
    opened = OpenedGates()
    opened.add([A])
    named = opened.name_all()
    opened.add([A, B])
    opened.answered()
    assert {*named} == {A}
    assert {*opened.name_all()} == {A, B}


def test_an_end_whose_answer_is_lost_opens_its_gate() -> None:
    opened: list[Gate] = []

    def lost(*_: Any, **__: Any) -> None:
        raise OutcomeUnknownError("lost")

    completer = Completer(
        "completer",
        store=SimpleNamespace(complete=lost),  # type: ignore[arg-type]
        clock=SimpleNamespace(monotonic=lambda: 0.0),  # type: ignore[arg-type]
        store_time=SimpleNamespace(),  # type: ignore[arg-type]
        unblocked=lambda earliest: None,
        opened=opened.extend,
        takes_more=lambda: True,
    )
    fired = SimpleNamespace(fire_id=1, gate=A)
    completion = SimpleNamespace(fired=fired, is_recorded=False, refill=object(), size=0)
    execution = SimpleNamespace(fired=fired, epoch=SimpleNamespace(node=None))
    completer.put(execution, completion)  # type: ignore[arg-type]
    with pytest.raises(OutcomeUnknownError):
        completer.run_once()
    assert opened == [A]
