"""What a child process sends is bounded, and a node reads no more than that."""

from __future__ import annotations

import multiprocessing
from multiprocessing.context import SpawnProcess
from typing import Any, cast

import pytest

from quartzpy.errors import JobExecutionError
from quartzpy.job_data import MAX_BYTES
from quartzpy.node.engines.process_messages import (
    DONE,
    LOG,
    MAX_MESSAGE,
    MAX_TEXT,
    bounded,
    error_from_json,
    error_to_json,
    pack,
)
from quartzpy.node.engines.worker_process import WorkerProcess

HUGE = "é" * 20_000_000


def test_a_log_line_and_an_error_are_cut_before_they_are_sent() -> None:
    assert len(pack(LOG, text=bounded(HUGE))) < MAX_MESSAGE
    assert bounded("x" * MAX_TEXT) == "x" * MAX_TEXT
    error = JobExecutionError(HUGE)
    error.__cause__ = ValueError(HUGE)
    written = error_to_json(error)
    whole = pack(DONE, noticed_stop=False, error=written, result="é" * MAX_BYTES, job_data="é" * MAX_BYTES)
    assert len(whole) < MAX_MESSAGE
    read = error_from_json(written)
    assert isinstance(read, JobExecutionError)
    assert str(read).startswith("ééé")
    assert "characters are left out here" in str(read)


class _NoProcess:
    pid = 0
    exitcode = None

    def join(self, seconds: float) -> None: ...


def test_a_message_that_no_child_sends_is_not_read() -> None:
    ours, theirs = multiprocessing.Pipe()
    with ours, theirs:
        # The length alone, as a job could write it to the pipe: a node that believed it would reserve a gigabyte.
        theirs._send(b"\x40\x00\x00\x00")  # type: ignore[attr-defined]
        worker = WorkerProcess(cast(SpawnProcess, _NoProcess()), cast(Any, ours))
        with pytest.raises(OSError, match="bad message length"):
            worker.receive()
