"""The line that names an error, in lists and sentences."""

from __future__ import annotations

import asyncio

import pytest

from quartzpy.node.workers.error_handling import describe
from quartzpy.texts import headline


class Refused(Exception):
    """An error whose message has several lines, as those of SQLAlchemy and psycopg have."""


def _raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:
        return caught


def _with_note() -> BaseException:
    error = ValueError("bad order")
    error.add_note("while importing page 7")
    return _raised(error)


def _with_cause() -> BaseException:
    try:
        try:
            raise KeyError("customer")
        except KeyError as cause:
            raise Refused("no such customer\nDETAIL: 7") from cause
    except Refused as caught:
        return caught


def _made_of_a_cause() -> BaseException:
    error = Refused("took longer than its timeout")
    error.__cause__ = _raised(KeyError("it was asked to stop"))
    return error


def _of_a_task_group() -> BaseException:
    async def fails() -> None:
        raise Refused("connection refused\nsecond line")

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(fails())

    try:
        asyncio.run(main())
    except BaseException as caught:
        return caught
    raise AssertionError


NAME = f"{__name__}.Refused"


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (_raised(ValueError("bad order")), "ValueError: bad order"),
        (_raised(ValueError()), "ValueError"),
        (_raised(Refused("duplicate key\n[SQL: INSERT]\n(Background on this error)")), f"{NAME}: duplicate key"),
        (_raised(Refused("bad\n  File without quotes\n\n  indented")), f"{NAME}: bad"),
        (_with_note(), "ValueError: bad order"),
        (_with_cause(), f"{NAME}: no such customer"),
        (_made_of_a_cause(), f"{NAME}: took longer than its timeout"),
        (_of_a_task_group(), f"{NAME}: connection refused"),
        (_raised(Refused("duplicate key\n" + "x" * 100_000)), f"{NAME}: duplicate key"),
        (_raised(SyntaxError("invalid syntax", ("report.py", 3, 1, "x = = 1", 3, 2))), "SyntaxError: invalid syntax"),
    ],
)
def test_an_error_is_named_by_its_own_line(error: BaseException, line: str) -> None:
    assert headline(describe(error)) == line


def test_a_text_without_a_traceback_begins_with_its_line() -> None:
    assert headline("node n1 died\nit had run for 3 s") == "node n1 died"
    assert headline("") == ""
    assert headline(None) is None


def test_a_message_that_is_cut_keeps_its_start_and_the_frames_before_it() -> None:
    kept = describe(_raised(Refused("duplicate key" + "x" * 100_000)))
    assert "in _raised" in kept
    assert kept.endswith("x[...]")
    assert len(kept) < 10_000
