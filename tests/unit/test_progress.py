"""The arguments of `context.progress`."""

from __future__ import annotations

from typing import Any

import pytest

from quartzpy.errors import InvalidValueError
from quartzpy.jobs.context import Progress


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((0,), Progress(0.0)),
        ((0.4, "reading"), Progress(0.4, "reading")),
        ((0.4, None), Progress(0.4)),
        ((1,), Progress(1.0)),
        ((3, 4), Progress(0.75)),
        ((3, 4, "rows"), Progress(0.75, "rows")),
        ((5, 4), Progress(1.0)),
        ((0, 0), Progress(1.0)),
        ((10**400 - 1, 10**400), None),
    ],
)
def test_a_fraction_or_an_amount_of_a_total(arguments: tuple[Any, ...], expected: Progress | None) -> None:
    if expected is None:
        with pytest.raises(InvalidValueError, match="too large"):
            Progress.of(*arguments)
    else:
        assert Progress.of(*arguments) == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            (40,),
            r"the fraction must be from 0 to 1 \(got 40\); for 40 of a total, call context.progress\(done, total\)",
        ),
        ((-0.1,), "the fraction must be a finite number that is not negative"),
        ((float("nan"),), "the fraction must be a finite number"),
        (("half",), "the fraction must be a number"),
        ((True,), "the fraction must be a number"),
        ((1, float("inf")), "the total must be a finite number"),
        ((1, "10", "rows"), "the total must be a number"),
        ((None, 10), "the amount done must be a number"),
        ((0.5, "a\0b"), "message: the NUL character"),
        ((1, 2, 3), "message: must be str"),
    ],
)
def test_anything_else_is_refused(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InvalidValueError, match=message):
        Progress.of(*arguments)
