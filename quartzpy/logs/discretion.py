"""Keeps secrets out of what libraries log while they have them in hand.

At DEBUG they write whole URLs and headers. What they log there is dropped while a secret is sent, and what they log at
higher levels loses the secret.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

LIBRARIES = frozenset({"apprise", "urllib3", "requests", "httpx", "httpcore", "h2", "hpack"})
_scrub: ContextVar[Callable[[str], str] | None] = ContextVar("quartzpy_discretion", default=None)


@contextmanager
def discreet(scrub: Callable[[str], str]) -> Iterator[None]:
    """Let the loggers of libraries show no secret in this context; `scrub` returns a text without it."""
    for name in [*LIBRARIES, *logging.root.manager.loggerDict]:
        if name.partition(".")[0] in LIBRARIES:
            logging.getLogger(name).addFilter(_FILTER)
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
