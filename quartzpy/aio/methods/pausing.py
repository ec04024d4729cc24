"""The awaitable twin of `PausingMethods`.

`python -m tools.async_facade` writes this from the classes that stand behind. Change those instead.
"""

from __future__ import annotations

from datetime import datetime
from typing import TypeVar

from quartzpy.aio.methods.base import AsyncMethods
from quartzpy.keys import JobRef, TriggerRef
from quartzpy.matchers import GroupMatcher
from quartzpy.scheduler.methods.pausing import PausingMethods
from quartzpy.states import JobMode, Missed

_PausingMethodsT = TypeVar("_PausingMethodsT", bound=PausingMethods)


class AsyncPausingMethods(AsyncMethods[_PausingMethodsT]):
    """The methods of `PausingMethods`, each of them awaitable."""

    async def pause_trigger(self, key: TriggerRef, *, reason: str | None = None, by: str | None = None) -> None:
        """Pause a trigger: it does not fire until it is resumed.

        `reason`, a sentence, and `by`, a name, are stored with the trigger. Its record and `why` show them until it is
        resumed. A reason that is given for a trigger which is paused already replaces the old one.

        Raises:
            TriggerNotFoundError: it is not stored.
            InvalidValueError: `reason` or `by` is no text, or too long.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        return await self._run(lambda behind: behind.pause_trigger(key, reason=reason, by=by))

    async def resume_trigger(self, key: TriggerRef, *, missed: str = Missed.MISFIRE) -> None:
        """Resume a trigger; `missed` decides how the fires that it missed are treated (see `Missed`).

        Raises:
            TriggerNotFoundError: it is not stored.
            InvalidValueError: `missed` has an unknown value.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        return await self._run(lambda behind: behind.resume_trigger(key, missed=missed))

    async def pause_job(self, key: JobRef, *, reason: str | None = None, by: str | None = None) -> None:
        """Pause all triggers that a job has now; `reason` and `by` as in `pause_trigger`.

        Triggers that are stored later are not paused, and neither is the next attempt of an execution that is running
        now: its trigger is stored when the execution ends. `disable_job` and `pause_job_group` hold those as well.

        Raises:
            JobNotFoundError: it is not stored.
            InvalidValueError: `reason` or `by` is no text, or too long.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        return await self._run(lambda behind: behind.pause_job(key, reason=reason, by=by))

    async def resume_job(self, key: JobRef, *, missed: str = Missed.MISFIRE) -> None:
        """Resume all triggers of a job; `missed` as in `resume_trigger`.

        Raises:
            JobNotFoundError: it is not stored.
            InvalidValueError: `missed` has an unknown value.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        return await self._run(lambda behind: behind.resume_job(key, missed=missed))

    async def pause_trigger_group(
        self, group: str | GroupMatcher, *, reason: str | None = None, by: str | None = None
    ) -> set[str]:
        """Pause groups of triggers, including triggers that are stored later; return the groups.

        A group that is given by its name is paused even if it has no trigger yet. `reason` and `by` are stored with the
        triggers that there are now; see `pause_trigger`.
        """
        return await self._run(lambda behind: behind.pause_trigger_group(group, reason=reason, by=by))

    async def resume_trigger_group(self, group: str | GroupMatcher, *, missed: str = Missed.MISFIRE) -> set[str]:
        """Resume groups of triggers; return the groups. `missed` as for `resume_trigger`."""
        return await self._run(lambda behind: behind.resume_trigger_group(group, missed=missed))

    async def pause_job_group(
        self, group: str | GroupMatcher, *, reason: str | None = None, by: str | None = None
    ) -> set[str]:
        """Pause all triggers of the jobs of groups, including those that are stored later; return the groups.

        `reason` and `by` as in `pause_trigger_group`.
        """
        return await self._run(lambda behind: behind.pause_job_group(group, reason=reason, by=by))

    async def resume_job_group(self, group: str | GroupMatcher, *, missed: str = Missed.MISFIRE) -> set[str]:
        """Resume all triggers of the jobs in these groups; return the groups. `missed` as for `resume_trigger`."""
        return await self._run(lambda behind: behind.resume_job_group(group, missed=missed))

    async def pause_all(self, *, reason: str | None = None, by: str | None = None) -> set[str]:
        """Pause all triggers, including those that are stored later, until `resume_all`; return their groups.

        `reason` and `by` as in `pause_trigger_group`.
        """
        return await self._run(lambda behind: behind.pause_all(reason=reason, by=by))

    async def resume_all(self, *, missed: str = Missed.MISFIRE) -> set[str]:
        """End `pause_all` and every pause of a group, a trigger or a job; return the trigger groups.

        `missed` as for `resume_trigger`.
        """
        return await self._run(lambda behind: behind.resume_all(missed=missed))

    async def disable_job(self, key: JobRef) -> None:
        """Stop all triggers of a job, including later ones, and refuse `trigger_job`, until `enable_job`.

        Raises:
            JobNotFoundError: it is not stored.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        return await self._run(lambda behind: behind.disable_job(key))

    async def enable_job(self, key: JobRef, *, missed: str = Missed.SKIP) -> None:
        """End `disable_job` or `run_job_by_hand_only`. Triggers that are paused for another reason remain paused.

        Fires that were missed in the meantime are skipped, unless `missed` asks for something else (see `Missed`).

        Raises:
            JobNotFoundError: it is not stored.
            InvalidValueError: `missed` has an unknown value.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        return await self._run(lambda behind: behind.enable_job(key, missed=missed))

    async def run_job_by_hand_only(self, key: JobRef) -> None:
        """Run a job by `trigger_job`, retries and recoveries only, until `enable_job`: manual mode of one job.

        Raises:
            JobNotFoundError: it is not stored.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        return await self._run(lambda behind: behind.run_job_by_hand_only(key))

    async def job_mode(self, key: JobRef) -> JobMode | None:
        """Return ENABLED, MANUAL or DISABLED; None if the job is not stored."""
        return await self._run(lambda behind: behind.job_mode(key))

    async def enter_manual_mode(self) -> None:
        """Suspend all schedules in the whole cluster; `trigger_job` still works.

        `resume_all` does not end it; `leave_manual_mode` does.
        """
        return await self._run(lambda behind: behind.enter_manual_mode())

    async def leave_manual_mode(self, *, missed: str = Missed.SKIP) -> None:
        """End manual mode. Triggers that are paused otherwise remain paused; `missed` as for `enable_job`."""
        return await self._run(lambda behind: behind.leave_manual_mode(missed=missed))

    async def is_in_manual_mode(self) -> bool:
        """Return True if the cluster is in manual mode."""
        return await self._run(lambda behind: behind.is_in_manual_mode)

    async def reset_trigger_from_error(self, key: TriggerRef) -> None:
        """Return a trigger in ERROR to its schedule, so that it fires again.

        Raises:
            TriggerNotFoundError: it is not stored.
            IllegalStateChangeError: it is not in ERROR.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        return await self._run(lambda behind: behind.reset_trigger_from_error(key))

    async def skip_next(self, key: TriggerRef, count: int = 1) -> datetime | None:
        """Skip the next `count` fires of a trigger, and return its next fire time after them.

        The schedule does not change: a trigger with a repeat count loses these fires. A fire that is overdue, or that a
        node has claimed, counts as the next one. An execution that has started continues, and a paused trigger stays
        paused. If no fire is left, the result is None, and the trigger becomes COMPLETE: it stays stored with its job,
        and listeners get `TriggerFinalized`.

        Raises:
            TriggerNotFoundError: it is not stored.
            InvalidKeyError: `key` is neither a key nor a name.
            InvalidValueError: `count` is no number from 1 to 10,000.
            IllegalStateChangeError: the trigger fired at each of several tries, so that nothing was skipped.
        """
        return await self._run(lambda behind: behind.skip_next(key, count))

    async def skip_until(self, key: TriggerRef, instant: datetime) -> datetime | None:
        """Skip all fires of a trigger before `instant`, and return its next fire time, at `instant` or later.

        Nothing changes where the next fire time is not before `instant`. All else is as in `skip_next`.

        Raises:
            TriggerNotFoundError: it is not stored.
            InvalidKeyError: `key` is neither a key nor a name.
            InvalidValueError: `instant` is no datetime with a time zone.
        """
        return await self._run(lambda behind: behind.skip_until(key, instant))
