"""What the scheduler thread remembers about claims and triggers that it cannot fire now."""

from __future__ import annotations

from collections.abc import Collection

from quartzpy.clock import Clock

FIRST_RETRY = 0.001
"""The first delay, in seconds, before a claim is fired again that was not yet due by the store's clock."""
LONGEST_RETRY = 0.25
"""The longest such delay. The delay doubles with each attempt."""
PASSED_OVER_SECONDS = 60.0
"""The time, in seconds, for which a trigger that this node cannot compute is left to other nodes."""


class NotDue:
    """The claims that were not yet due by the store's clock when they were fired, with the times of their retries."""

    def __init__(self) -> None:
        self._tries: dict[int, tuple[int, float]] = {}

    def retry(self, fire_ids: Collection[int], now: float) -> None:
        for fire_id in fire_ids:
            tries, _ = self._tries.get(fire_id, (0, 0.0))
            self._tries[fire_id] = (tries + 1, now + min(FIRST_RETRY * 2.0 ** min(tries, 30), LONGEST_RETRY))

    def rest(self, fire_id: int, now: float) -> float:
        return self._tries[fire_id][1] - now if fire_id in self._tries else 0.0

    def forget(self, fire_ids: Collection[int]) -> None:
        for fire_id in fire_ids:
            self._tries.pop(fire_id, None)


class PassedOver:
    """The generations of triggers that this node cannot compute."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until: dict[int, float] = {}

    def add(self, generation: int) -> None:
        self._until[generation] = self._clock.monotonic() + PASSED_OVER_SECONDS

    def generations(self) -> Collection[int]:
        if self._until:
            now = self._clock.monotonic()
            self._until = {generation: until for generation, until in self._until.items() if until > now}
        return self._until.keys()
