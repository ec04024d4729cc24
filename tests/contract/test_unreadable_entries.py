"""Rows whose internal entries somebody has edited: what cannot be read is absent, and stops no step."""

from __future__ import annotations

from typing import Any

import pytest

from quartzpy.job_data import (
    INTERNAL_KEYS,
    NOMINAL_FIRE_TIME,
    ORIGINAL_SCHEDULED_FIRE_TIME,
    RETRIED_SCHEDULED_FIRE_TIME,
)
from quartzpy.jobs.continuation import FOLLOWED, Continuation
from quartzpy.jobs.join import Join, occasion_of_instant
from quartzpy.keys import CONTINUATIONS, MANUAL_TRIGGERS, RECOVERING_JOBS, RETRYING_JOBS
from quartzpy.states import JoinState
from tests.contract.harness import START, Harness, job, once
from tests.contract.test_join_chains import run, states

INSTANTS = {
    NOMINAL_FIRE_TIME: [
        *("x", "", "2026-02-31T04:05:06.123456Z", "2026-02-03T24:05:06.123456Z", "12026-02-03T04:05:06.123456Z"),
        *("infinity", "now", "2026-02-03", "2026-02-03T04:05", 5, None, True, [], {"at": "x"}, "0000-00-00T00:00:00"),
    ],
    RETRIED_SCHEDULED_FIRE_TIME: [
        "x",
        "",
        "NaN",
        "Infinity",
        "1e300",
        "9" * 400,
        "-" + "9" * 14,
        "1.5.5",
        None,
        {},
        [],
    ],
    ORIGINAL_SCHEDULED_FIRE_TIME: ["x", "", "NaN", "-Infinity", "1e300", "9" * 400, 1.5e300, False, [5]],
}
WRONG = [{name: value} for name, values in INSTANTS.items() for value in values]
OTHERS = [
    {name: value} for name in sorted(INTERNAL_KEYS - INSTANTS.keys()) for value in ("x", 5, None, [], {}, {"batch": 1})
]


@pytest.mark.parametrize("group", [MANUAL_TRIGGERS, RETRYING_JOBS, RECOVERING_JOBS, CONTINUATIONS])
@pytest.mark.parametrize("way", ["complete", "recover"])
def test_unreadable_entries_are_absent_and_stop_no_step(store: Harness, group: str, way: str) -> None:
    node, other = store.node("a"), store.node("b")
    store.schedule(job("next", durable=True))
    several: list[dict[str, Any]] = [*WRONG, *OTHERS]
    edited = job("edited", durable=True, continuations=[Continuation("next", FOLLOWED)])
    store.schedule(edited, *(once(f"t{n:03}", group=group, data=data) for n, data in enumerate(several)))
    store.schedule(job("well"), once("well"))
    store.schedule(job("report", after=Join(["edited"], on="end")))
    store.schedule(job("joined", after=Join(["edited", "well"], on="end")))
    if way == "complete":
        ran = run(store, node)
    else:
        store.fire_due(node, limit=1000)
        store.recover(other, node)
        ran = run(store, other)
    # Those that cannot be read count for their own instants, which are all the same.
    assert (ran.count("report"), ran.count("joined"), ran.count("next")) == (1, 1, len(several))
    assert states(store) == {
        ("report", occasion_of_instant(START)): JoinState.FIRED,
        ("joined", occasion_of_instant(START)): JoinState.FIRED,
    }
