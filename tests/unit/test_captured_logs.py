"""The capture of the log records of one execution."""

from __future__ import annotations

import asyncio
import contextvars
import io
import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from quartzpy.logs.captured import SMALLEST_LIMIT, LevelWarnings, LogCapture, LogLines, RunLogger, capturing

logger = logging.getLogger("tests.captured")


@pytest.fixture(autouse=True)
def _levels(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(logger, "level", logging.DEBUG)
    logger.manager._clear_cache()  # type: ignore[attr-defined]
    factory = logging.getLogRecordFactory()
    yield
    logging.setLogRecordFactory(factory)
    logger.manager._clear_cache()  # type: ignore[attr-defined]


class Unprintable:
    def __str__(self) -> str:
        raise RuntimeError("a bug in __str__")

    __repr__ = __str__


def captured(lines: list[str], level: int = logging.INFO) -> LogCapture:
    return LogCapture(level, lines.append)


def messages(lines: list[str]) -> list[str]:
    return [line.partition(" ")[2] for line in lines]


# --- the lines that are kept


@pytest.mark.parametrize("limit", [SMALLEST_LIMIT, 65_536])
@pytest.mark.parametrize("character", ["x", "ü", "\U0001f600"])
def test_the_first_and_the_last_lines_are_kept_within_the_limit(limit: int, character: str) -> None:
    lines = LogLines(limit)
    for number in range(10_000):
        lines.add(f"{number} {character * (number % 40)}")
    text = lines.text()
    assert text is not None
    assert limit * 0.8 < len(text.encode()) <= limit
    kept = text.split("\n")
    [place] = [place for place, line in enumerate(kept) if "left out" in line]
    first = [int(line.split(" ")[0]) for line in kept[:place]]
    last = [int(line.split(" ")[0]) for line in kept[place + 1 :]]
    assert first == list(range(len(first)))
    assert last == list(range(10_000 - len(last), 10_000))
    assert kept[place] == f"[{10_000 - len(first) - len(last)} lines are left out here]"


def test_nothing_is_left_out_of_few_lines() -> None:
    lines = LogLines()
    assert lines.text() is None
    for line in ("one", "two\nthree", ""):
        lines.add(line)
    assert lines.text() == "one\ntwo\nthree\n"


@pytest.mark.parametrize("character", ["x", "\U0001f600"])
def test_a_line_longer_than_the_limit_is_cut(character: str) -> None:
    lines = LogLines(SMALLEST_LIMIT)
    lines.add(character * 1_000_000)
    lines.add("the end")
    text = lines.text() or ""
    assert len(text.encode()) <= SMALLEST_LIMIT
    cut, end = text.split("\n")
    assert cut.endswith(f"[{1_000_000 - cut.count(character)} more characters]")
    assert end == "the end"


# --- the records that are captured


def test_a_record_is_one_line_with_its_time_level_and_logger() -> None:
    lines: list[str] = []
    with capturing(captured(lines)):
        logger.info("sent %d", 7)
        logger.debug("below the level")
    logger.info("after the run")
    [line] = lines
    assert line.endswith("Z INFO tests.captured: sent 7")
    assert len(line.split(" ")[0]) == len("2026-11-22T04:52:32.123Z")


def test_an_exception_and_a_stack_are_part_of_their_record_which_does_not_change() -> None:
    lines: list[str] = []
    seen: list[str | None] = []
    handler = logging.Handler()
    handler.emit = lambda record: seen.append(record.exc_text)  # type: ignore[method-assign]
    logger.addHandler(handler)
    try:
        with capturing(captured(lines)):
            try:
                raise ValueError("wrong")
            except ValueError:
                logger.exception("it failed", stack_info=True)
    finally:
        logger.removeHandler(handler)
    [text] = lines
    assert "it failed\nTraceback (most recent call last):" in text
    assert "ValueError: wrong\nStack (most recent call last):" in text
    assert seen == [None], "handlers that come later would print this text in place of their own"


@pytest.mark.parametrize(
    ("message", "arguments", "text"),
    [
        ("a\0b", (), "a\\0b"),
        ("a\ud800b", (), "a\\ud800b"),
        ("%s", ("\udfff\0",), "\\udfff\\0"),
    ],
)
def test_text_that_a_database_cannot_store_is_escaped(
    monkeypatch: pytest.MonkeyPatch, message: str, arguments: tuple[Any, ...], text: str
) -> None:
    # pytest's own capture would keep the surrogates, and pytest-xdist cannot send them.
    monkeypatch.setattr(logger, "propagate", False)
    lines: list[str] = []
    with capturing(captured(lines)):
        logger.info(message, *arguments)
    assert messages(lines) == [f"INFO tests.captured: {text}"]


@pytest.mark.parametrize(
    ("message", "arguments", "text"),
    [
        ("%d", ("seven",), "%d format"),
        ("%s", (Unprintable(),), "a bug in __str__"),
        (Unprintable(), (), "a bug in __str__"),
    ],
)
def test_a_record_that_cannot_be_formatted_is_named_and_raises_nothing(
    monkeypatch: pytest.MonkeyPatch, message: Any, arguments: tuple[Any, ...], text: str
) -> None:
    monkeypatch.setattr(logger, "disabled", False)
    monkeypatch.setattr(logger, "propagate", False)
    monkeypatch.setattr(logger, "handlers", [logging.NullHandler()])
    lines: list[str] = []
    with capturing(captured(lines)):
        logger.info(message, *arguments)
    [line] = lines
    assert line.startswith("a log record cannot be formatted: ")
    assert text in line


def test_a_record_is_captured_before_a_handler_that_raises() -> None:
    def broken(record: logging.LogRecord) -> None:
        raise OSError("the disk is full")

    handler = logging.Handler()
    handler.emit = broken  # type: ignore[method-assign]
    logger.addHandler(handler)
    lines: list[str] = []
    try:
        with capturing(captured(lines)), pytest.raises(OSError, match="the disk is full"):
            logger.info("sent")
    finally:
        logger.removeHandler(handler)
    assert messages(lines) == ["INFO tests.captured: sent"]


def test_a_logger_that_does_not_propagate_is_captured_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logger, "propagate", False)
    lines: list[str] = []
    with capturing(captured(lines)):
        logger.info("sent")
    assert messages(lines) == ["INFO tests.captured: sent"]


def test_a_record_of_another_process_is_not_captured_when_it_is_rebuilt() -> None:
    lines: list[str] = []
    with capturing(captured(lines)):
        logging.makeLogRecord({"name": "other", "levelno": logging.ERROR, "msg": "x"})
    assert lines == []


def test_each_context_has_its_own_capture() -> None:
    one: list[str] = []
    two: list[str] = []

    async def run(name: str, lines: list[str], turn: asyncio.Event, other: asyncio.Event) -> None:
        with capturing(captured(lines)):
            for step in range(3):
                await turn.wait()
                turn.clear()
                logger.info("%s %d", name, step)
                await asyncio.to_thread(logger.info, "%s thread", name)
                other.set()

    async def both() -> None:
        first, second = asyncio.Event(), asyncio.Event()
        first.set()
        await asyncio.gather(run("one", one, first, second), run("two", two, second, first))

    asyncio.run(both())
    for name, lines in (("one", one), ("two", two)):
        expected = [text for step in range(3) for text in (f"{name} {step}", f"{name} thread")]
        assert [line.rpartition(": ")[2] for line in lines] == expected


def test_a_thread_of_its_own_is_captured_in_a_copy_of_the_context() -> None:
    lines: list[str] = []
    with capturing(captured(lines)):
        context = contextvars.copy_context()
        thread = threading.Thread(target=context.run, args=(logger.info, "sent"))
        thread.start()
        thread.join()
    assert messages(lines) == ["INFO tests.captured: sent"]


# --- other record factories


def test_a_factory_that_replaces_ours_is_wrapped_and_one_that_calls_ours_is_not() -> None:
    lines: list[str] = []
    with capturing(captured(lines)):
        logger.info("one")
    ours = logging.getLogRecordFactory()

    def calls_ours(*args: Any, **kwargs: Any) -> logging.LogRecord:
        return ours(*args, **kwargs)

    logging.setLogRecordFactory(calls_ours)
    with capturing(captured(lines)):
        logger.info("two")
    assert logging.getLogRecordFactory() is calls_ours
    logging.setLogRecordFactory(logging.LogRecord)
    with capturing(captured(lines)):
        logger.info("three")
    assert [line.rpartition(" ")[2] for line in lines] == ["one", "two", "three"]


# --- the logger of the run


def run_logger(lines: list[str] | None) -> RunLogger:
    capture = None if lines is None else captured(lines)
    return RunLogger(logging.getLogger("tests.captured"), {"job": "g.report", "fire_id": 7}, capture)


def test_the_logger_of_a_run_adds_its_attributes_and_names_its_caller(caplog: pytest.LogCaptureFixture) -> None:
    for log in (run_logger(None), run_logger([])):
        with caplog.at_level(logging.INFO):
            log.info("sent %d", 3, extra={"fire_id": 8, "own": True})
    for record in caplog.records:
        values: Any = record
        assert (values.job, values.fire_id, values.own) == ("g.report", 8, True)
        assert record.funcName == "test_the_logger_of_a_run_adds_its_attributes_and_names_its_caller"
    assert caplog.messages == ["sent 3"] * 2


def test_the_logger_of_a_run_is_captured_once_inside_the_run() -> None:
    lines: list[str] = []
    log = run_logger(lines)
    with capturing(captured(lines)):
        log.warning("sent")
    assert messages(lines) == ["WARNING tests.captured: sent"]


def test_the_logger_of_a_run_is_captured_in_another_thread_and_below_its_level(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines: list[str] = []
    log = run_logger(lines)
    thread = threading.Thread(target=log.info, args=("from a thread",))
    thread.start()
    thread.join()
    log.setLevel(logging.ERROR)
    assert log.isEnabledFor(logging.INFO)
    assert not log.isEnabledFor(logging.DEBUG)
    log.info("below %s", "ERROR")
    log.debug("below the capture")
    try:
        raise ValueError("wrong")
    except ValueError as error:
        log.info("by true", exc_info=True)
        log.info("by itself", exc_info=error)
    assert messages(lines)[:2] == ["INFO tests.captured: from a thread", "INFO tests.captured: below ERROR"]
    assert len(lines) == 4
    assert all(text.endswith("ValueError: wrong") for text in lines[2:])


# --- the warning


def test_a_level_that_the_root_logger_drops_is_warned_about_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger(), "level", logging.WARNING)
    written = io.StringIO()
    own = logging.Logger("own")
    own.addHandler(logging.StreamHandler(written))
    warnings = LevelWarnings(own)
    warnings.check(logging.WARNING, "g.one")
    assert written.getvalue() == ""
    for job in ("g.one", "g.two"):
        warnings.check(logging.INFO, job)
    [line] = written.getvalue().splitlines()
    assert line.startswith("job g.one asks for capture_logs='INFO', but the root logger drops records below WARNING")
    assert "logging.basicConfig(level='INFO')" in line
