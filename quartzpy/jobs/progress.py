"""The progress that a running job reports."""

from __future__ import annotations

from dataclasses import dataclass

from quartzpy.errors import InvalidValueError
from quartzpy.texts import check_description, quoted


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of an execution: the fraction of the work that is done, from 0 to 1, and a message."""

    fraction: float
    message: str | None = None

    @classmethod
    def of(cls, done: object, total: object = None, message: object = None) -> Progress:
        """Return the progress for the arguments of `JobExecutionContext.progress`.

        Raises:
            InvalidValueError: as described there.
        """
        if isinstance(total, str):
            if message is not None:
                raise InvalidValueError(f"progress: the total must be a number (got {quoted(total)})")
            total, message = None, total
        check_description(message, InvalidValueError, "message")
        written = None if message is None else str(message)
        if total is None:
            return cls(_fraction(done), written)
        amount, whole = _number(done, "the amount done"), _number(total, "the total")
        # The total is often an estimate, which the work may exceed.
        return cls(1.0 if amount >= whole else amount / whole, written)


def _fraction(done: object) -> float:
    fraction = _number(done, "the fraction")
    if fraction > 1:
        raise InvalidValueError(
            f"progress: the fraction must be from 0 to 1 (got {quoted(done)}); for {quoted(done)} of a total, call"
            " context.progress(done, total)"
        )
    return fraction


def _number(value: object, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidValueError(f"progress: {what} must be a number (got {quoted(value)})")
    if not 0 <= value < float("inf"):
        raise InvalidValueError(f"progress: {what} must be a finite number that is not negative (got {quoted(value)})")
    try:
        return float(value)
    except OverflowError:
        raise InvalidValueError(f"progress: {what} is too large") from None
