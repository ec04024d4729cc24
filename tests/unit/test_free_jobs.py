"""Whether the next batch of jobs with a limit is expected to be one of free jobs."""

from __future__ import annotations

from quartzpy.store.postgresql.connection.free_jobs import LEAST, MOST_BATCHES, FreeJobs


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


def batches_until_the_next_try(jobs: FreeJobs) -> int:
    count = 0
    while not jobs.are_expected(LEAST):
        jobs.note(LEAST, LEAST, by_shorter=False)
        count += 1
    return count


def test_each_batch_that_is_not_full_doubles_the_time_until_the_next_try() -> None:
    jobs = FreeJobs()
    waits = []
    for _ in range(7):
        waits.append(batches_until_the_next_try(jobs))
        jobs.note(LEAST - 1, LEAST, by_shorter=True)
    assert waits == [1, 1, 2, 4, 8, MOST_BATCHES, MOST_BATCHES]


def test_full_batches_shorten_it_again() -> None:
    jobs = FreeJobs()
    for _ in range(7):
        jobs.note(LEAST - 1, LEAST, by_shorter=True)
    batches_until_the_next_try(jobs)
    for _ in range(3):
        jobs.note(LEAST, LEAST, by_shorter=True)
    jobs.note(LEAST - 1, LEAST, by_shorter=True)
    assert batches_until_the_next_try(jobs) == MOST_BATCHES // 8


def test_the_end_of_a_backlog_delays_the_next_try_by_a_batch() -> None:
    jobs = FreeJobs()
    batches_until_the_next_try(jobs)
    jobs.note(LEAST, LEAST, by_shorter=True)
    jobs.note(3, LEAST, by_shorter=True)
    assert batches_until_the_next_try(jobs) == 1
