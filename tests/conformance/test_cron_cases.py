"""What Quartz answered about cron expressions."""

from __future__ import annotations

from pathlib import Path

import pytest

from quartzpy.cron_expressions.expression import CronExpression
from quartzpy.cron_expressions.schedule import DaylightSaving
from quartzpy.errors import InvalidCronError, QuartzpyError
from tests.conformance.loading import Comparison, at, demanded, family, shown

FIVE_AT_A_TIME = 5


@pytest.mark.parametrize("group", ["tricky", "random", "dst"])
def test_valid_expressions_fire_when_quartz_fires(conformance_dir: Path, group: str) -> None:
    comparison = Comparison(f"cron_valid {group}")
    for case in family(conformance_dir, "cron_valid"):
        if case["group"] != group:
            continue
        try:
            expression = CronExpression(case["expr"], case["zone"], DaylightSaving.QUARTZ)
        except QuartzpyError as error:
            comparison.differs(case, f"{case['expr']!r} is refused: {error}")
            continue
        for answer in demanded(case.get("next")):
            times, after = [], at(answer["after"])
            for _ in answer["times"]:
                found = expression.next_after(after)
                times.append(shown(found))
                if found is None:
                    break
                after = found
            comparison.equal(case, f"next {case['expr']!r} {answer['after']}", times, answer["times"])
        for answer in demanded(case.get("satisfied")):
            got = expression.is_satisfied_by(at(answer["at"]))
            comparison.equal(case, f"satisfied {case['expr']!r} {answer['at']}", got, answer["value"])
        for answer in demanded(case.get("next_invalid")):
            got_invalid = shown(expression.next_invalid_after(at(answer["after"])))
            comparison.equal(case, f"next_invalid {case['expr']!r} {answer['after']}", got_invalid, answer["value"])
    comparison.conclude()


def test_the_same_texts_are_refused(conformance_dir: Path) -> None:
    comparison = Comparison("cron_invalid")
    for case in family(conformance_dir, "cron_invalid"):
        try:
            expression = CronExpression(case["expr"], "UTC", DaylightSaving.QUARTZ)
        except InvalidCronError as error:
            comparison.equal(case, f"valid {case['expr']!r} ({error})", False, case["valid"])
            continue
        comparison.equal(case, f"valid {case['expr']!r}", True, case["valid"])
        if case["valid"] and case.get("times_after_2026") is not None:
            times, after = [], at("2026-01-01T00:00:00.000Z")
            for _ in case["times_after_2026"]:
                found = expression.next_after(after)
                times.append(shown(found))
                if found is None:
                    break
                after = found
            comparison.equal(case, f"times_after_2026 {case['expr']!r}", times, case["times_after_2026"])
    comparison.conclude()


def test_every_refusal_names_the_place_and_what_would_be_right(conformance_dir: Path) -> None:
    for case in family(conformance_dir, "cron_invalid"):
        if case["valid"]:
            continue
        with pytest.raises(InvalidCronError) as caught:
            CronExpression(case["expr"])
        error = caught.value
        assert error.allowed, f"{case['expr']!r}: {error}"
        assert 0 <= error.position <= len(case["expr"])
        assert error.expression == case["expr"]
        assert str(error).count("\n") == 0
