"""The words in which an explanation tells its reader how to do something: in Python, by a command, or on the page."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from quartzpy.keys import TriggerKey


@dataclass(frozen=True, slots=True)
class Advice:
    """The words for one kind of reader. They follow "then"."""

    reset_words: str
    """Resets a trigger from ERROR. "{key}" stands for its key, as an argument of a shell command."""

    def reset(self, key: TriggerKey) -> str:
        """Return how to reset a trigger from ERROR."""
        return self.reset_words.format(key=shlex.quote(str(key)))


PYTHON = Advice("call reset_trigger_from_error")
COMMANDS = Advice("run `quartzpy reset {key}`")
PAGE = Advice("choose “Reset from error”")
API = Advice("send the action `reset`")
