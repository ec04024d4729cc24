from __future__ import annotations

import pytest

from tests.waiting import wait_until


def test_the_first_true_value_is_returned() -> None:
    values = iter([[], [], [1]])
    assert wait_until(lambda: next(values), every=0) == [1]


def test_the_message_quotes_the_condition_and_tells_what_was_compared() -> None:
    seen = ["a"]
    with pytest.raises(AssertionError) as raised:
        wait_until(lambda: [each.upper() for each in seen] == ["A", "B"], seconds=0)
    assert str(raised.value) == (
        'waited 0 s in vain for [each.upper() for each in seen] == ["A", "B"];'
        " [each.upper() for each in seen] was ['A']"
    )


def test_the_message_has_the_last_value_of_any_other_condition() -> None:
    seen: list[str] = []
    with pytest.raises(AssertionError, match=r"^waited 0 s in vain for seen; the last value was \[\]$"):
        wait_until(lambda: seen, seconds=0)
    with pytest.raises(AssertionError, match=r"^waited 0 s in vain for the end; the last value was 0$"):
        wait_until(seen.__len__, "the end", seconds=0)
    with pytest.raises(AssertionError, match=r"^waited 0 s in vain for the end; the log$"):
        wait_until(seen.__len__, "the end", seconds=0, seen=lambda: "the log")


def test_a_condition_of_several_lines_is_quoted_in_one() -> None:
    seen: list[str] = []
    with pytest.raises(AssertionError, match=r"vain for any\( each.isupper\(\).*; the last value was False"):
        wait_until(
            lambda: any(
                each.isupper()
                for each in seen
                if each.startswith("the name that makes this line so long that it is broken into several of them")
            ),
            seconds=0,
        )
