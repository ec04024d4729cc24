"""The checker is checked: each kind of fault, put into a history that has none, is found."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.ha.check import History, Series, check
from tests.ha.record import Line

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def line(job: str, trigger: str, second: float, fire_id: int, **others: object) -> Line:
    values: dict[str, object] = {
        "event": "start",
        "scheduled": BEGIN + second * SECOND,
        "recovering": False,
        "attempt": 1,
        "pid": 1,
        "at": 100.0 + second,
    }
    return Line(job=job, trigger=trigger, fire_id=fire_id, **{**values, **others})  # type: ignore[arg-type]


def well() -> History:
    lines = [line("quick", "often", n, n) for n in range(5)]
    for n in range(3):
        lines.append(line("serial", "serially", n, 10 + n))
        lines.append(line("serial", "serially", n, 10 + n, event="end", at=100.0 + n + 0.5))
        lines.append(line("counting", "counted", n, 20 + n, count=n + 1))
    lines.append(line("once", "once-1", 0, 30))
    lines.sort(key=lambda one: one.at)
    return History(
        series={
            "often": Series(BEGIN, SECOND),
            "serially": Series(BEGIN, SECOND),
            "counted": Series(BEGIN, SECOND),
        },
        due=BEGIN + 2.5 * SECOND,
        lines=lines,
        acknowledged=frozenset({"once-1"}),
        unknown=frozenset({"once-2"}),
        refused=frozenset({"once-3"}),
        succeeded=frozenset(line.fire_id for line in lines),
        serial=frozenset({"serial"}),
        counters={"counting": 3},
    )


def test_a_history_without_a_fault_is_clean() -> None:
    assert check(well()).counts() == dict.fromkeys(check(well()).counts(), 0)
    assert check(well()).clean


@pytest.mark.parametrize("missing", [0, 2, 3])
def test_an_instant_that_never_fired_is_lost(missing: int) -> None:
    # The last of them lies after `due`, and a later one fired.
    history = well()
    lines = [one for one in history.lines if not (one.trigger == "often" and one.fire_id == missing)]
    assert check(replace(history, lines=lines, succeeded=None)).counts()["lost"] == 1


def test_a_trigger_that_never_fired_lost_all_its_instants() -> None:
    history = well()
    lines = [one for one in history.lines if one.trigger != "often"]
    assert check(replace(history, lines=lines, succeeded=None)).counts()["lost"] == 3


def with_line(*more: Line) -> History:
    history = well()
    return replace(history, lines=sorted([*history.lines, *more], key=lambda one: one.at), succeeded=None)


@pytest.mark.parametrize(
    ("history", "fault"),
    [
        (with_line(line("quick", "often", 1, 99)), "doubled"),
        (with_line(line("quick", "often", 1.5, 99)), "doubled"),
        (with_line(line("once", "once-1", 1, 99)), "doubled"),
        (with_line(line("once", "once-2", 1, 98), line("once", "once-2", 1, 99)), "doubled"),
        (with_line(line("once", "once-3", 1, 99)), "denied"),
        (with_line(line("quick", "recover_often", 1, 99, recovering=True)), "recovered"),
        (with_line(line("serial", "other", 1, 99, at=101.4)), "overlapped"),
        (with_line(line("counting", "other", 3, 99, count=3)), "counted_wrong"),
        (replace(well(), acknowledged=frozenset({"once-1", "once-4"})), "lost"),
        (replace(well(), counters={"counting": 2}), "counted_wrong"),
        (replace(well(), succeeded=frozenset()), "unrecorded"),
        (replace(well(), succeeded=(well().succeeded or frozenset()) | {77}), "unrecorded"),
        (replace(well(), left=["trigger often is BLOCKED"]), "stuck"),
    ],
)
def test_each_fault_is_found(history: History, fault: str) -> None:
    findings = check(history)
    assert not findings.clean
    assert findings.counts()[fault] > 0


def test_a_fence_that_was_given_out_twice_makes_no_overlap() -> None:
    twice = [line("serial", "other", 5, 10, scheduled=BEGIN), line("serial", "other", 5.5, 10, event="end")]
    assert check(with_line(*twice)).overlapped == []


def test_a_one_shot_of_unknown_outcome_may_run_once_or_not() -> None:
    assert check(with_line(line("once", "once-2", 1, 99))).clean
