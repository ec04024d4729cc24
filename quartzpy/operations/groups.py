"""Groups of triggers and jobs, with their pauses."""

from __future__ import annotations

from dataclasses import dataclass

from quartzpy.operations.counts import Count, counted
from quartzpy.scheduler.reading import Reading
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.postgresql.admin.records import GroupTally

MOST_GROUPS = 100
"""The largest number of groups of each kind that are shown."""
MOST_IN_GROUP = 200
"""The number of rows up to which a group is counted."""


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group of triggers or jobs."""

    name: str
    count: Count
    """The number of its triggers or jobs."""
    is_paused: bool
    """True if the group itself is paused, so that triggers which are stored later start paused."""
    paused: Count
    """The number of its triggers that are paused."""
    in_error: Count


@dataclass(frozen=True, slots=True)
class Groups:
    """All groups, sorted by name, and the pauses of the whole scheduler."""

    triggers: tuple[GroupView, ...]
    """The groups of triggers, at most the first 100, and the paused groups that have no triggers."""
    jobs: tuple[GroupView, ...]
    has_more: bool
    """True if there are more groups than these."""
    all_paused: bool
    """True while `pause_all` is in force."""
    manual: bool
    """True while the manual mode is on: only triggers that do not come from a schedule fire."""


def groups(reading: Reading) -> Groups:
    in_force = reading.ask(lambda store: store.pauses())
    is_manual = reading.ask(lambda store: store.pauses().is_manual)
    of_triggers = reading.ask(
        lambda store: admin(store).trigger_group_tallies(MOST_GROUPS + 1, None, most=MOST_IN_GROUP)
    )
    of_jobs = reading.ask(lambda store: admin(store).job_group_tallies(MOST_GROUPS + 1, None, most=MOST_IN_GROUP))
    pauses, triggers, jobs = in_force(), of_triggers(), of_jobs()

    def views(tallies: list[GroupTally], paused: frozenset[str]) -> tuple[GroupView, ...]:
        shown = tallies[:MOST_GROUPS]
        empty = paused - {one.name for one in tallies}
        if len(tallies) > MOST_GROUPS:
            # Whether the others have triggers is not known.
            empty = frozenset()
        found = [*shown, *(GroupTally(name, 0, 0, 0) for name in empty)]
        return tuple(
            GroupView(
                one.name,
                counted(one.count, MOST_IN_GROUP),
                one.name in paused,
                counted(one.paused, MOST_IN_GROUP),
                counted(one.in_error, MOST_IN_GROUP),
            )
            for one in sorted(found, key=lambda one: one.name)
        )

    return Groups(
        triggers=views(triggers, pauses.trigger_groups),
        jobs=views(jobs, pauses.job_groups),
        has_more=max(len(triggers), len(jobs)) > MOST_GROUPS,
        all_paused=pauses.everything,
        manual=is_manual(),
    )
