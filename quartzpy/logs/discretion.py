"""Keeps secrets out of what libraries log while they have them in hand.

At DEBUG they write whole URLs and headers. What they log there is dropped while a secret is sent, and what they log at
higher levels loses the secret.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

LIBRARIES = frozenset({"apprise", "urllib3", "requests", "httpx", "httpcore", "h2", "hpack"})
_scrub: ContextVar[Callable[[str], str] | None] = ContextVar("quartzpy_discretion", default=None)


@contextmanager
def discreet(scrub: Callable[[str], str]) -> Iterator[None]:
    """Let the loggers of libraries show no secret in this context; `scrub` returns a text without it."""
    _watch_records()
    token = _scrub.set(scrub)
    try:
        yield
    finally:
        _scrub.reset(token)


def may_be_kept(record: logging.LogRecord) -> bool:
    """Return whether a record may be logged here, and take the secrets out of it."""
    scrub = _scrub.get()
    if scrub is None or record.name.partition(".")[0] not in LIBRARIES:
        return True
    if record.levelno < logging.WARNING:
        return False
    record.msg, record.args = scrub(record.getMessage()), None
    if record.exc_info:
        # A traceback ends with the text of the error, which has the URL.
        record.exc_info, record.exc_text = None, None
    return True


class _Filter(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        return may_be_kept(record)


_FILTER = _Filter()


class _Factory:
    """Makes records as before, and gives the logger of each the filter, which is asked after the record is made.

    A library makes loggers when its modules are imported, which may be while a secret is sent: no list of the loggers
    that exist at one moment is complete.
    """

    def __init__(self, before: Callable[..., logging.LogRecord]) -> None:
        self._before = before

    def __call__(self, name: str | None, *args: Any, **kwargs: Any) -> logging.LogRecord:
        # `logging.makeLogRecord` creates a record without a name.
        if _scrub.get() is not None and name is not None and name.partition(".")[0] in LIBRARIES:
            logging.getLogger(name).addFilter(_FILTER)
        return self._before(name, *args, **kwargs)


def _watch_records() -> None:
    if not isinstance(factory := logging.getLogRecordFactory(), _Factory):
        logging.setLogRecordFactory(_Factory(factory))
