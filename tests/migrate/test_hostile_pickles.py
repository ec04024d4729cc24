"""Pickles that were made to stop whoever reads them: each is refused by name, at once and in little memory."""

from __future__ import annotations

import pickle
import tracemalloc
from collections.abc import Callable
from datetime import UTC, date, datetime
from random import Random

import pytest

from quartzpy.migrate.pickles import Made, UnreadablePickleError, as_python, read_pickle
from tests.fuzz.pickles import HOSTILE, made_pickle

BOUND = 100_000_000
"""More than reading any pickle of these takes, in bytes, and far less than any of them asks for."""


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_it_is_refused_by_name(name: str) -> None:
    data = HOSTILE[name]
    if len(data) < 10_000:
        # It makes the reading of long ones many times slower.
        tracemalloc.start()
    try:
        with pytest.raises(UnreadablePickleError):
            as_python(read_pickle(data))
        assert tracemalloc.get_traced_memory()[1] < BOUND
    finally:
        tracemalloc.stop()


def test_the_text_of_an_object_does_not_write_out_what_it_holds() -> None:
    inner = Made("a.B", ())
    inner.state = {"self": inner}
    assert str([inner]) == "[<a.B>]"


@pytest.mark.parametrize("protocol", range(6))
def test_what_is_shared_in_honest_data_is_read(protocol: int) -> None:
    shared = ["eu"] * 3
    given = {"a": shared, "b": [shared] * 100, "when": [datetime(2026, 1, 2, tzinfo=UTC)] * 2, "day": date(2026, 1, 2)}
    assert as_python(read_pickle(pickle.dumps(given, protocol))) == given


def test_an_object_that_refers_to_itself_is_refused_only_where_it_is_used() -> None:
    found = read_pickle(pickle.dumps({"id": "a", "args": _Node()}, 4))
    assert found["id"] == "a"
    with pytest.raises(UnreadablePickleError, match="it is an object of"):
        as_python(found["args"])


class _Node:
    def __init__(self) -> None:
        self.parent = self


@pytest.mark.parametrize("seed", range(3))
def test_damaged_pickles_raise_nothing_else(seed: int) -> None:
    random = Random(seed)
    read: Callable[[bytes], object] = lambda data: as_python(read_pickle(data))  # noqa: E731
    refused = 0
    for _ in range(300):
        try:
            read(made_pickle(random))
        except UnreadablePickleError:
            refused += 1
    assert 0 < refused < 300
