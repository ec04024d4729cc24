"""Runs a target on many inputs, and says which of them it did not take as it should."""

from __future__ import annotations

import gc
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from types import FrameType

from quartzpy.budget import MAX_STEPS, Budget
from quartzpy.errors import QuartzpyError

LIMIT = 0.05
"""Seconds of CPU time that an input may take."""
_HANGS_AFTER = 10.0
_COUNTED = 3 * MAX_STEPS


class Hang(BaseException):
    """Raised in a call that does not come back; no parser catches it as an error of its input."""


@dataclass(frozen=True)
class Target:
    """A parser: `make` draws an input, `run` gives it to the parser and raises nothing but errors of ours."""

    name: str
    make: Callable[[Random], object]
    run: Callable[[object], None]
    limit: float = LIMIT
    """The processor time that an input may take; that of a search for fire times is bounded by its budget of steps."""


@dataclass
class Outcome:
    """What came of a run. A fault is the input's number, the input and what was wrong."""

    target: str
    seed: int
    inputs: int = 0
    accepted: int = 0
    refused: int = 0
    slowest: float = 0.0
    slowest_input: str = ""
    most_steps: int = 0
    faults: list[tuple[int, str, str]] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.target}: seed {self.seed}, {self.inputs:,} inputs, {self.accepted:,} accepted,"
            f" {self.refused:,} refused by errors of ours, {len(self.faults)} faults,"
            f" slowest {self.slowest * 1000:.1f} ms ({self.slowest_input}), most steps {self.most_steps:,}"
        )


def fuzz(target: Target, inputs: int, seed: int, *, most_faults: int = 20) -> Outcome:
    """Run `target` on so many inputs. The same seed makes the same inputs, each from its own number."""
    outcome = Outcome(target.name, seed)
    with _hangs_found() as watched:
        for number in range(inputs):
            given = target.make(Random(f"{target.name}/{seed}/{number}"))
            outcome.inputs += 1
            fault = _judged(target, given, outcome, watched)
            if fault is not None:
                outcome.faults.append((number, _shown(given), fault))
                if len(outcome.faults) >= most_faults:
                    break
    return outcome


def _judged(target: Target, given: object, outcome: Outcome, watched: Callable[[], None]) -> str | None:
    """What is wrong with how the target took this input; None where nothing is."""
    watched()
    began = time.thread_time()
    with Budget(_COUNTED) as budget:
        error = _error_of(target, given)
    took = time.thread_time() - began
    outcome.most_steps = max(outcome.most_steps, budget.spent)
    if took > target.limit:
        # Once more: another process may have had its part in it, or a collection of garbage.
        gc.collect()
        began = time.thread_time()
        error = _error_of(target, given)
        took = time.thread_time() - began
    if took > outcome.slowest:
        outcome.slowest, outcome.slowest_input = took, _shown(given, 80)
    if error is None:
        outcome.accepted += 1
    elif isinstance(error, QuartzpyError):
        outcome.refused += 1
    else:
        return "".join(traceback.format_exception(error)[-6:])
    return f"took {took * 1000:.0f} ms" if took > target.limit else None


def _error_of(target: Target, given: object) -> BaseException | None:
    try:
        target.run(given)
    except (Exception, Hang) as error:
        return error
    return None


def _shown(given: object, most: int = 400) -> str:
    text = ascii(given)
    return text if len(text) <= most else f"{text[:most]}... ({len(text)} characters)"


@contextmanager
def _hangs_found() -> Iterator[Callable[[], None]]:
    """What to call before each input, so that one that never ends raises."""
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return

    def too_long(number: int, frame: FrameType | None) -> None:
        raise Hang(f"no end after {_HANGS_AFTER:.0f} s of CPU time")

    before = signal.signal(signal.SIGVTALRM, too_long)
    try:
        yield lambda: signal.setitimer(signal.ITIMER_VIRTUAL, _HANGS_AFTER) and None
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
