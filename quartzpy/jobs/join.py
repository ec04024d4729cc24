"""One job after several others: a job that runs when all, any or some of them have ended."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

from quartzpy.checks import Check, check_values, optional, refuses
from quartzpy.errors import InvalidJobError
from quartzpy.instants import Converted, Span, as_span, fixed_offset, zone
from quartzpy.jobs.continuation import FOLLOWED, Predecessor
from quartzpy.keys import UNNAMED, JobKey, check_name, unique_name
from quartzpy.states import Outcome
from quartzpy.texts import quoted, reason

MAX_JOBS = 100
"""The number of jobs that one join may wait for."""
MAX_WAIT = timedelta(days=366)

_MICROSECOND = timedelta(microseconds=1)

ON: Mapping[str, tuple[Outcome, ...]] = {
    "success": (Outcome.SUCCEEDED,),
    "failure": (Outcome.FAILED, Outcome.TERMINATED),
    "end": FOLLOWED,
}
"""The outcomes that count, by the word for them."""
On: TypeAlias = Literal["success", "failure", "end"]
Per: TypeAlias = Literal["instant", "day"]


def checked_on(on: object, what: str) -> On:
    """Return the word for the outcomes that count.

    Raises:
        InvalidJobError: there is no such word.
    """
    for word in ON:
        if on == word:
            return word  # type: ignore[return-value]
    raise InvalidJobError(f"{what}: on must be one of {', '.join(ON)} (got {quoted(on)})")


@dataclass(frozen=True)
class Join:
    """The jobs that a job runs after: `JobDetail(report, after=Join(["extract-a", "extract-b"]))`.

    The job runs once for each scheduled instant for which the other jobs have ended. The transaction that records the
    last of these ends stores a trigger that fires the job once, immediately: exactly once, even if nodes die. In the
    job, `context.joined` has the executions that it runs after.

    - `jobs`: keys, or names in the group DEFAULT. They must be stored when the job is.
    - `need`: "all", "any", or the number of jobs whose ends are needed. An end that comes later fires nothing more.
    - `on`: the ends that count: "success", "failure" (FAILED or TERMINATED) or any "end". A failed attempt that is
      retried is no end, and a fire that was skipped is no execution.
    - `per`: "instant" joins executions of the same scheduled instant, "day" those of the same day in `time_zone`. A
      retry, a recovery, a backfill and an execution that is run again count for the instant of the original, and one
      that makes up for missed instants counts for the last of them.
    - `within`: the time that the job waits, after the first end, until it is an incident that others are missing. It
      goes on waiting. Without it, it waits in silence.
    """

    _checks: ClassVar[Mapping[str, Check]] = {
        "jobs": lambda jobs: _keys(jobs),
        "on": lambda on: checked_on(on, "after"),
        "per": lambda per: _per(per),
        "within": optional(
            partial(as_span, subject="after: within", error=InvalidJobError, above_zero=True, longest=MAX_WAIT)
        ),
        "time_zone": lambda name: _zone_with_days(name),
    }

    jobs: Sequence[JobKey | str]
    _: KW_ONLY
    need: Literal["all", "any"] | int = "all"
    on: On = "success"
    per: Per = "instant"
    time_zone: str = "UTC"
    within: Converted[Span | None, timedelta | None] = Converted(None)

    def __post_init__(self) -> None:
        """Check all values.

        Raises:
            InvalidJobError, InvalidKeyError, InvalidTimeZoneError: a value is wrong.
        """
        check_values(self)

    @refuses("need", "jobs")
    def _check_need(self) -> None:
        number = len(self.jobs)
        if self.need not in ("all", "any") and not (type(self.need) is int and 1 <= self.need <= number):
            raise InvalidJobError(
                f'after: need must be "all", "any" or a number from 1 to {number} (got {quoted(self.need)})'
            )

    @property
    def keys(self) -> tuple[JobKey, ...]:
        """The keys of the jobs that this one runs after."""
        return self.jobs  # type: ignore[return-value]

    @property
    def needed(self) -> int:
        """The number of jobs whose ends are needed."""
        if self.need == "all":
            return len(self.jobs)
        return 1 if self.need == "any" else self.need

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """The outcomes that count."""
        return ON[self.on]

    @property
    def rule(self) -> str:
        """The rule in words: "all must succeed", "2 of 3 must end"."""
        number = {"all": "all", "any": "any"}.get(str(self.need), f"{self.need} of {len(self.jobs)}")
        verb = {"success": "succeed", "failure": "fail", "end": "end"}[self.on]
        return f"{number} must {verb}, {'at the same instant' if self.per == 'instant' else 'on the same day'}"

    def occasion(self, instant: datetime) -> str:
        """Return the text by which executions of a scheduled instant are joined: the instant, or its day."""
        if self.per == "day":
            return instant.astimezone(zone(self.time_zone)).date().isoformat()
        return occasion_of_instant(instant)

    def instant(self, occasion: str) -> datetime:
        """Return the instant for which the job counts that an occasion starts: of a day, its beginning in `time_zone`.

        Of a midnight that comes twice, it is the second one, as PostgreSQL has it.
        """
        if self.per == "instant":
            return instant_of_occasion(occasion)
        midnight = datetime.fromisoformat(occasion).replace(tzinfo=zone(self.time_zone))
        return max(midnight.astimezone(UTC), midnight.replace(fold=1).astimezone(UTC))


def instant_of_occasion(occasion: str) -> datetime:
    """Return the instant of an occasion; of a day, the beginning of that day in UTC."""
    return datetime.fromisoformat(occasion.replace("Z", "+00:00") if "T" in occasion else f"{occasion}T00:00+00:00")


def occasion_of_instant(instant: datetime) -> str:
    """Return an instant as the text that PostgreSQL makes of it."""
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0")


@dataclass(frozen=True)
class Batch:
    """Triggers that are stored together, and the job that runs when the executions of all of them have ended.

        scheduler.schedule(triggers, batch=Batch(then="report"))

    - `then`: the job: a key, or a name in the group DEFAULT. It must be stored, or is stored in the same call. It is
      started exactly once, in the transaction that records the last end; `context.joined` has the numbers.
    - `on`: whether it runs in any case ("end"), if all triggers have fired and succeeded ("success"), or if one of them
      ended otherwise ("failure").
    - `name`: identifies the batch among those of the job. Without one, it gets a unique name.

    Each trigger must fire once. A failed attempt that is retried is no end. One that is run again by hand is no
    part of the batch. A trigger that is deleted, replaced or skipped before it fires has ended, too, and not with
    success: a batch with `on="success"` does not start its job then.
    """

    _: KW_ONLY
    then: JobKey | str
    on: On = "end"
    name: str = UNNAMED

    def __post_init__(self) -> None:
        """Check all values.

        Raises:
            InvalidJobError, InvalidKeyError: a value is wrong.
        """
        if isinstance(self.then, str):
            object.__setattr__(self, "then", JobKey(self.then))
        elif not isinstance(self.then, JobKey):
            raise InvalidJobError(f"batch: then must be a JobKey or a name (got {quoted(self.then)})")
        checked_on(self.on, "batch")
        object.__setattr__(self, "name", unique_name() if self.name is UNNAMED else check_name(self.name, "batch name"))

    @property
    def job(self) -> JobKey:
        """The key of the job that runs when all have ended."""
        assert isinstance(self.then, JobKey)
        return self.then

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """The outcomes for which the job runs."""
        return ON[self.on]


def short_occasion(occasion: str) -> str:
    """Return an occasion as people read it: without the seconds of an instant that has none."""
    return occasion.removesuffix(".000000Z").removesuffix(":00") + "Z" if occasion.endswith(".000000Z") else occasion


def _keys(jobs: object) -> tuple[JobKey, ...]:
    if isinstance(jobs, str | JobKey) or not isinstance(jobs, Sequence) or not jobs:
        raise InvalidJobError(
            f'after: a sequence of jobs, like ["extract-a", "extract-b"], is needed (got {quoted(jobs)})'
        )
    keys = []
    for job in jobs:
        if not isinstance(job, JobKey | str):
            raise InvalidJobError(f"after: each of the jobs must be a JobKey or a name (got {quoted(job)})")
        keys.append(job if isinstance(job, JobKey) else JobKey(job))
    for key in keys:
        if keys.count(key) > 1:
            raise InvalidJobError(f"after: job {key} is given twice")
    if len(keys) > MAX_JOBS:
        raise InvalidJobError(f"after: at most {MAX_JOBS} jobs (got {len(keys)})")
    return tuple(keys)


def _per(per: object) -> Per:
    if per != "instant" and per != "day":
        raise InvalidJobError(f'after: per must be "instant" or "day" (got {quoted(per)})')
    return per


def _zone_with_days(name: str) -> str:
    zone(name)
    if fixed_offset(name) is not None:
        raise InvalidJobError(
            f'after: time_zone must be a name like "Europe/Berlin", and no offset (got {quoted(name)})'
        )
    return name


def as_join(after: object) -> Join:
    """Return the join of a job, given as a `Join` or a sequence of keys and names.

    Raises:
        InvalidJobError, InvalidKeyError: it is neither, or a key is wrong.
    """
    if isinstance(after, Join):
        return after
    return Join(after)  # type: ignore[arg-type]


def join_as_text(join: Join) -> str:
    """Return the JSON that is stored. `needed` and `outcomes` are what the SQL computes with."""
    within = {} if join.within is None else {"within_us": join.within // _MICROSECOND}
    return json.dumps(
        {
            "jobs": [{"job_group": key.group, "job_name": key.name} for key in join.keys],
            "need": join.need,
            "needed": join.needed,
            "on": join.on,
            "outcomes": list(join.outcomes),
            "per": join.per,
            "time_zone": join.time_zone,
            **within,
        }
    )


def join_from_text(text: str | None) -> Join | None:
    """Return the join of stored JSON.

    Raises:
        InvalidJobError: the text is not what `join_as_text` writes.
    """
    if text is None:
        return None
    try:
        stored = json.loads(text)
        return Join(
            [JobKey(job["job_name"], job["job_group"]) for job in stored["jobs"]],
            need=stored["need"],
            on=stored["on"],
            per=stored["per"],
            time_zone=stored["time_zone"],
            within=None if (within := stored.get("within_us")) is None else within * _MICROSECOND,
        )
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise InvalidJobError(f"after: the stored value cannot be read: {reason(error)}") from error


class Joined(NamedTuple):
    """What a job runs after that waits for several ends."""

    occasion: str
    """The scheduled instant or the day for which the jobs have ended, or the id of the batch."""
    ended: tuple[Predecessor, ...] = ()
    """The last execution of each job that had ended by then, by the keys of the jobs; empty for a batch."""
    succeeded: int = 0
    """The number of executions that succeeded."""
    failed: int = 0
    """The number of executions that ended otherwise."""
    removed: int = 0
    """The number of triggers of a batch that ended without a fire."""

    @property
    def predecessors(self) -> Mapping[JobKey, Predecessor]:
        """The executions by the keys of their jobs."""
        return {execution.job_key: execution for execution in self.ended}


def predecessors_from_json(ends: Iterable[Mapping[str, Any]]) -> tuple[Predecessor, ...]:
    """Return the executions that stored JSON says, by the keys of their jobs."""
    several = [
        Predecessor(JobKey(end["job_name"], end["job_group"]), end["fire_id"], Outcome(end["outcome"]), end["result"])
        for end in ends
    ]
    return tuple(sorted(several, key=lambda end: end.job_key))


def joined_from_data(entry: Mapping[str, Any]) -> Joined:
    """Return what the internal entry of a trigger's data says."""
    return Joined(
        entry["occasion"],
        predecessors_from_json(entry.get("ended", ())),
        entry["succeeded"],
        entry["failed"],
        entry.get("removed", 0),
    )
