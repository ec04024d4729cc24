"""Whether the next batch of jobs with a limit is expected to be one of free jobs."""

from __future__ import annotations

from quartzpy.store.postgresql.connection.free_jobs import BATCHES, LEAST, FreeJobs


def test_free_jobs_are_expected_after_a_full_batch() -> None:
    jobs = FreeJobs()
    assert not jobs.are_expected(LEAST)
    jobs.note(LEAST - 1, LEAST, by_shorter=False)
    assert not jobs.are_expected(LEAST)
    jobs.note(LEAST, LEAST, by_shorter=False)
    assert jobs.are_expected(LEAST)
    jobs.note(2 * LEAST, 2 * LEAST, by_shorter=True)
    assert jobs.are_expected(LEAST)


def test_a_small_batch_says_nothing_and_is_not_worth_it() -> None:
    jobs = FreeJobs()
    jobs.note(1, 1, by_shorter=False)
    assert not jobs.are_expected(LEAST)
    jobs.note(LEAST, LEAST, by_shorter=False)
    assert not jobs.are_expected(LEAST - 1)


def test_after_others_were_met_some_full_batches_come_first() -> None:
    jobs = FreeJobs()
    jobs.note(LEAST, LEAST, by_shorter=False)
    jobs.note(LEAST - 1, LEAST, by_shorter=True)
    for _ in range(BATCHES):
        assert not jobs.are_expected(LEAST)
        jobs.note(LEAST, LEAST, by_shorter=False)
    assert jobs.are_expected(LEAST)
