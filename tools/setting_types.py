"""Write the settings as keyword arguments for type checkers, from the fields of `SchedulerConfig`.

python -m tools.setting_types
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from quartzpy.config.config import SchedulerConfig

FILE = Path(__file__).resolve().parents[1] / "quartzpy" / "config" / "setting_types.py"
_HEAD = '''\
"""The settings as keyword arguments, for type checkers, which so find a wrong name and a value of a wrong type.

`python -m tools.setting_types` writes this file. At run time `SchedulerConfig.of` checks the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

from quartzpy.config.config import NodeRole
from quartzpy.config.notifying import Channel
from quartzpy.config.pools import ExecutorConfig
from quartzpy.instants import Span


class Settings(TypedDict, total=False):
    """The keyword arguments of `Scheduler` that are settings; `SchedulerConfig` says what they mean."""

'''
_TAIL = '''

class OutsideSettings(Settings, total=False):
    """The keyword arguments of `Scheduler.from_config` that are settings."""

    url: str
'''


def text() -> str:
    """Return the text of the file."""
    return (
        _HEAD + "".join(f"    {each.name}: {_accepted(str(each.type))}\n" for each in fields(SchedulerConfig)) + _TAIL
    )


def _accepted(annotation: str) -> str:
    """Return what a field accepts: of one that converts it, the first of its two types."""
    annotation = annotation.replace("'", '"')
    inner = annotation.removeprefix("Converted[")
    if inner == annotation:
        return annotation
    depth = 0
    for place, character in enumerate(inner):
        depth += (character == "[") - (character == "]")
        if character == "," and depth == 0:
            return inner[:place]
    raise ValueError(f"{annotation} has one type")


if __name__ == "__main__":
    FILE.write_text(text())
