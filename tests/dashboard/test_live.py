"""The stream of server-sent events, and the thread that feeds it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from quartzpy import Scheduler
from quartzpy.dashboard import live
from quartzpy.dashboard.live import LiveHub
from quartzpy.errors import SchedulerStateError
from tests.dashboard.scene import Report
from tests.proxy import Proxy

THREAD = "quartzpy-dashboard-live"


async def topics_until(stream: AsyncIterator[str], wanted: str) -> str:
    """Return the first event of the stream that names a topic."""
    async for event in stream:
        if wanted in event:
            return event
    raise AssertionError(f"the stream ended without {wanted!r}")


def watching() -> bool:
    return any(thread.name == THREAD for thread in threading.enumerate())


async def gone() -> None:
    while watching():
        await asyncio.sleep(0.02)


def test_a_stream_names_what_changed_and_the_thread_ends_with_the_last_stream(
    monkeypatch: pytest.MonkeyPatch, postgres_dsn: str
) -> None:
    monkeypatch.setattr(live, "SCHEDULE_EVERY", 0.3)
    scheduler = Scheduler(postgres_dsn, name="live", workers=2)
    scheduler.schedule_job(Report, timedelta(milliseconds=200), name="often")
    scheduler.start()

    async def read() -> None:
        hub = LiveHub(scheduler)
        first, second = hub.stream(), hub.stream()
        assert "hello" in await anext(first)
        assert "hello" in await anext(second)
        assert (await topics_until(first, live.EXECUTIONS)).startswith("event: changed\ndata: ")
        await topics_until(second, live.SCHEDULE)
        await first.aclose()  # type: ignore[attr-defined]
        await topics_until(second, live.EXECUTIONS)
        assert watching()
        await second.aclose()  # type: ignore[attr-defined]
        await asyncio.wait_for(gone(), 60)
        # Another reader starts it again.
        third = hub.stream()
        await anext(third)
        await topics_until(third, live.EXECUTIONS)
        hub.close()
        assert [event async for event in third if "changed" in event] == []
        await asyncio.wait_for(gone(), 60)
        assert [event async for event in hub.stream()] == ["retry: 2000\nevent: hello\ndata: \n\n"]

    try:
        asyncio.run(asyncio.wait_for(read(), 60))
    finally:
        scheduler.shutdown()


def test_every_page_asks_again_when_the_database_goes_away(
    postgres_dsn: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(live, "SCHEDULE_EVERY", 0.1)
    monkeypatch.setattr(live, "RETRY_AFTER", 0.02)
    with (
        Proxy.to(postgres_dsn) as link,
        Scheduler(link.through(postgres_dsn), name="away") as scheduler,
    ):

        async def read() -> None:
            stream = LiveHub(scheduler).stream()
            await topics_until(stream, live.SCHEDULE)
            # From here on the hub is connected, and nothing runs.
            link.refuse()
            for _ in range(3):
                await topics_until(stream, live.EXECUTIONS)
            link.admit()
            while "available again" not in caplog.text:
                await asyncio.sleep(0.02)
            await stream.aclose()  # type: ignore[attr-defined]
            await gone()

        asyncio.run(asyncio.wait_for(read(), 60))
    told = [one.getMessage() for one in caplog.records if one.name == live.__name__]
    assert len(told) == 2, "however often it asks: one line when the outage begins, and one when it ends"
    assert "are unavailable: " in told[0]


def test_the_end_of_the_process_is_no_outage(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, postgres_dsn: str
) -> None:
    scheduler = Scheduler(postgres_dsn, name="ending")
    hub = LiveHub(scheduler)
    events, refused = scheduler.cluster_events, []

    def end_first() -> object:
        hub.close()
        scheduler.shutdown()
        try:
            return events()
        except SchedulerStateError as error:
            refused.append(error)
            raise

    monkeypatch.setattr(scheduler, "cluster_events", end_first)

    async def read() -> None:
        async for _ in hub.stream():
            pass
        await gone()

    asyncio.run(asyncio.wait_for(read(), 60))
    assert len(refused) == 1
    assert [one.getMessage() for one in caplog.records if one.name == live.__name__] == []


def test_the_thread_outlives_an_error_that_nobody_expects(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, postgres_dsn: str
) -> None:
    monkeypatch.setattr(live, "RETRY_AFTER", 0.02)
    scheduler = Scheduler(postgres_dsn, name="surprised")
    events, failed = scheduler.cluster_events, []

    def fail_once() -> object:
        if not failed:
            failed.append(KeyError("surprise"))
            raise failed[0]
        return events()

    monkeypatch.setattr(scheduler, "cluster_events", fail_once)

    async def read() -> None:
        stream = LiveHub(scheduler).stream()
        await topics_until(stream, live.EXECUTIONS)
        while "available again" not in caplog.text:
            await asyncio.sleep(0.02)
        await stream.aclose()  # type: ignore[attr-defined]
        await gone()

    try:
        asyncio.run(asyncio.wait_for(read(), 30))
    finally:
        scheduler.shutdown()
    assert caplog.text.count("KeyError: 'surprise'") == 1, "with its traceback"


def test_a_thread_that_the_system_refuses_is_started_by_the_next_stream(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, postgres_dsn: str
) -> None:
    scheduler = Scheduler(postgres_dsn, name="refused")
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name == THREAD:
            raise RuntimeError("can't start new thread")
        start(thread)

    async def read() -> None:
        hub = LiveHub(scheduler)
        with monkeypatch.context() as refused:
            refused.setattr(threading.Thread, "start", refuse)
            first = hub.stream()
            assert "hello" in await anext(first)
        assert not watching()
        second = hub.stream()
        assert "hello" in await anext(second)
        assert watching()
        for one in (first, second):
            await one.aclose()  # type: ignore[attr-defined]
        await gone()

    try:
        asyncio.run(asyncio.wait_for(read(), 30))
    finally:
        scheduler.shutdown()
    assert "the pages are not updated: can't start new thread" in caplog.text


def test_a_silent_stream_is_kept_open_by_pings(monkeypatch: pytest.MonkeyPatch, postgres_dsn: str) -> None:
    monkeypatch.setattr(live, "PING_EVERY", 0.05)
    scheduler = Scheduler(postgres_dsn, name="silent")

    async def read() -> str:
        stream = LiveHub(scheduler).stream()
        await anext(stream)
        found = await anext(stream)
        await stream.aclose()  # type: ignore[attr-defined]
        return found

    try:
        assert asyncio.run(asyncio.wait_for(read(), 30)) == ": ping\n\n"
    finally:
        scheduler.shutdown()
