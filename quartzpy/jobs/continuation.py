"""One job after another: the jobs that the cluster runs when an execution has ended."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, NamedTuple

from quartzpy.checks import Check, check_values
from quartzpy.errors import InvalidJobError
from quartzpy.job_data import decode, encode
from quartzpy.keys import JobKey
from quartzpy.states import Outcome
from quartzpy.texts import quoted, reason

FOLLOWED = (Outcome.SUCCEEDED, Outcome.FAILED, Outcome.CANCELLED, Outcome.TERMINATED)
"""The outcomes that a continuation can wait for: a fire that was skipped is no execution."""


@dataclass(frozen=True)
class Continuation:
    """A job that runs after another one: `JobDetail(extract, continuations=[Continuation("load")])`.

    Whenever an execution of the first job ends with one of `outcomes`, the transaction that records its end stores a
    trigger that fires `job` once, immediately, with `data`. Each end therefore has its continuation exactly once, even
    if nodes die. A failed attempt that is retried is not an end. In the second job, `context.predecessor` has the
    execution that it follows and the result of that execution.

    `job`: a key, or a name in the group DEFAULT. A job that is not stored when the first one ends does not run.
    """

    _checks: ClassVar[Mapping[str, Check]] = {
        "job": lambda job: _key(job),
        "outcomes": lambda outcomes: _outcomes(outcomes),
        "data": lambda data: _data(data),
    }

    job: JobKey | str
    outcomes: Sequence[str] = (Outcome.SUCCEEDED,)
    _: KW_ONLY
    data: Mapping[str, Any] | None = field(default=None, hash=False)

    def __post_init__(self) -> None:
        """Check all values.

        Raises:
            InvalidJobError, InvalidKeyError, InvalidJobDataError: a value is wrong.
        """
        check_values(self)

    @property
    def key(self) -> JobKey:
        """The key of the job that runs after the other."""
        assert isinstance(self.job, JobKey)
        return self.job


def _key(job: object) -> JobKey:
    if isinstance(job, JobKey):
        return job
    if not isinstance(job, str):
        raise InvalidJobError(f"continuation: job must be a JobKey or a name (got {quoted(job)})")
    return JobKey(job)


def _outcomes(outcomes: object) -> tuple[Outcome, ...]:
    if isinstance(outcomes, str) or not isinstance(outcomes, Sequence):
        raise InvalidJobError(f"continuation: outcomes must be a sequence (got {quoted(outcomes)})")
    chosen = tuple(outcome for outcome in FOLLOWED if outcome in outcomes)
    if not chosen or len(chosen) < len(set(outcomes)):
        raise InvalidJobError(f"continuation: outcomes must be some of {', '.join(FOLLOWED)} (got {quoted(outcomes)})")
    return chosen


def _data(data: Mapping[str, Any] | None) -> dict[str, Any] | None:
    encode(data)
    return dict(data) if data else None


class Predecessor(NamedTuple):
    """The execution that a job runs after."""

    job_key: JobKey
    fire_id: int
    outcome: Outcome
    result: Any
    """The value that its job returned; None where it returned nothing or did not end by itself."""


def as_continuations(jobs: object) -> tuple[Continuation, ...]:
    """Return the continuations of a job, each given as a `Continuation`, a key or a name.

    Raises:
        InvalidJobError: not a sequence of those, or one job is given twice for the same outcome.
    """
    if isinstance(jobs, str) or not isinstance(jobs, Sequence) or isinstance(jobs, JobKey):
        raise InvalidJobError(
            f'continuations: a sequence of jobs, like [Continuation("load")], is needed (got {quoted(jobs)})'
        )
    continuations = tuple(
        continuation if isinstance(continuation, Continuation) else Continuation(continuation) for continuation in jobs
    )
    followed: set[tuple[JobKey, str]] = set()
    for continuation in continuations:
        for outcome in continuation.outcomes:
            if (continuation.key, outcome) in followed:
                raise InvalidJobError(f"continuations: job {continuation.key} is given twice for the outcome {outcome}")
            followed.add((continuation.key, outcome))
    return continuations


def continuations_as_text(continuations: Sequence[Continuation]) -> str:
    """Return the JSON that is stored."""
    return json.dumps(
        [
            {
                "job_group": continuation.key.group,
                "job_name": continuation.key.name,
                "outcomes": list(continuation.outcomes),
                "data": json.loads(encode(continuation.data) or "{}"),
            }
            for continuation in continuations
        ]
    )


def continuations_from_text(text: str | None) -> tuple[Continuation, ...]:
    """Return the continuations of stored JSON.

    Raises:
        InvalidJobError: the text is not what `continuations_as_text` writes.
    """
    try:
        return tuple(
            Continuation(
                JobKey(stored["job_name"], stored["job_group"]),
                stored["outcomes"],
                data=decode(json.dumps(stored["data"])) or None,
            )
            for stored in json.loads(text or "[]")
        )
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise InvalidJobError(f"continuations: the stored value cannot be read: {reason(error)}") from error
