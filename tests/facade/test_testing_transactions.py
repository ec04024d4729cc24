"""The test scheduler: transactions of jobs and of their callers."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from quartzpy import Job, JobDetail, JobExecutionContext, RetryPolicy, SimpleTrigger
from quartzpy.events import events
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.testing import SchedulerHarness
from tests.facade import jobs

START = datetime(2026, 3, 2, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


class Ship(Job):
    """Records a shipment in its own transaction; fails first where it is told to."""

    def execute(self, context: JobExecutionContext) -> None:
        with context.transaction() as connection:
            connection.execute(text("INSERT INTO shipped VALUES (:attempt)"), {"attempt": context.attempt})
            if context.attempt <= context.job_data.get("failures", 0):
                raise ConnectionError("the carrier does not answer")


class Import(Job):
    """Saves two pages, and breaks off in the third."""

    def execute(self, context: JobExecutionContext) -> None:
        for page in (1, 2, 3):
            with context.fenced_transaction() as connection:
                connection.execute(text("INSERT INTO shipped VALUES (:page)"), {"page": page})
                if page == 3:
                    raise ValueError("page 3 is torn")


class Chain(Job):
    """Triggers its follower in its own transaction."""

    def execute(self, context: JobExecutionContext) -> None:
        with context.transaction() as connection:
            context.scheduler.using(connection).trigger_job(JobKey("follower"))
            if context.attempt == 1:
                raise ConnectionError("not yet")


class Selfish(Job):
    """Ends its transaction itself."""

    def execute(self, context: JobExecutionContext) -> None:
        with context.transaction() as connection:
            connection.commit()


@pytest.fixture
def engine() -> Iterator[Engine]:
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE shipped (number INTEGER)"))
    yield engine
    engine.dispose()


@pytest.fixture
def harness(engine: Engine) -> SchedulerHarness:
    jobs.reset()
    return SchedulerHarness(START, database=engine)


def shipped(engine: Engine) -> list[int]:
    with engine.connect() as connection:
        return list(connection.execute(text("SELECT number FROM shipped ORDER BY 1")).scalars())


def test_a_jobs_transaction_is_committed_with_its_success_and_rolled_back_with_its_failure(
    harness: SchedulerHarness, engine: Engine
) -> None:
    policy = RetryPolicy(attempts=3, delay=SECOND)
    detail = JobDetail(Ship, "ship", data={"failures": 1}, retry=policy)
    harness.schedule_job(detail, SimpleTrigger("t", repeat_count=0))
    executions = harness.advance(timedelta(minutes=1))
    assert [each.outcome for each in executions] == ["FAILED", "SUCCEEDED"]
    assert shipped(engine) == [2]
    assert [(one.outcome, one.ends_the_execution) for one in harness.transactions] == [
        ("rolled back", False),
        ("committed", True),
    ]
    assert len(list(harness.executions())) == 2, "each is recorded once"


def test_what_a_fenced_transaction_committed_stays(harness: SchedulerHarness, engine: Engine) -> None:
    harness.schedule_job(JobDetail(Import, "import"), SimpleTrigger("t", repeat_count=0))
    [execution] = harness.run_pending()
    assert execution.outcome == "FAILED"
    assert shipped(engine) == [1, 2]
    assert [one.outcome for one in harness.transactions] == ["committed", "committed", "rolled back"]


def test_without_a_database_the_error_says_how_to_give_one() -> None:
    harness = SchedulerHarness(START)
    harness.schedule_job(JobDetail(Ship, "ship"), SimpleTrigger("t", repeat_count=0))
    [execution] = harness.run_pending()
    assert "SchedulerHarness(database=sqlalchemy.create_engine('sqlite://'))" in (execution.error or "")


def test_a_block_that_ends_its_transaction_itself_raises(harness: SchedulerHarness) -> None:
    harness.schedule_job(JobDetail(Selfish, "job"), SimpleTrigger("t", repeat_count=0))
    [execution] = harness.run_pending()
    assert "the job ended its transaction itself" in (execution.error or "")


def test_on_a_connection_of_the_test_everything_can_be_rolled_back(postgres_dsn: str) -> None:
    engine = create_engine(postgres_dsn)
    with engine.connect() as connection:
        outer = connection.begin()
        connection.execute(text("CREATE TEMPORARY TABLE shipped (number INTEGER)"))
        harness = SchedulerHarness(START, database=connection)
        policy = RetryPolicy(attempts=2, delay=SECOND)
        detail = JobDetail(Ship, "ship", data={"failures": 1}, retry=policy)
        harness.schedule_job(detail, SimpleTrigger("t", repeat_count=0))
        assert [each.outcome for each in harness.advance(timedelta(minutes=1))] == ["FAILED", "SUCCEEDED"]
        assert list(connection.execute(text("SELECT number FROM shipped")).scalars()) == [2]
        outer.rollback()
    engine.dispose()


def test_a_follower_is_triggered_with_the_commit_or_not_at_all(harness: SchedulerHarness) -> None:
    harness.add_job(JobDetail(jobs.Recorded, "follower", durable=True))
    policy = RetryPolicy(attempts=2, delay=SECOND)
    harness.schedule_job(JobDetail(Chain, "chain", retry=policy), SimpleTrigger("t", repeat_count=0))
    executions = harness.advance(timedelta(minutes=1))
    ended = [(each.job_key.name, each.outcome) for each in executions]
    assert ended == [("chain", "FAILED"), ("chain", "SUCCEEDED"), ("follower", "SUCCEEDED")]


def schedule(harness: SchedulerHarness, connection: object, name: str) -> None:
    trigger = SimpleTrigger(name, repeat_count=0)
    harness.using(connection).schedule_job(JobDetail(jobs.Recorded, name), trigger)


def test_what_is_scheduled_in_a_transaction_is_undone_with_it(harness: SchedulerHarness, engine: Engine) -> None:
    heard: list[events.Event] = []
    harness.listeners.add_listener(heard.append, events.JobScheduled)
    with engine.connect() as connection:
        schedule(harness, connection, "kept")
        connection.commit()
        connection.execute(text("INSERT INTO shipped VALUES (1)"))
        schedule(harness, connection, "undone")
        connection.rollback()
        connection.execute(text("INSERT INTO shipped VALUES (2)"))
        connection.rollback()
    assert [record.key for record in harness.triggers()] == [TriggerKey("kept")]
    assert heard == []
    assert [each.job_key.name for each in harness.run_pending()] == ["kept"]


@pytest.mark.parametrize("of_session", [True, False])
def test_all_that_is_scheduled_in_a_transaction_is_undone_with_it(
    harness: SchedulerHarness, engine: Engine, of_session: bool
) -> None:
    connection = Session(engine) if of_session else engine.connect()
    with connection:
        connection.execute(text("INSERT INTO shipped VALUES (1)"))
        schedule(harness, connection, "undone")
        schedule(harness, connection, "undone-too")
        connection.rollback()
    assert list(harness.triggers()) == []


@pytest.mark.parametrize("kind", ["session", "scoped"])
def test_a_session_of_sqlalchemy_does_as_well(harness: SchedulerHarness, engine: Engine, kind: str) -> None:
    made = scoped_session(sessionmaker(engine)) if kind == "scoped" else Session(engine)
    for name, ending in (("kept", made.commit), ("undone", made.rollback)):
        made.execute(text("INSERT INTO shipped VALUES (1)"))
        schedule(harness, made, name)
        ending()
    made.close()
    assert [record.key for record in harness.triggers()] == [TriggerKey("kept")]
    assert shipped(engine) == [1]


def test_the_undone_state_is_whole(harness: SchedulerHarness, engine: Engine) -> None:
    harness.schedule_job(JobDetail(jobs.Recorded, "job"), SimpleTrigger("t", start_time=START + SECOND, repeat_count=0))
    with engine.connect() as connection:
        connection.execute(text("INSERT INTO shipped VALUES (1)"))
        methods = harness.using(connection)
        methods.delete_job(JobKey("job"))
        assert list(harness.triggers()) == []
        connection.rollback()
    assert harness.check_exists(JobKey("job"))
    assert [each.job_key.name for each in harness.advance(timedelta(minutes=1))] == ["job"]


def test_any_other_connection_is_taken_and_stays(harness: SchedulerHarness) -> None:
    schedule(harness, object(), "kept")
    assert [record.key for record in harness.triggers()] == [TriggerKey("kept")]
