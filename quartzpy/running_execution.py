"""The operations of a running execution that its context offers to the job."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from quartzpy.cancellation import Cancellation
from quartzpy.captured_logs import LogCapture
from quartzpy.progress import Progress

if TYPE_CHECKING:
    from quartzpy.connection_types import JobConnection


class RunningExecution(Protocol):
    """The execution behind a context."""

    @property
    def cancelled(self) -> Cancellation: ...

    @property
    def lease_lost(self) -> bool: ...

    @property
    def log_capture(self) -> LogCapture | None: ...

    def transaction(self) -> AbstractContextManager[JobConnection]: ...

    def fenced_transaction(self) -> AbstractContextManager[JobConnection]: ...

    def report_progress(self, progress: Progress) -> None: ...
