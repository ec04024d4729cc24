"""What fails again and again although check-ins succeed is counted, logged and a problem, whatever the error is."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from quartzpy import JobDetail, Scheduler, SimpleTrigger
from quartzpy.errors import (
    JobStoreError,
    LeaseLostError,
    OutcomeUnknownError,
    QuartzpyError,
    SchemaError,
    StoreUnavailableError,
)
from quartzpy.metrics.endpoints import readiness
from quartzpy.node.observers import OWN_STEPS, STEPS, Observers
from quartzpy.node.service import TOLD_AGAIN_AFTER, Repetitions, StoreWatch
from quartzpy.node.troubles import FORGOTTEN_AFTER, LISTENING, NAMES, Troubles
from tests.node.test_small_parts import ManualClock
from tests.waiting import wait_until

ERRORS = [
    *(StoreUnavailableError(f"error {code}", sqlstate=code) for code in ("53100", "25006", "53300", "55P03", "57014")),
    *(StoreUnavailableError(f"error {code}", sqlstate=code) for code in ("58030", "57P01", "08006", "40001", None)),
    SchemaError("permission denied", sqlstate="42501"),
    JobStoreError("unexpected error of the database (XX000): bad page"),
    OutcomeUnknownError("the answer was lost"),
    ValueError("a bug"),
]


class Stage:
    def __init__(self) -> None:
        self.clock = ManualClock()
        logger = logging.getLogger("test")
        self.watch = StoreWatch(logger, "node a", self.clock)
        self.troubles = Troubles(logger, self.watch, self.clock.monotonic)

    def fails(self, error: Exception, *, times: int = 4, every: float = 2.0, check_ins: bool = True) -> None:
        for _ in range(times):
            self.troubles.failed("acquire", 0.0, error)
            self.clock.seconds += every
            if check_ins:
                self.watch.checked_in()
            else:
                self.watch.check_in_failed(error, 20.0)

    def problems(self) -> list[tuple[str, str]]:
        return [(problem.kind, problem.subject) for problem in self.troubles.problems()]


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.mark.parametrize("error", ERRORS, ids=str)
def test_any_error_that_lasts_beside_check_ins_is_a_problem_until_a_success(stage: Stage, error: Exception) -> None:
    stage.fails(error)
    [problem] = stage.troubles.problems()
    assert (problem.kind, problem.subject) == ("failing-step", "firing triggers")
    assert problem.what == f"firing triggers has failed 4 times in a row, first 8 s ago: {error}"
    stage.troubles.stepped("acquire", 0.0, None)
    assert stage.problems() == []


@pytest.mark.parametrize("error", [error for error in ERRORS if isinstance(error, QuartzpyError)], ids=str)
def test_a_lasting_error_is_logged_once_and_then_ever_fewer(
    stage: Stage, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    stage.fails(error, times=1_800)
    lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    if type(error) is JobStoreError:
        # The thread that meets it logs it with its traceback.
        assert lines == []
        return
    assert 5 <= len(lines) <= 7, "within an hour: after 0, 1, 3, 7, 15, 31 minutes"
    assert str(error) in lines[0]
    stage.troubles.stepped("acquire", 0.0, None)
    assert caplog.records[-1].getMessage() == "firing triggers works again after 1800 failures"


def test_an_outage_is_told_by_the_check_ins_alone(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    down = StoreUnavailableError("connection refused")
    stage.fails(down, times=20, check_ins=False)
    assert stage.problems() == []
    # The first check-in succeeds before the step is tried again.
    stage.watch.checked_in()
    assert stage.problems() == []
    assert not [record for record in caplog.records if "claiming" in record.getMessage() and record.levelno > 10]
    stage.fails(down)
    assert stage.problems() == [("failing-step", "firing triggers")]


def test_a_check_in_that_succeeds_while_an_outage_begins_is_no_sign_of_health(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    error = StoreUnavailableError("server closed the connection", sqlstate=None)
    stage.fails(error, times=1, every=0.1)
    stage.fails(error, times=1, every=0.1, check_ins=False)
    stage.fails(error, times=3, every=1.0, check_ins=False)
    assert [record for record in caplog.records if "although check-ins succeed" in record.getMessage()] == []
    assert stage.problems() == []


def test_failures_of_the_moment_in_which_an_outage_begins_are_no_problem_when_it_is_over(stage: Stage) -> None:
    cut = StoreUnavailableError("server closed the connection")
    for _ in range(2):
        stage.troubles.note(LISTENING, cut)
        stage.clock.seconds += 0.1
    # Its next try is after the outage.
    for _ in range(5):
        stage.watch.check_in_failed(cut, 20.0)
        stage.clock.seconds += 5.0
    stage.watch.checked_in()
    assert stage.problems() == []
    # It fails once more, as the server comes back, and then for good.
    for number, expected in enumerate(([], [], [("not-listening", LISTENING)])):
        assert stage.problems() == expected, number
        stage.troubles.note(LISTENING, cut)
        stage.clock.seconds += 5.0
        stage.watch.checked_in()


@pytest.mark.parametrize(("times", "every"), [(1, 60.0), (4, 0.5)])
def test_a_single_failure_and_failures_within_a_moment_are_no_problem(stage: Stage, times: int, every: float) -> None:
    stage.fails(StoreUnavailableError("lock timeout", sqlstate="55P03"), times=times, every=every)
    assert stage.problems() == []


def test_a_lost_lease_is_no_trouble(stage: Stage) -> None:
    stage.fails(LeaseLostError("the epoch is over"))  # type: ignore[arg-type]
    assert stage.problems() == []


def test_a_step_that_is_tried_seldom_is_a_problem_too_and_one_that_is_not_tried_any_more_is_none(stage: Stage) -> None:
    full = StoreUnavailableError("disk full", sqlstate="53100")
    for _ in range(2):
        stage.troubles.failed("purge", 0.0, full)
        stage.clock.seconds += 100.0
        stage.watch.checked_in()
    assert stage.problems() == [("failing-step", "deleting old history")]
    stage.clock.seconds += 2 * 100.0 + FORGOTTEN_AFTER
    assert stage.problems() == []


def test_each_step_of_a_node_has_a_name_and_is_watched() -> None:
    # Check-ins tell of themselves.
    assert {*STEPS.values(), *OWN_STEPS.values()} - {"check_in"} == NAMES.keys()

    class Store:
        def purge_history(self) -> int:
            raise StoreUnavailableError("disk full", sqlstate="53100")

        def set_node_mode(self) -> int:
            return 7

        def other(self) -> int:
            return 8

    stage = Stage()
    store = Observers().watched(Store(), stage.troubles)  # type: ignore[arg-type]
    for _ in range(2):
        with pytest.raises(StoreUnavailableError):
            store.purge_history()  # type: ignore[call-arg]
        stage.clock.seconds += 10.0
        stage.watch.checked_in()
    assert stage.problems() == [("failing-step", "deleting old history")]
    assert store.set_node_mode() == 7  # type: ignore[call-arg, comparison-overlap]
    assert store.other() == 8  # type: ignore[attr-defined]


def test_an_error_of_another_kind_is_told_at_once() -> None:
    clock = ManualClock()
    repetitions = Repetitions(clock.monotonic)
    told = [repetitions.are_told(error) for error in (ValueError(), ValueError(), KeyError(), KeyError())]
    assert told == [True, False, True, False]
    clock.seconds += TOLD_AGAIN_AFTER
    assert repetitions.are_told(KeyError())
    clock.seconds += TOLD_AGAIN_AFTER
    assert not repetitions.are_told(KeyError()), "the time between them doubles"


def test_a_module_that_cannot_be_imported_is_a_problem_with_its_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_jobs_of_a_test.py").write_text("raise RuntimeError('no licence')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with Scheduler("memory://", name="imports", job_modules=("broken_jobs_of_a_test",)) as node:
        node.schedule_job(JobDetail("broken_jobs_of_a_test:Report", "report"), SimpleTrigger("due"))
        node.start()
        wait_until(lambda: "no licence" in " ".join(node.health().problems), "the problem")
        assert readiness(node).ok, "it does everything else"
